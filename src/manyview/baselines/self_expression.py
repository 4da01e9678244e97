"""Samples written as combinations of each other: the convex problem of SCMV-3DT, by ADMM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.iterate import Iterated
from manyview.linalg.tproduct import (
    Slice,
    Tensor,
    from_fourier,
    slice_multiplicity,
    threshold_singular_values,
    to_fourier,
)
from manyview.views import Array

__all__ = ["gram_tensor", "largest_sparsity", "self_expression", "shrunk_tubes"]


_RELAXATION = 1.6
_BALANCE_EVERY = 5
_BALANCE_UNTIL = 150  # convergence is proved for a penalty that is fixed from some iteration on
_IMBALANCE = 5.0
_FAST_FROM = 256  # samples; fewer cost next to nothing either way
_SPARSE_STEPS = 2  # to one of low rank, which costs ten times as much
_SINGLE_UNTIL = 150
_SINGLE_RESIDUAL = 1e-3
_SINGLE_THRESHOLD = 0.015  # of singular values, about 1 at most, whose squares are rounded
_NO_EIGENVALUE = 1e-13
_ENTRIES_AT_ONCE = 1 << 16  # of each tensor, so that entrywise work stays in the cache


def self_expression(
    gram: Tensor,
    *,
    sparsity: float,
    low_rank: float,
    max_iter: int,
    tol: float,
    penalty: float = 1.0,
    balanced: bool = True,
    fast: bool | None = None,
    on_iteration: Callable[[int, float], None] = lambda done, residual: None,
) -> Iterated[Tensor]:
    """Minimise the objective of :class:`~manyview.baselines.scmv3dt.SCMV3DT` by ADMM.

    Z has a copy C for the sparse term and one L for the term of low rank; Z and L are kept in
    the Fourier domain, where their updates are slice by slice.

    Parameters
    ----------
    gram : ndarray of shape (V, n, n)
        ``X^T * X``, through which alone the views enter.
    sparsity, low_rank : float
        Weights lam_s and lam_l.
    max_iter : int
        Most iterations.
    tol : float
        Relative residual to stop at.
    penalty : float
        Weight of the difference of the copies at the start.
    balanced : bool
        Whether the penalty is doubled or halved when one residual is far above the other.
    fast : bool, optional
        Whether an iteration renews Z and C twice and L, which costs most, once, and in single
        precision at first. The residuals are those of the same conditions, and the last ones are
        of double precision in any case. By default, if there are more than 256 samples.
    on_iteration : callable, optional
        Called with the number of iterations done and the larger residual.

    Returns
    -------
    Iterated
        Coefficients, the copy C: zero tubes are exactly zero. They are renewed in place, so that a
        copy is kept for an interrupt.
    """
    depth, n = gram.shape[0], gram.shape[1]
    exact_spectra = [_spectrum(part) for part in to_fourier(gram)]
    spectra = exact_spectra
    fast = n > _FAST_FROM if fast is None else fast
    if fast:
        spectra = [spectrum.in_single() for spectrum in exact_spectra]
    copies = _Copies.zeros(spectra, depth, n)
    sparse_steps = _SPARSE_STEPS if fast else 1
    found = Iterated(copies.sparse.copy())
    try:
        for done in range(1, max_iter + 1):
            is_single = copies.sparse.dtype == np.float32
            if is_single and _too_fine(low_rank / penalty, done):
                spectra, copies, is_single = exact_spectra, copies.in_double(), False
            value, primal, dual = _iteration(
                copies, spectra, sparsity, low_rank, penalty, sparse_steps
            )
            found.state, found.objective = copies.sparse.copy(), [*found.objective, value]
            residual = max(primal, dual)
            on_iteration(done, residual)
            if residual < tol and not is_single:
                found.converged = True
                break
            if is_single and residual < max(tol, _SINGLE_RESIDUAL):
                spectra, copies = exact_spectra, copies.in_double()
            elif balanced and done <= _BALANCE_UNTIL and done % _BALANCE_EVERY == 0:
                factor = _balance(primal, dual)
                penalty *= factor
                copies.rescale_duals(1.0 / factor)
    except KeyboardInterrupt:
        if not found.objective:
            raise
        found.interrupted = True
    found.state = found.state.astype(np.float64, copy=False)
    return found


def gram_tensor(arrays: Sequence[Array], *, separate: bool) -> Tensor:
    """Return ``X^T * X`` for views as slices of X, samples as its columns.

    Parameters
    ----------
    arrays : sequence of ndarray or csr_array of shape (n, d_v)
        Views; narrower ones count as filled up with zeros.
    separate : bool
        Whether each view has rows of its own in X, so that products across views are zero.

    Returns
    -------
    ndarray of shape (V, n, n)
        Slice k is ``sum_v X_v X_(v + k)'``, view numbers taken modulo V.
    """
    depth, n = len(arrays), arrays[0].shape[0]
    gram = np.zeros((depth, n, n))
    for lag in range(1 if separate else depth // 2 + 1):
        for v in range(depth):
            gram[lag] += _inner(arrays[v], arrays[(v + lag) % depth])
        gram[-lag % depth] = gram[lag].T
    return gram


def largest_sparsity(gram: Tensor) -> float:
    """Return lam_s,max: from it on every coefficient is zero, without a low-rank term too."""
    peak = float(np.abs(gram).max()) or 1.0  # whose square may be beyond all numbers
    tubes = np.sqrt(np.sum((gram / peak) ** 2, axis=0))
    np.fill_diagonal(tubes, 0.0)
    return peak * float(tubes.max())


def shrunk_tubes(tensor: Tensor, by: float, first: int = 0) -> tuple[Tensor, float]:
    """Return tubes with lengths lowered by `by`, down to 0, none on the diagonal; their sum.

    Where the tensor is some rows of a larger one, `first` is the number of the first of them.
    """
    lengths = np.sqrt(np.einsum("vij,vij->ij", tensor, tensor))
    np.fill_diagonal(lengths[:, first:], 0.0)
    left = np.maximum(lengths - by, 0.0)
    total = float(left.sum(dtype=np.float64))
    factors = np.divide(left, lengths, out=left, where=lengths > 0)
    return tensor * factors, total


class _Spectrum(NamedTuple):
    """Eigenvalues of a slice of the Gram tensor, those that are zero left out, and vectors."""

    values: Matrix
    vectors: Slice

    def in_single(self) -> _Spectrum:
        vectors = self.vectors
        kind = np.complex64 if np.iscomplexobj(vectors) else np.float32
        return _Spectrum(self.values.astype(np.float32), vectors.astype(kind))


@dataclass
class _Copies:
    """The copies of Z with their scaled duals: C as a tensor, L as slices of its transform."""

    sparse: Tensor
    sparse_dual: Tensor
    low: list[Slice]
    low_dual: list[Slice]

    @classmethod
    def zeros(cls, spectra: Sequence[_Spectrum], depth: int, n: int) -> Self:
        kind = spectra[0].values.dtype
        tensors = [np.zeros((depth, n, n), kind) for _ in range(2)]
        slices = [
            [np.zeros((n, n), spectrum.vectors.dtype) for spectrum in spectra] for _ in range(2)
        ]
        return cls(tensors[0], tensors[1], slices[0], slices[1])

    def in_double(self) -> _Copies:
        return _Copies(
            self.sparse.astype(np.float64, copy=False),
            self.sparse_dual.astype(np.float64, copy=False),
            [_doubled(part) for part in self.low],
            [_doubled(part) for part in self.low_dual],
        )

    def rescale_duals(self, factor: float) -> None:
        if factor != 1.0:
            for part in (self.sparse_dual, *self.low_dual):
                part *= factor


class _Change(NamedTuple):
    """Squared lengths that the residuals are made of, for one copy."""

    moved: float
    apart: float
    copy: float
    dual: float


def _iteration(
    copies: _Copies,
    spectra: Sequence[_Spectrum],
    sparsity: float,
    low_rank: float,
    penalty: float,
    sparse_steps: int,
) -> tuple[float, float, float]:
    """Renew the copies in place; return the objective, the primal and the dual residual."""
    depth = copies.sparse.shape[0]
    for _ in range(sparse_steps):
        whole, misfit = _renewed_whole(copies, spectra, penalty)
        sparse, size, tubes = _renew_sparse(copies, whole, sparsity / penalty)
    low, nuclear = _renew_low(copies, whole, low_rank / penalty)
    value = (0.5 * misfit + low_rank * nuclear) / depth + sparsity * tubes
    primal = _ratio(sparse.apart + low.apart, max(2.0 * size, sparse.copy + low.copy))
    return value, primal, _ratio(sparse.moved + low.moved, sparse.dual + low.dual)


def _renewed_whole(
    copies: _Copies, spectra: Sequence[_Spectrum], penalty: float
) -> tuple[list[Slice], float]:
    """Return the slices of Z, ``I + p (G + 2 p I)^-1 T`` with ``T = C - Y_C + L - Y_L - 2 I``.

    p times the inverse is half the identity less a matrix of the rank of G. The second thing
    returned, a by-product, is the misfit ``|X (I - Z)|^2`` summed over all slices.
    """
    depth, n = copies.sparse.shape[:2]
    whole = [np.empty_like(part) for part in copies.low]
    for rows in _blocks(depth, n):
        apart = to_fourier(copies.sparse[:, rows] - copies.sparse_dual[:, rows])
        for k, part in enumerate(whole):
            np.add(apart[k], copies.low[k][rows], out=part[rows])
            part[rows] -= copies.low_dual[k][rows]
    misfit = 0.0
    for part, (values, vectors), count in zip(
        whole, spectra, slice_multiplicity(depth), strict=True
    ):
        part.flat[:: n + 1] -= 2.0
        reduced = vectors.conj().T @ part
        reduced *= (penalty / (values + 2.0 * penalty))[:, None]
        squares = np.einsum("ij,ij->i", reduced.real, reduced.real)
        if np.iscomplexobj(reduced):
            squares += np.einsum("ij,ij->i", reduced.imag, reduced.imag)
        misfit += count * float(values @ squares)
        reduced *= (values / (2.0 * penalty))[:, None]
        part *= 0.5
        part -= vectors @ reduced
        part.flat[:: n + 1] += 1.0
    return whole, misfit


def _renew_sparse(
    copies: _Copies, whole: Sequence[Slice], by: float
) -> tuple[_Change, float, float]:
    """Renew C and its dual; return how, the squared length of Z and the sum of tubes."""
    depth, n = copies.sparse.shape[:2]
    total = np.zeros(6)
    for rows in _blocks(depth, n):
        tensor = from_fourier([part[rows] for part in whole], depth)
        before = copies.sparse[:, rows]
        mixed = _RELAXATION * tensor
        mixed += (1.0 - _RELAXATION) * before
        mixed += copies.sparse_dual[:, rows]
        sparse, tubes = shrunk_tubes(mixed, by, rows.start)
        mixed -= sparse
        size = _square(tensor)
        tensor -= sparse
        moved = _square(sparse - before)
        total += moved, _square(tensor), _square(sparse), _square(mixed), size, tubes
        copies.sparse[:, rows] = sparse
        copies.sparse_dual[:, rows] = mixed
    return _Change(*total[:4].tolist()), float(total[4]), float(total[5])


def _renew_low(copies: _Copies, whole: Sequence[Slice], by: float) -> tuple[_Change, float]:
    """Renew L and its dual; return how, and the sum of singular values over all slices."""
    depth, n = copies.sparse.shape[:2]
    total = np.zeros(4)
    nuclear = 0.0
    for k, count in enumerate(slice_multiplicity(depth)):
        before, mixed = copies.low[k], copies.low_dual[k]
        for rows in _blocks(1, n):
            mixed[rows] += _RELAXATION * whole[k][rows]
            mixed[rows] += (1.0 - _RELAXATION) * before[rows]
        lowered = mixed.copy()
        if by > 0:
            lowered, values = threshold_singular_values(mixed, by)
            nuclear += count * values
        for rows in _blocks(1, n):
            mixed[rows] -= lowered[rows]
            moved, apart = lowered[rows] - before[rows], lowered[rows] - whole[k][rows]
            squares = [_square(part) for part in (moved, apart, lowered[rows], mixed[rows])]
            total += (count / depth) * np.array(squares)
        copies.low[k] = lowered
    return _Change(*total.tolist()), nuclear


def _spectrum(part: Slice) -> _Spectrum:
    values, vectors = scipy.linalg.eigh(part, driver="evd", check_finite=False)
    kept = values > _NO_EIGENVALUE * max(float(values[-1]), 0.0)
    return _Spectrum(values[kept], np.ascontiguousarray(vectors[:, kept]))


def _too_fine(threshold: float, done: int) -> bool:
    """Whether single precision does not do, for so low a threshold or so long a way."""
    return 0 < threshold < _SINGLE_THRESHOLD or done > _SINGLE_UNTIL


def _balance(primal: float, dual: float) -> float:
    if primal > _IMBALANCE * dual:
        return 2.0
    return 0.5 if dual > _IMBALANCE * primal else 1.0


def _blocks(depth: int, n: int) -> Iterator[slice]:
    step = max(1, _ENTRIES_AT_ONCE // (depth * n))
    return (slice(begin, min(n, begin + step)) for begin in range(0, n, step))


def _doubled(part: Slice) -> Slice:
    return part.astype(np.complex128 if np.iscomplexobj(part) else np.float64, copy=False)


def _square(array: Slice) -> float:
    return float(np.vdot(array, array).real)


def _ratio(part: float, whole: float) -> float:
    return float(np.sqrt(part / whole)) if whole > 0 else float(np.sqrt(part))


def _inner(left: Array, right: Array) -> Matrix:
    width = min(left.shape[1], right.shape[1])
    product = left[:, :width] @ right[:, :width].T
    return np.asarray(product.toarray() if sp.issparse(product) else product)
