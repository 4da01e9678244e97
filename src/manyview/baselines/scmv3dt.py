"""SCMV-3DT: samples written as combinations of each other, all views in one tensor product."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.baselines.eigenvectors import smallest_eigenvectors
from manyview.baselines.embedding import EmbeddingClusterer
from manyview.baselines.graphs import normalized_laplacian
from manyview.baselines.memory import refuse_beyond
from manyview.baselines.scaling import scaled_arrays
from manyview.baselines.self_expression import gram_tensor, largest_sparsity, self_expression
from manyview.iterate import Iterated, warn_if_early
from manyview.linalg.eigh import largest_eigenpairs
from manyview.linalg.embedding import unit_rows
from manyview.linalg.tproduct import Tensor
from manyview.views import Array, has_equal_rows

__all__ = ["SCMV3DT"]


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
