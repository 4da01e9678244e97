"""Small solvers: conjugate gradients, polar factor, diagonal Sylvester equations."""

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
    """Return a correction ``X`` that brings ``operator(X)`` towards ``residual``.

    For a system ``H W = E`` and a guess ``W0``, pass ``residual = E - H W0``; ``W0 + X`` is the
    improved guess. The quadratic ``<W, H W>/2 - <W, E>`` falls at every step, so that any number
    of steps is a step of descent.

    Parameters
    ----------
    operator : callable
        Product with the symmetric positive definite H, from a matrix to one of the same shape.
    residual : array
        Right side of the system for the correction.
    precondition : callable
        Product with an approximate inverse of H, symmetric positive semi-definite.
    steps : int
        Most steps taken, one product with H each.
    enough : callable, optional
        Given by how much the last step and all steps lowered twice the quadratic; ends the
        steps by returning True.

    Returns
    -------
    array
        The correction, of the shape of `residual`.

    Examples
    --------
    >>> import numpy as np
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
        # both numbers are asked for at once: on a device, asking waits for all that came before
        curvature, energy = float(xp.sum(direction * image)), float(inner)
        if not (energy > 0.0 and curvature > 0.0):  # rounding has used up the residual
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

    For a tall matrix T with ``G = T'T`` of full rank, ``T G^(-1/2)`` is the polar factor of T,
    the orthonormal matrix nearest to it, without a decomposition of T itself.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        Symmetric positive semi-definite matrix.
    rtol : float
        Eigenvalues below this part of the largest count as zero.

    Returns
    -------
    root : ndarray of shape (k, k)
        Pseudo-inverse square root.
    null : ndarray of shape (k, z)
        Orthonormal basis of the null space; ``z`` is 0 at full rank.

    Examples
    --------
    >>> import numpy as np
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
    """Solve ``diag(diagonal) A + A gram = right`` for A.

    With ``gram = Q diag(l) Q'`` the columns of ``A Q`` decouple:
    ``A = ((right Q) / (diagonal_k + l_r)) Q'``.

    Parameters
    ----------
    diagonal : ndarray of shape (k,)
        Entries of the left matrix, not negative.
    gram : ndarray of shape (r, r)
        Symmetric positive semi-definite right matrix.
    right : ndarray of shape (k, r)
        Right side.

    Returns
    -------
    ndarray of shape (k, r)
        The solution A.

    Examples
    --------
    >>> import numpy as np
    >>> solve_diagonal_sylvester(np.array([1.0, 3.0]), np.eye(1), np.array([[2.0], [2.0]]))
    array([[1. ],
           [0.5]])
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    scale = diagonal[:, None] + np.maximum(eigenvalues, 0.0)
    rotated = right @ vectors
    # with nothing on the diagonal, directions that are but rounding have no solution
    rounding = eigenvalues.size * np.finfo(eigenvalues.dtype).eps * max(eigenvalues[-1], 0.0)
    solvable = scale > rounding
    solution: Matrix = np.divide(rotated, scale, where=solvable, out=np.zeros_like(rotated))
    return np.asarray(solution @ vectors.T)
