from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyview.engine import LocalEngine
from manyview.mmc import fit as module
from manyview.mmc.defaults import default_gamma
from manyview.mmc.fit import Problem, fit
from manyview.mmc.indicator import DiscreteIndicator, OrthogonalIndicator
from manyview.mmc.initial_factors import start_factors
from manyview.mmc.model import Factors, Moments, interaction, objective, project_all
from manyview.mmc.penalty import Frobenius, RowSparse

INDICATORS = {"discrete": DiscreteIndicator, "orthogonal": OrthogonalIndicator}
PENALTIES = {"l21": RowSparse, "frobenius": Frobenius}


def run(
    c,
    *,
    gamma=0.01,
    penalty="l21",
    indicator="discrete",
    sweeps=8,
    cg_steps=4,
    tol=0.0,
    patience=None,
    **kw,
):
    problem = Problem(
        PENALTIES[penalty](), gamma, INDICATORS[indicator](), sweeps, tol, patience, cg_steps
    )
    c.engine.scatter("labels", np.arange(c.engine.n_samples) % 3)
    problem.indicator.start(c.engine, 3)
    factors, moments = start_factors(c.engine, 3, 5, seed=0)
    return problem, fit(c.engine, problem, factors, moments, **kw)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**4),
    cg_steps=st.integers(1, 6),
    sparse=st.booleans(),
    gamma=st.sampled_from([0.0, 1e-3, 0.01, 0.1, 1.0]),
    views=st.integers(1, 4),
)
@pytest.mark.parametrize("indicator", INDICATORS)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_objective_never_rises(case, penalty, indicator, seed, cg_steps, sparse, gamma, views):
    c = case(seed, n=21, widths=(4, 3, 2, 3)[:views], sparse=sparse)
    with _each_step(c, PENALTIES[penalty](), gamma) as steps:
        problem, fitted = run(
            c, gamma=gamma, penalty=penalty, indicator=indicator, cg_steps=cg_steps
        )
    _check_consistent(c, problem, fitted, gamma)
    assert (np.diff(fitted.objective) <= 0).all()
    # what rises is taken back, so that the recorded objective falls whatever the steps do
    before, after = np.transpose(steps)
    assert gamma == 0.0 or (after <= before + 1e-9 * (1 + before)).all()


@contextmanager
def _each_step(c, penalty, gamma):
    """Give the objective before and after every step and sweep, as it is before a look at it."""
    view_step, cluster_step = module.updated_view_factor, module.updated_cluster_factor
    sweep = module._sweep
    steps = []

    def value(factors):
        return _explicit_objective(c, factors, penalty, gamma)

    def watched_view_step(engine, factors, v, **options):
        improved = view_step(engine, factors, v, **options)
        steps.append((value(factors), value(factors.with_view(v, improved))))
        return improved

    def watched_cluster_step(factors, moments, **options):
        improved = cluster_step(factors, moments, **options)
        steps.append((value(factors), value(factors.with_clusters(improved))))
        return improved

    def watched_sweep(engine, problem, factors, moments):
        before = value(factors)
        reached = sweep(engine, problem, factors, moments)
        steps.append((before, value(reached[0])))
        return reached

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "updated_view_factor", watched_view_step)
        patch.setattr(module, "updated_cluster_factor", watched_cluster_step)
        patch.setattr(module, "_sweep", watched_sweep)
        yield steps


def _explicit_objective(c, factors, penalty, gamma):
    """The objective of factors and of the indicator in the blocks, with nothing else of theirs."""
    F = c.engine.gather("indicator")
    P = interaction([Z @ W for Z, W in zip(c.Z, factors.views, strict=True)])
    return objective(factors, Moments(P.T @ P, P.T @ F), penalty, gamma)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_sweep_ends_with_factors_of_equal_penalty(case, penalty):
    _, fitted = run(case(3), penalty=penalty, sweeps=1)
    values = [PENALTIES[penalty]().value(W) for W in fitted.factors.views]
    np.testing.assert_allclose(values, PENALTIES[penalty]().value(fitted.factors.clusters))


def test_rows_are_set_to_zero_only_where_that_lowers_the_objective(case, monkeypatch):
    """Though the penalty says that all may go."""
    c = case(3)
    monkeypatch.setattr(RowSparse, "vanished", lambda self, factor, previous: factor[:, 0] < np.inf)
    with _each_step(c, RowSparse(), 0.01) as steps:
        _, fitted = run(c, sweeps=3)
    before, after = np.transpose(steps)
    assert (after <= before + 1e-9).all()
    assert all(W.any() for W in fitted.factors.views)


@pytest.mark.parametrize("indicator", INDICATORS)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_state_and_result_belong_together(case, penalty, indicator):
    c = case(3)
    problem, fitted = run(c, penalty=penalty, indicator=indicator, gamma=0.05)
    _check_consistent(c, problem, fitted, gamma=0.05)


def _check_consistent(c, problem, fitted, gamma):
    """The blocks' state, the factors and the recorded objective speak of one model."""
    F = c.engine.gather("indicator")
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)
    for v, (Z, W) in enumerate(zip(c.Z, fitted.factors.views, strict=True)):
        held = np.vstack([block.state["projections"][v] for block in c.engine.blocks])
        np.testing.assert_allclose(held, Z @ W, atol=1e-8)
    value = _explicit_objective(c, fitted.factors, problem.penalty, gamma)
    # the misfit is a difference of numbers as large as K
    assert fitted.objective[-1] == pytest.approx(value, rel=1e-8, abs=1e-10)


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


def test_leaving_the_work_changes_nothing(case, monkeypatch):
    c = case(5, n=200, widths=(60, 40))
    _, dropped = run(c, gamma=0.2, sweeps=20)
    monkeypatch.setattr(module, "_drop_features", lambda *args: None)
    c = case(5, n=200, widths=(60, 40))
    _, kept = run(c, gamma=0.2, sweeps=20)
    np.testing.assert_allclose(dropped.objective, kept.objective, rtol=1e-6)


@pytest.mark.parametrize(("changes", "sweeps"), [([0.02], 3), ([0.05], 8), ([0.02, 0.02, 0.05], 8)])
def test_stops_when_97_percent_stayed_for_sweeps_in_a_row(case, monkeypatch, changes, sweeps):
    real, moved = module._sweep, cycle(changes)
    monkeypatch.setattr(module, "_sweep", lambda *args: (*real(*args)[:2], next(moved)))
    _, fitted = run(case(1, n=60), patience=3)
    assert len(fitted.objective) == sweeps
    assert fitted.converged == (sweeps == 3)


@pytest.mark.parametrize("movers", [0, 6, 15, 300])
def test_a_sweep_tells_the_part_that_moved(case, movers):
    class Moving(DiscreteIndicator):
        def update(self, engine, factors, moments):
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
    *_, moved = module._sweep(c.engine, problem, factors, moments)
    assert moved == pytest.approx(movers / 300)


def test_stops_when_the_objective_settles(case):
    c = case(1)
    _, fitted = run(c, tol=0.05, sweeps=100)
    assert fitted.converged
    assert len(fitted.objective) < 100
    _, short = run(c, tol=0.0, sweeps=2)
    assert not short.converged
    assert len(short.objective) == 2


@pytest.mark.parametrize("indicator", INDICATORS)
@pytest.mark.parametrize(
    ("owner", "step", "last"),  # the call that is in the third sweep
    [
        (module, "updated_view_factor", 6),
        (module, "updated_cluster_factor", 3),
        (LocalEngine, "snapshot", 4),
    ],
)
def test_interrupt_in_a_sweep_goes_back_to_the_last_whole_one(
    case, monkeypatch, indicator, owner, step, last
):
    calls, real = [], getattr(owner, step)

    def interrupting(*args, **options):
        calls.append(1)
        if len(calls) == last:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(owner, step, interrupting)
    c = case(1, n=60, widths=(30, 20))
    problem, fitted = run(c, indicator=indicator, gamma=0.2)
    assert fitted.interrupted
    assert len(fitted.objective) == 2
    _check_consistent(c, problem, fitted, gamma=0.2)


def test_interrupt_before_the_first_sweep_is_passed_on(case, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_sweep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(case(1))


def test_start_below_the_zero_model(case):
    """From there descent cannot end in the zero basin, whose objective is n_clusters."""
    c = case(2, n=60)
    problem = Problem(RowSparse(), 0.01, DiscreteIndicator(), 1, 0.0)
    truth = np.random.default_rng(2).integers(0, 3, 60)
    c.engine.scatter("labels", truth)
    problem.indicator.start(c.engine, 3)
    factors, moments = start_factors(c.engine, 3, 5, seed=0)
    factors, moments = module._balanced(c.engine, problem, factors, moments)
    assert objective(factors, moments, problem.penalty, problem.gamma) < 3.0


@pytest.mark.parametrize("widths", [(4,), (4, 3), (4, 3, 2)])
def test_refit_shares_its_penalty_among_the_factors(case, monkeypatch, widths):
    c = case(0, widths=widths)
    problem, fitted = run(c)
    gammas = []
    real = module._factor_steps
    monkeypatch.setattr(
        module, "_factor_steps", lambda e, p, *rest: gammas.append(p.gamma) or real(e, p, *rest)
    )
    module.refit(c.engine, problem, fitted)
    usual = default_gamma(c.engine, Frobenius(), 3)
    assert gammas == [pytest.approx(module.REFIT_STRENGTH * usual / (len(widths) + 1))]


def test_refit_begins_with_the_cluster_factor(case, monkeypatch):
    """The view factors are fitted to one that is the best for the new penalty."""
    c = case(0)
    problem, fitted = run(c)
    order = []

    def watched(name):
        real = getattr(module, name)

        def noted(*args, **options):
            order.append(name)
            return real(*args, **options)

        monkeypatch.setattr(module, name, noted)

    watched("updated_view_factor")
    watched("updated_cluster_factor")
    module.refit(c.engine, problem, fitted)
    assert order == [
        "updated_cluster_factor",
        *["updated_view_factor"] * 2,
        "updated_cluster_factor",
    ]


def test_refit_is_weaker_where_little_is_left(case, monkeypatch):
    c = case(0)
    problem, fitted = run(c)
    gammas = []
    real = module._factor_steps
    monkeypatch.setattr(
        module, "_factor_steps", lambda e, p, *rest: gammas.append(p.gamma) or real(e, p, *rest)
    )
    monkeypatch.setattr(module, "REFIT_STRENGTH", 1e5)
    factors, moments = module.refit(c.engine, problem, fitted)
    np.testing.assert_allclose(np.array(gammas[:-1]) / gammas[1:], 10.0)
    assert 1 < len(gammas) < module.REFITS
    assert moments.explained(factors.clusters) >= 0.5 * fitted.explained


def test_refit_leaves_what_no_weaker_penalty_serves(case, monkeypatch):
    c = case(0)
    problem, fitted = run(c)
    monkeypatch.setattr(module, "REFIT_STRENGTH", 1e30)
    factors, _ = module.refit(c.engine, problem, fitted)
    assert factors is fitted.factors
    projections = [
        view.project(s.fold(W))
        for view, s, W in zip(
            c.engine.blocks[0].views, c.engine.scalings, factors.views, strict=True
        )
    ]
    for ours, theirs in zip(c.engine.blocks[0].state["projections"], projections, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_a_model_that_knows_the_sizes_only_is_constant(case):
    c = case(0)
    _, fitted = run(c, gamma=1e-4)
    assert not fitted.is_constant
    bias = tuple(np.vstack([np.zeros_like(W[:-1]), np.ones((1, 5))]) for W in fitted.factors.views)
    moments = project_all(c.engine, bias)
    clusters = np.linalg.lstsq(moments.gram, moments.cross)[0].T
    blind = module.Fitted(Factors(bias, clusters), moments)
    assert blind.explained == pytest.approx(1 / 3)
    assert blind.is_constant
    assert not blind.is_zero
