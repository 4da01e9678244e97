"""Spectral embedded clustering on the views side by side."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.baselines.common import (
    EmbeddingClusterer,
    beside,
    column_scales,
    refuse_beyond,
    rotate_to_labels,
    scaled_arrays,
    warn_of_copies,
)
from manyview.baselines.graphs import (
    gram_matrix,
    heat_graph,
    nearest_neighbors,
    normalized_laplacian,
)
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, cluster_rows, without_empty
from manyview.views import Array

__all__ = ["SEC"]


_EPS = float(np.finfo(np.float64).eps)
_LARGEST_MU = 1e300  # sums with it are finite; the Laplacian is lost in rounding long before
_DENSE = 3000  # up to this many samples a matrix of samples by samples is formed


class SEC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EmbeddingClusterer):
    """Spectral Embedded Clustering of the views side by side, ``X = [X_1 ... X_V]``.

    A spectral embedding F that a linear function of the features can follow::

        J = tr(F' L F) + mu (|X W + 1 b' - F|^2 + gamma |W|^2),  F'F = I

    with L the normalised Laplacian of a neighbour graph of X with heat weights. For given F the
    best W and b have a closed form, and F are the eigenvectors of the smallest eigenvalues of
    ``L + mu L_g``, ``L_g = H - X_c (X_c'X_c + gamma I)^(-1) X_c'``, where ``X_c = H X`` is X with
    its columns centred. k-means on the rows of F gives the labels. The linear function embeds
    samples never seen.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    mu : float, default=1.0
        Weight of the linear function. The paper's range for `mu` and `gamma`, as it is cited, is
        1e-10, 1e-7, 1e-4, 1e-1, 1e2, 1e5, 1e8; the default is a choice made here. At 0 this is
        spectral clustering; with both large, relaxed k-means.
    gamma : float, default=1.0
        Weight of the penalty on W, positive.
    n_neighbors : int, default=10
        Neighbours of each sample in the graph, fewer than the samples.
    assign : {"kmeans", "rotation"}, default="kmeans"
        How F becomes labels: k-means on its rows, or the rotation of its rows of unit length that
        is nearest to a one-hot indicator.
    n_init : int, default=1
        Starts of k-means or of the rotation.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither. Results depend on it strongly.
    random_state : int, RandomState instance or None, default=None
        Seed.
    verbose : int, default=0
        1 shows a bar.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        F, with orthonormal columns.
    coef_ : ndarray of shape (n_features, n_clusters)
        W, features of all views one after another.
    intercept_ : ndarray of shape (n_clusters,)
        b.
    objective_ : ndarray of shape (1,)
        J.
    n_iter_ : int
        1: the solution is direct.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw.

    Notes
    -----
    Up to 3000 samples, or with at least as many features as samples, matrices of samples by
    samples are formed: about 40 n^2 bytes, refused beforehand beyond half of the memory. With
    more samples than that and fewer features, memory is that of the data, the graph, 24 D^2 bytes
    and the distances of up to 10,000 samples, 400 MB, of which the width of the weights is the
    median. Sparse views stay sparse. With more features than samples and a small gamma the linear
    function fits any F, and its term does nothing.

    `predict` gives a sample the cluster whose centre is nearest to its linear embedding;
    `labels_` come from F itself, so that the two can differ on the training samples. Of a sample
    with more copies than neighbours, which is warned of, copies can come into different clusters.

    Written after the objective; the solution through eigenvectors of ``X_c X_c'`` is one of
    several that are equal but for rounding.

    References
    ----------
    F. Nie, Z. Zeng, I. W. Tsang, D. Xu, C. Zhang. Spectral Embedded Clustering: A Framework for
    In-Sample and Out-of-Sample Spectral Clustering. IEEE Transactions on Neural Networks, 2011.

    Examples
    --------
    >>> from manyview.baselines import SEC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = SEC(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, model.predict(views.take([0, 1])).shape
    ((90,), (2,))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "mu": [Interval(Real, 0, _LARGEST_MU, closed="both")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "assign": [StrOptions({"kmeans", "rotation"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        mu: float = 1.0,
        gamma: float = 1.0,
        n_neighbors: int = 10,
        assign: str = "kmeans",
        n_init: int = 1,
        normalize: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.mu = mu
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.assign = assign
        self.n_init = n_init
        self.normalize = normalize
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
        SEC
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        rng, label_rng = self._generators()
        columns = column_scales(checked) if self.normalize == "columns" else None
        X = beside(scaled_arrays(checked, self.normalize, columns))
        if not _by_features(X):
            n = checked.n_samples
            refuse_beyond(40 * n**2, method="SEC", n_samples=n)
        with self._progress(1) as show:
            nearest = nearest_neighbors(X, self.n_neighbors)
            warn_of_copies([nearest], self.n_neighbors, self.n_clusters)
            laplacian = normalized_laplacian(heat_graph(X, nearest))
            solution = embed(X, laplacian, self.n_clusters, float(self.mu), float(self.gamma), rng)
            show(1, solution.objective)
        self.labels_, self._readout = self._read(solution.embedding, label_rng)
        self._assigned_by = self.assign
        self._record_views(checked)
        self._normalized_by = self.normalize
        self._columns = columns
        self.embedding_ = solution.embedding
        self.coef_ = solution.coefficients
        self.intercept_ = solution.intercept
        self.objective_ = np.array([solution.objective])
        self.n_iter_ = 1
        return self

    def _assigned(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        return self._read(embedding, rng)[0]

    def _read(self, embedding: Matrix, rng: np.random.Generator) -> tuple[Labels, Matrix]:
        """Return labels, and the centres of k-means or the rotation that gave them."""
        if self.assign == "kmeans":
            return cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)
        labels, rotation = rotate_to_labels(embedding, rng, n_init=self.n_init)
        return without_empty(labels, self.n_clusters), rotation

    def predict(self, views: Any) -> npt.NDArray[np.intp]:
        """Return the cluster of each sample of other views of the same kind.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            Views with the names and features of those of fit.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters.
        """
        embedded = self._embedded(views)
        if self._assigned_by == "rotation":
            return np.asarray((embedded @ self._readout).argmax(axis=1))
        nearest: npt.NDArray[np.intp] = pairwise_distances_argmin(embedded, self._readout)
        return nearest

    def transform(self, views: Any) -> Matrix:
        """Return the linear embedding ``X W + 1 b'``.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            Views with the names and features of those of fit.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Embedding, in the scale of ``embedding_``.
        """
        embedding: Matrix = self._as_output(self._embedded(views), views)
        return embedding

    def _embedded(self, views: Any) -> Matrix:
        checked = self._setup_predict(views)
        X = beside(scaled_arrays(checked, self._normalized_by, self._columns))
        return np.asarray(X @ self.coef_ + self.intercept_)

    @property
    def _n_features_out(self) -> int:
        return int(self.intercept_.size)


class Solution(NamedTuple):
    """What minimises the objective."""

    embedding: Matrix
    coefficients: Matrix
    intercept: Matrix
    objective: float


def embed(
    X: Array, laplacian: Array, n_clusters: int, mu: float, gamma: float, rng: np.random.Generator
) -> Solution:
    """Return the minimiser of the objective of SEC for given data and Laplacian."""
    n = X.shape[0]
    mean = np.asarray(X.mean(axis=0)).ravel()
    if _by_features(X):
        s, V = _feature_spectrum(X, mean)
        # the inverse of X_c'X_c + gamma I where it meets X_c'; elsewhere it is not needed
        shrunk = (V / (s + gamma)) @ V.T

        def misfit(M: Matrix) -> Matrix:
            centred = M - M.mean(axis=0)
            pulled = X.T @ centred  # of centred rows, so that X need not be
            pushed = X @ (shrunk @ pulled)
            return np.asarray(centred - (pushed - pushed.mean(axis=0)))

        def product(x: Matrix) -> Matrix:
            return np.asarray(laplacian @ x + mu * misfit(x))

        operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
        F = smallest_eigenvectors(operator, n_clusters, rng, bound=2.0 + mu)
        energy = np.sum(F * (laplacian @ F)) + mu * np.sum(F * misfit(F))
        W = shrunk @ (X.T @ (F - F.mean(axis=0)))
    else:
        s, U = _sample_spectrum(X, mean)
        matrix = mu * misfit_matrix(s, U, gamma)
        matrix += laplacian.toarray()
        F = smallest_eigenvectors(0.5 * (matrix + matrix.T), n_clusters, rng, bound=2.0 + mu)
        energy = np.sum(F * (matrix @ F))
        W = np.asarray(X.T @ (U @ ((U.T @ F) / (s + gamma)[:, None])))
    intercept = F.mean(axis=0) - mean @ W
    return Solution(F, W, intercept, float(energy))


def _by_features(X: Array) -> bool:
    """Whether matrices of features by features do, for many samples of fewer features."""
    n, d = X.shape
    return bool(n > _DENSE and d < n)


def misfit_matrix(s: Matrix, U: Matrix, gamma: float) -> Matrix:
    """Return ``L_g = H - U diag(s / (s + gamma)) U'``: what is left of F after the linear fit."""
    n = U.shape[0]
    misfit: Matrix = -(U * (s / (s + gamma))) @ U.T
    misfit -= 1.0 / n
    misfit[np.diag_indices(n)] += 1.0
    return misfit


def _sample_spectrum(X: Array, mean: Matrix) -> tuple[Matrix, Matrix]:
    """Non-zero eigenvalues of ``X_c X_c'`` and their eigenvectors, orthogonal to the ones."""
    n, d = X.shape
    if not sp.issparse(X) and d < n:
        U, roots, _ = scipy.linalg.svd(X - mean, full_matrices=False)
        kept = roots**2 > (n * _EPS * roots[0]) ** 2 + _centring_error(X)
        return roots[kept] ** 2, U[:, kept]
    s, U = scipy.linalg.eigh(gram_matrix(X))
    # the ones are such a null vector; its rounding against a tiny gamma would break L_g 1 = 0
    kept = s > d * _EPS * s[-1] + _centring_error(X)
    return s[kept], U[:, kept]


def _feature_spectrum(X: Array, mean: Matrix) -> tuple[Matrix, Matrix]:
    """Non-zero eigenvalues of ``X_c'X_c`` and their eigenvectors."""
    n = X.shape[0]
    if not sp.issparse(X):  # no squares, which halve the digits of views of different scales
        _, roots, Vt = scipy.linalg.svd(X - mean, full_matrices=False)
        kept = roots**2 > (n * _EPS * roots[0]) ** 2 + _centring_error(X)
        return roots[kept] ** 2, Vt[kept].T
    gram = (X.T @ X).toarray() - n * np.outer(mean, mean)
    s, V = scipy.linalg.eigh(0.5 * (gram + gram.T))
    kept = s > n * _EPS * s[-1] + _centring_error(X)
    return s[kept], V[:, kept]


def _centring_error(X: Array) -> float:
    """Size of the eigenvalues that rounding in the centring of X can feign."""
    n, d = X.shape
    if sp.issparse(X):  # inner products are centred, not the rows themselves
        return float(max(n, d) * _EPS * max((X * X).sum(axis=k).max() for k in (0, 1)))
    return float(16 * n * d * (_EPS * np.abs(X).max()) ** 2)
