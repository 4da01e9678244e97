"""Eigenvectors of symmetric matrices and operators.

Small matrices are reduced by LAPACK. Larger ones go through Lanczos iterations (ARPACK), which can
miss copies of a multiple eigenvalue; disconnected graphs have such eigenvalues. Matrices are
therefore split into their connected components. Operators cannot be split: copies are searched for
again with the eigenvectors found so far deflated.
"""

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
    "lanczos",
    "largest_eigenpairs",
    "largest_eigenvectors",
    "renewed_eigenvectors",
    "smallest_eigenvectors",
    "symmetric_operator",
]

# Largest sizes at which a full reduction is faster than Lanczos, whose products are cheap for
# sparse matrices and for operators.
_DENSE = 3000
_DENSE_OF_SPARSE = 500
_DENSE_OPERATOR = 300

_SAME = 1e-10  # eigenvalues that differ by less, relative to the largest, are copies

# Lanczos continues from a random vector where it finds an invariant subspace. SciPy before 1.17
# draws it from a generator of its own.
_TAKES_RNG = "rng" in signature(eigsh).parameters


# Eigenpairs of dense matrices


def largest_eigenpairs(S: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """Return the k largest eigenvalues of a dense matrix, descending, and eigenvectors.

    Examples
    --------
    >>> values, vectors = largest_eigenpairs(np.diag([3.0, 1.0, 2.0]), 2)
    >>> values
    array([3., 2.])
    """
    n = S.shape[0]
    values, vectors = _eigenpairs(S, n - k, n - 1)
    return values[::-1], vectors[:, ::-1]


def _eigenpairs(S: Matrix, first: int, last: int) -> tuple[Matrix, Matrix]:
    """Return the eigenpairs `first` to `last`, counted from the smallest eigenvalue."""
    values, vectors = scipy.linalg.eigh(S, subset_by_index=(first, last))
    if values.size <= last - first:  # LAPACK may silently drop repeated eigenvalues
        values, vectors = scipy.linalg.eigh(S, driver="evd")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return np.asarray(values), np.asarray(vectors)


# Eigenvectors of matrices and operators of any size


def smallest_eigenvectors(
    L: Any,
    k: int,
    rng: np.random.Generator,
    *,
    bound: float = 2.0,
    v0: Matrix | None = None,
    dense_up_to: int | None = None,
) -> Matrix:
    """Return orthonormal eigenvectors of the k smallest eigenvalues, smallest first.

    `L` is a symmetric array, sparse array or LinearOperator without eigenvalues above `bound`,
    which is 2 for normalised Laplacians. Lanczos works on ``bound I - L``, whose largest
    eigenvalues are well separated. Other parameters are those of :func:`largest_eigenvectors`.
    """
    n = L.shape[0]
    if isinstance(L, LinearOperator):
        shifted: Any = LinearOperator(
            (n, n),
            matvec=lambda x: bound * x - L.matvec(x),
            matmat=lambda x: bound * x - L.matmat(x),
            dtype=np.float64,
        )
    elif n <= _dense_limit(L, dense_up_to):
        return _eigenpairs(_dense(L), 0, k - 1)[1]
    elif sp.issparse(L):
        shifted = sp.csr_array(bound * sp.eye_array(n) - L)
    else:
        shifted = -L
        shifted[np.diag_indices(n)] += bound
    return largest_eigenvectors(shifted, k, rng, v0, dense_up_to=dense_up_to)


def largest_eigenvectors(
    S: Any,
    k: int,
    rng: np.random.Generator,
    v0: Matrix | None = None,
    *,
    dense_up_to: int | None = None,
) -> Matrix:
    """Return orthonormal eigenvectors of the k largest eigenvalues, largest first.

    `S` is a symmetric array, sparse array or LinearOperator. Lanczos starts at a random vector, or
    near `v0`. Matrices of up to `dense_up_to` rows are reduced instead; the default depends on the
    kind of `S`. Among equal eigenvalues, those of larger connected components come first.
    """
    n = S.shape[0]
    limit = _dense_limit(S, dense_up_to)
    if isinstance(S, LinearOperator):
        return _eigenpairs_of_operator(S, k, rng, v0, limit)[1]
    if n <= limit:
        return largest_eigenpairs(_dense(S), k)[1]
    component = _components(S)
    sizes = np.bincount(component)
    if sizes.size == 1:
        return _eigenpairs_of_operator(aslinearoperator(S), k, rng, v0, limit)[1]

    found: list[tuple[float, int, npt.NDArray[np.intp], Matrix]] = []
    members = np.split(np.argsort(component, kind="stable"), np.cumsum(sizes)[:-1])
    for rank, label in enumerate(np.argsort(-sizes, kind="stable")):
        rows = members[label]
        block = S[rows][:, rows]
        if rows.size <= limit:
            values, vectors = largest_eigenpairs(_dense(block), min(k, rows.size))
        else:
            near = None if v0 is None else v0[rows]
            values, vectors = _eigenpairs_of_operator(aslinearoperator(block), k, rng, near, limit)
        found += [(v, rank, rows, x) for v, x in zip(values, vectors.T, strict=True)]
    top = max(value for value, *_ in found)
    unit = max(abs(top), 1.0) * _SAME
    found.sort(key=lambda each: (round((top - each[0]) / unit), each[1]))
    result = np.zeros((n, k))
    for column, (_, _, rows, vector) in enumerate(found[:k]):
        result[rows, column] = vector
    return result


def renewed_eigenvectors(
    operator: LinearOperator,
    before: Matrix,
    rng: np.random.Generator,
    tol: float = 1e-8,
) -> tuple[Matrix, float]:
    """Return the leading eigenvectors of a slightly changed operator, and their eigenvalues' sum.

    `before` holds the eigenvectors before the change, shape (n, k). Copies of a multiple
    eigenvalue may be missed.
    """
    k = before.shape[1]
    near = before.sum(axis=1) / np.sqrt(k)
    values, vectors = _eigenpairs_of_operator(
        operator, k, rng, near, _DENSE_OPERATOR, tol=tol, copies=False
    )
    return vectors, float(values.sum())


def symmetric_operator(S: Matrix, weight: float = 0.0, factor: Matrix | None = None) -> Any:
    """Return the operator ``S + weight T T'`` for a symmetric S and a narrow factor T.

    S is in double precision and C order. Products with a vector read one triangle of it.
    """

    def product(x: Matrix) -> Matrix:
        # the transpose is the same matrix in the order that BLAS reads, and is not copied
        whole = dsymv(1.0, S.T, x.ravel()) if x.size == S.shape[0] else S @ x
        whole = whole.reshape(x.shape)
        if factor is not None and weight:
            whole += weight * (factor @ (factor.T @ x))
        return np.asarray(whole)

    return LinearOperator(S.shape, matvec=product, matmat=product, dtype=np.float64)


def _dense_limit(matrix: Any, given: int | None) -> int:
    if given is not None:
        return given
    if isinstance(matrix, LinearOperator):
        return _DENSE_OPERATOR
    return _DENSE_OF_SPARSE if sp.issparse(matrix) else _DENSE


def _dense(matrix: Any) -> Matrix:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def _components(S: Any) -> npt.NDArray[np.intp]:
    """Return the connected component of every row, numbered by first row."""
    if sp.issparse(S):
        return np.asarray(sp.csgraph.connected_components(S, directed=False)[1], dtype=np.intp)
    # without a sparse copy, and in one step if the first row has no zero
    component = np.full(S.shape[0], -1, dtype=np.intp)
    count = 0
    while (free := component < 0).any():
        stack = [int(free.argmax())]
        component[stack] = count
        while stack and (component < 0).any():
            reached = np.flatnonzero((S[stack.pop()] != 0) & (component < 0))
            component[reached] = count
            stack.extend(reached)
        count += 1
    return component


# Lanczos


def lanczos(
    operator: Any,
    k: int,
    start: Matrix,
    rng: np.random.Generator,
    *,
    n_vectors: int | None = None,
    tol: float = 0.0,
) -> tuple[Matrix, Matrix]:
    """Return the k largest eigenvalues of a symmetric operator, descending, and eigenvectors.

    Copies of a multiple eigenvalue may be missed. The iteration keeps `n_vectors` vectors and ends
    at a relative error of `tol` of the eigenvalues, 0 for machine precision; otherwise it raises
    ArpackNoConvergence.

    Examples
    --------
    >>> diagonal = np.diag([1.0, 5.0, 3.0, 2.0])
    >>> values, _ = lanczos(diagonal, 2, np.ones(4), np.random.default_rng(0))
    >>> values.round(6)
    array([5., 3.])
    """
    if n_vectors is None:
        n_vectors = min(operator.shape[0], max(2 * k + 4, 20))
    options = {"rng": rng} if _TAKES_RNG else {}
    values, vectors = eigsh(operator, k=k, which="LA", v0=start, tol=tol, ncv=n_vectors, **options)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def _eigenpairs_of_operator(
    operator: LinearOperator,
    k: int,
    rng: np.random.Generator,
    near: Matrix | None,
    dense_up_to: int,
    *,
    tol: float = 0.0,
    copies: bool = True,
) -> tuple[Matrix, Matrix]:
    """Return the k largest eigenpairs by Lanczos from a start close to `near`.

    A full reduction takes over where the operator is small or Lanczos does not converge.
    """
    n = operator.shape[0]
    if n > dense_up_to and 2 * k + 10 < n:
        start = rng.standard_normal(n)
        start /= np.linalg.norm(start)
        if near is not None and np.linalg.norm(near) > 0:
            # without a random part, a start inside the wanted space ends the iteration early
            start = near / np.linalg.norm(near) + 1e-2 * start
        try:
            values, vectors = lanczos(operator, k, start, rng, tol=tol)
            return _with_copies(operator, values, vectors, rng) if copies else (values, vectors)
        except ArpackNoConvergence:
            pass
    check_memory(
        32 * n * n,
        work=f"Lanczos does not give {k} eigenvectors of {n} samples, and a dense eigensolver",
        matrices="samples by samples",
        way_out="RMKMC, MultiNMF and MMC need no eigenvectors of this size",
    )
    whole = operator.matmat(np.eye(n))
    return largest_eigenpairs(0.5 * (whole + whole.T), k)


def _with_copies(
    operator: LinearOperator, values: Matrix, vectors: Matrix, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Add copies of multiple eigenvalues that Lanczos missed, by deflating what it found."""
    n, k = vectors.shape
    scale = max(abs(float(values[0])), 1.0)
    for _ in range(k):
        known, moved = vectors, values - values[-1] + scale
        deflated = LinearOperator(
            (n, n),
            matvec=lambda x, Q=known, by=moved: operator.matvec(x) - Q @ (by * (Q.T @ x)),
            dtype=np.float64,
        )
        more, extra = lanczos(deflated, max(1, k // 4), rng.standard_normal((n,)), rng, tol=1e-8)
        if more[0] <= values[-1] + _SAME * scale:
            break
        basis = np.linalg.qr(np.hstack([vectors, extra]))[0]
        small = basis.T @ operator.matmat(basis)
        values, turn = np.linalg.eigh(0.5 * (small + small.T))
        values, vectors = values[::-1][:k], basis @ turn[:, ::-1][:, :k]
    return values, vectors
