import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, MultiViewSpectral, as_views
from manyview.graph.scaling import choose_normalization


def on_a_line(n, n_features, *, separation=6.0, noise=False, seed=0):
    """Two views of measured features in any units; the middle group is at the centre."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    views = []
    for _ in range(2):
        x = separation * y[:, None] + rng.standard_normal((n, n_features))
        x = x * rng.uniform(1, 30, n_features) + rng.uniform(50, 100, n_features)
        if noise:
            x = np.hstack([x, 40.0 * rng.standard_normal((n, 1))])
        views.append(x)
    return views, y


def blobs(n, n_features, k, *, noise=False, seed=0):
    """Two views of groups whose centres are at least eight deviations apart, in any units."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    views = []
    for _ in range(2):
        centres = rng.standard_normal((k, n_features))
        centres *= 8.0 / pdist(centres).min()
        x = centres[y] + rng.standard_normal((n, n_features))
        x = x * 10.0 ** rng.uniform(-3, 3, n_features)
        if noise:
            x = np.hstack([x, rng.standard_normal((n, 1))])
        views.append(x)
    return views, y


def kmeans(views, k):
    z = np.hstack([(x - x.mean(axis=0)) / x.std(axis=0) for x in views])
    return KMeans(k, n_init=10, random_state=0).fit_predict(z)


def chosen(views, k, seed=0):
    return choose_normalization(as_views(views, warn=False), k, np.random.default_rng(seed))


@pytest.mark.parametrize("noise", [False, True], ids=["", "noise"])
@pytest.mark.parametrize("n_features", [2, 5, 40])
@pytest.mark.parametrize("n", [100, 600, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["line", "blobs"])
def test_plain_tables_are_clustered_where_kmeans_does(kind, n, n_features, noise):
    for seed in range(2 if n == 100 else 1):
        if kind == "line":
            (views, y), k = on_a_line(n, n_features, noise=noise, seed=seed), 3
        else:
            (views, y), k = blobs(n, n_features, 5, noise=noise, seed=seed), 5
        if adjusted_rand_score(y, kmeans(views, k)) < 0.99:
            continue
        model = MMC(k, normalize="auto", indicator="leave-one-out", random_state=seed).fit(views)
        assert adjusted_rand_score(y, model.labels_) >= 0.98


def test_a_group_at_the_centre_needs_distances():
    views, y = on_a_line(300, 5)
    by_angle = MultiViewSpectral(3, normalize="columns", random_state=0).fit_predict(views)
    by_distance = MultiViewSpectral(3, normalize="auto", random_state=0).fit(views)
    assert adjusted_rand_score(y, by_angle) < 0.9
    assert adjusted_rand_score(y, by_distance.labels_) >= 0.98
    assert by_distance.normalize_ == {"view0": "columns", "view1": "columns"}


def test_directions_are_compared_by_angle():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    directions = np.abs(rng.standard_normal((3, 30)))
    lengths = 10.0 ** rng.uniform(-2, 2, (300, 1))
    x = lengths * (directions[y] + 0.1 * np.abs(rng.standard_normal((300, 30))))
    assert chosen([x], 3) == ["rows"]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_views_of_mostly_zeros_are_compared_by_angle(kind):
    counts = np.random.default_rng(0).poisson(0.2, (100, 40))
    assert chosen([kind(counts.astype(float))], 4) == ["rows"]


def test_a_single_feature_is_standardised():
    views, y = on_a_line(200, 1)
    assert chosen(views, 3) == ["columns", "columns"]
    model = MMC(3, normalize="auto", indicator="leave-one-out", random_state=0).fit(views)
    assert adjusted_rand_score(y, model.labels_) >= 0.98


@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
def test_constant_views_and_extreme_sizes():
    views, y = on_a_line(120, 4)
    given = [*views, np.ones((120, 3)), 1e200 * np.abs(views[0])]
    assert chosen(given, 3) == ["columns", "columns", "rows", "rows"]
    model = MMC(3, normalize="auto", indicator="leave-one-out", random_state=0).fit(given)
    assert adjusted_rand_score(y, model.labels_) >= 0.9


def test_one_view_can_be_chosen_and_others_given():
    (a, b), _ = on_a_line(120, 4)
    model = MMC(3, normalize={"a": None, "b": "auto"}, random_state=0)
    assert model.fit({"a": a / 100.0, "b": b}).normalize_ == {"a": None, "b": "columns"}


def test_samples_with_missing_views():
    views, y = on_a_line(300, 5)
    present = np.random.default_rng(1).random((300, 2)) < 0.85
    present[~present.any(axis=1), 0] = True
    for v in range(2):
        views[v][~present[:, v]] = 0.0
    model = MMC(3, normalize="auto", indicator="leave-one-out", random_state=0)
    model.fit(as_views(views, present=present))
    assert set(model.normalize_.values()) == {"columns"}
    assert adjusted_rand_score(y, model.labels_) >= 0.95


def test_the_choice_does_not_depend_on_units():
    views, _ = on_a_line(200, 4)
    other = [1e-6 * views[0], 1e6 * views[1]]
    assert chosen(views, 3) == chosen(other, 3) == ["columns", "columns"]
