import numpy as np
import pytest

from manyview.engine import LocalEngine
from manyview.graph import kmeans
from manyview.graph.settings import GraphSettings
from manyview.views import as_views


@pytest.fixture
def engine():
    rows = np.random.default_rng(0).standard_normal((3000, 4))
    engine = LocalEngine(as_views([rows]), normalize=None)
    engine.scatter("rows", rows)
    return engine


def clustered(engine, max_iter=100):
    """Centres of k-means that starts with a sample of the rows."""
    settings = GraphSettings(kmeans_rows=200, kmeans_max_iter=max_iter)
    return kmeans.cluster_state(engine, "rows", 8, np.random.default_rng(0), settings=settings)


def cost(engine, centres):
    rows, labels = engine.take_state("rows", np.arange(3000)), engine.gather("labels")
    return np.sum((rows - centres[labels]) ** 2)


def test_centres_of_a_sample_move_to_those_of_all(engine):
    centres = clustered(engine)
    rows, labels = engine.take_state("rows", np.arange(3000)), engine.gather("labels")
    means = np.stack([rows[labels == k].mean(axis=0) for k in range(8)])
    assert np.abs(means - centres).max() < 0.05
    distances = ((rows[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)


def test_every_iteration_lowers_the_cost(engine):
    costs = [cost(engine, clustered(engine, max_iter)) for max_iter in (1, 2, 4, 100)]
    assert costs[0] > costs[1] > costs[2] > costs[3]


@pytest.mark.parametrize("max_iter", [1, 3])
def test_samples_belong_to_the_nearest_centre_after_any_number_of_iterations(engine, max_iter):
    centres = clustered(engine, max_iter)
    rows = engine.take_state("rows", np.arange(3000))
    nearest = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(engine.gather("labels"), nearest)


def test_no_cluster_is_left_empty(engine):
    far = [np.vstack([np.zeros((7, 4)), np.full((1, 4), 1e3)])]

    def step(centres):
        return engine.update(kmeans._assign_kernel, "rows", centres[0])

    kmeans.lloyd(engine, step, far)
    assert np.bincount(engine.gather("labels"), minlength=8).min() > 0
