import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.mmc import start as module
from manyview.mmc.discrete import DiscreteIndicator
from manyview.mmc.given import Given
from manyview.mmc.orthogonal import OrthogonalIndicator
from manyview.mmc.penalty import RowSparse
from manyview.mmc.problem import Problem
from manyview.mmc.start import Start
from manyview.views import as_views

from .estimators import blobs

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
