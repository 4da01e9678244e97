"""Sweeps: view factors, cluster factor, indicator, and the objective after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.engine import Block, Engine, Update
from manyview.engine.arrays import as_dtype, namespace, to_numpy
from manyview.mmc.defaults import default_gamma
from manyview.mmc.indicator import Indicator
from manyview.mmc.model import (
    NEXT_TO_NOTHING,
    Factors,
    Moments,
    balancing_scales,
    objective,
    project_all,
    project_kernel,
)
from manyview.mmc.penalty import Frobenius, Penalty
from manyview.mmc.updates import updated_cluster_factor, updated_view_factor

__all__ = ["Fitted", "Problem", "begin", "carry_on", "fit", "refit"]

Matrix = npt.NDArray[np.floating[Any]]

CG_STEPS = 30
NEGLIGIBLE = 5.0  # times `tol`: gains of a step of conjugate gradients that are not followed up
SETTLED = 3e-2  # part of the indicator whose change in a sweep counts as none
REFIT_STRENGTH = 30.0  # of all penalties together, beside one that leaves room for labels to move
CONSTANT = 0.05  # part of the other dimensions explained, below which a model says nothing
REFITS = 8  # with ever weaker penalties, at most
_KEPT = ("indicator", "labels")


@dataclass(frozen=True)
class Problem:
    """What is minimised, and how far.

    Attributes
    ----------
    penalty : Penalty
    gamma : float
        Weight of the penalty.
    indicator : Indicator
    max_iter : int
        Most sweeps.
    tol : float
        Stop when a sweep lowers the objective by less than this part of it. Conjugate gradients
        end with a step that lowers it by less than five times as much.
    patience : int or None
        Stop when the indicator has settled in this number of sweeps, one after another.
    cg_steps : int
        Most steps of conjugate gradients for each view factor in each sweep.
    """

    penalty: Penalty
    gamma: float
    indicator: Indicator
    max_iter: int
    tol: float
    patience: int | None = None
    cg_steps: int = CG_STEPS


@dataclass
class Fitted:
    """Where the sweeps have come to.

    Attributes
    ----------
    factors : Factors
    moments : Moments
    objective : list of float
        After every sweep.
    settled : int
        Sweeps in a row that left the indicator as it was.
    converged, interrupted : bool
        Why the sweeps ended, if not by their number.
    """

    factors: Factors
    moments: Moments
    objective: list[float] = field(default_factory=list)
    settled: int = 0
    converged: bool = False
    interrupted: bool = False

    @property
    def explained(self) -> float:
        """Part of the indicator's squared norm that the model explains; 0 for the zero model."""
        return self.moments.explained(self.factors.clusters)

    @property
    def is_zero(self) -> bool:
        """Whether the model explains next to nothing."""
        return self.explained < NEXT_TO_NOTHING

    @property
    def is_constant(self) -> bool:
        """Whether the model says next to nothing beside how large clusters are.

        That is one of the K dimensions of the indicator, and the same for all samples.
        """
        n_clusters = len(self.factors.clusters)
        return n_clusters > 1 and n_clusters * self.explained - 1.0 < CONSTANT * (n_clusters - 1)


def fit(
    engine: Engine,
    problem: Problem,
    factors: Factors,
    moments: Moments,
    on_sweep: Callable[[int, float], None] = lambda sweep, value: None,
) -> Fitted:
    """Sweep from the first factors on; see :func:`carry_on`."""
    return carry_on(engine, problem, begin(engine, problem, factors, moments), on_sweep)


def begin(engine: Engine, problem: Problem, factors: Factors, moments: Moments) -> Fitted:
    """Return a fit before its first sweep.

    The blocks of the engine hold projections and indicator that belong to `factors`.
    """
    return Fitted(*_balanced(engine, problem, factors, moments))


def carry_on(
    engine: Engine,
    problem: Problem,
    fitted: Fitted,
    on_sweep: Callable[[int, float], None] = lambda sweep, value: None,
    keep: Callable[[Fitted], bool] = lambda fitted: False,
) -> Fitted:
    """Sweep until the objective settles, the sweeps are used up, or the user interrupts.

    The blocks of the engine hold projections and indicator that belong to the factors of
    `fitted`, and hold those of the result afterwards. An interrupt ends with the last whole sweep.

    Parameters
    ----------
    engine : Engine
        The samples.
    problem : Problem
        What is minimised.
    fitted : Fitted
        Where to go on from; it is renewed.
    on_sweep : callable
        Called with the number of sweeps done and the objective.
    keep : callable
        Called after every whole sweep; returns whether it has written down where the fit stands.

    Returns
    -------
    Fitted
        Where the sweeps have come to.
    """
    previous = _value(problem, fitted.factors, fitted.moments)
    if fitted.objective:
        previous = fitted.objective[-1]
    whole = engine.snapshot(*_KEPT)
    try:
        while len(fitted.objective) < problem.max_iter and not fitted.converged:
            factors, moments, moved = _sweep(engine, problem, fitted.factors, fitted.moments)
            value = _value(problem, factors, moments)
            if not value <= previous:  # all that is left is rounding
                _go_back(engine, fitted.factors, whole)
                value = previous
            else:
                # at once, as an interrupt in the snapshot would part factors from labels
                reached = engine.snapshot(*_KEPT)
                fitted.factors, fitted.moments, whole = factors, moments, reached
            fitted.objective.append(value)
            on_sweep(len(fitted.objective), value)
            fitted.settled = fitted.settled + 1 if moved < SETTLED else 0
            fitted.converged = (
                previous - value <= problem.tol * abs(previous)
                or fitted.settled == problem.patience
            )
            if keep(fitted):
                # a fit that goes on from here projects anew, which rounds another way: so that
                # it takes the same path, this one does too
                fitted.moments = project_all(engine, fitted.factors.views)
            previous = value
    except KeyboardInterrupt:
        if not fitted.objective:
            raise
        fitted.interrupted = True
        _go_back(engine, fitted.factors, whole)
    return fitted


def refit(engine: Engine, problem: Problem, fitted: Fitted) -> tuple[Factors, Moments]:
    """Return factors for samples that were not there: the same features, weighted anew.

    A row-sparse penalty finds the features; of those that say the same it keeps few, and fits
    the samples at hand with them closer than others. So the features that are left are fitted
    to the indicator once more, in one sweep with the squared norm as the penalty. The cluster
    factor is fitted first, as it costs nothing. Where that leaves less than half of what the
    model explains, or explains less than three quarters of the indicator where the model is
    constant, the penalty is too strong for these features, and a tenth of it is tried. After some
    of these, and by an interrupt, the factors are left as they are.
    """
    if problem.penalty.degree == Frobenius.degree:
        return fitted.factors, fitted.moments
    whole = engine.snapshot(*_KEPT)
    ridge = Frobenius()
    gamma = default_gamma(engine, ridge, fitted.factors.clusters.shape[0])
    gamma *= REFIT_STRENGTH / (len(fitted.factors.views) + 1)
    asked = 0.75 if fitted.is_constant else 0.5 * fitted.explained
    try:
        for weakened in range(REFITS):
            weaker = replace(problem, penalty=ridge, gamma=gamma / 10.0**weakened)
            factors, moments = _fitted_anew(engine, weaker, fitted.factors, fitted.moments)
            if moments.explained(factors.clusters) >= asked:
                return factors, moments
            _go_back(engine, fitted.factors, whole)
    except KeyboardInterrupt:
        fitted.interrupted = True
        _go_back(engine, fitted.factors, whole)
    return fitted.factors, fitted.moments


def _fitted_anew(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Return factors after one sweep without the indicator, the cluster factor first."""
    factors, moments = _balanced(engine, problem, factors, moments)
    factors = _cluster_step(problem, factors, moments)
    factors, moments = _balanced(engine, problem, factors, moments)
    return _factor_steps(engine, problem, factors, moments)


def _go_back(engine: Engine, factors: Factors, whole: list[dict[str, Any]]) -> None:
    """Bring the blocks back to where the last whole sweep left them."""
    engine.restore(whole)
    for v in range(len(factors.views)):
        engine.restrict(v, None)
    project_all(engine, factors.views)


def _sweep(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments, float]:
    """Return factors and moments after a sweep, and the part of the indicator that changed."""
    factors, moments = _factor_steps(engine, problem, factors, moments)
    engine.update(_remember_kernel)
    renewed = problem.indicator.update(engine, factors, moments)
    if renewed is moments:
        engine.forget("previous")
        return factors, moments, 0.0
    (overlap,) = engine.update(_overlap_kernel)
    return factors, renewed, 1.0 - float(overlap) / factors.clusters.shape[0]


def _remember_kernel(block: Block) -> Update:
    return {"previous": block.state["indicator"]}, ()


def _overlap_kernel(block: Block) -> Update:
    products = as_dtype(block.state["previous"] * block.state["indicator"], np.float64)
    return {"previous": None}, (namespace(products).sum(products),)


def _factor_steps(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    for v in range(len(factors.views)):
        factors, moments = _view_step(engine, problem, factors, moments, v)
        _drop_features(engine, v, factors)
    return _balanced(engine, problem, _cluster_step(problem, factors, moments), moments)


def _cluster_step(problem: Problem, factors: Factors, moments: Moments) -> Factors:
    improved = factors.with_clusters(
        updated_cluster_factor(factors, moments, penalty=problem.penalty, gamma=problem.gamma)
    )
    # where gamma is next to nothing, the solution may be but rounding
    better = _value(problem, improved, moments) <= _value(problem, factors, moments)
    return improved if better else factors


def _balanced(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Make the penalties of the factors equal: the same model at a lower objective.

    Alternating updates bring this about too, but slowly: they shrink one factor at a time while
    the others hold it in place.
    """
    scales = balancing_scales(factors, problem.penalty)
    engine.rescale("projections", scales[:-1])
    return factors.scaled(scales), moments.scaled(float(np.prod(scales[:-1])))


def _value(problem: Problem, factors: Factors, moments: Moments) -> float:
    return objective(factors, moments, problem.penalty, problem.gamma)


def _view_step(
    engine: Engine,
    problem: Problem,
    factors: Factors,
    moments: Moments,
    v: int,
) -> tuple[Factors, Moments]:
    """Update one view factor; set rows to zero, or take the step back, if that is lower."""
    current = factors.views[v]
    before = _value(problem, factors, moments)
    improved = updated_view_factor(
        engine,
        factors,
        v,
        penalty=problem.penalty,
        gamma=problem.gamma,
        columns=engine.moments[v],
        value=before,
        steps=problem.cg_steps,
        negligible=NEGLIGIBLE * problem.tol,
    )
    xp = namespace(improved)
    gone = problem.penalty.vanished(improved, current) & xp.any(improved != 0, axis=1)
    candidates = [improved]
    if xp.any(gone):
        candidates.insert(0, xp.where(gone[:, None], xp.zeros_like(improved), improved))
    slack = 16.0 * float(np.finfo(engine.dtype).eps) * factors.clusters.shape[0]
    for candidate in (*candidates, current):
        folded = engine.scalings[v].fold(candidate)
        trial = factors.with_view(v, candidate)
        trial_moments = Moments.of(engine.update(project_kernel, v, folded))
        after = _value(problem, trial, trial_moments)
        if after <= before + slack or candidate is current:
            break
    return trial, trial_moments


def _drop_features(engine: Engine, v: int, factors: Factors) -> None:
    """Let features whose rows are zero leave the work, where a copy of the rest is small."""
    features = np.any(to_numpy(factors.views[v])[:-1], axis=1)
    held = engine.scalings[v].active
    count = int(features.sum())
    if 2 * count > (features.size if held is None else held.size):
        return
    n_views, rank, n_clusters = len(factors.views), *factors.clusters.shape[::-1]
    # all copies together stay within twice what the projections and the indicator take
    spare = 2 * engine.n_samples * (rank + n_clusters / n_views)
    if engine.restricted_size(v, features) <= spare:
        engine.restrict(v, np.flatnonzero(features))
