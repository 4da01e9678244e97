import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.mmc import estimator
from manyview.mmc import initial as module
from manyview.mmc.indicator import DiscreteIndicator, OrthogonalIndicator
from manyview.mmc.initial import (
    Given,
    InitialSettings,
    LabelInitialisation,
    kmeans_labels,
    random_labels,
)
from manyview.mmc.objective import RowSparse
from manyview.mmc.solver import Problem
from manyview.views import as_views

from .estimators import blobs
from .indicators import indicator_of


class TestGiven:
    def test_labels_of_any_type(self):
        given = Given.of(["b", "a", "b", "c"], 4, 3)
        np.testing.assert_array_equal(given.labels, [1, 0, 1, 2])
        assert given.indicator is None

    def test_a_mask_without_masked_entries_is_ignored(self):
        given = Given.of(np.ma.masked_equal([0, 1, 2, 1], 9), 4, 3)
        np.testing.assert_array_equal(given.labels, [0, 1, 2, 1])

    def test_an_indicator_is_made_orthonormal(self):
        G = np.random.default_rng(0).standard_normal((6, 2))
        expected, _ = scipy.linalg.polar(G)
        np.testing.assert_allclose(Given.of(G, 6, 2).indicator, expected, atol=1e-9)

    @pytest.mark.parametrize("scale", [1.0, -1.0, 1e300, 1e-300])
    def test_labels_of_an_indicator(self, scale):
        F = scale * indicator_of(np.array([1, 0, 1, 2]), 3)
        np.testing.assert_array_equal(Given.of(F, 4, 3).labels, [1, 0, 1, 2])

    def test_the_largest_membership_is_the_label_even_of_small_clusters(self):
        rng = np.random.default_rng(0)
        labels = (rng.random(400) < 0.05).astype(int)
        own = rng.uniform(0.55, 0.95, 400)
        memberships = np.where(np.arange(2) == labels[:, None], own[:, None], 1.0 - own[:, None])
        np.testing.assert_array_equal(Given.of(memberships, 400, 2).labels, labels)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            ([0, 0, 1, 1], "init .* n_clusters=3"),
            ([0, 1, 2], r"init .*\(3,\).*\(4,\)"),
            ([0.0, 1.0, 2.0, np.nan], "init .* NaN"),
            (np.array([0, "a", None, 1], dtype=object), "init .* types"),
            (np.ones((4, 3)), "init .* rank 1"),
            (np.full((4, 3), np.nan), "init .* nan at row 0, column 0"),
            (np.full((4, 3), 1j), "init .* complex128"),
            (np.ones((4, 2)), r"init .*\(4, 2\)"),
            (np.ma.masked_equal([0, 1, 2, 9], 9), "init .* masked"),
        ],
    )
    def test_unusable_arrays_are_rejected(self, array, message):
        with pytest.raises(ValueError, match=message):
            Given.of(array, 4, 3)

    def test_they_are_rejected_before_any_pass_over_the_views(self, monkeypatch):
        monkeypatch.setattr(estimator, "engine_for", None)  # makes the first pass
        views, _ = make_views(60, 3, random_state=0)
        with pytest.raises(ValueError, match="init"):
            MMC(3, init=[0, 1, 2]).fit(views)


NORMALIZE = ["rows", "columns", None]


def groups(n=90, *, sparse=False, seed=0):
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


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
def test_kmeans_is_a_fixed_point_of_lloyd_on_the_concatenation(normalize, sparse):
    views, _ = groups(sparse=sparse)
    engine = LocalEngine(as_views(views), normalize=normalize)
    kmeans_labels(engine, 3, np.random.default_rng(0))
    labels = engine.gather("labels")
    concatenated = np.hstack(scaled(views, normalize))
    centres = np.stack([concatenated[labels == k].mean(axis=0) for k in range(3)])
    distances = ((concatenated[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
    best = KMeans(3, n_init=10, random_state=0).fit(concatenated).inertia_
    assert distances.min(axis=1).sum() <= 1.001 * best


def test_kmeans_from_a_sample_of_the_rows_continues_with_all():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((3000, d)) for d in (6, 4)]  # without clusters, centres move far
    engine = LocalEngine(as_views(views), normalize=None)
    kmeans_labels(engine, 8, np.random.default_rng(0))
    labels = engine.gather("labels")
    concatenated = np.hstack(views)
    centres = np.stack([concatenated[labels == k].mean(axis=0) for k in range(8)])
    moved = ((concatenated[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1) != labels
    assert moved.mean() < 0.02


@pytest.mark.parametrize("width", [2, 60])
def test_concatenated_views_are_sparse_if_most_entries_are_zero(width):
    words = sp.random_array((50, 100), density=0.05, format="csr", random_state=0)
    dense = np.ones((50, width))
    concatenated = module._concatenated([dense, words])
    assert sp.issparse(concatenated) == (width == 2)
    found = concatenated.toarray() if sp.issparse(concatenated) else concatenated
    np.testing.assert_array_equal(found, np.hstack([dense, words.toarray()]))


def test_random_labels_are_balanced():
    views, _ = groups(90)
    engine = LocalEngine(as_views(views), normalize="rows")
    random_labels(engine, 4, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert sorted(np.bincount(labels)) == [22, 22, 23, 23]


VIEWS, TRUTH = blobs()
OTHER = np.random.default_rng(0).permutation(TRUTH)


def finds(labels, within=None):
    """An initialisation that finds these labels, with this unexplained variance."""

    def start(engine, n_clusters, rng, **options):
        engine.scatter("labels", labels)
        return within

    return start


@pytest.fixture
def of_graph(monkeypatch):
    return lambda *found: monkeypatch.setattr(module, "spectral_labels", finds(*found))


@pytest.fixture
def of_kmeans(monkeypatch):
    return lambda labels: monkeypatch.setattr(module, "kmeans_labels", finds(labels))


def begun(init="graph", number=0, *, views=VIEWS, k=3, indicator=DiscreteIndicator, complete=True):
    engine = LocalEngine(as_views(views), normalize="rows")
    problem = Problem(RowSparse(), 0.01, indicator(), 10, 1e-3)
    start = LabelInitialisation(init, n_clusters=k, rank=2 * k, order=None, complete=complete)
    return engine, start.begin(engine, problem, np.random.default_rng(0), number)


@pytest.mark.parametrize(
    ("within", "confidence"), [(0.0, 1.0), (0.03, 0.99), (0.15, 0.75), (0.3, 0.0), (0.6, 0.0)]
)
def test_clearer_graphs_give_more_confidence(of_graph, within, confidence):
    of_graph(TRUTH, within)
    _, fitted = begun()
    assert fitted.confidence == pytest.approx(confidence)


@pytest.mark.parametrize("init", ["kmeans", "random", Given.of(TRUTH, 90, 3)], ids=str)
def test_other_labels_have_no_confidence(init):
    _, fitted = begun(init)
    assert fitted.confidence == 0.0


class TestTakeoverByKMeans:
    @pytest.mark.parametrize("indicator", [DiscreteIndicator, OrthogonalIndicator])
    def test_labels_that_the_model_fits_better_take_over(self, of_graph, indicator):
        of_graph(OTHER, 0.5)
        engine, _ = begun(indicator=indicator)
        assert adjusted_rand_score(TRUTH, engine.gather("labels")) > 0.95

    def test_labels_of_the_graph_that_it_fits_stay(self, of_graph, of_kmeans):
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
        # however badly the model fits them
        monkeypatch.setattr(LabelInitialisation, "settings", InitialSettings(lower_by=-np.inf))
        engine, _ = begun(k=k)
        np.testing.assert_array_equal(engine.gather("labels"), even)

    def test_clusters_in_products_stay(self):
        """Labels of k-means are fitted sooner, as single features predict them."""
        views, truth = make_views(600, 6, (10, 10), structure="interaction", random_state=1)
        engine, fitted = begun(views=views, k=6)
        assert fitted.confidence == 0.0
        kmeans, _ = begun("kmeans", views=views, k=6)
        scores = [adjusted_rand_score(truth, some.gather("labels")) for some in (engine, kmeans)]
        assert scores[0] > 2.0 * scores[1]

    def test_the_fit_begins_with_all_features_and_the_chosen_labels(self, of_graph):
        of_graph(OTHER, 0.5)
        # the comparison drops constant features at once
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
        monkeypatch.setattr(module, "kmeans_labels", interrupt)
        with pytest.raises(KeyboardInterrupt):
            begun()

    def test_kmeans_is_not_used_with_missing_views(self, of_graph):
        of_graph(OTHER, 0.5)
        engine, _ = begun(complete=False)
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)

    def test_kmeans_is_not_used_in_further_initialisations(self, of_graph):
        of_graph(OTHER, 0.5)
        engine, _ = begun(number=1)
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)

    def test_kmeans_is_not_compared_with_clear_labels(self, of_graph):
        of_graph(OTHER, 0.29)
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)
