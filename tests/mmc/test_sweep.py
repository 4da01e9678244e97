from dataclasses import replace

import numpy as np
import pytest

from manyview.mmc import sweep as module
from manyview.mmc.discrete import DiscreteIndicator
from manyview.mmc.initial_factors import start_factors
from manyview.mmc.model import Factors, objective
from manyview.mmc.penalty import RowSparse
from manyview.mmc.problem import Problem

from .fits import PENALTIES, each_step, run


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_sweep_ends_with_factors_of_equal_penalty(case, penalty):
    _, fitted = run(case(3), penalty=penalty, sweeps=1)
    values = [PENALTIES[penalty]().value(W) for W in fitted.factors.views]
    np.testing.assert_allclose(values, PENALTIES[penalty]().value(fitted.factors.clusters))


def test_rows_are_set_to_zero_only_where_that_lowers_the_objective(case, monkeypatch):
    """Though the penalty says that all may go."""
    c = case(3)
    monkeypatch.setattr(RowSparse, "vanished", lambda self, factor, previous: factor[:, 0] < np.inf)
    with each_step(c, RowSparse(), 0.01) as steps:
        _, fitted = run(c, sweeps=3)
    before, after = np.transpose(steps)
    assert (after <= before + 1e-9).all()
    assert all(W.any() for W in fitted.factors.views)


def test_rows_go_to_zero_and_leave_the_work(case):
    c = case(5, n=200, widths=(60, 40))
    _, fitted = run(c, gamma=0.2, sweeps=40)
    for v, W in enumerate(fitted.factors.views):
        active = np.flatnonzero(W[:-1].any(axis=1))
        assert active.size < W.shape[0] - 1
        held = c.engine.scalings[v].active
        if held is not None:
            assert c.engine.blocks[0].views[v].x.shape[1] == held.size < W.shape[0] - 1
            assert np.isin(active, held).all()
    assert any(scaling.active is not None for scaling in c.engine.scalings)


def test_a_view_without_features_is_left_alone(case, monkeypatch):
    c = case(5, n=200, widths=(60, 40))
    restricted, real = [], type(c.engine).restrict

    def watched(engine, v, active):
        restricted.append((v, None if active is None else active.size))
        real(engine, v, active)

    monkeypatch.setattr(type(c.engine), "restrict", watched)
    factors = Factors((np.zeros((61, 3)), np.ones((41, 3))), np.ones((3, 3)))
    for _ in range(3):
        module._drop_features(c.engine, 0, factors)
    assert restricted == [(0, 0)]


def test_leaving_the_work_changes_nothing(case, monkeypatch):
    c = case(5, n=200, widths=(60, 40))
    _, dropped = run(c, gamma=0.2, sweeps=20)
    monkeypatch.setattr(module, "_drop_features", lambda *args: None)
    c = case(5, n=200, widths=(60, 40))
    _, kept = run(c, gamma=0.2, sweeps=20)
    np.testing.assert_allclose(dropped.objective, kept.objective, rtol=1e-6)


@pytest.mark.parametrize("movers", [0, 6, 15, 300])
def test_a_sweep_tells_the_part_that_moved(case, movers):
    class Moving(DiscreteIndicator):
        def update(self, engine, factors, moments, **options):
            labels = np.arange(300) % 3
            labels[:movers] = (labels[:movers] + 1) % 3
            engine.scatter("labels", labels)
            self.start(engine, 3)
            return replace(moments)

    c = case(1, n=300)
    c.engine.scatter("labels", np.arange(300) % 3)
    problem = Problem(RowSparse(), 0.01, Moving(), 1, 0.0)
    problem.indicator.start(c.engine, 3)
    factors, moments = start_factors(c.engine, 3, 5, seed=0)
    *_, moved = module.sweep(c.engine, problem, factors, moments, trust=0.0)
    assert moved == pytest.approx(movers / 300)


def test_start_below_the_zero_model(case):
    """From there descent cannot end in the zero basin, whose objective is n_clusters."""
    c = case(2, n=60)
    problem = Problem(RowSparse(), 0.01, DiscreteIndicator(), 1, 0.0)
    truth = np.random.default_rng(2).integers(0, 3, 60)
    c.engine.scatter("labels", truth)
    problem.indicator.start(c.engine, 3)
    factors, moments = start_factors(c.engine, 3, 5, seed=0)
    factors, moments = module.balanced(c.engine, problem, factors, moments)
    assert objective(factors, moments, problem.penalty, problem.gamma) < 3.0
