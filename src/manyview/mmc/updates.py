"""The updates of the factors: conjugate gradients for a view's, closed form for the clusters'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Engine
from manyview.engine.arrays import Array, as_dtype, namespace, placed_like, to_numpy
from manyview.linalg.solvers import conjugate_gradients, solve_diagonal_sylvester
from manyview.mmc.objective import Factors, Moments, Penalty, normal_kernel, residual_kernel

__all__ = ["updated_cluster_factor", "updated_view_factor"]

ColumnMoments: TypeAlias = tuple[Matrix, Matrix]


def updated_view_factor(
    engine: Engine,
    factors: Factors,
    v: int,
    *,
    penalty: Penalty,
    gamma: float,
    columns: ColumnMoments,
    value: float,
    steps: int,
    negligible: float = 0.0,
) -> Array:
    """Return a factor of view `v` that lowers the objective, all else held.

    The penalty is replaced by the quadratic that touches it at the current factor and lies
    above it elsewhere; conjugate gradients on that quadratic start from the current factor, so
    that each step lowers the objective. Rows at zero stay there, and so do features in a column
    where all of them are zero.

    Parameters
    ----------
    engine : Engine
        Holds the blocks, whose projections and indicator are up to date.
    factors : Factors
        The current factors.
    v : int
        Which view.
    penalty, gamma : Penalty, float
        The penalty and its weight.
    columns : tuple of ndarray of shape (n_features + 1,)
        Mean and mean square of each column of the scaled view.
    value : float
        The current objective.
    steps : int
        Most steps of conjugate gradients, a pass over the view each. They end earlier with one
        that gained little beside the others and beside what is left.
    negligible : float
        Part of what is left below which a gain is little, whatever the others gained.

    Returns
    -------
    ndarray of shape (n_features + 1, rank)
        The new view factor.
    """
    factor, clusters, scaling = factors.views[v], factors.clusters, engine.scalings[v]
    pulled, others_gram = engine.update(residual_kernel, v, clusters)
    weights = _diagonal(penalty, gamma, factor, engine.dtype)[:, None]
    gram = clusters.T @ clusters
    gram_there = engine.asarray(gram)

    def normal_operator(direction: Array) -> Array:
        (pulled,) = engine.sum(normal_kernel, v, scaling.fold(direction), gram_there)
        return scaling.unfold(pulled) + weights * direction

    correction = conjugate_gradients(
        normal_operator,
        scaling.unfold(pulled) - weights * factor,
        _preconditioner(gram * to_numpy(others_gram), columns, weights, factor),
        steps=steps,
        enough=lambda gain, total: (
            gain <= negligible * (value - total)
            or (gain <= 0.3 * total and gain <= 0.1 * (value - total))
        ),
    )
    return factor + correction


def updated_cluster_factor(
    factors: Factors, moments: Moments, *, penalty: Penalty, gamma: float
) -> Matrix:
    """Return the cluster factor that minimises the quadratic above the objective, all else held.

    It solves ``A P'P + gamma diag(p) A = F'P``, a Sylvester equation with one diagonal side.
    """
    weights = _diagonal(penalty, gamma, factors.clusters, np.dtype(np.float64))
    solved = solve_diagonal_sylvester(weights, moments.gram, moments.cross.T)
    return solved.astype(factors.clusters.dtype)


def _diagonal(penalty: Penalty, gamma: float, factor: Array, dtype: np.dtype[Any]) -> Array:
    """Return ``gamma p``, bounded: however large gamma is, products with it stay in range."""
    largest = float(np.finfo(dtype).max) ** 0.5
    weights = min(gamma, largest) * penalty.weights(factor)
    return as_dtype(namespace(weights).clip(weights, 0.0, largest), dtype)


def _preconditioner(
    average: Matrix, columns: ColumnMoments, weights: Array, factor: Array
) -> Callable[[Array], Array]:
    """Invert the normal operator as if samples were alike and features independent.

    Then it is ``(diag(variance) + mean mean') (x) average + weights``: with the eigenvectors of
    `average` the columns of the factor decouple, each with a diagonal matrix and a matrix of
    rank one. The mean matters: where features are counts or pixels, it and the bias are all but
    the same direction.
    """
    xp = namespace(factor)
    values, rotation = np.linalg.eigh(average.astype(np.float64))
    values = np.maximum(values, 1e-16 * values[-1])
    eigenvalues, vectors = placed_like(values, factor), placed_like(rotation, factor)
    mean, squares = (placed_like(part, factor) for part in columns)
    variance = squares - mean**2
    variance = xp.where(variance > 1e-3 * squares, variance, 1e-3 * squares)
    scale = variance[:, None] * eigenvalues + weights
    # rows at zero stay there
    alive = xp.any(factor != 0, axis=1)[:, None] & (scale > 0)
    inverse = xp.where(alive, 1.0 / xp.where(alive, scale, 1.0), 0.0)
    along = inverse * mean[:, None]
    along_scale = eigenvalues / (1.0 + eigenvalues * (as_dtype(mean, np.float64) @ along))
    inverse, along, along_scale, vectors, mean = (
        xp.astype(part, factor.dtype, copy=False)
        for part in (inverse, along, along_scale, vectors, mean)
    )
    # and so do features in columns in which the view's take no part
    inside = xp.astype(xp.any(factor[:-1, :] != 0, axis=0), factor.dtype)
    everywhere = bool(xp.all(inside > 0))

    def within(rows: Array) -> Array:
        if everywhere:
            return rows
        return xp.concat([rows[:-1, :] * inside, rows[-1:, :]], axis=0)

    def precondition(residual: Array) -> Array:
        rotated = within(residual) @ vectors
        solved = rotated * inverse
        solved -= along * (along_scale * (mean @ solved))
        return within(solved @ vectors.T)

    return precondition
