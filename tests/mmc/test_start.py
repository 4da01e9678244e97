import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from manyview.engine import LocalEngine
from manyview.mmc import start as module
from manyview.mmc.discrete import DiscreteIndicator
from manyview.mmc.given import Given
from manyview.mmc.penalty import RowSparse
from manyview.mmc.problem import Problem
from manyview.mmc.start import Start
from manyview.views import as_views

from .estimators import blobs

VIEWS, TRUTH = blobs()
OTHER = np.random.default_rng(0).permutation(TRUTH)


def shows(monkeypatch, labels, within):
    """Let the graph show these labels, with this part of its embedding's variance within them."""

    def graph_start(engine, n_clusters, rng, **options):
        engine.scatter("labels", labels)
        return within

    monkeypatch.setattr(module, "graph_start", graph_start)


def begun(init="graph", number=0):
    engine = LocalEngine(as_views(VIEWS), normalize="rows")
    problem = Problem(RowSparse(), 0.01, DiscreteIndicator(), 10, 1e-3)
    start = Start(init, n_clusters=3, rank=6, order=None)
    return engine, start.begin(engine, problem, np.random.default_rng(0), number)


@pytest.mark.parametrize(
    ("within", "trust"), [(0.0, 1.0), (0.03, 0.99), (0.15, 0.75), (0.3, 0.0), (0.6, 0.0)]
)
def test_labels_are_held_as_far_as_the_graph_shows_them(monkeypatch, within, trust):
    shows(monkeypatch, TRUTH, within)
    _, fitted = begun()
    assert fitted.trust == pytest.approx(trust)


@pytest.mark.parametrize("init", ["kmeans", "random", Given.of(TRUTH, 90, 3)], ids=str)
def test_other_labels_are_not_held(init):
    _, fitted = begun(init)
    assert fitted.trust == 0.0


class TestOfAnUnclearGraph:
    def test_labels_give_way_to_those_of_kmeans_that_the_model_explains(self, monkeypatch):
        shows(monkeypatch, OTHER, 0.5)
        engine, _ = begun()
        assert adjusted_rand_score(TRUTH, engine.gather("labels")) > 0.95

    def test_labels_that_the_model_explains_stay(self, monkeypatch):
        shows(monkeypatch, TRUTH, 0.5)
        monkeypatch.setattr(
            module, "kmeans_start", lambda engine, *_: engine.scatter("labels", OTHER)
        )
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), TRUTH)

    def test_outliers_are_no_clusters(self, monkeypatch):
        lone = np.where(np.arange(90) < 2, np.arange(90), 2)
        shows(monkeypatch, TRUTH, 0.5)
        monkeypatch.setattr(
            module, "kmeans_start", lambda engine, *_: engine.scatter("labels", lone)
        )
        monkeypatch.setattr(module, "_LOWER_BY", -np.inf)  # whatever the model makes of them
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), TRUTH)

    def test_the_fit_begins_with_all_features_and_the_labels_that_are_left(self, monkeypatch):
        shows(monkeypatch, OTHER, 0.5)
        engine, fitted = begun()
        labels = engine.gather("labels")
        own = engine.gather("indicator")[np.arange(90), labels]
        np.testing.assert_allclose(own, 1.0 / np.sqrt(np.bincount(labels))[labels])
        assert all(scaling.active is None for scaling in engine.scalings)
        assert not fitted.objective

    def test_further_starts_are_those_of_the_graph(self, monkeypatch):
        shows(monkeypatch, OTHER, 0.5)
        engine, _ = begun(number=1)
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)

    def test_clear_labels_are_not_compared(self, monkeypatch):
        shows(monkeypatch, OTHER, 0.29)
        engine, _ = begun()
        np.testing.assert_array_equal(engine.gather("labels"), OTHER)
