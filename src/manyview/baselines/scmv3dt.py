"""SCMV-3DT: samples written as combinations of each other, all views in one tensor product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.baselines.common import EmbeddingClusterer, refuse_beyond, scaled_arrays
from manyview.baselines.graphs import normalized_laplacian
from manyview.iterate import Iterated, warn_if_early
from manyview.linalg.eigen import largest_eigenpairs, smallest_eigenvectors
from manyview.linalg.partition import unit_rows
from manyview.linalg.tproduct import (
    Slice,
    Tensor,
    from_fourier,
    slice_multiplicity,
    threshold_singular_values,
    to_fourier,
)
from manyview.views import Array, has_equal_rows

__all__ = ["SCMV3DT", "gram_tensor", "largest_sparsity", "self_expression", "shrunk_tubes"]


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


_TENSORS = 14  # of V N^2 doubles, held at once at the peak
_AT_ZERO = 1e-3  # part by which the objective may differ from that of no coefficients


class SCMV3DT(EmbeddingClusterer):
    """Subspace clustering of several views through the t-product, sparse and of low rank.

    The views, samples as columns, are the slices of a D x N x V tensor X, and every sample is
    written as a combination of the others, with coefficients that are tubes of length V::

        min over Z of  1/2 |X - X * Z|^2 + lam_s sum_ij |Z(i, j, :)| + lam_l |Z|_TNN
        subject to  Z(i, i, :) = 0

    where ``*`` is the t-product, ``(X * Z)_k = sum_j X_j Z_(k - j mod V)``, and the tensor
    nuclear norm is the mean over slices of the sums of singular values after a Fourier
    transform along the tubes. The clusters are those of spectral clustering with the affinity
    ``sum_k |Z_k|``, made symmetric.

    This is a reconstruction from the description in the paper's abstract: the exact objective,
    the way the views become a tensor, the affinity and the optimiser are choices made here. It
    is no faithful copy, and its scores can differ from published ones in either direction.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    sparsity : float, default=0.1
        Weight lam_s, commonly 0.01 to 0.3. From some value on all coefficients are zero, which
        is an error that names the value.
    low_rank : float, default=0.1
        Weight lam_l, commonly 0.01 to 1.
    construction : {"pca", "pad", "block"}, default="pca"
        How views of different width become slices of one tensor. ``"pca"`` takes the first
        `n_components` scores of each, without centring; ``"pad"`` appends zeros to the
        narrower ones; ``"block"`` gives each rows of its own, with which the slices decouple
        and the method is that for the views side by side.
    n_components : int, default=50
        Number of scores for ``"pca"``.
    max_iter : int, default=500
        Most iterations of ADMM.
    tol : float, default=1e-3
        Stop when the primal and the dual residual are both below this part of what they are
        differences of.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, standardise its features, or neither.
    n_init : int, default=1
        Number of starts of k-means.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means.
    verbose : int, default=0
        1 shows a bar with the larger residual.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        Eigenvectors of the affinity's Laplacian, rows of unit length.
    affinity_ : ndarray of shape (n_samples, n_samples)
        Affinity.
    objective_ : ndarray of shape (n_iter_,)
        Objective after every iteration, each term at the copy of Z that it shapes. ADMM is not
        monotone.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw: the number of views, and of each its number of features, its name and the
        names of its features, or None.

    Notes
    -----
    The order of the views matters for four or more: a circular shift or a reversal leaves the
    affinity as it is, another order does not. ``view_names_`` records it. With ``"pca"`` the
    signs of the scores matter as well, since components of different views are multiplied, and
    nothing in the data says which are right; each component takes the sign with which the scores
    of all samples, the same in every view, sum to a positive number. Labels can differ much
    between choices, and where singular values are equal, as in views with copies of rows, rounding
    makes one; ``"pad"`` and ``"block"`` have none to make.

    A view whose rows, once scaled, are all the same takes no part, unless all are such.

    Up to 14 V N^2 numbers are held; a fit that would need more than half of the machine's memory
    is refused. An iteration costs O(V N^3), whatever the width of the views: the eigenvalues of
    an N x N matrix a slice, most of which count as a rule. For more than 256 samples the
    iterations are in single precision at first, and in double precision at the end. There is no
    `predict`: a sample that was not there has no coefficients.

    References
    ----------
    M. Yin, J. Gao, S. Xie, Y. Guo. Multiview Subspace Clustering via Tensorial t-Product
    Representation. IEEE Transactions on Neural Networks and Learning Systems, 2019.

    Examples
    --------
    >>> from manyview.baselines import SCMV3DT
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=40, n_clusters=3, random_state=0)
    >>> model = SCMV3DT(n_clusters=3, random_state=0).fit(views)
    >>> model.affinity_.shape, model.embedding_.shape
    ((40, 40), (40, 3))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "low_rank": [Interval(Real, 0, None, closed="left")],
        "construction": [StrOptions({"pca", "pad", "block"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        sparsity: float = 0.1,
        low_rank: float = 0.1,
        construction: str = "pca",
        n_components: int = 50,
        max_iter: int = 500,
        tol: float = 1e-3,
        normalize: str | None = "rows",
        n_init: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.sparsity = sparsity
        self.low_rank = low_rank
        self.construction = construction
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.normalize = normalize
        self.n_init = n_init
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, views: Any, y: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            The views; see :func:`manyview.as_views`.
        y : ignored
            There for scikit-learn's sake; labels take no part.

        Returns
        -------
        SCMV3DT
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        n = checked.n_samples
        refuse_beyond(8.0 * _TENSORS * len(checked) * n**2, method="SCMV3DT", n_samples=n)
        rng, label_rng = self._generators()
        arrays = without_equal_rows(scaled_arrays(checked, self.normalize))
        if self.construction == "pca":
            arrays = [leading_scores(array, self.n_components) for array in arrays]
        gram = gram_tensor(arrays, separate=self.construction == "block")
        largest = largest_sparsity(gram)
        if self.sparsity >= largest:
            raise ValueError(self._nothing_left(largest))
        with self._progress(self.max_iter, "residual") as show:
            found = self_expression(
                gram,
                sparsity=float(self.sparsity),
                low_rank=float(self.low_rank),
                max_iter=self.max_iter,
                tol=self.tol,
                on_iteration=show,
            )
        if not found.state.any():
            # where the solution is zero the objective settles, and the relative residuals do not
            zero = 0.5 * float(np.trace(gram[0]))
            if abs(found.objective[-1] - zero) > _AT_ZERO * zero:
                raise ValueError(self._nothing_yet(found))
            raise ValueError(self._nothing_left(largest))
        affinity = affinity_of(found.state)
        laplacian = normalized_laplacian(affinity)
        embedding = unit_rows(smallest_eigenvectors(laplacian, self.n_clusters, rng))
        self.labels_ = self._assigned(embedding, label_rng)
        self.embedding_ = embedding
        self.affinity_ = affinity
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        self._record_views(checked)
        warn_if_early(
            found, what="the residual", remedy=f"raise max_iter, or tol above {self.tol:g}"
        )
        return self

    def _nothing_left(self, largest: float) -> str:
        return (
            f"sparsity={self.sparsity:g} and low_rank={self.low_rank:g} leave every coefficient "
            f"zero: sparsity must be below lam_s,max = {largest:.4g} for these views, and further "
            "below the larger low_rank is"
        )

    def _nothing_yet(self, found: Iterated[Tensor]) -> str:
        remedy = f"raise max_iter above {self.max_iter}"
        if found.converged:
            remedy = f"lower tol below {self.tol:g}"
        elif found.interrupted:
            remedy = "interrupt it later"
        done = len(found.objective)
        return f"every coefficient is still zero after {done} iteration(s), too few; {remedy}"


def without_equal_rows(arrays: Sequence[Array]) -> list[Array]:
    """Return the views that tell samples apart; all of them where none does."""
    return [array for array in arrays if not has_equal_rows(array)] or list(arrays)


def leading_scores(X: Array, n_components: int) -> Matrix:
    """Return the first scores U S of the singular value decomposition of X, without centring.

    The entries of every column sum to a positive number or, where they are centred, the largest
    is positive. There are fewer columns where X has fewer rows or features.
    """
    wide = X.shape[1] > X.shape[0]
    square = X @ X.T if wide else X.T @ X
    square = square.toarray() if sp.issparse(square) else np.asarray(square)
    kept = min(n_components, square.shape[0])
    squares, vectors = largest_eigenpairs(square, kept)
    squares = np.maximum(squares, 0.0)
    scores = np.asarray(vectors * np.sqrt(squares) if wide else X @ vectors)
    # what is left of a singular value that rounding alone makes positive has no direction
    scores[:, squares <= 1e-13 * squares[0]] = 0.0
    sums = scores.sum(axis=0)
    peaks = scores[np.abs(scores).argmax(axis=0), np.arange(kept)]
    centred = np.abs(sums) <= 1e-8 * np.abs(scores).sum(axis=0)
    return scores * np.where(np.where(centred, peaks, sums) < 0, -1.0, 1.0)


def affinity_of(coefficients: Tensor) -> Matrix:
    """Return the sum of the magnitudes of the slices, made symmetric."""
    total: Matrix = np.abs(coefficients).sum(axis=0)
    return 0.5 * (total + total.T)
