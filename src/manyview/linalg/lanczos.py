"""Largest eigenvectors by products only; from SciPy 1.17 on, the same for the same seed."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh

from manyview._typing import Matrix

__all__ = ["largest_by_products"]


# Where the iteration finds a space that products do not lead out of, it goes on from a random
# vector. Before SciPy 1.17 it had a generator of its own.
_TAKES_RNG = "rng" in signature(eigsh).parameters


def largest_by_products(
    operator: Any,
    k: int,
    start: Matrix,
    rng: np.random.Generator,
    *,
    n_vectors: int,
    tol: float = 0.0,
) -> tuple[Matrix, Matrix]:
    """Return the k largest eigenvalues of a symmetric operator, largest first, and eigenvectors.

    Copies of a multiple eigenvalue may be missed.

    Parameters
    ----------
    operator : LinearOperator, sparse array or ndarray of shape (n, n)
        Symmetric.
    k : int
        Number of eigenvectors, less than n.
    start : ndarray of shape (n,)
        Where the iteration starts.
    rng : numpy.random.Generator
        Source of what it needs beside that.
    n_vectors : int
        Vectors that the iteration keeps, more than k and at most n.
    tol : float
        Error of the eigenvalues, as part of them; 0 for that of the machine.

    Returns
    -------
    tuple of ndarray of shape (k,) and ndarray of shape (n, k)

    Raises
    ------
    scipy.sparse.linalg.ArpackNoConvergence
        If the iteration does not come to its end.

    Examples
    --------
    >>> diagonal = np.diag([1.0, 5.0, 3.0, 2.0])
    >>> values, _ = largest_by_products(
    ...     diagonal, 2, np.ones(4), np.random.default_rng(0), n_vectors=4
    ... )
    >>> values.round(6)
    array([5., 3.])
    """
    numbers = {"rng": rng} if _TAKES_RNG else {}
    values, vectors = eigsh(operator, k=k, which="LA", v0=start, tol=tol, ncv=n_vectors, **numbers)
    order = np.argsort(-values)
    return values[order], vectors[:, order]
