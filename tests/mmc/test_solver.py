from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyview.engine import LocalEngine
from manyview.mmc import solver as module
from manyview.mmc import solver as sweep
from manyview.mmc import solver as sweep_module
from manyview.mmc.indicator import DiscreteIndicator
from manyview.mmc.initial import start_factors
from manyview.mmc.objective import (
    Factors,
    Frobenius,
    RowSparse,
    default_gamma,
    objective,
    project_all,
)
from manyview.mmc.solver import Candidate, Problem, Setup, best_of

from .fits import INDICATORS, PENALTIES, each_step, explicit_objective, run


class WithObjective:
    def __init__(self, value, *, interrupted=False):
        self.objective = [value]
        self.interrupted = interrupted


def candidate(value, *, collapsed=False, interrupted=False):
    fitted = WithObjective(value, interrupted=interrupted)
    return Candidate(fitted, *[None] * 4, collapsed=collapsed)


def shared(engine):
    return Setup(engine, problem=None, rng=None, bar=None, file=None)


def test_a_collapse_is_ranked_last():
    fine, collapsed = candidate(2.0), candidate(0.1, collapsed=True)
    assert fine.beats(collapsed, by=0.0)
    assert not collapsed.beats(fine, by=0.0)


def test_a_start_must_be_better_by_a_part():
    first, second = candidate(2.0), candidate(1.9)
    assert second.beats(first, by=0.0)
    assert not second.beats(first, by=0.1)


class TestBestOf:
    @pytest.fixture
    def best(self, case, monkeypatch):
        """The best of given candidates, whether interrupted, and how many were carried through."""
        monkeypatch.setattr(module, "carried_through", lambda setup, first, start: first)

        def best(*candidates, by=0.0):
            made = []

            def first(start):
                made.append(start)
                if candidates[start] is None:
                    raise KeyboardInterrupt
                return candidates[start]

            found = best_of(shared(case().engine), first, len(candidates), by=by)
            return *found, len(made)

        return best

    def test_is_the_lowest(self, best):
        starts = [candidate(2.0), candidate(0.1, collapsed=True), candidate(1.9), candidate(1.95)]
        assert best(*starts) == (starts[2], False, 4)
        assert best(*starts, by=0.1) == (starts[0], False, 4)

    def test_an_interrupt_in_a_start_ends_with_the_best_so_far(self, best):
        low, high = candidate(1.0), candidate(2.0)
        assert best(high, low, None, candidate(0.5)) == (low, True, 3)

    @pytest.mark.parametrize("value", [0.5, 1.5])
    def test_an_interrupt_in_the_sweeps_is_the_last_start(self, best, value):
        starts = [candidate(1.0), candidate(value, interrupted=True), candidate(0.1)]
        assert best(*starts) == (starts[value < 1.0], True, 2)
        assert best(*starts[1:]) == (starts[1], True, 1)

    def test_an_interrupt_in_the_first_start_is_passed_on(self, best):
        with pytest.raises(KeyboardInterrupt):
            best(None, candidate(1.0))

    def test_every_start_has_all_features(self, case, monkeypatch):
        engine = case().engine
        seen = []

        def restricting(setup, first, start):
            seen.append([scaling.active for scaling in setup.engine.scalings])
            setup.engine.restrict(0, [0, 1])
            return candidate(1.0)

        monkeypatch.setattr(module, "carried_through", restricting)
        best_of(shared(engine), lambda start: None, 2, by=0.0)
        assert seen == [[None, None]] * 2


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**4),
    cg_steps=st.integers(1, 6),
    sparse=st.booleans(),
    gamma=st.sampled_from([0.0, 1e-3, 0.01, 0.1, 1.0]),
    views=st.integers(1, 4),
)
@example(seed=1097, cg_steps=1, sparse=False, gamma=0.0, views=1)  # factors of 163, far from equal
@pytest.mark.parametrize("indicator", INDICATORS)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_objective_never_rises(case, penalty, indicator, seed, cg_steps, sparse, gamma, views):
    c = case(seed, n=21, widths=(4, 3, 2, 3)[:views], sparse=sparse)
    with each_step(c, PENALTIES[penalty](), gamma) as steps:
        problem, fitted = run(
            c, gamma=gamma, penalty=penalty, indicator=indicator, cg_steps=cg_steps
        )
    _check_consistent(c, problem, fitted, gamma)
    assert (np.diff(fitted.objective) <= 0).all()
    # what rises is taken back, so that the recorded objective falls whatever the steps do
    before, after = np.transpose(steps)
    assert gamma == 0.0 or (after <= before + 1e-9 * (1 + before)).all()


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
    value = explicit_objective(c, fitted.factors, problem.penalty, gamma)
    # the misfit is a difference of numbers as large as K, made of larger ones where gamma is zero
    clusters, gram = fitted.factors.clusters, fitted.moments.gram
    rounding = np.finfo(float).eps * np.linalg.norm(clusters) ** 2 * np.linalg.norm(gram)
    assert fitted.objective[-1] == pytest.approx(value, rel=1e-8, abs=1e-10 + rounding)


@pytest.mark.parametrize(("changes", "sweeps"), [([0.02], 3), ([0.05], 8), ([0.02, 0.02, 0.05], 8)])
def test_stops_when_97_percent_stayed_for_sweeps_in_a_row(case, monkeypatch, changes, sweeps):
    real, moved = module.sweep, cycle(changes)
    monkeypatch.setattr(module, "sweep", lambda *args, **kw: (*real(*args, **kw)[:2], next(moved)))
    _, fitted = run(case(1, n=60), patience=3)
    assert len(fitted.objective) == sweeps
    assert fitted.converged == (sweeps == 3)


def test_labels_are_held_as_far_as_the_fit_says(case, monkeypatch):
    asked, real = [], DiscreteIndicator.update

    def noted(self, *args, trust):
        asked.append(trust)
        return real(self, *args, trust=trust)

    monkeypatch.setattr(DiscreteIndicator, "update", noted)
    run(case(1), sweeps=3, trust=0.4)
    assert asked == [0.4] * 3


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
        (sweep_module, "updated_view_factor", 6),
        (sweep_module, "updated_cluster_factor", 3),
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
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sweep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(case(1))


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


@pytest.mark.parametrize("widths", [(4,), (4, 3), (4, 3, 2)])
def test_refit_shares_its_penalty_among_the_factors(case, monkeypatch, widths):
    c = case(0, widths=widths)
    problem, fitted = run(c)
    gammas = []
    real = module.factor_steps
    monkeypatch.setattr(
        module, "factor_steps", lambda e, p, *rest: gammas.append(p.gamma) or real(e, p, *rest)
    )
    module.refit(c.engine, problem, fitted)
    usual = default_gamma(c.engine, Frobenius(), 3)
    assert gammas == [pytest.approx(module._PENALTY_STRENGTH * usual / (len(widths) + 1))]


@pytest.mark.parametrize(
    ("few", "widths", "part"), [(0, (4, 3), 7 / 24), (12, (4, 3), 12 / 24), (0, (20, 20), 1.0)]
)
def test_the_more_samples_than_features_the_weaker_it_is(case, monkeypatch, few, widths, part):
    c = case(0, widths=widths)
    problem, fitted = run(c, gamma=1e-6)
    assert all(np.any(W[:-1], axis=1).all() for W in fitted.factors.views)
    monkeypatch.setattr(module, "_FEW_SAMPLES", few)
    gammas = []
    monkeypatch.setattr(
        module,
        "_fitted_anew",
        lambda e, p, *rest: gammas.append(p.gamma) or (fitted.factors, fitted.moments),
    )
    module.refit(c.engine, problem, fitted)
    usual = default_gamma(c.engine, Frobenius(), 3) / 3
    assert gammas == [pytest.approx(module._PENALTY_STRENGTH * usual * part)]


def test_refit_begins_with_the_cluster_factor(case, monkeypatch):
    """The view factors are fitted to one that is the best for the new penalty."""
    c = case(0)
    problem, fitted = run(c)
    order = []

    def watched(name):
        real = getattr(sweep, name)

        def noted(*args, **options):
            order.append(name)
            return real(*args, **options)

        monkeypatch.setattr(sweep, name, noted)

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
    real = module.factor_steps
    monkeypatch.setattr(
        module, "factor_steps", lambda e, p, *rest: gammas.append(p.gamma) or real(e, p, *rest)
    )
    monkeypatch.setattr(module, "_PENALTY_STRENGTH", 1e5)
    factors, moments = module.refit(c.engine, problem, fitted)
    np.testing.assert_allclose(np.array(gammas[:-1]) / gammas[1:], 10.0)
    assert 1 < len(gammas) < module._MOST_REFITS
    assert moments.explained(factors.clusters) >= 0.5 * fitted.explained


def test_refit_leaves_what_no_weaker_penalty_serves(case, monkeypatch):
    c = case(0)
    problem, fitted = run(c)
    monkeypatch.setattr(module, "_PENALTY_STRENGTH", 1e30)
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
