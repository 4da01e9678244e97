"""SCMV-3DT: samples written as combinations of each other, all views in one tensor product."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from manyview.base import MultiViewClusterer
from manyview.baselines.graphs import normalized_laplacian, refuse_beyond, smallest_eigenvectors
from manyview.baselines.scaling import scaled_arrays
from manyview.linalg.embedding import unit_rows
from manyview.linalg.partition import cluster_rows
from manyview.linalg.tproduct import (
    Slice,
    Tensor,
    from_fourier,
    slice_multiplicity,
    squared_norm,
    threshold_singular_values,
    to_fourier,
)
from manyview.progress import ProgressBar
from manyview.views import Array

__all__ = ["SCMV3DT"]

Matrix = npt.NDArray[np.floating[Any]]

_RELAXATION = 1.6
_BALANCE_EVERY = 5
_BALANCE_UNTIL = 150  # convergence is proved for a penalty that is fixed from some iteration on
_IMBALANCE = 5.0
_TENSORS = 18  # of V N^2 doubles, held at once at the peak


class SCMV3DT(MultiViewClusterer):
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
    nothing in the data says which are right; the largest score of each component is made
    positive. Labels can differ much between choices; ``"pad"`` and ``"block"`` have none to make.

    Up to 18 V N^2 numbers are held; a fit that would need more than half of the machine's memory
    is refused. An iteration costs O(V N^3), whatever the width of the views. There is no
    `predict`: a sample that was not there has no coefficients.

    References
    ----------
    M. Yin, J. Gao, S. Xie, Y. Guo. Multiview Subspace Clustering via Tensorial t-Product
    Representation. IEEE Transactions on Neural Networks and Learning Systems, 2019.

    Examples
    --------
    >>> from manyview.baselines.scmv3dt import SCMV3DT
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
        refuse_beyond(8.0 * _TENSORS * len(checked) * checked.n_samples**2)
        rng = self._generator()
        arrays = scaled_arrays(checked, self.normalize)
        if self.construction == "pca":
            arrays = [leading_scores(array, self.n_components) for array in arrays]
        gram = gram_tensor(arrays, separate=self.construction == "block")
        largest = largest_sparsity(gram)
        if self.sparsity >= largest:
            raise ValueError(self._nothing_left(largest))
        with ProgressBar("SCMV3DT", total=self.max_iter, shown=bool(self.verbose)) as bar:
            found = self_expression(
                gram,
                sparsity=float(self.sparsity),
                low_rank=float(self.low_rank),
                max_iter=self.max_iter,
                tol=self.tol,
                on_iteration=lambda n, residual: bar.step(n, f"residual {residual:.3g}"),
            )
        if not found.coefficients.any():
            raise ValueError(self._nothing_left(largest))
        affinity = affinity_of(found.coefficients)
        laplacian = normalized_laplacian(affinity)
        embedding = unit_rows(smallest_eigenvectors(laplacian, self.n_clusters, rng))
        self.labels_, _ = cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)
        self.embedding_ = embedding
        self.affinity_ = affinity
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        self._record_views(checked)
        if not found.converged:
            warnings.warn(
                f"residual {found.residual:.3g} after max_iter={self.max_iter} iterations; raise "
                f"max_iter, or tol above {self.tol:g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _nothing_left(self, largest: float) -> str:
        return (
            f"sparsity={self.sparsity:g} and low_rank={self.low_rank:g} leave every coefficient "
            f"zero: sparsity must be below lam_s,max = {largest:.4g} for these views, and further "
            "below the larger low_rank is"
        )


def leading_scores(X: Array, n_components: int) -> Matrix:
    """Return the first scores U S of the singular value decomposition of X, without centring.

    The largest entry of every column is positive. Where X has a lower rank, columns of zeros
    fill up.
    """
    wide = X.shape[1] > X.shape[0]
    square = X @ X.T if wide else X.T @ X
    square = square.toarray() if sp.issparse(square) else np.asarray(square)
    size = square.shape[0]
    kept = min(n_components, size)
    squares, vectors = scipy.linalg.eigh(square, subset_by_index=(size - kept, size - 1))
    squares, vectors = np.maximum(squares[::-1], 0.0), vectors[:, ::-1]
    scores = np.zeros((X.shape[0], n_components))
    scores[:, :kept] = vectors * np.sqrt(squares) if wide else X @ vectors
    # what is left of a singular value that rounding alone makes positive has no direction
    scores[:, :kept][:, squares <= 1e-13 * squares[0]] = 0.0
    peaks = scores[np.abs(scores).argmax(axis=0), np.arange(n_components)]
    return scores * np.where(peaks < 0, -1.0, 1.0)


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
    tubes = np.sqrt(np.sum(gram**2, axis=0))
    np.fill_diagonal(tubes, 0.0)
    return float(tubes.max())


def affinity_of(coefficients: Tensor) -> Matrix:
    """Return the sum of the magnitudes of the slices, made symmetric."""
    total: Matrix = np.abs(coefficients).sum(axis=0)
    return 0.5 * (total + total.T)


@dataclass(frozen=True)
class SelfExpression:
    """Coefficients of samples in terms of each other, and how they were come by."""

    coefficients: Tensor
    objective: list[float]
    residual: float
    converged: bool


def self_expression(
    gram: Tensor,
    *,
    sparsity: float,
    low_rank: float,
    max_iter: int,
    tol: float,
    penalty: float = 1.0,
    balanced: bool = True,
    on_iteration: Callable[[int, float], None] | None = None,
) -> SelfExpression:
    """Minimise the objective of :class:`SCMV3DT` by ADMM.

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
    on_iteration : callable, optional
        Called with the number of iterations done and the larger residual.

    Returns
    -------
    SelfExpression
        Coefficients, the copy C: zero tubes are exactly zero.
    """
    depth, n = gram.shape[0], gram.shape[1]
    spectra = [scipy.linalg.eigh(part) for part in to_fourier(gram)]
    solvers = _solvers(spectra, penalty)
    sparse, sparse_dual = np.zeros_like(gram), np.zeros_like(gram)
    low = [np.zeros_like(vectors) for _, vectors in spectra]
    low_dual = [np.zeros_like(vectors) for _, vectors in spectra]
    counts = slice_multiplicity(depth)
    objective: list[float] = []
    for done in range(1, max_iter + 1):
        whole: list[Slice] = []
        misfit = nuclear = 0.0
        targets = to_fourier(sparse - sparse_dual)
        for k, (solver, count) in enumerate(zip(solvers, counts, strict=True)):
            target = targets.pop(0)
            target += low[k]
            target -= low_dual[k]
            target.flat[:: n + 1] -= 2.0
            part = penalty * (solver @ target)
            part.flat[:: n + 1] += 1.0
            # G (I - Z) follows from the equation that Z solves, without another product
            slope = 2.0 * part - target
            slope.flat[:: n + 1] -= 2.0
            misfit += count * penalty * float(np.trace(slope).real - np.vdot(part, slope).real)
            whole.append(part)
        tensor = from_fourier(whole, depth)

        sparse_dual += _RELAXATION * tensor
        sparse_dual += (1.0 - _RELAXATION) * sparse
        before, (sparse, tubes) = sparse, shrunk_tubes(sparse_dual, sparsity / penalty)
        sparse_dual -= sparse
        moved, apart = _square(sparse - before), _square(tensor - sparse)
        for k, count in enumerate(counts):
            mixed = _RELAXATION * whole[k] + (1.0 - _RELAXATION) * low[k] + low_dual[k]
            lowered, values = mixed, 0.0
            if low_rank > 0:
                lowered, values = threshold_singular_values(mixed, low_rank / penalty)
            nuclear += count * values
            low_dual[k] = mixed - lowered
            moved += count * _square(lowered - low[k]) / depth
            apart += count * _square(whole[k] - lowered) / depth
            low[k] = lowered

        objective.append((0.5 * misfit + low_rank * nuclear) / depth + sparsity * tubes)
        copies_size = _square(sparse) + squared_norm(low, depth)
        duals_size = _square(sparse_dual) + squared_norm(low_dual, depth)
        primal = _ratio(apart, max(2.0 * _square(tensor), copies_size))
        dual = _ratio(moved, duals_size)
        if on_iteration is not None:
            on_iteration(done, max(primal, dual))
        if max(primal, dual) < tol:
            return SelfExpression(sparse, objective, max(primal, dual), converged=True)
        if balanced and done <= _BALANCE_UNTIL and done % _BALANCE_EVERY == 0:
            factor = _balance(primal, dual)
            if factor != 1.0:
                penalty *= factor
                sparse_dual = sparse_dual / factor
                low_dual = [part / factor for part in low_dual]
                solvers = _solvers(spectra, penalty)
    return SelfExpression(sparse, objective, max(primal, dual), converged=False)


def shrunk_tubes(tensor: Tensor, by: float) -> tuple[Tensor, float]:
    """Return tubes with lengths lowered by `by`, down to 0, none on the diagonal; their sum."""
    lengths = np.sqrt(np.sum(tensor**2, axis=0))
    np.fill_diagonal(lengths, 0.0)
    left = np.maximum(lengths - by, 0.0)
    factors = np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0)
    return tensor * factors, float(left.sum())


def _solvers(spectra: Sequence[tuple[Matrix, Slice]], penalty: float) -> list[Slice]:
    """Inverses of ``G_k + 2 penalty I`` from the eigenvalues and eigenvectors of G_k."""
    return [
        (vectors / (np.maximum(values, 0.0) + 2.0 * penalty)) @ vectors.conj().T
        for values, vectors in spectra
    ]


def _balance(primal: float, dual: float) -> float:
    if primal > _IMBALANCE * dual:
        return 2.0
    return 0.5 if dual > _IMBALANCE * primal else 1.0


def _square(array: Slice) -> float:
    return float(np.vdot(array, array).real)


def _ratio(part: float, whole: float) -> float:
    return float(np.sqrt(part / whole)) if whole > 0 else float(np.sqrt(part))


def _inner(left: Array, right: Array) -> Matrix:
    width = min(left.shape[1], right.shape[1])
    product = left[:, :width] @ right[:, :width].T
    return np.asarray(product.toarray() if sp.issparse(product) else product)
