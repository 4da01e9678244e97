"""The updates of the factors: conjugate gradients for a view's, closed form for the clusters'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.engine import LocalEngine
from manyview.linalg.cg import conjugate_gradients
from manyview.linalg.sylvester import solve_diagonal_sylvester
from manyview.mmc.model import Factors, Moments, normal_kernel, residual_kernel
from manyview.mmc.penalty import Penalty

__all__ = ["updated_cluster_factor", "updated_view_factor"]

Matrix = npt.NDArray[np.floating[Any]]


def updated_view_factor(
    engine: LocalEngine,
    factors: Factors,
    v: int,
    *,
    penalty: Penalty,
    gamma: float,
    energy: npt.NDArray[np.float64],
    steps: int,
) -> Matrix:
    """Return a factor of view `v` that lowers the objective, all else held.

    The penalty is replaced by the quadratic that touches it at the current factor and lies
    above it elsewhere; conjugate gradients on that quadratic start from the current factor, so
    that each step lowers the objective. Rows at zero stay there.

    Parameters
    ----------
    engine : LocalEngine
        Holds the blocks, whose projections and indicator are up to date.
    factors : Factors
        The current factors.
    v : int
        Which view.
    penalty, gamma : Penalty, float
        The penalty and its weight.
    energy : ndarray of shape (n_features + 1,)
        Sum of squares of each column of the scaled view.
    steps : int
        Steps of conjugate gradients, a pass over the view each.

    Returns
    -------
    ndarray of shape (n_features + 1, rank)
        The new view factor.
    """
    factor, clusters, scaling = factors.views[v], factors.clusters, engine.scalings[v]
    pulled, others = engine.update(residual_kernel, v, clusters)
    weights = (gamma * penalty.weights(factor)).astype(engine.dtype)[:, None]
    gram = clusters.T @ clusters

    def normal_operator(direction: Matrix) -> Matrix:
        (pulled,) = engine.sum(normal_kernel, v, scaling.fold(direction), gram)
        return scaling.unfold(pulled) + weights * direction

    correction: Matrix = conjugate_gradients(
        normal_operator,
        scaling.unfold(pulled) - weights * factor,
        _preconditioner(gram * others / engine.n_samples, energy, weights, factor),
        steps=steps,
    )
    return factor + correction


def updated_cluster_factor(
    factors: Factors, moments: Moments, *, penalty: Penalty, gamma: float
) -> Matrix:
    """Return the cluster factor that minimises the quadratic above the objective, all else held.

    It solves ``A P'P + gamma diag(p) A = F'P``, a Sylvester equation with one diagonal side.
    """
    weights = gamma * penalty.weights(factors.clusters)
    solved = solve_diagonal_sylvester(weights, moments.gram, moments.cross.T)
    return solved.astype(factors.clusters.dtype)


def _preconditioner(
    average: Matrix, energy: npt.NDArray[np.float64], weights: Matrix, factor: Matrix
) -> Callable[[Matrix], Matrix]:
    """Invert the normal operator as if features were uncorrelated and samples alike.

    Then the rows of the factor decouple, row i with the R x R matrix
    ``energy_i * average + weights_i I``; one eigendecomposition serves all of them.
    """
    eigenvalues, vectors = np.linalg.eigh(average.astype(np.float64))
    # where the penalty is all there is, gamma = 0 would leave nothing to divide by
    least = np.finfo(factor.dtype).eps * max(float(eigenvalues[-1]), 1e-300)
    scale = energy[:, None] * np.maximum(eigenvalues, least) + weights
    alive = np.any(factor, axis=1)[:, None] & (scale > 0)
    inverse = np.divide(1.0, scale, where=alive, out=np.zeros_like(scale)).astype(factor.dtype)
    vectors = vectors.astype(factor.dtype)

    def precondition(residual: Matrix) -> Matrix:
        preconditioned: Matrix = ((residual @ vectors) * inverse) @ vectors.T
        return preconditioned

    return precondition
