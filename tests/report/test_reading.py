import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview import MMC
from manyview.datasets import Dataset, make_views
from manyview.metrics import clustering_accuracy
from manyview.report.reading import (
    cluster_features,
    contingency,
    fitted,
    places,
    read,
    shares,
    view_features,
)


def test_beyond_the_limit_some_samples_are_drawn(plain):
    model, remarks = fitted(plain)
    reading = read(plain, model, remarks, most_points=30)
    assert (reading.n_drawn, reading.n_samples) == (30, 90)
    assert len(set(reading.map["sample"])) == 30
    whole = read(plain, model, remarks)
    assert whole.map["sample"] == list(range(90))


def test_samples_are_reported_with_their_class_and_cluster(plain):
    model, remarks = fitted(plain)
    reading = read(plain, model, remarks)
    chart = reading.map
    for at, sample in enumerate(chart["sample"]):
        assert chart["classes"][chart["class"][at]] == plain.class_names[plain.y[sample]]
        assert chart["clusters"][chart["cluster"][at]] == model.labels_[sample]


def test_a_class_and_its_cluster_share_a_mark_and_no_two_marks_are_the_same(plain):
    model, remarks = fitted(plain)
    reading = read(plain, model, remarks)
    assert [mark.cluster for mark in reading.marks] == reading.table.clusters
    assert len({(mark.colour, mark.symbol) for mark in reading.marks}) == len(reading.marks)


def test_clusters_without_class_have_marks_too(plain):
    model = MMC(5, random_state=0).fit(plain.views)
    reading = read(plain, model, [])
    assert len(reading.marks) == 5
    assert [mark.class_name for mark in reading.marks[3:]] == [None, None]
    assert reading.params == "random_state=0"


def test_warnings_of_the_fit_are_reported(plain, monkeypatch):
    made = MMC(3, max_iter=1, random_state=0)
    monkeypatch.setattr("manyview.report.reading.MMC", lambda *_, **__: made)
    _, remarks = fitted(plain)
    assert "max_iter=1" in remarks[0]


def test_clusters_of_an_orthogonal_indicator_are_reported_by_their_centres(plain):
    model = MMC(3, indicator="orthogonal", max_iter=300, tol=1e-2, random_state=0).fit(plain.views)
    reading = read(plain, model, [])
    assert len(reading.cluster_lines) == 3
    assert all(told.products for _, told in reading.cluster_lines)
    assert reading.n_drawn == 90


def test_many_classes_are_shown_in_part():
    made = make_views(180, 60, (30, 30), random_state=0)
    rng = np.random.default_rng(0)
    model = MMC(60, init=rng.permutation(np.repeat(np.arange(60), 3)), tol=0.5, random_state=0)
    reading = read(Dataset(made.views, made.y, name="many"), model.fit(made.views), [])
    assert len(reading.cluster_lines) == reading.most_classes == 40
    assert len(reading.cluster_lines) == 40


def test_products_are_reported_only_where_there_are_some(plain):
    assert read(plain, MMC(3, random_state=0).fit(plain.views), []).has_products
    assert not read(plain, MMC(3, order=1, random_state=0).fit(plain.views), []).has_products


labellings = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40)


@given(labellings)
def test_the_diagonal_is_what_accuracy_counts(pairs):
    y, labels = map(np.array, zip(*pairs, strict=True))
    table = contingency(y, labels)
    assert table.counts.sum() == len(y)
    matched = table.counts.diagonal()[: table.n_matched].sum()
    assert matched / len(y) == clustering_accuracy(y, labels)


@given(labellings)
def test_every_cell_counts_its_class_and_cluster(pairs):
    y, labels = map(np.array, zip(*pairs, strict=True))
    table = contingency(y, labels)
    for row, of in enumerate(table.classes):
        for column, cluster in enumerate(table.clusters):
            assert table.counts[row, column] == np.sum((y == of) & (labels == cluster))


def test_a_cluster_is_not_matched_to_a_class_of_which_it_has_no_sample():
    table = contingency([0, 0, 0, 0, 1], [0, 0, 0, 1, 0])
    assert table.n_matched == 1
    assert table.counts.tolist() == [[3, 1], [1, 0]]


@pytest.fixture(scope="module")
def model(plain):
    return MMC(3, rank=6, normalize=None, random_state=0).fit(plain.views)


def test_rows_of_zeros_are_not_kept(model):
    model.view_factors_[0][[1, 4]] = 0
    found = view_features(model, 0, most=20)
    names = model.feature_names_in_[0]
    norms = np.linalg.norm(model.view_factors_[0][:-1], axis=1)
    assert found.n_kept == np.count_nonzero(norms)
    assert not {names[1], names[4]} & {name for name, _ in found.top}
    assert found.top[0] == (names[norms.argmax()], 1.0)
    assert [share for _, share in found.top] == sorted((s for _, s in found.top), reverse=True)


def test_a_view_of_zeros_names_nothing(model):
    model.view_factors_[1][:-1] = 0
    found = view_features(model, 1)
    assert (found.n_kept, found.top) == (0, [])


def test_features_without_a_name_are_numbered(plain):
    model = MMC(3, random_state=0).fit([np.asarray(view) for view in plain.views])
    assert all(name.startswith("feature ") for name, _ in view_features(model, 0).top)


def test_columns_of_the_prediction_are_the_clusters_of_the_labels(plain):
    model = MMC(3, random_state=0).fit(plain.views)
    prediction = model.transform(plain.views)
    for cluster in range(3):
        assert prediction[model.labels_ == cluster].mean(axis=0).argmax() == cluster


def test_clusters_are_reported_by_features_of_each_view_and_by_pairs(plain):
    model = MMC(3, random_state=0).fit(plain.views)
    found = cluster_features(model, each=2, pairs=4)
    assert len(found) == 3
    for cluster, told in enumerate(found):
        for view, names in enumerate(told.single):
            alone = [c for c in model.explain(1, views=view, top=2) if c.cluster == cluster]
            assert names == [c.short_text for c in alone]
        pairs = [c.text for c in model.explain(2, top=4) if c.cluster == cluster]
        assert told.products == pairs
        assert told.products


def test_one_view_has_no_pairs(plain):
    model = MMC(3, random_state=0).fit([plain.views.arrays[0]])
    assert all(told.single[0] and not told.products for told in cluster_features(model))


def test_clusters_are_those_of_the_fit(plain):
    model = MMC(3, random_state=0).fit(plain.views).set_params(n_clusters=2)
    assert len(cluster_features(model)) == 3


def _certain(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.eye(len(sizes))[labels] / np.sqrt(sizes)[labels][:, None], labels


def test_certain_samples_belong_to_their_cluster_alone():
    prediction, labels = _certain((5, 20, 3))
    np.testing.assert_allclose(shares(prediction, labels), np.eye(3)[labels], atol=1e-12)


def test_shares_do_not_change_when_the_columns_are_rotated():
    rng = np.random.default_rng(0)
    prediction, labels = _certain((10, 10, 10))
    prediction = prediction + 0.05 * rng.standard_normal(prediction.shape)
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    np.testing.assert_allclose(
        shares(prediction, labels), shares(prediction @ rotation, labels), atol=1e-9
    )


def test_a_sample_for_which_nothing_is_predicted_stands_with_its_cluster():
    np.testing.assert_array_equal(shares(np.zeros((3, 2)), [0, 1, 1]), np.eye(2)[[0, 1, 1]])


@pytest.mark.parametrize("count", [2, 3, 6, 15])
def test_certain_samples_are_nearest_to_their_own_cluster(count):
    prediction, labels = _certain((30,) * count)
    samples, anchors, _ = places(shares(prediction, labels), labels)
    distances = np.linalg.norm(samples[:, None] - anchors[None], axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)


def test_no_two_samples_share_a_place():
    prediction, labels = _certain((200, 50))
    samples, _, _ = places(shares(prediction, labels), labels)
    assert len(np.unique(samples.round(6), axis=0)) == len(samples)


def test_a_sample_between_two_clusters_stands_between_their_places():
    prediction, labels = _certain((40, 40, 40, 40))
    prediction[0] = 0.5 * prediction[0] + 0.5 * prediction[45]
    samples, anchors, room = places(shares(prediction, labels), labels)
    middle = (anchors[0] + anchors[1]) / 2
    assert np.linalg.norm(samples[0] - middle) <= room + 0.1


def test_clusters_that_share_samples_are_neighbours():
    prediction, labels = _certain((20,) * 6)
    prediction[:20, 4] += 0.5 * prediction[0, 0]
    _, anchors, _ = places(shares(prediction, labels), labels)
    others = np.linalg.norm(anchors - anchors[0], axis=1)
    assert others[4] <= np.sort(others)[1] + 1e-9


def test_one_cluster_and_numbers_with_gaps_have_places():
    samples, anchors, _ = places(shares(np.ones((4, 1)), [7, 7, 7, 7]), [7, 7, 7, 7])
    assert samples.shape == (4, 2)
    assert anchors.tolist() == [[0, 0]]
    assert places(shares(np.eye(3)[[0, 2, 2]], [0, 2, 2]), [0, 2, 2])[1].shape == (2, 2)
