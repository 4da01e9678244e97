"""Eigenvectors of dense matrices, sparse matrices and linear operators."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, aslinearoperator, eigsh

from manyview._typing import Matrix
from manyview.memory import check_memory

__all__ = [
    "largest_by_products",
    "largest_eigenpairs",
    "largest_eigenvectors",
    "renewed_eigenvectors",
    "smallest_eigenpairs",
    "smallest_eigenvectors",
    "symmetric_operator",
]


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
            (n, n),
            matvec=lambda x: bound * x - L.matvec(x),
            matmat=lambda x: bound * x - L.matmat(x),
            dtype=np.float64,
        )
    elif n <= _dense_up_to(L):
        return smallest_eigenpairs(_dense(L), k)[1]
    elif sp.issparse(L):
        shifted = sp.csr_array(bound * sp.eye_array(n) - L)
    else:
        shifted = -L
        shifted[np.diag_indices(n)] += bound
    return largest_eigenvectors(shifted, k, rng, v0=v0)


def largest_eigenvectors(
    S: Any,
    k: int,
    rng: np.random.Generator,
    v0: Matrix | None = None,
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
    components. Of equal eigenvalues those of larger components come first. An operator, which
    cannot be taken apart, is searched again beside what was found.
    """
    n = S.shape[0]
    if isinstance(S, LinearOperator):
        return _extreme(S, k, rng, v0)[1]
    if n <= _dense_up_to(S):
        return largest_eigenpairs(_dense(S), k)[1]
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
            values, vectors = largest_eigenpairs(_dense(block), min(k, rows.size))
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


def renewed_eigenvectors(
    operator: LinearOperator, before: Matrix, rng: np.random.Generator, tol: float = 1e-8
) -> tuple[Matrix, float]:
    """Return the leading eigenvectors of an operator that has changed a little.

    Parameters
    ----------
    operator : LinearOperator of shape (n, n)
        Symmetric.
    before : ndarray of shape (n, k)
        Its leading eigenvectors before the change.
    rng : numpy.random.Generator
        Source of the start of the iteration.
    tol : float
        Error of the eigenvalues, relative.

    Returns
    -------
    vectors : ndarray of shape (n, k)
        Eigenvectors, largest eigenvalue first. Copies of a multiple eigenvalue are not looked for.
    total : float
        Sum of the eigenvalues.
    """
    n, k = before.shape
    if n <= _DENSE_OPERATOR or 2 * k + 10 >= n:
        values, vectors = _whole_extreme(operator, k)
        return vectors, float(values.sum())
    noise = rng.standard_normal(n)
    # with no random part a start inside the wanted space would end the iteration early
    start = before.sum(axis=1) / np.sqrt(k) + 1e-2 * noise / np.linalg.norm(noise)
    try:
        values, vectors = _lanczos(operator, k, start, rng, tol)
    except ArpackNoConvergence:
        values, vectors = _whole_extreme(operator, k)
    return vectors, float(values.sum())


def symmetric_operator(S: Matrix, weight: float = 0.0, factor: Matrix | None = None) -> Any:
    """Return ``S + weight T T'`` by its products, for a symmetric S and a narrow factor T.

    Parameters
    ----------
    S : ndarray of shape (n, n)
        Symmetric, in double precision and in the order of C. One triangle of it is read.
    weight : float
        Weight of the second part.
    factor : ndarray of shape (n, m), optional
        T.

    Returns
    -------
    LinearOperator of shape (n, n)
    """

    def product(x: Matrix) -> Matrix:
        # the transpose is the same matrix in the order that BLAS reads, and is not copied
        whole = dsymv(1.0, S.T, x.ravel()) if x.size == S.shape[0] else S @ x
        whole = whole.reshape(x.shape)
        if factor is not None and weight:
            whole += weight * (factor @ (factor.T @ x))
        return np.asarray(whole)

    return LinearOperator(S.shape, matvec=product, matmat=product, dtype=np.float64)


def _extreme(
    operator: LinearOperator,
    k: int,
    rng: np.random.Generator,
    v0: Matrix | None,
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
        return _with_copies(operator, *_lanczos(operator, k, start, rng), rng)
    except ArpackNoConvergence:
        return _whole_extreme(operator, k)


def _lanczos(
    operator: LinearOperator, k: int, start: Matrix, rng: np.random.Generator, tol: float = 0.0
) -> tuple[Matrix, Matrix]:
    n_vectors = min(operator.shape[0], max(2 * k + 4, 20))
    return largest_by_products(operator, k, start, rng, n_vectors=n_vectors, tol=tol)


def _with_copies(
    operator: LinearOperator, values: Matrix, vectors: Matrix, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Add what Lanczos missed of multiple eigenvalues: look again beside what it found."""
    n, k = vectors.shape
    scale = max(abs(float(values[0])), 1.0)
    for _ in range(k):
        known, moved = vectors, values - values[-1] + scale
        beside = LinearOperator(
            (n, n),
            matvec=lambda x, Q=known, by=moved: operator.matvec(x) - Q @ (by * (Q.T @ x)),
            dtype=np.float64,
        )
        more, extra = _lanczos(beside, max(1, k // 4), rng.standard_normal((n,)), rng, tol=1e-8)
        if more[0] <= values[-1] + _SAME * scale:
            break
        basis = np.linalg.qr(np.hstack([vectors, extra]))[0]
        small = basis.T @ operator.matmat(basis)
        values, turn = np.linalg.eigh(0.5 * (small + small.T))
        values, vectors = values[::-1][:k], basis @ turn[:, ::-1][:, :k]
    return values, vectors


def _whole_extreme(operator: LinearOperator, k: int) -> tuple[Matrix, Matrix]:
    n = operator.shape[0]
    check_memory(
        32 * n * n,
        work=f"Lanczos does not give {k} eigenvectors of {n} samples, and a dense eigensolver",
        matrices="samples by samples",
        way_out="RMKMC, MultiNMF and MMC look for none of these",
    )
    whole = operator.matmat(np.eye(n))
    return largest_eigenpairs(0.5 * (whole + whole.T), k)


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
