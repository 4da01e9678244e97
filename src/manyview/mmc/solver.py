"""The MMC solver: iterations until convergence, restarts, and final factors for prediction.

One iteration updates the view factors W_v one after the other, then the cluster factor A, balances
them, and updates the indicator F. No step raises the objective J.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, as_dtype, namespace, to_numpy
from manyview.graph.kmeans import cluster_sizes
from manyview.iterate import ProgressBar
from manyview.linalg.partition import has_collapsed
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
    "Candidate",
    "Fitted",
    "Initialisation",
    "Problem",
    "balanced",
    "begin",
    "best_of",
    "carry_on",
    "factor_steps",
    "one_iteration",
    "refit",
]


@dataclass(frozen=True)
class Problem:
    """What is minimised, and the settings of the solver.

    The first six are parameters of the estimator, gamma with its default filled in.
    """

    penalty: Penalty
    gamma: float
    indicator: Indicator
    max_iter: int
    tol: float
    patience: int | None = None
    cg_steps: int = 30  # conjugate gradient steps per view factor and iteration, at most
    cg_tol: float = 5.0  # gain, in units of tol, below which conjugate gradients end
    settled_change: float = 3e-2  # part of F; less counts as no change for early stopping
    refit_strength: float = 30.0  # sum of the penalties of a refit, in units of the default gamma
    refit_samples: int = 500  # up to this number of samples a refit has its full penalty
    refits: int = 8  # attempts at a refit, each with a tenth of the penalty before

    def value(self, factors: Factors, moments: Moments) -> float:
        """Return the objective J."""
        return objective(factors, moments, self.penalty, self.gamma)


@dataclass
class Fitted:
    """A fit and its progress. The blocks of the engine hold its projections and indicator."""

    factors: Factors
    moments: Moments
    objective: list[float] = field(default_factory=list)  # J after every iteration
    settled: int = 0  # number of the last iterations that left the indicator unchanged
    converged: bool = False
    interrupted: bool = False

    @property
    def explained(self) -> float:
        """Part of ``|F|^2`` that the model explains."""
        return self.moments.explained(self.factors.clusters)

    @property
    def is_zero(self) -> bool:
        """True if the model explains practically nothing."""
        return self.explained < LEAST_EXPLAINED

    @property
    def is_constant(self) -> bool:
        """True if the model explains little beyond the cluster sizes, one of K dimensions of F."""
        n_clusters = len(self.factors.clusters)
        beyond_sizes = n_clusters * self.explained - 1.0
        return n_clusters > 1 and beyond_sizes < 0.05 * (n_clusters - 1)


# The iterations

_STATE = (
    State.INDICATOR,
    State.LABELS,
)  # what an iteration changes; projections follow from the factors


def begin(engine: Engine, problem: Problem, factors: Factors, moments: Moments) -> Fitted:
    """Return a fit before its first iteration, with balanced factors."""
    return Fitted(*balanced(engine, problem, factors, moments))


def carry_on(
    engine: Engine,
    problem: Problem,
    fitted: Fitted,
    on_iteration: Callable[[int, float], None] = lambda done, value: None,
    keep: Callable[[Fitted], bool] = lambda fitted: False,
) -> Fitted:
    """Iterate until convergence, early stopping, `max_iter` or an interrupt.

    The iterations converge when one lowers J by no more than the part `tol`. They stop early when
    `patience` iterations in a row have left the indicator practically unchanged. An interrupt
    returns the result of the last complete iteration, and is raised if there is none.

    `fitted` is updated in place and returned. `on_iteration` is called with the number of
    iterations and J. `keep` is called after every iteration, and returns whether a checkpoint was
    due.
    """
    previous = problem.value(fitted.factors, fitted.moments)
    if fitted.objective:
        previous = fitted.objective[-1]
    complete = engine.snapshot(*_STATE)
    try:
        while len(fitted.objective) < problem.max_iter and not fitted.converged:
            factors, moments, change = one_iteration(
                engine, problem, fitted.factors, fitted.moments
            )
            value = problem.value(factors, moments)
            if value <= previous:
                # taken first: an interrupt in between would separate factors from labels
                reached = engine.snapshot(*_STATE)
                fitted.factors, fitted.moments, complete = factors, moments, reached
            else:  # by rounding; nothing is left to gain
                _go_back(engine, fitted.factors, complete)
                value = previous
            fitted.objective.append(value)
            on_iteration(len(fitted.objective), value)
            fitted.settled = fitted.settled + 1 if change < problem.settled_change else 0
            fitted.converged = (
                previous - value <= problem.tol * abs(previous)
                or fitted.settled == problem.patience
            )
            if keep(fitted):
                # A fit that resumes from the checkpoint projects again, which rounds differently.
                # Both must take the same path.
                fitted.moments = project_all(engine, fitted.factors.views)
            previous = value
    except KeyboardInterrupt:
        if not fitted.objective:
            raise
        fitted.interrupted = True
        _go_back(engine, fitted.factors, complete)
    return fitted


def one_iteration(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments, float]:
    """Run one iteration: factors, then indicator.

    Returns factors and moments, and the part of the indicator that changed.
    """
    factors, moments = factor_steps(engine, problem, factors, moments)
    engine.update(_remember_kernel)
    renewed = problem.indicator.update(engine, factors, moments)
    if renewed is moments:
        engine.forget(State.PREVIOUS_INDICATOR)
        return factors, moments, 0.0
    (overlap,) = engine.update(_overlap_kernel)
    return factors, renewed, 1.0 - float(overlap) / factors.clusters.shape[0]


def factor_steps(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Update the view factors one after the other, then the cluster factor, and balance them."""
    for v in range(len(factors.views)):
        factors, moments = _view_step(engine, problem, factors, moments, v)
        _drop_features(engine, v, factors)
    return balanced(engine, problem, _cluster_step(problem, factors, moments), moments)


def _view_step(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments, v: int
) -> tuple[Factors, Moments]:
    """Update W_v, with negligible rows set to zero if J allows it.

    If rounding would raise J, W_v stays as it is.
    """
    current = factors.views[v]
    before = problem.value(factors, moments)
    improved = updated_view_factor(
        engine,
        factors,
        v,
        penalty=problem.penalty,
        gamma=problem.gamma,
        value=before,
        steps=problem.cg_steps,
        negligible=problem.cg_tol * problem.tol,
    )
    xp = namespace(improved)
    vanished = problem.penalty.vanished(improved, current) & xp.any(improved != 0, axis=1)
    candidates = [improved]
    if xp.any(vanished):
        candidates.insert(0, xp.where(vanished[:, None], xp.zeros_like(improved), improved))
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
    """Continue with a copy of the features whose rows are not zero, if that copy is small."""
    features = np.any(to_numpy(factors.views[v])[:-1], axis=1)
    active = engine.scalings[v].active
    count = int(features.sum())
    width = features.size if active is None else active.size
    if 2 * count > width or count == width:
        return
    n_views, rank, n_clusters = len(factors.views), *factors.clusters.shape[::-1]
    # all copies together stay within twice the size of the projections and the indicator
    spare = 2 * engine.n_samples * (rank + n_clusters / n_views)
    if engine.restricted_size(v, features) <= spare:
        engine.restrict(v, np.flatnonzero(features))


def _cluster_step(problem: Problem, factors: Factors, moments: Moments) -> Factors:
    """Update A, which needs no pass over the samples."""
    improved = factors.with_clusters(
        updated_cluster_factor(factors, moments, penalty=problem.penalty, gamma=problem.gamma)
    )
    # with a tiny gamma the solution may be dominated by rounding
    better = problem.value(improved, moments) <= problem.value(factors, moments)
    return improved if better else factors


def balanced(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Make the penalties of the factors equal: the same predictions at a lower objective.

    The alternating updates would do so too, but slowly, as each shrinks one factor at a time.
    """
    scales = balancing_scales(factors, problem.penalty)
    engine.rescale(State.PROJECTIONS, scales[:-1])
    return factors.scaled(scales), moments.scaled(float(np.prod(scales[:-1])))


def _go_back(engine: Engine, factors: Factors, complete: list[dict[str, Any]]) -> None:
    """Restore the blocks to the end of the last complete iteration."""
    engine.restore(complete)
    engine.unrestrict()
    project_all(engine, factors.views)


def _remember_kernel(block: Block) -> Update:
    return {State.PREVIOUS_INDICATOR: block.state[State.INDICATOR]}, ()


def _overlap_kernel(block: Block) -> Update:
    products = as_dtype(
        block.state[State.PREVIOUS_INDICATOR] * block.state[State.INDICATOR], np.float64
    )
    return {State.PREVIOUS_INDICATOR: None}, (namespace(products).sum(products),)


# Restarts


class Initialisation(Protocol):
    """Where fits begin: an initialisation method, or a checkpoint."""

    @property
    def lower_by(self) -> float:
        """Part by which the objective of a later restart must be lower than the best so far."""

    def begin(
        self, engine: Engine, problem: Problem, rng: np.random.Generator, number: int
    ) -> Fitted:
        """Return the fit of restart `number` before its iterations; the blocks hold its state."""


@dataclass(frozen=True)
class Candidate:
    """The result of one restart."""

    fitted: Fitted
    labels: Array  # of all samples, on the device of the views
    indicator: Array
    refitted: Factors  # for out-of-sample prediction; NumPy arrays
    readout: Readout  # from predictions to labels
    collapsed: bool  # clusters vanished during the iterations, or the model is zero

    def beats(self, other: Candidate, by: float) -> bool:
        """Return True if only `other` collapsed, or if J is lower by the part `by`."""
        if self.collapsed != other.collapsed:
            return other.collapsed
        return self.fitted.objective[-1] < (1.0 - by) * other.fitted.objective[-1]


def best_of(
    n_init: int,
    engine: Engine,
    problem: Problem,
    initialisation: Initialisation,
    rng: np.random.Generator,
    bar: ProgressBar,
    keep: Callable[[Fitted], bool] = lambda fitted: False,
) -> tuple[Candidate, bool]:
    """Return the best of `n_init` restarts, and whether the user interrupted them.

    An interrupt skips the remaining restarts. It is raised if it comes before the first iteration
    of the first restart is complete.
    """
    shared = (engine, problem, initialisation, rng, bar, keep)
    best = latest = _fit_once(0, *shared)
    try:
        for number in range(1, n_init):
            if latest.fitted.interrupted:
                break
            latest = _fit_once(number, *shared)
            if latest.beats(best, initialisation.lower_by):
                best = latest
    except KeyboardInterrupt:
        return best, True
    return best, latest.fitted.interrupted


def _fit_once(
    number: int,
    engine: Engine,
    problem: Problem,
    initialisation: Initialisation,
    rng: np.random.Generator,
    bar: ProgressBar,
    keep: Callable[[Fitted], bool],
) -> Candidate:
    """Initialise, iterate, refit for prediction, and read the labels."""

    def show(done: int, value: float) -> None:
        bar.step(number * problem.max_iter + done, f"objective {value:.6g}")

    engine.unrestrict()
    first = initialisation.begin(engine, problem, rng, number)
    n_clusters = len(first.factors.clusters)
    initial_sizes = cluster_sizes(engine, n_clusters)
    fitted = carry_on(engine, problem, first, show, keep)
    refitted, moments = refit(engine, problem, fitted)
    readout = problem.indicator.read(engine, refitted, moments, rng)
    collapsed = has_collapsed(cluster_sizes(engine, n_clusters), initial_sizes) or fitted.is_zero
    labels, indicator = engine.gather(State.LABELS), engine.gather(State.INDICATOR)
    return Candidate(fitted, labels, indicator, refitted.on_host(), readout, collapsed)


# Final factors for out-of-sample prediction


def refit(engine: Engine, problem: Problem, fitted: Fitted) -> tuple[Factors, Moments]:
    """Return factors for out-of-sample prediction: the same features, with new weights.

    The l2,1 penalty selects features. Of several with the same information it keeps few, and fits
    the training samples more closely than others. So the selected features are fitted to the final
    indicator once more, with the squared norm as penalty: the cluster factor first, then all
    factors. With more samples than features (and than `refit_samples`) the penalty is weaker, as
    there is less overfitting to prevent.

    A refit must explain half of what the model explains, or three quarters of the indicator if the
    model is constant. Otherwise the penalty is too strong for these features, and a tenth of it is
    tried. After `refits` attempts, or an interrupt, the factors stay as they are.
    """
    if not problem.penalty.drops_features:
        return fitted.factors, fitted.moments
    complete = engine.snapshot(*_STATE)
    views, clusters = fitted.factors.views, fitted.factors.clusters
    n_features = sum(int(np.any(to_numpy(factor)[:-1], axis=1).sum()) for factor in views)
    ridge = Frobenius()
    gamma = default_gamma(engine, ridge, len(clusters))
    gamma *= problem.refit_strength / (len(views) + 1)
    gamma *= min(1.0, max(n_features, problem.refit_samples) / engine.n_samples)
    required = 0.75 if fitted.is_constant else 0.5 * fitted.explained
    try:
        for attempt in range(problem.refits):
            weaker = replace(problem, penalty=ridge, gamma=gamma / 10.0**attempt)
            factors, moments = balanced(engine, weaker, fitted.factors, fitted.moments)
            factors = _cluster_step(weaker, factors, moments)
            factors, moments = balanced(engine, weaker, factors, moments)
            factors, moments = factor_steps(engine, weaker, factors, moments)
            if moments.explained(factors.clusters) >= required:
                return factors, moments
            _go_back(engine, fitted.factors, complete)
    except KeyboardInterrupt:
        fitted.interrupted = True
        _go_back(engine, fitted.factors, complete)
    return fitted.factors, fitted.moments
