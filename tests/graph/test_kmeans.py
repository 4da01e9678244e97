from functools import partial

import numpy as np
import pytest

from manyview.engine import LocalEngine
from manyview.graph import kmeans
from manyview.views import as_views


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(kmeans, "_MOST_ROWS_AT_ONCE", 200)
    rows = np.random.default_rng(0).standard_normal((3000, 4))
    engine = LocalEngine(as_views([rows]), normalize=None)
    engine.scatter("rows", rows)
    return engine


def cost(engine, centres):
    rows, labels = engine.take_state("rows", np.arange(3000)), engine.gather("labels")
    return np.sum((rows - centres[labels]) ** 2)


def test_centres_of_a_sample_move_to_those_of_all(engine):
    centres = kmeans.cluster_state(engine, "rows", 8, np.random.default_rng(0))
    rows, labels = engine.take_state("rows", np.arange(3000)), engine.gather("labels")
    means = np.stack([rows[labels == k].mean(axis=0) for k in range(8)])
    assert np.abs(means - centres).max() < 0.05
    distances = ((rows[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)


def test_every_iteration_lowers_the_cost_until_it_settles(engine, monkeypatch):
    costs, real = [], kmeans.lloyd
    for iterations in (1, 2, 4, 100):
        monkeypatch.setattr(kmeans, "lloyd", partial(real, most=iterations))
        centres = kmeans.cluster_state(engine, "rows", 8, np.random.default_rng(0))
        costs.append(cost(engine, centres))
    assert costs[0] > costs[1] > costs[2] > costs[3]


@pytest.mark.parametrize("iterations", [1, 3])
def test_samples_have_the_nearest_centre_however_few_iterations(engine, monkeypatch, iterations):
    monkeypatch.setattr(kmeans, "lloyd", partial(kmeans.lloyd, most=iterations))
    centres = kmeans.cluster_state(engine, "rows", 8, np.random.default_rng(0))
    rows = engine.take_state("rows", np.arange(3000))
    nearest = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(engine.gather("labels"), nearest)


def test_no_cluster_is_left_empty(engine):
    far = [np.vstack([np.zeros((7, 4)), np.full((1, 4), 1e3)])]

    def step(centres):
        return engine.update(kmeans._assign_kernel, "rows", centres[0])

    kmeans.lloyd(engine, step, far)
    assert np.bincount(engine.gather("labels"), minlength=8).min() > 0
