import numpy as np
import pytest

from manyview import MMC
from manyview.report.features import cluster_weights, view_features


@pytest.fixture(scope="module")
def model(plain):
    return MMC(3, rank=6, normalize=None, random_state=0).fit(plain.views)


def test_weights_are_what_a_single_feature_adds_to_the_prediction(plain):
    # with every feature zero but one, views stand for their bias: the difference is the weight;
    # with this penalty predictions are those of the factors themselves
    model = MMC(3, rank=6, normalize=None, penalty="frobenius", random_state=0).fit(plain.views)
    widths = model.n_features_in_
    nothing = [np.zeros((1, width)) for width in widths]
    for view, width in enumerate(widths):
        for feature in range(width):
            single = [part.copy() for part in nothing]
            single[view][0, feature] = 1.0
            added = model.transform(single) - model.transform(nothing)
            np.testing.assert_allclose(
                cluster_weights(model, view)[feature], added[0], rtol=1e-4, atol=1e-6
            )


def test_a_single_view_has_no_others_to_take_the_bias_of(plain):
    model = MMC(3, random_state=0).fit([plain.views[0]])
    expected = model.view_factors_[0][:-1] @ model.cluster_factors_.T
    np.testing.assert_allclose(cluster_weights(model, 0), expected, rtol=1e-6)


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
    assert found.by_cluster == [[], [], []]


def test_features_without_a_name_are_numbered(plain):
    model = MMC(3, random_state=0).fit([np.asarray(view) for view in plain.views])
    assert all(name.startswith("feature ") for name, _ in view_features(model, 0).top)


def test_columns_of_the_prediction_are_the_clusters_of_the_labels(plain):
    model = MMC(3, random_state=0).fit(plain.views)
    prediction = model.transform(plain.views)
    for cluster in range(3):
        assert prediction[model.labels_ == cluster].mean(axis=0).argmax() == cluster
