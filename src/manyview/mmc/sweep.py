"""One sweep: every view factor, the cluster factor, the indicator. None of them raises J."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyview.engine import Block, Engine, Update
from manyview.engine.arrays import as_dtype, namespace, to_numpy
from manyview.mmc.model import (
    Factors,
    Moments,
    balancing_scales,
    project_all,
    project_kernel,
)
from manyview.mmc.problem import Problem
from manyview.mmc.updates import updated_cluster_factor, updated_view_factor

__all__ = [
    "STATE",
    "balanced",
    "cluster_step",
    "factor_steps",
    "go_back",
    "sweep",
]

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
