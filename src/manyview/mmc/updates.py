"""Updates of the factors: conjugate gradients for a view factor, closed form for the clusters."""

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
    value: float,
    steps: int,
    negligible: float = 0.0,
) -> Array:
    """Return a W_v that lowers the objective with all else fixed.

    The penalty is replaced by the quadratic that touches it at the current W_v and lies above it
    elsewhere. Its normal equations are::

        Z_v' (B_-v * ((B_-v * (Z_v W)) A'A)) + gamma diag(p) W = Z_v' (B_-v * (F A))

    Conjugate gradients start from the current W_v, so every step lowers the objective. Rows at zero
    stay at zero, and so do columns whose features are all zero.

    `value` is the current objective. At most `steps` steps are taken, each a pass over the view.
    They end early after a step that gained little compared with the others and with the remaining
    objective, or less than the part `negligible` of the remaining objective.
    """
    factor, clusters, scaling = factors.views[v], factors.clusters, engine.scalings[v]
    pulled, others_gram = engine.update(residual_kernel, v, clusters)
    weights = _diagonal(penalty, gamma, factor, engine.dtype)[:, None]
    gram = clusters.T @ clusters
    gram_there = engine.asarray(gram)

    def normal_operator(direction: Array) -> Array:
        (pulled,) = engine.sum(normal_kernel, v, scaling.fold(direction), gram_there)
        return scaling.unfold(pulled) + weights * direction

    def enough(gain: float, total: float) -> bool:
        remaining = value - total
        return gain <= negligible * remaining or (gain <= 0.3 * total and gain <= 0.1 * remaining)

    correction = conjugate_gradients(
        normal_operator,
        scaling.unfold(pulled) - weights * factor,
        _preconditioner(gram * to_numpy(others_gram), engine.moments[v], weights, factor),
        steps=steps,
        enough=enough,
    )
    return factor + correction


def updated_cluster_factor(
    factors: Factors, moments: Moments, *, penalty: Penalty, gamma: float
) -> Matrix:
    """Return the A that minimises the quadratic bound of the objective with all else fixed.

    It solves ``A B'B + gamma diag(p) A = F'B``, a Sylvester equation with one diagonal side.
    """
    weights = _diagonal(penalty, gamma, factors.clusters, np.dtype(np.float64))
    solved = solve_diagonal_sylvester(weights, moments.gram, moments.cross.T)
    return solved.astype(factors.clusters.dtype)


def _diagonal(penalty: Penalty, gamma: float, factor: Array, dtype: np.dtype[Any]) -> Array:
    """Return ``gamma p``, bounded so that products with it do not overflow."""
    largest = float(np.finfo(dtype).max) ** 0.5
    weights = min(gamma, largest) * penalty.weights(factor)
    return as_dtype(namespace(weights).clip(weights, 0.0, largest), dtype)


def _preconditioner(
    average: Matrix, columns: ColumnMoments, weights: Array, factor: Array
) -> Callable[[Array], Array]:
    """Return the inverse of the normal operator for independent features and alike samples.

    That operator is ``(diag(variance) + mean mean') (x) average + weights``. In the eigenvectors of
    `average` the columns of the factor decouple, each with a diagonal matrix plus one of rank one.
    The mean matters: for counts or pixels it is nearly the same direction as the bias.
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
    # and so do the features of columns in which this view takes no part
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
