"""Sweeps until the objective settles, the sweeps are used up, or the user interrupts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from manyview.engine import Engine
from manyview.mmc.model import LEAST_EXPLAINED, Factors, Moments, project_all
from manyview.mmc.problem import Problem
from manyview.mmc.sweep import STATE, balanced, go_back, sweep

__all__ = ["Fitted", "begin", "carry_on"]

_SETTLED_CHANGE = 3e-2  # part of the indicator; less counts as no change in a sweep
_CONSTANT_EXPLAINS = 0.05  # at most, of what the cluster sizes leave


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
    trust : float
        How far the labels of the start are held, 0 to 1.
    converged, interrupted : bool
        Why the sweeps ended, if not by their number.
    """

    factors: Factors
    moments: Moments
    objective: list[float] = field(default_factory=list)
    settled: int = 0
    trust: float = 0.0
    converged: bool = False
    interrupted: bool = False

    @property
    def explained(self) -> float:
        """Part of the indicator's squared norm that the model explains; 0 for the zero model."""
        return self.moments.explained(self.factors.clusters)

    @property
    def is_zero(self) -> bool:
        """Whether the model explains next to nothing."""
        return self.explained < LEAST_EXPLAINED

    @property
    def is_constant(self) -> bool:
        """Whether the model explains little beyond the cluster sizes.

        These are one of the K dimensions of the indicator, and the same for all samples.
        """
        n_clusters = len(self.factors.clusters)
        beyond_sizes = n_clusters * self.explained - 1.0
        return n_clusters > 1 and beyond_sizes < _CONSTANT_EXPLAINS * (n_clusters - 1)


def begin(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments, *, trust: float = 0.0
) -> Fitted:
    """Return a fit before its first sweep.

    The blocks of the engine hold projections and indicator that belong to `factors`.
    """
    return Fitted(*balanced(engine, problem, factors, moments), trust=trust)


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
        Called after every whole sweep; returns whether a checkpoint was due, at which a fit may be
        resumed.

    Returns
    -------
    Fitted
        Where the sweeps have come to.
    """
    previous = problem.value(fitted.factors, fitted.moments)
    if fitted.objective:
        previous = fitted.objective[-1]
    whole = engine.snapshot(*STATE)
    try:
        while len(fitted.objective) < problem.max_iter and not fitted.converged:
            factors, moments, moved = sweep(
                engine, problem, fitted.factors, fitted.moments, trust=fitted.trust
            )
            value = problem.value(factors, moments)
            if not value <= previous:  # all that is left is rounding
                go_back(engine, fitted.factors, whole)
                value = previous
            else:
                # at once, as an interrupt in the snapshot would part factors from labels
                reached = engine.snapshot(*STATE)
                fitted.factors, fitted.moments, whole = factors, moments, reached
            fitted.objective.append(value)
            on_sweep(len(fitted.objective), value)
            fitted.settled = fitted.settled + 1 if moved < _SETTLED_CHANGE else 0
            fitted.converged = (
                previous - value <= problem.tol * abs(previous)
                or fitted.settled == problem.patience
            )
            if keep(fitted):
                # a fit that is resumed here projects anew, which rounds another way: so that both
                # take the same path, this one does too
                fitted.moments = project_all(engine, fitted.factors.views)
            previous = value
    except KeyboardInterrupt:
        if not fitted.objective:
            raise
        fitted.interrupted = True
        go_back(engine, fitted.factors, whole)
    return fitted
