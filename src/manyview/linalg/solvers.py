"""Small solvers: conjugate gradients, inverse square roots, diagonal Sylvester equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from manyview._typing import Matrix

__all__ = ["conjugate_gradients", "inverse_square_root", "solve_diagonal_sylvester"]

Array: TypeAlias = Any


def conjugate_gradients(
    operator: Callable[[Array], Array],
    residual: Array,
    precondition: Callable[[Array], Array],
    *,
    steps: int,
    enough: Callable[[float, float], bool] = lambda gain, total: False,
) -> Array:
    """Return an X that brings ``operator(X)``, a product with a positive definite H, to `residual`.

    For a system ``H W = E`` and a guess ``W0``, pass ``residual = E - H W0``; ``W0 + X`` is the
    improved guess. Every step decreases the quadratic ``<W, H W>/2 - <W, E>``, so any number of
    steps is a descent. `precondition` multiplies by an approximate inverse of H. The iteration ends
    after `steps` products, or when `enough` returns True for twice the decrease of the quadratic
    in the last step and in all steps.

    Examples
    --------
    >>> H = np.diag([1.0, 2.0, 4.0])
    >>> conjugate_gradients(lambda X: H @ X, np.ones((3, 1)), lambda X: X, steps=3).round(6).T
    array([[1.  , 0.5 , 0.25]])
    """
    xp = array_namespace(residual)
    correction = 0.0 * residual
    preconditioned = precondition(residual)
    direction = preconditioned
    inner = xp.sum(residual * preconditioned)
    total = 0.0
    if not float(inner) > 0.0:
        return correction
    for _ in range(steps):
        image = operator(direction)
        # both numbers at once: on a device, reading one waits for all work before it
        curvature, energy = float(xp.sum(direction * image)), float(inner)
        if not (energy > 0.0 and curvature > 0.0):  # the residual is rounding error
            break
        length = energy / curvature
        correction = correction + length * direction
        gain = length * energy
        total += gain
        if enough(gain, total):
            break
        residual = residual - length * image
        preconditioned = precondition(residual)
        previous, inner = inner, xp.sum(residual * preconditioned)
        direction = preconditioned + (inner / previous) * direction
    return correction


def inverse_square_root(gram: Matrix, *, rtol: float = 1e-12) -> tuple[Matrix, Matrix]:
    """Return ``G^(-1/2)`` on the range of a Gram matrix, and a basis of its null space.

    For a tall matrix T with ``G = T'T`` of full rank, ``T G^(-1/2)`` is the polar factor of T, the
    nearest orthonormal matrix. Eigenvalues below `rtol` times the largest count as zero.

    Examples
    --------
    >>> root, null = inverse_square_root(np.diag([4.0, 0.0]))
    >>> root, null.shape
    (array([[0.5, 0. ],
           [0. , 0. ]]), (2, 1))
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > rtol * max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    basis = vectors[:, kept]
    root: Matrix = (basis / np.sqrt(eigenvalues[kept])) @ basis.T
    return root, vectors[:, ~kept]


def solve_diagonal_sylvester(diagonal: Matrix, gram: Matrix, right: Matrix) -> Matrix:
    """Solve ``diag(diagonal) A + A gram = right`` for A, with a non-negative diagonal.

    With ``gram = Q diag(l) Q'`` the columns of ``A Q`` decouple:
    ``A = ((right Q) / (diagonal_k + l_r)) Q'``.

    Examples
    --------
    >>> solve_diagonal_sylvester(np.array([1.0, 3.0]), np.eye(1), np.array([[2.0], [2.0]]))
    array([[1. ],
           [0.5]])
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    scale = diagonal[:, None] + np.maximum(eigenvalues, 0.0)
    rotated = right @ vectors
    # directions that are rounding error have no solution where the diagonal is zero
    rounding = eigenvalues.size * np.finfo(eigenvalues.dtype).eps * max(eigenvalues[-1], 0.0)
    solution: Matrix = np.divide(rotated, scale, where=scale > rounding, out=np.zeros_like(rotated))
    return np.asarray(solution @ vectors.T)
