import numpy as np

from manyview import MMC
from manyview.datasets import Dataset, make_views
from manyview.report.reading import fitted, read


def test_beyond_the_limit_some_samples_are_drawn(plain):
    model, remarks = fitted(plain)
    reading = read(plain, model, remarks, most_points=30)
    assert (reading.n_drawn, reading.n_samples) == (30, 90)
    assert len(set(reading.map["sample"])) == 30
    whole = read(plain, model, remarks)
    assert whole.map["sample"] == list(range(90))


def test_samples_are_told_with_their_class_and_cluster(plain):
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


def test_what_fit_warns_of_is_a_remark(plain, monkeypatch):
    made = MMC(3, max_iter=1, random_state=0)
    monkeypatch.setattr("manyview.report.reading.MMC", lambda *_, **__: made)
    _, remarks = fitted(plain)
    assert "max_iter=1" in remarks[0]


def test_clusters_of_an_orthogonal_indicator_are_told_by_their_centres(plain):
    model = MMC(3, indicator="orthogonal", max_iter=300, tol=1e-2, random_state=0).fit(plain.views)
    reading = read(plain, model, [])
    assert len(reading.cluster_lines) == 3
    assert all(told.together for _, told in reading.cluster_lines)
    assert reading.n_drawn == 90


def test_many_classes_are_shown_in_part():
    made = make_views(180, 60, (30, 30), random_state=0)
    rng = np.random.default_rng(0)
    model = MMC(60, init=rng.permutation(np.repeat(np.arange(60), 3)), tol=0.5, random_state=0)
    reading = read(Dataset(made.views, made.y, name="many"), model.fit(made.views), [])
    assert (reading.n_rows, reading.n_columns) == (40, 40)
    assert len(reading.cluster_lines) == 40


def test_products_are_told_only_where_there_are_some(plain):
    assert read(plain, MMC(3, random_state=0).fit(plain.views), []).has_products
    assert not read(plain, MMC(3, order=1, random_state=0).fit(plain.views), []).has_products
