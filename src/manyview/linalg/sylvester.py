"""The Sylvester equation whose left matrix is diagonal, in closed form."""

from __future__ import annotations

import numpy as np

from manyview._typing import Matrix

__all__ = ["solve_diagonal_sylvester"]


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
