"""Spectral embedded clustering (SEC) of the concatenated views."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix, Scaling
from manyview.baselines.common import (
    Baseline,
    EmbeddingClusterer,
    check_pairwise_memory,
    column_scales,
    concatenated,
    scaled_arrays,
)
from manyview.baselines.graphs import (
    gram_matrix,
    heat_graph,
    nearest_neighbors,
    normalized_laplacian,
    warn_of_copies,
)
from manyview.iterate import Iterated
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, cluster_rows, unit_rows, without_empty
from manyview.views import Array, Views

__all__ = ["SEC"]

_EPS = float(np.finfo(np.float64).eps)
_LARGEST_MU = 1e300  # keeps sums finite
_DENSE = 3000  # up to this many samples a matrix of samples by samples is formed


class SEC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EmbeddingClusterer):
    """Spectral Embedded Clustering of the concatenated views, ``X = [X_1 ... X_V]``.

    SEC finds a spectral embedding F that a linear function of the features can approximate::

        J = tr(F' L F) + mu (|X W + 1 b' - F|^2 + gamma |W|^2),  F'F = I

    where L is the normalised Laplacian of a nearest-neighbour graph of X with heat weights. The
    best W and b for a given F have a closed form, and F consists of the eigenvectors of the
    smallest eigenvalues of ``L + mu L_g`` with ``L_g = H - X_c (X_c'X_c + gamma I)^(-1) X_c'``,
    where ``X_c = H X`` is X with centred columns. k-means on the rows of F gives the labels. The
    linear function embeds out-of-sample data.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    mu : float, default=1.0
        Weight of the linear function. The grid of the paper for `mu` and `gamma` is, as cited,
        1e-10, 1e-7, 1e-4, 1e-1, 1e2, 1e5, 1e8; the default is not from the paper. With 0 the
        method is spectral clustering; with both large it is relaxed k-means.
    gamma : float, default=1.0
        Weight of the penalty on W, positive.
    n_neighbors : int, default=10
        Number of neighbours in the graph, less than the number of samples.
    assign : {"kmeans", "rotation"}, default="kmeans"
        How labels are derived from F: k-means on its rows, or the rotation that brings its rows,
        scaled to unit length, closest to a one-hot indicator.
    n_init : int, default=1
        Number of initialisations of k-means or of the rotation.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither. The results depend strongly on it.
    random_state : int, RandomState instance or None, default=None
        Seed.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        F, with orthonormal columns.
    coef_ : ndarray of shape (n_features, n_clusters)
        W, for the features of the concatenated views.
    intercept_ : ndarray of shape (n_clusters,)
        b.
    objective_ : ndarray of shape (1,)
        J.
    n_iter_ : int
        1, since the solution is direct.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    Up to 3000 samples, or with at least as many features as samples, matrices of samples by
    samples take about 40 n^2 bytes; a fit that would need more than half of the memory is
    rejected. Otherwise memory is that of the data, the graph, 24 D^2 bytes and 400 MB of distances
    for the kernel width. Sparse views stay sparse.

    With more features than samples and a small gamma the linear function fits any F and has no
    effect. `predict` uses the linear embedding and `labels_` F itself, so that the two can differ
    on the training samples. Copies of a sample can be assigned to different clusters if there are
    more of them than neighbours, which is reported as a warning.

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
        **Baseline._parameter_constraints,
        "mu": [Interval(Real, 0, _LARGEST_MU, closed="both")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "assign": [StrOptions({"kmeans", "rotation"})],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        mu: float = 1.0,
        gamma: float = 1.0,
        n_neighbors: int = 10,
        assign: Literal["kmeans", "rotation"] = "kmeans",
        n_init: int = 1,
        normalize: Scaling | None = None,
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

    def _fit(self, views: Views) -> Iterated[Any]:
        rng, label_rng = self._generators(self.random_state)
        columns = column_scales(views) if self.normalize == "columns" else None
        X = concatenated(scaled_arrays(views, self.normalize, columns))
        n, d = X.shape
        by_features = n > _DENSE and d < n
        if not by_features:
            check_pairwise_memory(40 * n**2, method="SEC", n_samples=n)
        with self._progress(1) as show:
            nearest = nearest_neighbors(X, self.n_neighbors)
            warn_of_copies([nearest], self.n_neighbors, self.n_clusters)
            laplacian = normalized_laplacian(heat_graph(X, nearest))
            solve = _embed_by_features if by_features else _embed_by_samples
            F, W, objective = solve(
                X, laplacian, self.n_clusters, float(self.mu), float(self.gamma), rng
            )
            show(1, objective)
        self.labels_, self._readout = self._cluster_and_readout(F, label_rng)
        self._assigned_by = self.assign
        self._normalized_by = self.normalize
        self._columns = columns
        self.embedding_ = F
        self.coef_ = W
        self.intercept_ = F.mean(axis=0) - _mean(X) @ W
        return Iterated(None, [objective], converged=True)

    def _cluster(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        return self._cluster_and_readout(embedding, rng)[0]

    def _cluster_and_readout(
        self, embedding: Matrix, rng: np.random.Generator
    ) -> tuple[Labels, Matrix]:
        """Return the labels and the k-means centres or the rotation that gave them."""
        if self.assign == "kmeans":
            return cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)
        labels, rotation = rotate_to_labels(embedding, rng, n_init=self.n_init)
        return without_empty(labels, self.n_clusters), rotation

    def predict(self, views: Any) -> npt.NDArray[np.intp]:
        """Return the clusters of out-of-sample data.

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
            Embedding, on the scale of ``embedding_``.
        """
        embedding: Matrix = self._as_output(self._embedded(views), views)
        return embedding

    def _embedded(self, views: Any) -> Matrix:
        checked = self._setup_predict(views)
        X = concatenated(scaled_arrays(checked, self._normalized_by, self._columns))
        return np.asarray(X @ self.coef_ + self.intercept_)

    @property
    def _n_features_out(self) -> int:
        return int(self.intercept_.size)


# Two ways to the same F, W and J: with a matrix of samples by samples, or for many samples with
# one of features by features


def _embed_by_samples(
    X: Array, laplacian: Array, n_clusters: int, mu: float, gamma: float, rng: np.random.Generator
) -> tuple[Matrix, Matrix, float]:
    s, U = _spectrum(X, by_features=False)
    matrix = mu * misfit_matrix(s, U, gamma)
    matrix += laplacian.toarray()
    F = smallest_eigenvectors(0.5 * (matrix + matrix.T), n_clusters, rng, bound=2.0 + mu)
    W = np.asarray(X.T @ (U @ ((U.T @ F) / (s + gamma)[:, None])))
    return F, W, float(np.sum(F * (matrix @ F)))


def _embed_by_features(
    X: Array, laplacian: Array, n_clusters: int, mu: float, gamma: float, rng: np.random.Generator
) -> tuple[Matrix, Matrix, float]:
    n = X.shape[0]
    s, V = _spectrum(X, by_features=True)
    inverse = (V / (s + gamma)) @ V.T  # of X_c'X_c + gamma I, on the range of X_c'

    def misfit(M: Matrix) -> Matrix:
        """Return ``L_g M``; X is not centred itself, which keeps it sparse."""
        centred = M - M.mean(axis=0)
        fitted = X @ (inverse @ (X.T @ centred))
        return np.asarray(centred - (fitted - fitted.mean(axis=0)))

    def product(x: Matrix) -> Matrix:
        return np.asarray(laplacian @ x + mu * misfit(x))

    operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    F = smallest_eigenvectors(operator, n_clusters, rng, bound=2.0 + mu)
    objective = np.sum(F * (laplacian @ F)) + mu * np.sum(F * misfit(F))
    return F, inverse @ (X.T @ (F - F.mean(axis=0))), float(objective)


def misfit_matrix(s: Matrix, U: Matrix, gamma: float) -> Matrix:
    """Return ``L_g = H - U diag(s / (s + gamma)) U'``."""
    n = U.shape[0]
    misfit: Matrix = -(U * (s / (s + gamma))) @ U.T
    misfit -= 1.0 / n
    misfit[np.diag_indices(n)] += 1.0
    return misfit


def _spectrum(X: Array, *, by_features: bool) -> tuple[Matrix, Matrix]:
    """Return the non-zero eigenvalues of ``X_c X_c'`` or ``X_c'X_c`` and their eigenvectors."""
    n, d = X.shape
    mean = _mean(X)
    if not sp.issparse(X) and d < n:  # squaring would halve the digits
        U, roots, Vt = scipy.linalg.svd(X - mean, full_matrices=False)
        s, vectors = roots**2, Vt.T if by_features else U
        zero = (n * _EPS * roots[0]) ** 2
    elif by_features:
        gram = (X.T @ X).toarray() - n * np.outer(mean, mean)
        s, vectors = scipy.linalg.eigh(0.5 * (gram + gram.T))
        zero = n * _EPS * s[-1]
    else:
        s, vectors = scipy.linalg.eigh(gram_matrix(X))
        zero = d * _EPS * s[-1]
    # rounding in the eigenvalue 0 of the ones, divided by a tiny gamma, would break L_g 1 = 0
    kept = s > zero + _centring_error(X)
    return s[kept], vectors[:, kept]


def _centring_error(X: Array) -> float:
    """Return a bound on the eigenvalues that rounding in the centring of X produces."""
    n, d = X.shape
    if sp.issparse(X):  # inner products are centred, not the rows themselves
        return float(max(n, d) * _EPS * max((X * X).sum(axis=k).max() for k in (0, 1)))
    return float(16 * n * d * (_EPS * np.abs(X).max()) ** 2)


def _mean(X: Array) -> Matrix:
    return np.asarray(X.mean(axis=0)).ravel()


def rotate_to_labels(
    embedding: Matrix, rng: np.random.Generator, *, n_init: int = 1, max_iter: int = 100
) -> tuple[Labels, Matrix]:
    """Return labels and the orthogonal R of ``min |Y - F R|^2`` over R and one-hot Y.

    F is the embedding with rows scaled to unit length. A label is the largest entry of a row of
    ``F R``; clusters may be empty. The best of `n_init` initialisations is returned.
    """
    rows = unit_rows(embedding)
    k = rows.shape[1]
    best = -np.inf
    for _ in range(n_init):
        rotation = _dissimilar_rows(rows, rng)
        reached = -np.inf
        for _ in range(max_iter):
            labels = (rows @ rotation).argmax(axis=1)
            sums = np.zeros((k, k))
            np.add.at(sums, labels, rows)
            left, values, right = np.linalg.svd(sums.T)
            rotation = left @ right
            if values.sum() <= reached * (1 + 1e-12):
                break
            reached = float(values.sum())
        if reached > best:
            best, chosen = reached, rotation
    return (rows @ chosen).argmax(axis=1), chosen


def _dissimilar_rows(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Return, as columns, rows that are chosen in turn to be least similar to those before."""
    k = rows.shape[1]
    chosen = np.empty((k, k))
    chosen[:, 0] = rows[rng.integers(rows.shape[0])]
    similarity = np.zeros(rows.shape[0])
    for column in range(1, k):
        similarity += np.abs(rows @ chosen[:, column - 1])
        chosen[:, column] = rows[similarity.argmin()]
    return chosen
