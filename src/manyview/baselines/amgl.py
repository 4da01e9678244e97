"""Auto-weighted multiple graph learning (AMGL)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from manyview._typing import Matrix, Scaling
from manyview.baselines.common import Baseline, EmbeddingClusterer, scaled_arrays
from manyview.baselines.graphs import (
    adaptive_graph,
    nearest_neighbors,
    normalized_laplacian,
    warn_of_copies,
)
from manyview.iterate import Iterated, iterate
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, unit_rows
from manyview.views import Views, has_equal_rows

__all__ = ["AMGL"]

_SMALLEST_CUT = 1e-12  # keeps the weight finite if a graph has as many components as clusters
_MIN_ITER = 3

_State: TypeAlias = tuple[Matrix, Matrix]  # view weights a and embedding F


class AMGL(EmbeddingClusterer):
    """Auto-weighted Multiple Graph Learning.

    AMGL finds one spectral embedding F for the graphs of all views::

        min sum_v sqrt(tr(F' L_v F)),  F'F = I

    with L_v the normalised Laplacian of the adaptive-neighbour graph of a view. The square root
    weights the views without a parameter: F consists of the eigenvectors of the smallest
    eigenvalues of ``sum_v a_v L_v`` with ``a_v = 1 / (2 sqrt(tr(F' L_v F)))``. F and a are updated
    alternately, starting with equal weights. k-means on the rows of F gives the labels. There is
    no `predict`, because the embedding is defined for the fitted samples only.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_neighbors : int, default=10
        Number of neighbours in the graphs, at most the number of samples less 2. The authors'
        code has 5.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-8
        Stop when an iteration, of at least three, decreases the objective by less than this
        fraction of it. A single cluster takes one iteration.
    unit_embedding : bool, default=False
        Whether to scale the rows of F to unit length before k-means. The authors do not; it is a
        different and often better method.
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
    embedding_ : ndarray of shape (n_samples, n_clusters)
        F, with orthonormal columns.
    view_weights_ : ndarray of shape (n_views,)
        a_v, scaled to sum to 1. The weight of a view with equal rows is 0.
    objective_ : ndarray of shape (n_iter_,)
        The objective after every iteration; it does not increase.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    Memory is that of the graphs, of order ``n_views n n_neighbors``, and of blocks of distances.
    Sparse views stay sparse.

    On counts whose nearest neighbours are a few short samples, one cluster takes nearly all
    samples; this is a property of the method. Neighbours that are equally far, as duplicates are,
    have equal weights here and none in the authors' code. Copies of a sample can be assigned to
    different clusters if there are more of them than neighbours, which is reported as a warning.

    References
    ----------
    F. Nie, J. Li, X. Li. Parameter-Free Auto-Weighted Multiple Graph Learning: A Framework for
    Multiview Clustering and Semi-Supervised Classification. IJCAI 2016.

    Examples
    --------
    >>> from manyview.baselines import AMGL
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = AMGL(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, round(float(model.view_weights_.sum()), 6)
    ((90,), 1.0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "unit_embedding": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int = 10,
        max_iter: int = 100,
        tol: float = 1e-8,
        unit_embedding: bool = False,
        n_init: int = 1,
        normalize: Scaling | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.unit_embedding = unit_embedding
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        rng, label_rng = self._generators(self.random_state)
        arrays = scaled_arrays(views, self.normalize)
        # the neighbours in a view with equal rows are arbitrary, but would get a weight
        varies = np.array([not has_equal_rows(X) for X in arrays])
        varies |= not varies.any()
        used = [X for X, differ in zip(arrays, varies, strict=True) if differ]
        nearest = [nearest_neighbors(X, self.n_neighbors, beyond=1) for X in used]
        warn_of_copies(nearest, self.n_neighbors, self.n_clusters)
        laplacians = [normalized_laplacian(adaptive_graph(near)) for near in nearest]
        for L in laplacians:
            L.sort_indices()  # sums of sorted matrices are faster

        def update(state: _State) -> tuple[_State, float]:
            weights, F = state
            combined = sum(a * L for a, L in zip(weights, laplacians, strict=True))
            start = F.sum(axis=1) if F.size else None
            F = smallest_eigenvectors(combined, self.n_clusters, rng, v0=start)
            cuts = np.array([np.sum(F * (L @ F)) for L in laplacians])
            roots = np.sqrt(np.maximum(cuts, _SMALLEST_CUT))
            # only the ratios of the weights matter
            return ((1.0 / roots) / np.sum(1.0 / roots), F), float(roots.sum())

        def converged(state: _State, values: Sequence[float]) -> bool:
            if self.n_clusters == 1:  # all samples, whatever the weights
                return True
            return len(values) >= _MIN_ITER and values[-2] - values[-1] <= self.tol * values[-2]

        equal: Matrix = np.full(len(laplacians), 1.0 / len(laplacians))
        initial: _State = (equal, np.empty((views.n_samples, 0)))
        with self._progress(self.max_iter) as show:
            found = iterate(
                update, initial, max_iter=self.max_iter, settled=converged, on_iteration=show
            )
        weights, embedding = found.state
        self.labels_ = self._cluster(embedding, label_rng)
        self.embedding_ = embedding
        self.view_weights_ = np.zeros(views.n_views)
        self.view_weights_[varies] = weights
        return found

    def _cluster(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        rows = unit_rows(embedding) if self.unit_embedding else embedding
        return super()._cluster(rows, rng)
