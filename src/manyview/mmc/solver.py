"""The MMC solver: iterations until convergence, restarts, final factors for prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manyview.engine import Block, Engine, Update
from manyview.engine.arrays import Array, as_dtype, namespace, to_numpy
from manyview.graph.kmeans import cluster_sizes
from manyview.iterate import ProgressBar
from manyview.linalg.partition import has_collapsed

if TYPE_CHECKING:
    from manyview.mmc.checkpoint import CheckpointFile
from manyview.mmc.indicator import Indicator
from manyview.mmc.objective import (
    LEAST_EXPLAINED,
    Factors,
    Frobenius,
    Moments,
    Penalty,
    balancing_scales,
    default_gamma,
    objective,
    project_all,
    project_kernel,
)
from manyview.mmc.prediction import Readout
from manyview.mmc.updates import updated_cluster_factor, updated_view_factor

__all__ = [
    "STATE",
    "Candidate",
    "Fitted",
    "Problem",
    "Setup",
    "balanced",
    "begin",
    "best_of",
    "carried_through",
    "carry_on",
    "cluster_step",
    "factor_steps",
    "go_back",
    "refit",
    "sweep",
]


_CG_STEPS = 30


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
    cg_steps: int = _CG_STEPS

    def value(self, factors: Factors, moments: Moments) -> float:
        """Return the objective."""
        return objective(factors, moments, self.penalty, self.gamma)


_NEGLIGIBLE_GAIN = 5.0  # of a step of conjugate gradients, in units of `tol`
STATE = ("indicator", "labels")
"""What a sweep changes in the blocks beside projections, which follow from the factors."""


def sweep(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments, *, trust: float
) -> tuple[Factors, Moments, float]:
    """Return factors and moments after a sweep, and the part of the indicator that changed."""
    factors, moments = factor_steps(engine, problem, factors, moments)
    engine.update(_remember_kernel)
    renewed = problem.indicator.update(engine, factors, moments, trust=trust)
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


def factor_steps(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Update the view factors one after the other, then the cluster factor, and balance them."""
    for v in range(len(factors.views)):
        factors, moments = _view_step(engine, problem, factors, moments, v)
        _drop_features(engine, v, factors)
    return balanced(engine, problem, cluster_step(problem, factors, moments), moments)


def cluster_step(problem: Problem, factors: Factors, moments: Moments) -> Factors:
    """Update the cluster factor, which takes no pass over the samples."""
    improved = factors.with_clusters(
        updated_cluster_factor(factors, moments, penalty=problem.penalty, gamma=problem.gamma)
    )
    # where gamma is next to nothing, the solution may be but rounding
    better = problem.value(improved, moments) <= problem.value(factors, moments)
    return improved if better else factors


def balanced(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Make the penalties of the factors equal: the same model at a lower objective.

    Alternating updates bring this about too, but slowly: they shrink one factor at a time while
    the others hold it in place.
    """
    scales = balancing_scales(factors, problem.penalty)
    engine.rescale("projections", scales[:-1])
    return factors.scaled(scales), moments.scaled(float(np.prod(scales[:-1])))


def _view_step(
    engine: Engine,
    problem: Problem,
    factors: Factors,
    moments: Moments,
    v: int,
) -> tuple[Factors, Moments]:
    """Update one view factor; set rows to zero, or take the step back, if that is lower."""
    current = factors.views[v]
    before = problem.value(factors, moments)
    improved = updated_view_factor(
        engine,
        factors,
        v,
        penalty=problem.penalty,
        gamma=problem.gamma,
        columns=engine.moments[v],
        value=before,
        steps=problem.cg_steps,
        negligible=_NEGLIGIBLE_GAIN * problem.tol,
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
        after = problem.value(trial, trial_moments)
        if after <= before + slack or candidate is current:
            break
    return trial, trial_moments


def _drop_features(engine: Engine, v: int, factors: Factors) -> None:
    """Let features whose rows are zero leave the work, where a copy of the rest is small."""
    features = np.any(to_numpy(factors.views[v])[:-1], axis=1)
    held = engine.scalings[v].active
    count = int(features.sum())
    width = features.size if held is None else held.size
    if 2 * count > width or count == width:
        return
    n_views, rank, n_clusters = len(factors.views), *factors.clusters.shape[::-1]
    # all copies together stay within twice what the projections and the indicator take
    spare = 2 * engine.n_samples * (rank + n_clusters / n_views)
    if engine.restricted_size(v, features) <= spare:
        engine.restrict(v, np.flatnonzero(features))


def go_back(engine: Engine, factors: Factors, whole: list[dict[str, Any]]) -> None:
    """Bring the blocks back to where the last whole sweep left them."""
    engine.restore(whole)
    engine.unrestrict()
    project_all(engine, factors.views)


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


_PENALTY_STRENGTH = 30.0  # of all penalties together, in units of the default gamma
_FEW_SAMPLES = 500  # up to which the penalty is whole, however few the features
_MOST_REFITS = 8  # each with a tenth of the penalty before


def refit(engine: Engine, problem: Problem, fitted: Fitted) -> tuple[Factors, Moments]:
    """Return factors for samples that were not there: the same features, weighted anew.

    A row-sparse penalty finds the features; of those that say the same it keeps few, and with them
    fits the samples at hand closer than others. So the features that are left are fitted to the
    indicator once more, in one sweep with the squared norm as the penalty. The cluster factor is
    fitted first, as it costs nothing. With more samples than features, and than ``_FEW_SAMPLES``,
    the penalty is weaker: there is the less to guard against.

    The result has to explain half of what the model explains; where the model is constant, three
    quarters of the indicator. If it does not, the penalty is too strong for these features, and a
    tenth of it is tried, up to ``_MOST_REFITS`` times in all. After these, or by an interrupt, the
    factors stay as they are.
    """
    if not problem.penalty.drops_features:
        return fitted.factors, fitted.moments
    whole = engine.snapshot(*STATE)
    ridge = Frobenius()
    gamma = default_gamma(engine, ridge, fitted.factors.clusters.shape[0])
    gamma *= _PENALTY_STRENGTH / (len(fitted.factors.views) + 1)
    gamma *= min(1.0, max(_n_features(fitted.factors), _FEW_SAMPLES) / engine.n_samples)
    asked = 0.75 if fitted.is_constant else 0.5 * fitted.explained
    try:
        for weakened in range(_MOST_REFITS):
            weaker = replace(problem, penalty=ridge, gamma=gamma / 10.0**weakened)
            factors, moments = _fitted_anew(engine, weaker, fitted.factors, fitted.moments)
            if moments.explained(factors.clusters) >= asked:
                return factors, moments
            go_back(engine, fitted.factors, whole)
    except KeyboardInterrupt:
        fitted.interrupted = True
        go_back(engine, fitted.factors, whole)
    return fitted.factors, fitted.moments


def _n_features(factors: Factors) -> int:
    """Return how many features are left, in all views."""
    return sum(int(np.any(to_numpy(factor)[:-1], axis=1).sum()) for factor in factors.views)


def _fitted_anew(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Return factors after one sweep without the indicator, the cluster factor first."""
    factors, moments = balanced(engine, problem, factors, moments)
    factors = cluster_step(problem, factors, moments)
    factors, moments = balanced(engine, problem, factors, moments)
    return factor_steps(engine, problem, factors, moments)


@dataclass(frozen=True)
class Candidate:
    """A start carried through, and where it stands among others.

    Attributes
    ----------
    fitted : Fitted
    labels, indicator : array
        Of all samples, where these are.
    refitted : Factors
        The features that are left, fitted anew for other samples.
    readout : Readout
        How a prediction becomes a label.
    collapsed : bool
        Whether clusters or the model were lost on the way.
    """

    fitted: Fitted
    labels: Array
    indicator: Array
    refitted: Factors
    readout: Readout
    collapsed: bool

    def beats(self, other: Candidate, by: float) -> bool:
        """Whether it alone has not collapsed, or its objective is lower by the part `by`."""
        if self.collapsed != other.collapsed:
            return other.collapsed
        return self.fitted.objective[-1] < (1.0 - by) * other.fitted.objective[-1]


@dataclass(frozen=True)
class Setup:
    """What all starts of a fit share.

    Attributes
    ----------
    engine : Engine
        The samples, with the state of the start at hand.
    problem : Problem
        What is minimised.
    rng : numpy.random.Generator
        Source of all that is random.
    bar : ProgressBar
        Is told of every sweep.
    file : CheckpointFile or None
        Where the fit is written down.
    """

    engine: Engine
    problem: Problem
    rng: np.random.Generator
    bar: ProgressBar
    file: CheckpointFile | None

    def keep(self, fitted: Fitted) -> bool:
        """Write down where a fit stands, if a checkpoint is due, and return whether it was."""
        if self.file is None:
            return False
        return self.file.keep(self.engine, self.problem, fitted, self.rng)


def best_of(
    setup: Setup, first: Callable[[int], Fitted], starts: int, *, by: float
) -> tuple[Candidate, bool]:
    """Carry starts through, one after another, and return the best.

    An interrupt leaves out the starts that are to come. One before the first start has made a
    sweep, or while its result is read off, is passed on.

    Parameters
    ----------
    setup : Setup
        What the starts share.
    first : callable
        From the number of a start to the fit before its first sweep, with its state in the
        engine.
    starts : int
        How many, at least one.
    by : float
        Part of the objective by which a later start has to be lower.

    Returns
    -------
    tuple of Candidate and bool
        The best, and whether there was an interrupt.
    """

    def carried(start: int) -> Candidate:
        setup.engine.unrestrict()
        return carried_through(setup, first(start), start)

    best = latest = carried(0)
    try:
        for start in range(1, starts):
            if latest.fitted.interrupted:
                break
            latest = carried(start)
            if latest.beats(best, by):
                best = latest
    except KeyboardInterrupt:
        return best, True
    return best, latest.fitted.interrupted


def carried_through(setup: Setup, first: Fitted, start: int) -> Candidate:
    """Sweep from a start on, and read labels and a rule for other samples off the result.

    Parameters
    ----------
    setup : Setup
        What the starts share; its engine has the state of this one.
    first : Fitted
        The fit before its first sweep, or where it was written down.
    start : int
        The number of the start.

    Returns
    -------
    Candidate
    """
    engine, problem = setup.engine, setup.problem
    n_clusters = first.factors.clusters.shape[0]
    started_with = cluster_sizes(engine, n_clusters)
    before = start * problem.max_iter
    fitted = carry_on(
        engine,
        problem,
        first,
        on_sweep=lambda sweep, value: setup.bar.step(before + sweep, f"objective {value:.6g}"),
        keep=setup.keep,
    )
    refitted, moments = refit(engine, problem, fitted)
    on_host = Factors(tuple(map(to_numpy, refitted.views)), refitted.clusters)
    readout = problem.indicator.read(engine, refitted, moments, setup.rng)
    collapsed = has_collapsed(cluster_sizes(engine, n_clusters), started_with) or fitted.is_zero
    labels, indicator = engine.gather("labels"), engine.gather("indicator")
    return Candidate(fitted, labels, indicator, on_host, readout, collapsed)
