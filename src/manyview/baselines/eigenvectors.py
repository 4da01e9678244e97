"""Extreme eigenvectors of symmetric matrices: dense, sparse, or known by their products only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, aslinearoperator, eigsh

from manyview.baselines.memory import refuse_beyond

__all__ = ["largest_eigenvectors", "smallest_eigenvectors"]

Matrix = npt.NDArray[np.floating[Any]]

_DENSE = 3000  # up to this size a full reduction costs less than it takes to doubt Lanczos
_DENSE_OF_SPARSE = 500  # products with a sparse matrix are cheap, and the reduction is not
_DENSE_OPERATOR = 300
_SAME = 1e-10


def smallest_eigenvectors(
    L: Any,
    k: int,
    rng: np.random.Generator,
    *,
    bound: float = 2.0,
    v0: Matrix | None = None,
) -> Matrix:
    """Return orthonormal eigenvectors of the k smallest eigenvalues, smallest first.

    Parameters
    ----------
    L : ndarray, sparse array or LinearOperator of shape (n, n)
        Symmetric, for example a normalised Laplacian.
    k : int
        Number of eigenvectors.
    rng : numpy.random.Generator
        Source of the start of the iteration.
    bound : float
        No eigenvalue is larger. The iteration works on ``bound I - L``, whose largest
        eigenvalues stand apart; 2 holds for normalised Laplacians.
    v0 : ndarray of shape (n,), optional
        Where the iteration starts, but for a small random part.

    Returns
    -------
    ndarray of shape (n, k)
        Eigenvectors.
    """
    n = L.shape[0]
    if isinstance(L, LinearOperator):
        shifted: Any = LinearOperator(
            (n, n), matvec=lambda x: bound * x - L.matvec(x), dtype=np.float64
        )
    elif n <= _dense_up_to(L):
        _, vectors = scipy.linalg.eigh(_dense(L), subset_by_index=(0, k - 1))
        return np.asarray(vectors)
    elif sp.issparse(L):
        shifted = sp.csr_array(bound * sp.eye_array(n) - L)
    else:
        shifted = -L
        shifted[np.diag_indices(n)] += bound
    return largest_eigenvectors(shifted, k, rng, v0=v0)


def largest_eigenvectors(
    S: Any, k: int, rng: np.random.Generator, v0: Matrix | None = None
) -> Matrix:
    """Return orthonormal eigenvectors of the k largest eigenvalues, largest first.

    Parameters
    ----------
    S : ndarray, sparse array or LinearOperator of shape (n, n)
        Symmetric.
    k : int
        Number of eigenvectors.
    rng : numpy.random.Generator
        Source of the start of the iteration.
    v0 : ndarray of shape (n,), optional
        Where the iteration starts, but for a small random part.

    Returns
    -------
    ndarray of shape (n, k)
        Eigenvectors.

    Notes
    -----
    Lanczos can miss copies of a multiple eigenvalue, which a disconnected graph has. Matrices
    beyond 3000 rows, sparse ones beyond 500, are therefore taken apart into their connected
    components. Of equal eigenvalues those of larger components come first.
    """
    n = S.shape[0]
    if isinstance(S, LinearOperator):
        return _extreme(S, k, rng, v0)[1]
    if n <= _dense_up_to(S):
        return _dense_extreme(_dense(S), k)[1]
    count, component = _components(S)
    if count == 1:
        return _extreme(aslinearoperator(S), k, rng, v0)[1]

    found: list[tuple[float, int, npt.NDArray[np.intp], Matrix]] = []
    by_size = np.argsort(-np.bincount(component), kind="stable")
    members = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    for place, label in enumerate(by_size):
        rows = members[label]
        block = S[rows][:, rows]
        if rows.size <= _dense_up_to(S):
            values, vectors = _dense_extreme(_dense(block), min(k, rows.size))
        else:
            start = None if v0 is None else v0[rows]
            values, vectors = _extreme(aslinearoperator(block), k, rng, start)
        found += [(v, place, rows, x) for v, x in zip(values, vectors.T, strict=True)]
    top = max(value for value, *_ in found)
    size = max(abs(top), 1.0) * _SAME
    found.sort(key=lambda each: (round((top - each[0]) / size), each[1]))
    result = np.zeros((n, k))
    for column, (_, _, rows, vector) in enumerate(found[:k]):
        result[rows, column] = vector
    return result


def _dense_up_to(matrix: Any) -> int:
    return _DENSE_OF_SPARSE if sp.issparse(matrix) else _DENSE


def _extreme(
    operator: LinearOperator, k: int, rng: np.random.Generator, v0: Matrix | None
) -> tuple[Matrix, Matrix]:
    n = operator.shape[0]
    if n <= _DENSE_OPERATOR or 2 * k + 10 >= n:
        return _whole_extreme(operator, k)
    start = rng.standard_normal(n)
    start /= np.linalg.norm(start)
    if v0 is not None and np.linalg.norm(v0) > 0:
        # with no random part a start inside the wanted space would end the iteration early
        start = v0 / np.linalg.norm(v0) + 1e-2 * start
    try:
        values, vectors = eigsh(
            operator, k=k, which="LA", v0=start, ncv=min(n, max(2 * k + 10, 30))
        )
    except ArpackNoConvergence:
        return _whole_extreme(operator, k)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def _whole_extreme(operator: LinearOperator, k: int) -> tuple[Matrix, Matrix]:
    n = operator.shape[0]
    refuse_beyond(32 * n * n)
    whole = operator.matmat(np.eye(n))
    return _dense_extreme(0.5 * (whole + whole.T), k)


def _dense_extreme(S: Matrix, k: int) -> tuple[Matrix, Matrix]:
    n = S.shape[0]
    values, vectors = scipy.linalg.eigh(S, subset_by_index=(n - k, n - 1))
    return values[::-1], vectors[:, ::-1]


def _dense(matrix: Any) -> Matrix:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def _components(S: Any) -> tuple[int, npt.NDArray[np.intp]]:
    n = S.shape[0]
    if sp.issparse(S):
        count, component = sp.csgraph.connected_components(S, directed=False)
        return int(count), component.astype(np.intp)
    component = np.full(n, -1, dtype=np.intp)
    count = 0
    while (component < 0).any():
        frontier = np.flatnonzero(component < 0)[:1]
        component[frontier] = count
        while frontier.size and (component < 0).any():
            reached = np.zeros(n, dtype=bool)
            for row in frontier:
                reached |= S[row] != 0
                if reached.all():
                    break
            frontier = np.flatnonzero(reached & (component < 0))
            component[frontier] = count
        count += 1
    return count, component
