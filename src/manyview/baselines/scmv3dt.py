"""Subspace clustering of several views through the t-product (SCMV-3DT).

The estimator comes first, then the tensor of the views, then the ADMM solver. A tensor is an array
of shape (V, n, m); its Fourier transform along the views is a list of slices, see
:mod:`manyview.linalg.tproduct`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix, Scaling
from manyview.baselines.common import (
    AT_LEAST_ONE,
    Baseline,
    EmbeddingClusterer,
    check_pairwise_memory,
    scaled_arrays,
)
from manyview.baselines.graphs import normalized_laplacian
from manyview.iterate import Iterated
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
from manyview.views import Array, Views, has_equal_rows

__all__ = ["SCMV3DT"]

_TENSORS = 14  # of V N^2 doubles, held at the peak


class SCMV3DT(EmbeddingClusterer):
    """Sparse and low-rank subspace clustering of several views through the t-product.

    The views, with samples as columns, are the slices of a D x N x V tensor X. Every sample is
    expressed as a combination of the others, with coefficients that are tubes of length V::

        min over Z of  1/2 |X - X * Z|^2 + lam_s sum_ij |Z(i, j, :)| + lam_l |Z|_TNN
        subject to  Z(i, i, :) = 0

    where ``*`` is the t-product, ``(X * Z)_k = sum_j X_j Z_(k - j mod V)``, and the tensor
    nuclear norm is the mean over slices of the sums of singular values after a Fourier transform
    along the tubes. Spectral clustering of the symmetrised affinity ``sum_k |Z_k|`` gives the
    labels.

    This is a reconstruction from the abstract of the paper and not a faithful copy. The exact
    objective, the construction of the tensor, the affinity and the solver are choices made here,
    and scores can differ from published ones in either direction.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    sparsity : float, default=0.1
        Weight lam_s, commonly 0.01 to 0.3. A value so large that all coefficients are zero raises
        a ValueError that names the bound.
    low_rank : float, default=0.1
        Weight lam_l, commonly 0.01 to 1.
    construction : {"pca", "pad", "block"}, default="pca"
        How views of different width become slices of one tensor. ``"pca"`` takes the first
        `n_components` scores of each view, without centring. ``"pad"`` appends zeros to the
        narrower views. ``"block"`` gives each view its own rows, which decouples the slices: the
        method is then that for the concatenated views.
    n_components : int, default=50
        Number of scores for ``"pca"``.
    max_iter : int, default=500
        Maximum number of ADMM iterations.
    tol : float, default=1e-3
        Stop when the relative primal and dual residuals are both below this value.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, standardise its features, or neither.
    n_init : int, default=1
        Number of initialisations of k-means.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means.
    verbose : int, default=0
        1 shows a progress bar with the larger residual.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        Eigenvectors of the Laplacian of the affinity, with rows of unit length.
    affinity_ : ndarray of shape (n_samples, n_samples)
        Affinity.
    objective_ : ndarray of shape (n_iter_,)
        Objective after every iteration, each term evaluated at its own copy of Z. ADMM is not
        monotone.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    The order of four or more views matters: only circular shifts and reversal keep the affinity.
    ``view_names_`` records the order. With ``"pca"`` the signs of the scores matter too, because
    components of different views are multiplied, and the data do not determine them. Here each
    component has the sign for which the scores of all samples sum to a positive number. Labels
    can differ much between signs, and rounding decides if singular values are equal, as in views
    with duplicate rows. ``"pad"`` and ``"block"`` do not have this problem.

    A view whose rows are equal after scaling is left out, unless all are such.

    Up to 14 V N^2 numbers are held; a fit that would need more than half of the memory is
    rejected. An iteration costs O(V N^3), whatever the width of the views. For more than 256
    samples the first iterations are in single precision and the last ones in double precision.
    There is no `predict`, because an out-of-sample point has no coefficients.

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

    _monitored = "the residual"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "low_rank": [Interval(Real, 0, None, closed="left")],
        "construction": [StrOptions({"pca", "pad", "block"})],
        "n_components": [AT_LEAST_ONE],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        sparsity: float = 0.1,
        low_rank: float = 0.1,
        construction: Literal["pca", "pad", "block"] = "pca",
        n_components: int = 50,
        max_iter: int = 500,
        tol: float = 1e-3,
        normalize: Scaling | None = "rows",
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

    def _fit(self, views: Views) -> Iterated[Any]:
        n = views.n_samples
        check_pairwise_memory(8.0 * _TENSORS * views.n_views * n**2, method="SCMV3DT", n_samples=n)
        rng, label_rng = self._generators(self.random_state)
        arrays = scaled_arrays(views, self.normalize)
        arrays = [X for X in arrays if not has_equal_rows(X)] or arrays
        if self.construction == "pca":
            arrays = [leading_scores(X, self.n_components) for X in arrays]
        gram = gram_tensor(arrays, separate=self.construction == "block")
        with self._progress(self.max_iter, "residual") as show:
            found = self._solve(gram, show)
        affinity = affinity_of(found.state)
        laplacian = normalized_laplacian(affinity)
        embedding = unit_rows(smallest_eigenvectors(laplacian, self.n_clusters, rng))
        self.labels_ = self._cluster(embedding, label_rng)
        self.embedding_ = embedding
        self.affinity_ = affinity
        return found

    def _solve(self, gram: Tensor, on_iteration: Callable[[int, float], None]) -> Iterated[Tensor]:
        """Return the coefficients, or raise ValueError if all of them are zero."""
        largest = largest_sparsity(gram)
        all_zero = (
            f"sparsity={self.sparsity:g} and low_rank={self.low_rank:g} make all coefficients "
            f"zero. For these views sparsity must be below {largest:.4g}, and lower for a large "
            "low_rank"
        )
        if self.sparsity >= largest:
            raise ValueError(all_zero)
        found = self_expression(
            gram,
            sparsity=float(self.sparsity),
            low_rank=float(self.low_rank),
            max_iter=self.max_iter,
            tol=self.tol,
            on_iteration=on_iteration,
        )
        if found.state.any():
            return found
        # at a zero solution the objective converges although the relative residuals do not
        at_zero = 0.5 * float(np.trace(gram[0]))
        if abs(found.objective[-1] - at_zero) <= 1e-3 * at_zero:
            raise ValueError(all_zero)
        remedy = f"increase max_iter={self.max_iter}"
        if found.converged:
            remedy = f"decrease tol={self.tol:g}"
        elif found.interrupted:
            remedy = "interrupt the fit later"
        done = len(found.objective)
        raise ValueError(f"all coefficients are still zero after {done} iterations; {remedy}")


# The tensor of the views


def leading_scores(X: Array, n_components: int) -> Matrix:
    """Return the first scores U S of the singular value decomposition of X, without centring.

    The sum of every column is positive or, if the column is centred, its largest entry is. There
    are fewer columns if X has fewer rows or features.
    """
    wide = X.shape[1] > X.shape[0]
    square = X @ X.T if wide else X.T @ X
    square = square.toarray() if sp.issparse(square) else np.asarray(square)
    kept = min(n_components, square.shape[0])
    squares, vectors = largest_eigenpairs(square, kept)
    squares = np.maximum(squares, 0.0)
    scores = np.asarray(vectors * np.sqrt(squares) if wide else X @ vectors)
    # singular values that are positive by rounding only have no direction
    scores[:, squares <= 1e-13 * squares[0]] = 0.0
    sums = scores.sum(axis=0)
    peaks = scores[np.abs(scores).argmax(axis=0), np.arange(kept)]
    centred = np.abs(sums) <= 1e-8 * np.abs(scores).sum(axis=0)
    return scores * np.where(np.where(centred, peaks, sums) < 0, -1.0, 1.0)


def gram_tensor(arrays: Sequence[Array], *, separate: bool) -> Tensor:
    """Return ``X^T * X`` for views as slices of X: slice k is ``sum_v X_v X_(v + k mod V)'``.

    Narrower views count as padded with zeros. With `separate` each view has its own rows in X, so
    that products of different views are zero.
    """
    depth, n = len(arrays), arrays[0].shape[0]
    gram = np.zeros((depth, n, n))
    for lag in range(1 if separate else depth // 2 + 1):
        for v in range(depth):
            left, right = arrays[v], arrays[(v + lag) % depth]
            width = min(left.shape[1], right.shape[1])
            product = left[:, :width] @ right[:, :width].T
            gram[lag] += product.toarray() if sp.issparse(product) else product
        gram[-lag % depth] = gram[lag].T
    return gram


def largest_sparsity(gram: Tensor) -> float:
    """Return the smallest lam_s for which all coefficients are zero with lam_l = 0."""
    peak = float(np.abs(gram).max()) or 1.0  # its square may overflow
    tubes = np.sqrt(np.sum((gram / peak) ** 2, axis=0))
    np.fill_diagonal(tubes, 0.0)
    return peak * float(tubes.max())


def affinity_of(coefficients: Tensor) -> Matrix:
    """Return the symmetrised sum of the magnitudes of the slices."""
    total: Matrix = np.abs(coefficients).sum(axis=0)
    return 0.5 * (total + total.T)


# ADMM


@dataclass(frozen=True)
class AdmmSettings:
    """Tuning constants of the solver, which change its speed but not the solution.

    More than `fast_from` samples are fitted in single precision at first, and an iteration then
    updates Z and C `fast_steps` times and L, which is the expensive part, once. The last
    iterations are in double precision in any case.
    """

    penalty: float = 1.0  # initial mu
    relaxation: float = 1.6
    balance_every: int = 5  # iterations between changes of mu
    balance_until: int = 150  # convergence is proved for a mu that is eventually fixed
    imbalance: float = 5.0  # ratio of the residuals that doubles or halves mu
    fast_from: int = 256
    fast_steps: int = 2
    single_until: int = 150  # last iteration in single precision
    single_residual: float = 1e-3  # residual that ends single precision
    single_threshold: float = 0.015  # smallest singular value threshold in single precision
    zero_eigenvalue: float = 1e-13  # relative size of eigenvalues that count as zero
    entries_at_once: int = 1 << 16  # of a tensor, so that entrywise work stays in the cache


def self_expression(
    gram: Tensor,
    *,
    sparsity: float,
    low_rank: float,
    max_iter: int,
    tol: float,
    settings: AdmmSettings = AdmmSettings(),
    on_iteration: Callable[[int, float], None] = lambda done, residual: None,
) -> Iterated[Tensor]:
    """Minimise the objective of :class:`SCMV3DT` for the Gram tensor ``X^T * X`` by ADMM.

    Z has a copy C for the sparse term and a copy L for the low-rank term. The result is C, in
    which zero tubes are exactly zero. `on_iteration` receives the number of iterations and the
    larger residual.
    """
    admm = _Admm(gram, sparsity, low_rank, settings)
    found = Iterated(admm.C.copy())  # C is updated in place
    try:
        for done in range(1, max_iter + 1):
            too_fine = 0 < low_rank / admm.mu < settings.single_threshold
            if too_fine or done > settings.single_until:
                admm.use_double_precision()
            value, primal, dual = admm.iterate()
            found.state, found.objective = admm.C.copy(), [*found.objective, value]
            residual = max(primal, dual)
            on_iteration(done, residual)
            if residual < tol and not admm.is_single:
                found.converged = True
                break
            if admm.is_single and residual < max(tol, settings.single_residual):
                admm.use_double_precision()
            elif done <= settings.balance_until and done % settings.balance_every == 0:
                admm.balance(primal, dual)
    except KeyboardInterrupt:
        if not found.objective:
            raise
        found.interrupted = True
    found.state = found.state.astype(np.float64, copy=False)
    return found


class _Admm:
    """The iterate of ADMM: copies C and L of Z with scaled duals Y1 and Y2, and the penalty mu.

    C and Y1 are tensors. Z, L and Y2 are slices of the Fourier transform, in which their updates
    separate; `spectra` are the eigenvalues and eigenvectors of the Gram tensor there.
    """

    def __init__(
        self, gram: Tensor, sparsity: float, low_rank: float, settings: AdmmSettings
    ) -> None:
        self.sparsity, self.low_rank, self.settings = sparsity, low_rank, settings
        self.mu = settings.penalty
        self.depth, self.n = gram.shape[:2]
        self.counts = slice_multiplicity(self.depth)
        self.spectra = [self._spectrum(part) for part in to_fourier(gram)]
        self._exact_spectra = self.spectra
        self.is_single = self.n > settings.fast_from
        self.steps = settings.fast_steps if self.is_single else 1
        if self.is_single:
            self.spectra = [(_cast(s, single=True), _cast(Q, single=True)) for s, Q in self.spectra]
        self.C = np.zeros(gram.shape, self.spectra[0][0].dtype)
        self.Y1 = np.zeros_like(self.C)
        self.L, self.Y2 = (
            [np.zeros((self.n, self.n), Q.dtype) for _, Q in self.spectra] for _ in range(2)
        )

    def _spectrum(self, part: Slice) -> tuple[Matrix, Slice]:
        values, vectors = scipy.linalg.eigh(part, driver="evd", check_finite=False)
        kept = values > self.settings.zero_eigenvalue * max(float(values[-1]), 0.0)
        return values[kept], np.ascontiguousarray(vectors[:, kept])

    def use_double_precision(self) -> None:
        self.spectra, self.is_single = self._exact_spectra, False
        self.C, self.Y1 = _cast(self.C, single=False), _cast(self.Y1, single=False)
        self.L = [_cast(part, single=False) for part in self.L]
        self.Y2 = [_cast(part, single=False) for part in self.Y2]

    def balance(self, primal: float, dual: float) -> None:
        """Double or halve mu if one residual is far larger, and rescale the duals."""
        if primal > self.settings.imbalance * dual:
            factor = 2.0
        elif dual > self.settings.imbalance * primal:
            factor = 0.5
        else:
            return
        self.mu *= factor
        for part in (self.Y1, *self.Y2):
            part *= 1.0 / factor

    def iterate(self) -> tuple[float, float, float]:
        """Update all but mu; return the objective, the primal and the dual residual."""
        for _ in range(self.steps):
            Z, misfit = self._update_Z()
            of_C, size, tubes = self._update_C(Z)
        of_L, nuclear = self._update_L(Z)
        moved, apart, length, dual_length = (of_C + of_L).tolist()
        value = (0.5 * misfit + self.low_rank * nuclear) / self.depth + self.sparsity * tubes
        return value, _ratio(apart, max(2.0 * size, length)), _ratio(moved, dual_length)

    def _update_Z(self) -> tuple[list[Slice], float]:
        """Return ``Z = (G + 2 mu I)^-1 (G + mu (C - Y1 + L - Y2))`` and the misfit.

        The misfit ``|X (I - Z)|^2`` is summed over the slices. With ``T = C - Y1 + L - Y2 - 2 I``
        it is ``Z = I + mu (G + 2 mu I)^-1 T``, and ``mu (G + 2 mu I)^-1`` is half the identity
        less a matrix of the rank of G.
        """
        mu = self.mu
        Z = [np.empty_like(part) for part in self.L]
        for rows in self._blocks(self.depth):
            difference = to_fourier(self.C[:, rows] - self.Y1[:, rows])
            for k, part in enumerate(Z):
                np.add(difference[k], self.L[k][rows], out=part[rows])
                part[rows] -= self.Y2[k][rows]
        misfit = 0.0
        for part, (values, Q), count in zip(Z, self.spectra, self.counts, strict=True):
            part.flat[:: self.n + 1] -= 2.0
            reduced = Q.conj().T @ part
            reduced *= (mu / (values + 2.0 * mu))[:, None]
            squares = np.einsum("ij,ij->i", reduced.real, reduced.real)
            if np.iscomplexobj(reduced):
                squares += np.einsum("ij,ij->i", reduced.imag, reduced.imag)
            misfit += count * float(values @ squares)
            reduced *= (values / (2.0 * mu))[:, None]
            part *= 0.5
            part -= Q @ reduced
            part.flat[:: self.n + 1] += 1.0
        return Z, misfit

    def _update_C(self, Z: Sequence[Slice]) -> tuple[Matrix, float, float]:
        """Update C and Y1; return four squared lengths, that of Z, and the sum of the tubes.

        The four, of the change of C, of C - Z, of C and of Y1, make up the residuals.
        """
        relaxation = self.settings.relaxation
        total = np.zeros(6)
        for rows in self._blocks(self.depth):
            tensor = from_fourier([part[rows] for part in Z], self.depth)
            before = self.C[:, rows]
            mixed = relaxation * tensor
            mixed += (1.0 - relaxation) * before
            mixed += self.Y1[:, rows]
            C, tubes = shrunk_tubes(mixed, self.sparsity / self.mu, rows.start)
            mixed -= C
            size = _square(tensor)
            tensor -= C
            total += _square(C - before), _square(tensor), _square(C), _square(mixed), size, tubes
            self.C[:, rows] = C
            self.Y1[:, rows] = mixed
        return total[:4], float(total[4]), float(total[5])

    def _update_L(self, Z: Sequence[Slice]) -> tuple[Matrix, float]:
        """Update L and Y2; return the same four squared lengths and the sum of singular values."""
        relaxation, threshold = self.settings.relaxation, self.low_rank / self.mu
        total = np.zeros(4)
        nuclear = 0.0
        for k, count in enumerate(self.counts):
            before, mixed = self.L[k], self.Y2[k]
            for rows in self._blocks(1):
                mixed[rows] += relaxation * Z[k][rows]
                mixed[rows] += (1.0 - relaxation) * before[rows]
            L = mixed.copy()
            if threshold > 0:
                L, values = threshold_singular_values(mixed, threshold)
                nuclear += count * values
            for rows in self._blocks(1):
                mixed[rows] -= L[rows]
                parts = (L[rows] - before[rows], L[rows] - Z[k][rows], L[rows], mixed[rows])
                total += (count / self.depth) * np.array([_square(part) for part in parts])
            self.L[k] = L
        return total, nuclear

    def _blocks(self, depth: int) -> Iterator[slice]:
        step = max(1, self.settings.entries_at_once // (depth * self.n))
        return (slice(begin, min(self.n, begin + step)) for begin in range(0, self.n, step))


def shrunk_tubes(tensor: Tensor, by: float, first: int = 0) -> tuple[Tensor, float]:
    """Return the tubes shortened by `by`, down to 0, without the diagonal; and their total length.

    `first` is the index of the first row if the tensor consists of some rows of a larger one.
    """
    lengths = np.sqrt(np.einsum("vij,vij->ij", tensor, tensor))
    np.fill_diagonal(lengths[:, first:], 0.0)
    left = np.maximum(lengths - by, 0.0)
    total = float(left.sum(dtype=np.float64))
    factors = np.divide(left, lengths, out=left, where=lengths > 0)
    return tensor * factors, total


def _cast(array: Slice, *, single: bool) -> Slice:
    real, whole = (np.float32, np.complex64) if single else (np.float64, np.complex128)
    return array.astype(whole if np.iscomplexobj(array) else real, copy=False)


def _square(array: Slice) -> float:
    return float(np.vdot(array, array).real)


def _ratio(part: float, whole: float) -> float:
    return float(np.sqrt(part / whole)) if whole > 0 else float(np.sqrt(part))
