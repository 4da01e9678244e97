import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.graph import neighbours as graph
from manyview.graph.estimator import graph_start
from manyview.mmc import estimator
from manyview.mmc import initial as init
from manyview.mmc import initial as module
from manyview.mmc.indicator import DiscreteIndicator, OrthogonalIndicator
from manyview.mmc.initial import Given, Start, kmeans_start, random_start
from manyview.mmc.objective import RowSparse
from manyview.mmc.solver import Problem
from manyview.views import as_views

from .estimators import blobs
from .indicators import indicator_of


def test_labels_of_any_type():
    given = Given.of(["b", "a", "b", "c"], 4, 3)
    np.testing.assert_array_equal(given.labels, [1, 0, 1, 2])
    assert given.indicator is None


def test_a_mask_that_hides_nothing_does_not_matter():
    given = Given.of(np.ma.masked_equal([0, 1, 2, 1], 9), 4, 3)
    np.testing.assert_array_equal(given.labels, [0, 1, 2, 1])


def test_an_indicator_is_made_orthonormal():
    G = np.random.default_rng(0).standard_normal((6, 2))
    expected, _ = scipy.linalg.polar(G)
    np.testing.assert_allclose(Given.of(G, 6, 2).indicator, expected, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e300, 1e-300])
def test_an_indicator_as_labels(scale):
    F = scale * indicator_of(np.array([1, 0, 1, 2]), 3)
    np.testing.assert_array_equal(Given.of(F, 4, 3).labels, [1, 0, 1, 2])


def test_memberships_keep_their_largest_where_clusters_are_of_very_unequal_size():
    rng = np.random.default_rng(0)
    labels = (rng.random(400) < 0.05).astype(int)
    own = rng.uniform(0.55, 0.95, 400)
    memberships = np.where(np.arange(2) == labels[:, None], own[:, None], 1.0 - own[:, None])
    np.testing.assert_array_equal(Given.of(memberships, 400, 2).labels, labels)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([0, 0, 1, 1], "init holds 2 different labels; expected n_clusters=3"),
        ([0, 1, 2], r"init has shape \(3,\); expected labels of shape \(4,\)"),
        (np.ones((4, 3)), "init has 3 columns but rank 1"),
        (np.full((4, 3), np.nan), "init holds nan at row 0, column 0; expected finite numbers"),
        (np.full((4, 3), 1j), "init is of type complex128; expected real numbers"),
        (np.ones((4, 2)), r"init has shape \(4, 2\)"),
        (np.ma.masked_equal([0, 1, 2, 9], 9), "init is a masked array with masked entries"),
        (np.ma.masked_less(np.eye(4, 3), 0.5), "init is a masked array with masked entries"),
    ],
)
def test_refused(array, message):
    with pytest.raises(ValueError, match=message):
        Given.of(array, 4, 3)


def test_refused_before_any_pass_over_the_views(monkeypatch):
    monkeypatch.setattr(estimator, "engine_for", None)  # which makes the first pass
    views, _ = make_views(60, 3, random_state=0)
    with pytest.raises(ValueError, match=r"init has shape \(3,\)"):
        MMC(3, init=[0, 1, 2]).fit(views)


NORMALIZE = ["rows", "columns", None]


def blobs_init(n=90, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    views = [4 * rng.standard_normal((3, d))[truth] + rng.standard_normal((n, d)) for d in (6, 4)]
    return [sp.csr_array(X) if sparse else X for X in views], truth


def scaled(views, normalize):
    out = []
    for X in views:
        X = X.toarray() if sp.issparse(X) else X
        if normalize == "rows":
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
        elif normalize == "columns":
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        out.append(X)
    return out


@pytest.mark.parametrize("limit", [4000, 10], ids=["exact", "landmarks"])
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
def test_graph_finds_clear_clusters(monkeypatch, limit, normalize, sparse):
    monkeypatch.setattr(init, "EXACT_LIMIT", limit)
    monkeypatch.setattr(init, "N_LANDMARKS", 40)
    views, truth = blobs_init(sparse=sparse)
    engine = LocalEngine(as_views(views), normalize=normalize)
    graph_start(engine, 3, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert adjusted_rand_score(truth, labels) > 0.95


@pytest.mark.parametrize("limit", [4000, 10], ids=["exact", "landmarks"])
@pytest.mark.parametrize("n_clusters", [2, 3, 10])
def test_graph_tells_clusters_from_noise(monkeypatch, limit, n_clusters):
    monkeypatch.setattr(init, "EXACT_LIMIT", limit)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 1000, 30))
    means = 3.0 * rng.standard_normal((2, n_clusters, 30))
    clear = noise + means[:, np.arange(1000) % n_clusters]
    within = [
        graph_start(LocalEngine(as_views(list(views)), normalize="rows"), n_clusters, rng)
        for views in (clear, noise)
    ]
    assert within[0] < 0.05
    assert within[1] > 0.3


@pytest.mark.parametrize("sizes", [(1500, 150, 20), (1950, 30)])
@pytest.mark.parametrize("limit", [4000, 10], ids=["exact", "landmarks"])
def test_graph_finds_clear_clusters_of_unequal_size(monkeypatch, limit, sizes):
    monkeypatch.setattr(init, "EXACT_LIMIT", limit)
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    means = 2.5 * rng.standard_normal((2, len(sizes), 10))
    views = [of_view[truth] + rng.standard_normal((truth.size, 10)) for of_view in means]
    engine = LocalEngine(as_views(views), normalize="rows")
    graph_start(engine, len(sizes), np.random.default_rng(0))
    assert adjusted_rand_score(truth, engine.gather("labels")) > 0.9


def test_more_clusters_than_samples_are_asked(monkeypatch):
    monkeypatch.setattr(init, "EXACT_LIMIT", 50)
    monkeypatch.setattr(init, "N_LANDMARKS", 30)
    monkeypatch.setattr("manyview.graph.spectral._ASKED_PER_LANDMARK", 0.1)
    monkeypatch.setattr("manyview.graph.kmeans._MOST_ROWS_AT_ONCE", 40)
    views = np.random.default_rng(0).standard_normal((2, 1000, 5))
    engine = LocalEngine(as_views(list(views)), normalize="rows")
    graph_start(engine, 60, np.random.default_rng(0))
    assert np.unique(engine.gather("labels")).size == 60


@pytest.mark.parametrize("n_views", [2, 3, 4])
def test_two_opposites_do_not_make_neighbours(n_views):
    """Centred views have negative products, and an even number of them a positive one."""
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 2
    views = [
        1.5 * rng.standard_normal(8) * (2 * truth - 1)[:, None] + rng.standard_normal((90, 8))
        for _ in range(n_views)
    ]
    engine = LocalEngine(as_views(views), normalize="columns")
    graph_start(engine, 2, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert adjusted_rand_score(truth, labels) > 0.9


@pytest.mark.parametrize(
    ("n_clusters", "expected"), [(2, 30), (4, 40), (12, 60), (40, 80)], ids="K={}".format
)
def test_beyond_the_limit_all_are_compared_with_landmarks_only(monkeypatch, n_clusters, expected):
    """As many as there always are, ten per cluster, the limit, or two per cluster."""
    monkeypatch.setattr(init, "EXACT_LIMIT", 60)
    monkeypatch.setattr(init, "N_LANDMARKS", 30)
    monkeypatch.setattr(init, "_LANDMARKS_PER_CLUSTER", 10)
    widths = set()
    real = graph.cosines_of

    def watched(*args):
        products = real(*args)
        widths.add(products.shape[1])
        return products

    monkeypatch.setattr(graph, "cosines_of", watched)
    views, _ = blobs_init(300)
    engine = LocalEngine(as_views(views), normalize="rows")
    graph_start(engine, n_clusters, np.random.default_rng(0))
    assert widths == {expected}


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
def test_kmeans_is_a_fixed_point_of_lloyd_on_the_concatenation(normalize, sparse):
    views, _ = blobs_init(sparse=sparse)
    engine = LocalEngine(as_views(views), normalize=normalize)
    kmeans_start(engine, 3, np.random.default_rng(0))
    labels = engine.gather("labels")
    beside = np.hstack(scaled(views, normalize))
    centres = np.stack([beside[labels == k].mean(axis=0) for k in range(3)])
    distances = ((beside[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
    best = KMeans(3, n_init=10, random_state=0).fit(beside).inertia_
    assert distances.min(axis=1).sum() <= 1.001 * best


def test_kmeans_begun_with_a_sample_of_the_rows_goes_on_with_all():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((3000, d)) for d in (6, 4)]  # no clusters: centres go far
    engine = LocalEngine(as_views(views), normalize=None)
    kmeans_start(engine, 8, np.random.default_rng(0))
    labels = engine.gather("labels")
    beside = np.hstack(views)
    centres = np.stack([beside[labels == k].mean(axis=0) for k in range(8)])
    moved = ((beside[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1) != labels
    assert moved.mean() < 0.02


@pytest.mark.parametrize("width", [2, 60])
def test_views_side_by_side_are_sparse_where_most_is_zero(width):
    words = sp.random_array((50, 100), density=0.05, format="csr", rng=0)
    dense = np.ones((50, width))
    beside = init._beside([dense, words])
    assert sp.issparse(beside) == (width == 2)
    found = beside.toarray() if sp.issparse(beside) else beside
    np.testing.assert_array_equal(found, np.hstack([dense, words.toarray()]))


def test_random_start_is_balanced():
    views, _ = blobs_init(90)
    engine = LocalEngine(as_views(views), normalize="rows")
    random_start(engine, 4, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert sorted(np.bincount(labels)) == [22, 22, 23, 23]


VIEWS, TRUTH = blobs()
OTHER = np.random.default_rng(0).permutation(TRUTH)


def finds(labels, within=None):
    """A start that finds these labels, with this part of an embedding's variance within them."""

    def start(engine, n_clusters, rng, **options):
        engine.scatter("labels", labels)
        return within

    return start


@pytest.fixture
def of_graph(monkeypatch):
    return lambda *found: monkeypatch.setattr(module, "graph_start", finds(*found))


@pytest.fixture
def of_kmeans(monkeypatch):
    return lambda labels: monkeypatch.setattr(module, "kmeans_start", finds(labels))


def begun(init="graph", number=0, *, views=VIEWS, k=3, indicator=DiscreteIndicator, complete=True):
    engine = LocalEngine(as_views(views), normalize="rows")
    problem = Problem(RowSparse(), 0.01, indicator(), 10, 1e-3)
    start = Start(init, n_clusters=k, rank=2 * k, order=None, complete=complete)
    return engine, start.begin(engine, problem, np.random.default_rng(0), number)


@pytest.mark.parametrize(
    ("within", "trust"), [(0.0, 1.0), (0.03, 0.99), (0.15, 0.75), (0.3, 0.0), (0.6, 0.0)]
)
def test_labels_are_held_as_far_as_the_graph_shows_them(of_graph, within, trust):
    of_graph(TRUTH, within)
    _, fitted = begun()
    assert fitted.trust == pytest.approx(trust)


@pytest.mark.parametrize("init", ["kmeans", "random", Given.of(TRUTH, 90, 3)], ids=str)
def test_other_labels_are_not_held(init):
    _, fitted = begun(init)
    assert fitted.trust == 0.0


class TestOfAnUnclearGraph:
    @pytest.mark.parametrize("indicator", [DiscreteIndicator, OrthogonalIndicator])
    def test_labels_give_way_to_those_of_kmeans_that_the_model_explains(self, of_graph, indicator):
        of_graph(OTHER, 0.5)
        engine, _ = begun(indicator=indicator)
        assert adjusted_rand_score(TRUTH, engine.gather("labels")) > 0.95

    def test_labels_that_the_model_explains_stay(self, of_graph, of_kmeans):
        of_graph(TRUTH, 0.5)
        of_kmeans(OTHER)
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), TRUTH)

    @pytest.mark.parametrize(("value", "expected"), [(0.89, OTHER), (0.91, TRUTH)])
    def test_the_objective_has_to_be_lower_by_a_tenth(
        self, of_graph, of_kmeans, monkeypatch, value, expected
    ):
        of_graph(TRUTH, 0.5)
        of_kmeans(OTHER)
        values = iter([1.0, value])
        monkeypatch.setattr(module, "factor_steps", lambda *_: ())
        monkeypatch.setattr(Problem, "value", lambda self, *_: next(values) if not _ else 0.0)
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), expected)

    @pytest.mark.parametrize(("k", "n_lone"), [(2, 1), (3, 2), (5, 2), (8, 1), (10, 4)])
    def test_outliers_are_no_clusters(self, of_graph, of_kmeans, monkeypatch, k, n_lone):
        even = np.arange(90) % k
        of_graph(even, 0.5)
        of_kmeans(np.where(np.arange(90) < n_lone, np.arange(90), n_lone + even % (k - n_lone)))
        monkeypatch.setattr(module, "_LOWER_BY", -np.inf)  # whatever the model makes of them
        engine, _ = begun(k=k)
        np.testing.assert_array_equal(engine.gather("labels"), even)

    def test_clusters_in_products_stay(self):
        """Labels of k-means are explained sooner, as single features tell them."""
        views, truth = make_views(600, 6, (10, 10), structure="interaction", random_state=1)
        engine, fitted = begun(views=views, k=6)
        assert fitted.trust == 0.0
        kmeans, _ = begun("kmeans", views=views, k=6)
        scores = [adjusted_rand_score(truth, some.gather("labels")) for some in (engine, kmeans)]
        assert scores[0] > 2.0 * scores[1]

    def test_the_fit_begins_with_all_features_and_the_labels_that_are_left(self, of_graph):
        of_graph(OTHER, 0.5)
        # features that say nothing leave the work at once
        views = [np.hstack([X, np.zeros((90, 40))]) for X in VIEWS]
        engine, fitted = begun(views=views)
        labels = engine.gather("labels")
        own = engine.gather("indicator")[np.arange(90), labels]
        np.testing.assert_allclose(own, 1.0 / np.sqrt(np.bincount(labels))[labels])
        assert all(scaling.active is None for scaling in engine.scalings)
        assert not fitted.objective

    def test_an_interrupt_is_passed_on(self, of_graph, monkeypatch):
        def interrupt(*args, **options):
            raise KeyboardInterrupt

        of_graph(OTHER, 0.5)
        monkeypatch.setattr(module, "kmeans_start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            begun()

    def test_kmeans_is_not_asked_who_lacks_a_view(self, of_graph):
        of_graph(OTHER, 0.5)
        engine, _ = begun(complete=False)
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)

    def test_further_starts_are_those_of_the_graph(self, of_graph):
        of_graph(OTHER, 0.5)
        engine, _ = begun(number=1)
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)

    def test_clear_labels_are_not_compared(self, of_graph):
        of_graph(OTHER, 0.29)
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)
