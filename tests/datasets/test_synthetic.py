import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from manyview.datasets import make_views
from manyview.metrics import clustering_accuracy, normalized_mutual_info


def kmeans(array, n_clusters):
    return KMeans(n_clusters, n_init=3, random_state=0).fit_predict(array)


def test_shape_and_names():
    data = make_views(50, 4, (7, 3), n_noise_views=3, random_state=0)
    views, y = data
    assert views.names == ("informative0", "informative1", "noise0", "noise1", "noise2")
    assert views.n_samples == len(y) == 50
    assert views.n_features == [7, 3, 7, 3, 7]
    assert all(array.dtype == np.float64 for array in views)
    assert y.dtype == np.int64
    assert data.class_names.tolist() == ["cluster0", "cluster1", "cluster2", "cluster3"]
    assert data.name == "synthetic clusters"


def test_feature_names_say_which_features_carry_the_clusters():
    views, y = make_views(600, 2, (6, 4), n_informative=2, n_noise_views=1, random_state=0)
    for array, names in zip(views, views.feature_names, strict=True):
        gap = array[y == 0].mean(axis=0) - array[y == 1].mean(axis=0)
        informative = np.char.startswith(names, "informative")
        assert np.abs(gap[~informative]).max() < 0.5
        assert not informative.any() or np.linalg.norm(gap[informative]) > 4.5
    assert views.feature_names[0].tolist() == [
        "informative0",
        "informative1",
        "noise2",
        "noise3",
        "noise4",
        "noise5",
    ]
    assert views.feature_names[2].tolist() == [f"noise{d}" for d in range(6)]


def test_clusters_show_in_every_informative_view_and_in_no_noise_view():
    views, y = make_views(n_noise_views=1, random_state=0)
    for name in ("informative0", "informative1"):
        assert clustering_accuracy(y, kmeans(views[name], 3)) > 0.95
    assert normalized_mutual_info(y, kmeans(views["noise0"], 3)) < 0.05


def test_separation_is_the_distance_of_the_two_nearest_centres():
    views, y = make_views(30, 5, (3, 9), separation=7.0, noise=0.0, random_state=0)
    for array in views:
        centres = np.stack([array[y == k].mean(axis=0) for k in range(5)])
        distances = np.linalg.norm(centres[:, None] - centres, axis=2)
        assert distances[np.triu_indices(5, 1)].min() == pytest.approx(7.0)


def test_noise_is_its_standard_deviation():
    views, y = make_views(4000, 2, (3,), noise=2.5, random_state=0)
    for k in range(2):
        np.testing.assert_allclose(views.arrays[0][y == k].std(axis=0), 2.5, rtol=0.1)


@pytest.mark.parametrize(
    ("n_clusters", "n_features"), [(2, (5, 5)), (2, (8, 12, 6)), (3, (8, 8)), (5, (12, 12))]
)
class TestInteraction:
    @pytest.fixture
    def data(self, n_clusters, n_features):
        return make_views(
            1200, n_clusters, n_features, structure="interaction", separation=5.0, random_state=0
        )

    def test_no_view_shows_the_clusters(self, data, n_clusters, n_features):
        views, y = data
        for array in views:
            labels = kmeans(array, n_clusters)
            assert normalized_mutual_info(y, labels) < 0.02
            assert clustering_accuracy(y, labels) < 1 / n_clusters + 0.06

    def test_the_concatenation_hardly_shows_them(self, data, n_clusters, n_features):
        views, y = data
        labels = kmeans(np.hstack(views.arrays), n_clusters)
        assert normalized_mutual_info(y, labels) < (0.02 if n_clusters == 2 else 0.12)

    def test_a_view_has_one_mean_and_covariance_in_all_clusters(self, data, n_clusters, n_features):
        views, y = data
        for array in views:
            variance = 5.0**2 + 1.0
            for k in range(n_clusters):
                part = array[y == k] / np.sqrt(variance)
                error = 5 / np.sqrt(len(part))
                assert np.abs(part.mean(axis=0)).max() < error
                assert np.abs(np.cov(part.T) - np.eye(part.shape[1])).max() < 2 * error

    def test_no_linear_rule_on_the_features_tells_them_apart(self, data, n_clusters, n_features):
        views, y = data
        scores = cross_val_score(LogisticRegression(), np.hstack(views.arrays) / 5, y, cv=3)
        assert scores.mean() < 1 / n_clusters + 0.08

    def test_products_across_two_views_tell_them_apart(self, data, n_clusters, n_features):
        views, y = data
        products = np.einsum("ni,nj->nij", *views.arrays[:2]).reshape(len(y), -1) / 25
        scores = cross_val_score(LogisticRegression(max_iter=500), products, y, cv=3)
        assert scores.mean() > 0.93

    def test_without_noise_views_are_orthogonal_maps_of_the_first(
        self, data, n_clusters, n_features
    ):
        views, y = make_views(
            500, n_clusters, n_features, structure="interaction", noise=0.0, random_state=1
        )
        shared = min(n_features)
        for other in views.arrays[1:]:
            maps = []
            for k in range(n_clusters):
                x, image = views.arrays[0][y == k, :shared], other[y == k, :shared]
                fitted = np.linalg.lstsq(x, image, rcond=None)[0]
                np.testing.assert_allclose(x @ fitted, image, atol=1e-9)
                np.testing.assert_allclose(fitted @ fitted.T, np.eye(shared), atol=1e-9)
                maps.append(fitted)
            np.testing.assert_allclose(maps[1], -maps[0], atol=1e-9)


def test_features_beside_the_shared_ones_have_the_same_variance():
    views, _ = make_views(
        4000,
        2,
        (6, 9),
        structure="interaction",
        n_informative=5,
        separation=3.0,
        noise=2.0,
        n_noise_views=1,
        random_state=0,
    )
    for array, names in zip(views, views.feature_names, strict=True):
        assert np.char.startswith(names, "informative").sum() in (0, 5)
        np.testing.assert_allclose(array.std(axis=0), np.sqrt(13), rtol=0.1)


@pytest.mark.parametrize("structure", ["clusters", "interaction"])
def test_density_makes_sparse_views(structure):
    views, _ = make_views(400, 2, (30, 20), structure=structure, density=0.1, random_state=0)
    for array in views:
        assert sp.issparse(array)
        assert array.nnz / (array.shape[0] * array.shape[1]) == pytest.approx(0.1, rel=0.15)
    full, _ = make_views(40, 2, (30, 20), structure=structure, density=1.0, random_state=0)
    dense, _ = make_views(40, 2, (30, 20), structure=structure, random_state=0)
    np.testing.assert_array_equal(full.arrays[0].toarray(), dense.arrays[0])


def test_equal_sizes_by_default():
    _, y = make_views(101, 4, random_state=0)
    assert sorted(np.bincount(y)) == [25, 25, 25, 26]


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), st.integers(0, 200), st.integers(0, 9)
)
def test_sizes_follow_the_weights(weights, more, seed):
    n_samples = len(weights) + more
    _, y = make_views(n_samples, len(weights), (1,), weights=weights, random_state=seed)
    sizes = np.bincount(y, minlength=len(weights))
    assert sizes.sum() == n_samples
    assert sizes.min() >= 1
    exact = n_samples * np.array(weights) / np.sum(weights)
    # every cluster has at least one sample, which the largest ones pay for
    assert (sizes - exact < 1 + 1e-9).all()
    assert (exact - sizes < 1 + np.sum(exact < 1)).all()


@pytest.mark.parametrize("structure", ["clusters", "interaction"])
def test_a_seed_fixes_everything(structure):
    settings = {"structure": structure, "n_noise_views": 1, "density": 0.5}
    first, y1 = make_views(60, random_state=7, **settings)
    second, y2 = make_views(60, random_state=np.random.RandomState(7), **settings)
    other, _ = make_views(60, random_state=8, **settings)
    np.testing.assert_array_equal(y1, y2)
    for a, b, c in zip(first, second, other, strict=True):
        assert (a != b).nnz == 0
        assert (a != c).nnz > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 2}, "n_samples=2 is fewer than n_clusters=3"),
        ({"n_samples": 0}, "n_samples=0; expected an integer of at least 1"),
        ({"n_samples": 10.5}, "n_samples=10.5; expected an integer"),
        ({"n_clusters": 0}, "n_clusters=0; expected an integer of at least 1"),
        ({"n_clusters": True}, "n_clusters=True; expected an integer"),
        ({"n_features": ()}, "n_features is empty"),
        ({"n_features": (3, 0)}, r"n_features\[1\]=0; expected an integer of at least 1"),
        ({"n_noise_views": -1}, "n_noise_views=-1; expected an integer of at least 0"),
        ({"structure": "moons"}, "structure='moons'; expected 'clusters' or 'interaction'"),
        ({"separation": -1.0}, "separation=-1.0; expected a finite number"),
        ({"noise": np.nan}, "noise=nan; expected a finite number"),
        ({"noise": "loud"}, "noise='loud'; expected a finite number"),
        ({"density": 0.0}, "density=0.0; expected None or a number above 0"),
        ({"density": 1.5}, "density=1.5; expected None or a number"),
        ({"n_informative": 0}, "n_informative=0; expected an integer of at least 1"),
        (
            {"n_informative": 9, "n_features": (20, 8)},
            "n_informative=9 is more than the 8 features of view 'informative1'",
        ),
        ({"weights": (1, 2)}, r"weights has shape \(2,\); expected one for each of 3 clusters"),
        ({"weights": (1, 2, 0)}, "expected positive numbers"),
        (
            {"structure": "interaction", "n_features": (20,)},
            "structure='interaction' needs at least two",
        ),
        (
            {"structure": "interaction", "n_features": (20, 4)},
            "4 features would be informative; structure='interaction' needs at least 5",
        ),
    ],
)
def test_rejects_bad_parameters_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        make_views(**settings)


@pytest.mark.parametrize("n_features", [20, "20", None])
def test_widths_come_one_a_view(n_features):
    with pytest.raises(TypeError, match="expected one width per view"):
        make_views(n_features=n_features)


def test_one_cluster_and_one_sample():
    views, y = make_views(1, 1, (2,), random_state=0)
    assert views.arrays[0].shape == (1, 2)
    assert y.tolist() == [0]
