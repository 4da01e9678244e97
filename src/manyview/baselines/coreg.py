"""Co-regularised multi-view spectral clustering (CoRegSC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from manyview._typing import ArrayLike, Matrix, Scaling
from manyview.baselines.common import (
    Baseline,
    EmbeddingClusterer,
    check_pairwise_memory,
    scaled_arrays,
    strength_per_view,
)
from manyview.baselines.graphs import rbf_kernel
from manyview.iterate import Iterated, iterate
from manyview.linalg.eigen import largest_eigenvectors, renewed_eigenvectors, symmetric_operator
from manyview.linalg.partition import unit_rows
from manyview.views import Views

__all__ = ["CoRegSC"]


class CoRegSC(EmbeddingClusterer):
    """Co-regularised multi-view spectral clustering.

    Every view has its own spectral embedding U_v, and a regularisation term makes the embeddings
    agree. With ``S_v = D^(-1/2) K_v D^(-1/2)`` the normalised RBF kernel of a view, the centroid
    form maximises, over matrices with orthonormal columns::

        sum_v tr(U_v' S_v U_v) + sum_v regularization_v tr(U_v U_v' U* U*')

    and the pairwise form::

        sum_v tr(U_v' S_v U_v) + regularization sum_(v<w) tr(U_v U_v' U_w U_w')

    Each U in turn is updated to the leading eigenvectors for the others fixed. k-means on the rows
    of U*, or of ``[U_1 ... U_V]``, scaled to unit length, gives the labels. There is no `predict`,
    because the embedding is defined for the fitted samples only.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    regularization : float or array-like of shape (n_views,), default=0.01
        Weight of the agreement; the centroid form accepts one per view. The range of the paper is
        0.01 to 0.05. With 0 every view has its own spectral embedding, and U* is still computed
        from all of them.
    form : {"centroid", "pairwise"}, default="centroid"
        Whether the embeddings agree with a common U* or with each other.
    max_iter : int, default=10
        Maximum number of iterations over the views.
    tol : float, default=0.0
        Stop when an iteration increases the objective by less than this fraction of it. With 0,
        as in the public scripts, there are always `max_iter` iterations.
    n_init : int, default=1
        Number of initialisations of k-means.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither. The results depend strongly on it.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means and of the eigensolver. The embedding has no random initialisation.
    verbose : int, default=0
        1 shows a progress bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters) or (n_samples, n_views * n_clusters)
        The input of k-means, with rows of unit length; zero rows stay zero.
    view_embeddings_ : list of ndarray of shape (n_samples, n_clusters)
        U_v.
    objective_ : ndarray of shape (n_iter_,)
        The objective after every iteration; it does not decrease. In the centroid form
        ``embedding_`` is recomputed from the final U_v, which increases it a little more.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    The dense kernels take ``8 (V + 2) n^2`` bytes; a fit that would need more than half of the
    memory is rejected. The width of a kernel is the median of all pairwise distances. Unlike the
    public code, U* is recomputed after the last iteration, and the pairwise form clusters the
    embeddings of all views and not of the first only.

    References
    ----------
    A. Kumar, P. Rai, H. Daume III. Co-regularized Multi-view Spectral Clustering. NIPS 2011.

    Examples
    --------
    >>> from manyview.baselines import CoRegSC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = CoRegSC(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, model.n_iter_
    ((90,), 10)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "form": [StrOptions({"centroid", "pairwise"})],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        regularization: float | ArrayLike = 0.01,
        form: Literal["centroid", "pairwise"] = "centroid",
        max_iter: int = 10,
        tol: float = 0.0,
        n_init: int = 1,
        normalize: Scaling | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.regularization = regularization
        self.form = form
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        strengths = strength_per_view("regularization", self.regularization, views.n_views)
        centroid = self.form == "centroid"
        if not centroid and np.ndim(self.regularization):
            raise ValueError(
                f"regularization={self.regularization!r}; form='pairwise' expects one number"
            )
        n = views.n_samples
        check_pairwise_memory(8 * (views.n_views + 2) * n**2, method="CoRegSC", n_samples=n)
        rng, label_rng = self._generators(self.random_state)
        arrays = scaled_arrays(views, self.normalize)
        affinities = [
            _normalized(rbf_kernel(X, name)) for name, X in zip(views.names, arrays, strict=True)
        ]
        initial = [
            largest_eigenvectors(symmetric_operator(S), self.n_clusters, rng) for S in affinities
        ]
        update = _centroid_update if centroid else _pairwise_update

        def converged(embeddings: list[Matrix], values: Sequence[float]) -> bool:
            if self.tol == 0:  # a fixed number of iterations
                return len(values) == self.max_iter
            return len(values) > 1 and values[-1] - values[-2] < self.tol * values[-1]

        with self._progress(self.max_iter) as show:
            found = iterate(
                lambda embeddings: update(affinities, embeddings, strengths, rng),
                initial,
                max_iter=self.max_iter,
                settled=converged,
                on_iteration=show,
            )
        U = found.state
        embedding = unit_rows(_common(U, strengths) if centroid else np.hstack(U))
        self.labels_ = self._cluster(embedding, label_rng)
        self.embedding_ = embedding
        self.view_embeddings_ = U
        return found


def _centroid_update(
    affinities: list[Matrix], embeddings: list[Matrix], strengths: Matrix, rng: np.random.Generator
) -> tuple[list[Matrix], float]:
    """Update U*, then every U_v to the leading eigenvectors of ``S_v + strength_v U* U*'``.

    The eigenvalues sum to the objective.
    """
    common = _common(embeddings, strengths)
    updates = [
        renewed_eigenvectors(symmetric_operator(S, strength, common), U, rng)
        for S, U, strength in zip(affinities, embeddings, strengths, strict=True)
    ]
    return [U for U, _ in updates], float(np.sum([value for _, value in updates]))


def _pairwise_update(
    affinities: list[Matrix], embeddings: list[Matrix], strengths: Matrix, rng: np.random.Generator
) -> tuple[list[Matrix], float]:
    """Update every U_v to the leading eigenvectors of ``S_v + strength sum_(w != v) U_w U_w'``.

    As in the public code the first view comes last.
    """
    n_views, strength = len(affinities), float(strengths[0])
    U = list(embeddings)
    total = 0.0
    for v in [*range(1, n_views), 0]:
        others = [U[w] for w in range(n_views) if w != v]
        stacked = np.hstack(others) if others else None
        operator = symmetric_operator(affinities[v], strength, stacked)
        U[v], value = renewed_eigenvectors(operator, U[v], rng)
        total += value - strength * sum(_agreement(U[v], other) for other in others)
    total += strength * sum(_agreement(U[v], U[w]) for v in range(n_views) for w in range(v))
    return U, total


def _common(embeddings: list[Matrix], strengths: Matrix) -> Matrix:
    """Return U*, the leading eigenvectors of ``sum_v strength_v U_v U_v'``.

    If all strengths are 0 the views have equal weights.
    """
    weights = np.sqrt(strengths) if strengths.any() else np.ones(len(embeddings))
    weighted = np.hstack([weight * U for weight, U in zip(weights, embeddings, strict=True)])
    left, _, _ = np.linalg.svd(weighted, full_matrices=False)
    return left[:, : embeddings[0].shape[1]]


def _agreement(U: Matrix, W: Matrix) -> float:
    """Return ``tr(U U' W W')``."""
    return float(np.sum((U.T @ W) ** 2))


def _normalized(kernel: Matrix) -> Matrix:
    """Return ``D^(-1/2) K D^(-1/2)``, in place; the diagonal of K makes all degrees positive."""
    inverse = 1.0 / np.sqrt(kernel.sum(axis=1))
    kernel *= inverse[:, None]
    kernel *= inverse
    return kernel
