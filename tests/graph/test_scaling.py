import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, MultiViewSpectral, as_views
from manyview.graph import scaling
from manyview.graph.scaling import resolve_normalization
from manyview.graph.settings import GraphSettings
from manyview.metrics import clustering_accuracy


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


def chosen(views, k, seed=0, *, normalize="auto", **options):
    rng = np.random.default_rng(seed)
    return resolve_normalization(normalize, as_views(views, warn=False), k, rng, **options)


@pytest.mark.parametrize("noise", [False, True], ids=["", "noise"])
@pytest.mark.parametrize("n_features", [2, 5, 40])
@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize("kind", ["line", "blobs"])
def test_plain_tables_are_clustered_where_kmeans_does(kind, n, n_features, noise):
    for seed in range(2 if n == 100 else 1):
        if kind == "line":
            (views, y), k = on_a_line(n, n_features, noise=noise, seed=seed), 3
        else:
            (views, y), k = blobs(n, n_features, 5, noise=noise, seed=seed), 5
        if adjusted_rand_score(y, kmeans(views, k)) < 0.99:
            continue
        model = MMC(k, random_state=seed).fit(views)
        assert adjusted_rand_score(y, model.labels_) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("noise", [False, True], ids=["", "noise"])
@pytest.mark.parametrize("n", [100, 300, 1000, 5000])
@pytest.mark.parametrize("kind", ["line", "blobs"])
def test_plain_tables_whatever_their_separation(kind, n, noise):
    """Groups may touch, if k-means finds them.

    One wrong sample is allowed, which of a hundred costs three points of the score.
    """
    n_clear = 0
    for n_features, seed in itertools.product((2, 5, 10, 20, 40), range(5 if n < 5000 else 2)):
        rng = np.random.default_rng([n_features, seed, n, noise, kind == "line"])
        k = 3 if kind == "line" else int(rng.integers(3, 7))
        if kind == "line":
            y = rng.integers(3, size=n)
            x = rng.uniform(4, 8) * y[:, None] + rng.standard_normal((n, n_features))
        else:
            x, y = make_blobs(n, n_features, centers=k, random_state=int(rng.integers(10**6)))
        x = x * 10.0 ** rng.uniform(-3, 4, n_features) + rng.uniform(50, 100, n_features)
        if noise:
            x = np.hstack([rng.uniform(1, 30) * rng.standard_normal((n, 1)), x])
        views = np.array_split(x, 2, axis=1)
        if adjusted_rand_score(y, kmeans(views, k)) < 0.99:
            continue
        n_clear += 1
        labels = MMC(k, random_state=seed).fit_predict(views)
        wrong = n - round(n * clustering_accuracy(y, labels))
        assert wrong <= 1 or adjusted_rand_score(y, labels) >= 0.98, (n_features, seed)
    assert n_clear >= 5


@pytest.mark.parametrize("estimator", [MMC, MultiViewSpectral])
def test_three_groups_on_a_line_are_found(estimator):
    views, y = on_a_line(300, 5)
    model = estimator(3, random_state=0).fit(views)
    assert model.normalize_ == {"view0": "columns", "view1": "columns"}
    assert adjusted_rand_score(y, model.labels_) >= 0.98


def test_a_group_at_the_centre_needs_distances(monkeypatch):
    views, y = on_a_line(300, 5, separation=4.0)
    model = MultiViewSpectral(3, graph="product", normalize="columns", random_state=0)
    by_distance = model.fit_predict(views)
    monkeypatch.setattr(MultiViewSpectral, "_graph_settings", GraphSettings(distance=False))
    by_angle = model.fit_predict(views)
    assert adjusted_rand_score(y, by_distance) >= 0.98
    assert adjusted_rand_score(y, by_angle) < 0.95


def test_directions_are_compared_by_angle():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    directions = np.abs(rng.standard_normal((3, 30)))
    lengths = 10.0 ** rng.uniform(-2, 2, (300, 1))
    x = lengths * (directions[y] + 0.1 * np.abs(rng.standard_normal((300, 30))))
    assert chosen([x], 3) == ["rows"]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_views_of_mostly_zeros_are_compared_by_angle(kind):
    counts = np.random.default_rng(0).poisson(0.2, (100, 40)).astype(float)
    assert chosen([kind(counts)], 4) == ["log"]
    assert chosen([kind(counts / 3.0)], 4) == ["rows"]


def test_a_single_feature_is_standardised():
    views, y = on_a_line(200, 1)
    assert chosen(views, 3) == ["columns", "columns"]
    model = MMC(3, random_state=0).fit(views)
    assert adjusted_rand_score(y, model.labels_) >= 0.98


@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
def test_constant_views_and_extreme_sizes():
    views, y = on_a_line(120, 4)
    given = [*views, np.ones((120, 3)), 1e200 * np.abs(views[0])]
    *plain, constant, huge = chosen(given, 3)
    assert plain == ["columns", "columns"]
    assert constant in ("columns", "rows")  # it does not matter
    assert huge == "rows"  # its variance leaves the range of doubles
    model = MMC(3, random_state=0).fit(given)
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
    model = MMC(3, random_state=0)
    model.fit(as_views(views, present=present))
    assert set(model.normalize_.values()) == {"columns"}
    assert adjusted_rand_score(y, model.labels_) >= 0.95


def test_the_choice_does_not_depend_on_units():
    views, _ = on_a_line(200, 4)
    other = [1e-6 * views[0], 1e6 * views[1]]
    assert chosen(views, 3) == chosen(other, 3) == ["columns", "columns"]


class TestGivenEntries:
    """What the caller asks for is not changed."""

    @pytest.mark.parametrize(
        ("normalize", "expected"),
        [
            ("rows", ["rows", "rows"]),
            ("columns", ["columns", "columns"]),
            (None, [None, None]),
            (["rows", "auto"], ["rows", "columns"]),
            (["auto", "columns"], ["columns", "columns"]),
        ],
    )
    def test_stay(self, normalize, expected):
        assert chosen(on_a_line(150, 4)[0], 3, normalize=normalize) == expected

    def test_need_no_clustering(self, monkeypatch):
        monkeypatch.setattr(scaling, "LabelJudge", None)
        views, _ = on_a_line(60, 4)
        counts = np.random.default_rng(0).poisson(0.2, (60, 40)).astype(float)
        assert chosen(views, 3, normalize=["rows", "columns"]) == ["rows", "columns"]
        assert chosen([counts, sp.csr_array(counts)], 3) == ["log", "log"]


def test_tables_and_sparse_counts_are_scaled_each_in_its_way():
    views, y = on_a_line(300, 4)
    rng = np.random.default_rng(0)
    counts = sp.csr_array(rng.poisson(rng.gamma(0.3, size=(3, 60))[y]).astype(float))
    assert chosen([*views, counts], 3) == ["columns", "columns", "log"]


def test_counts_without_zeros_are_compared_by_logarithms():
    rng, y = np.random.default_rng(0), np.arange(300) % 3
    rates = rng.lognormal(3.0, 1.2, 30) * np.exp(2.0 * (rng.random((3, 30)) < 0.2))
    proteins = rng.poisson(
        rates[y] * rng.lognormal(0.0, 0.5, (300, 1)) * rng.gamma(3, 1 / 3, (300, 30))
    )
    assert chosen([proteins, proteins.astype(float)], 3) == ["log", "log"]


def test_each_view_is_scaled_in_its_own_way():
    """Proportions, whose sums say nothing, beside measurements in different units."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = rng.integers(4, size=400)
        proportions = rng.gamma(20.0 * rng.dirichlet(np.full(30, 3.0), 4)[y] + 0.05)
        proportions *= np.exp(rng.standard_normal((400, 1)))
        measured = rng.normal(0.0, 2.0, (4, 6))[y] + rng.standard_normal((400, 6))
        measured = measured * 10.0 ** rng.integers(-3, 4, 6) + 50.0
        assert chosen([proportions, measured], 4) == ["rows", "columns"]


def test_few_features_with_small_counts():
    """Of 30 features with a mean of 3 it matters how many, not whether there are any."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=240)
        means = np.full((3, 30), 3.0)
        for k in range(3):
            means[k, 10 * k : 10 * k + 5] *= 2.0
        depths = np.exp(0.5 * rng.standard_normal((240, 1)))
        counts = rng.poisson((means * rng.gamma(3.0, 1 / 3, 30))[y] * depths).astype(float)
        found, by_rows = (
            adjusted_rand_score(y, MMC(3, normalize=by, random_state=0).fit_predict([counts]))
            for by in ("log", "rows")
        )
        assert found > by_rows - 0.1 > 0.4


def test_a_feature_that_outweighs_all_others_is_no_direction():
    views, _ = on_a_line(200, 4)
    for view in views:
        view[:, 0] = 1e4 * np.random.default_rng(0).standard_normal(200)
    settings = GraphSettings(clearly=0.0)  # nothing is clear enough to leave the first choice
    assert chosen(views, 3, settings=settings) == ["columns", "columns"]


def test_classes_do_not_affect_the_choice():
    views, y = on_a_line(150, 3)
    first, second = (MMC(3, random_state=0).fit(views, given) for given in (None, y))
    assert first.normalize_ == second.normalize_
    np.testing.assert_array_equal(first.labels_, second.labels_)


def test_some_of_the_samples_decide_whatever_their_order():
    views, y = on_a_line(1500, 4)
    order = np.argsort(y, kind="stable")
    settings = GraphSettings(scaling_samples=100)
    for given in (views, [x[order] for x in views]):
        assert chosen(given, 3, settings=settings) == ["columns", "columns"]


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_about_as_many_samples_as_clusters(n):
    views = np.random.default_rng(0).standard_normal((2, n, 3))
    for k in range(1, n + 1):
        model = MMC(k, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert np.unique(model.fit(list(views)).labels_).size == k


@pytest.mark.parametrize("placeholder", [0.0, 1e3])
def test_what_stands_for_missing_rows_does_not_matter(placeholder):
    views, _ = on_a_line(300, 5)
    present = np.ones((300, 2), dtype=bool)
    present[np.random.default_rng(1).random(300) < 0.6, 1] = False
    views[1][~present[:, 1]] = placeholder
    given = as_views(views, present=present)
    found = resolve_normalization("auto", given, 3, np.random.default_rng(0))
    assert found == ["columns", "columns"]
