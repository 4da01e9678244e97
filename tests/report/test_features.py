import numpy as np
import pytest

from manyview import MMC
from manyview.report.features import cluster_features, view_features


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


def test_clusters_are_told_by_features_of_each_view_and_by_pairs(plain):
    model = MMC(3, random_state=0).fit(plain.views)
    found = cluster_features(model, each=2, pairs=4)
    assert len(found) == 3
    for cluster, told in enumerate(found):
        for view, names in enumerate(told.alone):
            alone = [c for c in model.explain(1, views=view, top=2) if c.cluster == cluster]
            assert names == [c.features[0][1] for c in alone]
        pairs = [c.features for c in model.explain(2, top=4) if c.cluster == cluster]
        assert told.together == pairs
        assert told.together


def test_one_view_has_no_pairs(plain):
    model = MMC(3, random_state=0).fit([plain.views[0]])
    assert all(told.alone[0] and not told.together for told in cluster_features(model))


def test_clusters_are_those_of_the_fit(plain):
    model = MMC(3, random_state=0).fit(plain.views).set_params(n_clusters=2)
    assert len(cluster_features(model)) == 3
