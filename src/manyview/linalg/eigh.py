"""The first or last eigenpairs of a dense symmetric matrix, however many eigenvalues are equal."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from manyview._typing import Matrix

__all__ = ["largest_eigenpairs", "smallest_eigenpairs"]


def smallest_eigenpairs(S: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """Return the k smallest eigenvalues, smallest first, and orthonormal eigenvectors.

    Parameters
    ----------
    S : ndarray of shape (n, n)
        Symmetric.
    k : int
        Number of eigenpairs, 1 to n.

    Returns
    -------
    values : ndarray of shape (k,)
        Eigenvalues.
    vectors : ndarray of shape (n, k)
        Eigenvectors.

    Examples
    --------
    >>> import numpy as np
    >>> values, vectors = smallest_eigenpairs(np.diag([3.0, 1.0, 2.0]), 2)
    >>> values
    array([1., 2.])
    """
    return _eigenpairs(S, 0, k - 1)


def largest_eigenpairs(S: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """Return the k largest eigenvalues, largest first, and orthonormal eigenvectors.

    Parameters and results are as those of :func:`smallest_eigenpairs`.

    Examples
    --------
    >>> import numpy as np
    >>> values, vectors = largest_eigenpairs(np.diag([3.0, 1.0, 2.0]), 2)
    >>> values
    array([3., 2.])
    """
    n = S.shape[0]
    values, vectors = _eigenpairs(S, n - k, n - 1)
    return values[::-1], vectors[:, ::-1]


def _eigenpairs(S: Matrix, first: int, last: int) -> tuple[Matrix, Matrix]:
    values, vectors = scipy.linalg.eigh(S, subset_by_index=(first, last))
    if values.size <= last - first:  # of many equal eigenvalues LAPACK can lose some, and no word
        values, vectors = scipy.linalg.eigh(S, driver="evd")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return np.asarray(values), np.asarray(vectors)
