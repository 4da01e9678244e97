from itertools import cycle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyview.engine import LocalEngine
from manyview.mmc import fit as module
from manyview.mmc import sweep as sweep_module
from manyview.mmc.discrete import DiscreteIndicator
from manyview.mmc.model import Factors, project_all

from .fits import INDICATORS, PENALTIES, each_step, explicit_objective, run


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
