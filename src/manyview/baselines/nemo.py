"""Neighbourhood-based multi-omics clustering (NEMO)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix, Scaling
from manyview.baselines.common import AT_LEAST_ONE, Baseline, EmbeddingClusterer, scaled_arrays
from manyview.baselines.graphs import local_affinity_blocks, normalized_laplacian, strongest
from manyview.iterate import Iterated
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, unit_rows
from manyview.memory import check_memory
from manyview.views import Array, Views, has_equal_rows

__all__ = ["NEMO"]

_SAMPLES_PER_NEIGHBOR = 6  # in the authors' program


class NEMO(EmbeddingClusterer):
    """Neighbourhood-based multi-omics clustering: spectral clustering of mean similarities.

    With the affinities W of a view as in :class:`SNF`, the relative similarity of samples i and j
    in it compares them with their k nearest neighbours::

        R_ij = W_ij [j in N(i)] / sum_(r in N(i)) W_ir  +  W_ij [i in N(j)] / sum_(r in N(j)) W_rj

    where N(i) has the k samples with the largest W_ir. The similarity of two samples is the mean
    over the views that both have, so samples may miss views. The rows of the eigenvectors of the
    smallest eigenvalues of the normalised Laplacian, scaled to unit length, are clustered by
    k-means.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    n_neighbors : int, optional
        Number of neighbours, k, less than the number of samples. By default a sixth of the samples
        that have the view, as in the authors' program. Where a view has too few samples, all are
        neighbours.
    n_init : int, default=1
        Number of initialisations of k-means.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither. The authors standardise the features.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means and of the eigensolver.
    verbose : int, default=0
        Has no effect: there are no iterations.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    affinity_ : csr_array of shape (n_samples, n_samples)
        The mean similarities.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        The eigenvectors, with orthonormal columns.
    objective_ : ndarray of shape (1,)
        Sum of the eigenvalues.
    n_iter_ : int
        1.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    W is computed from squared distances, as in the authors' program. There a sample is one of its
    own k neighbours, and the clusters are found by rotating the eigenvectors. Samples that share
    no view have similarity 0. A view with equal rows has no effect.

    Memory is of order n_samples n_views n_neighbors, and of blocks of distances.

    References
    ----------
    N. Rappoport, R. Shamir. NEMO: cancer subtyping by integration of partial multi-omic data.
    Bioinformatics 35 (18), 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from manyview import as_views
    >>> from manyview.baselines import NEMO
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> present = np.ones((90, 2), dtype=bool)
    >>> present[:20, 0] = False
    >>> NEMO(n_clusters=3, random_state=0).fit(as_views(views, present=present)).labels_.shape
    (90,)
    """

    _takes_missing_views = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "n_neighbors": [AT_LEAST_ONE, None],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int | None = None,
        n_init: int = 1,
        normalize: Scaling | None = "rows",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        n = views.n_samples
        if self.n_neighbors is not None and self.n_neighbors >= n:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} with {n} samples; expected 1 to {n - 1}"
            )
        present = np.ones(views.shape, dtype=bool) if views.present is None else views.present
        counts = [self._count(int(size)) for size in present.sum(axis=0)]
        check_memory(
            # entries of 16 bytes: similarities of a view and of all, each with its transpose
            64.0 * sum(size * k for size, k in zip(present.sum(axis=0), counts, strict=True)),
            work=f"NEMO on {n} samples with n_neighbors={max(counts)}",
            matrices="samples by neighbours",
            way_out="Use fewer neighbours",
        )
        rng, label_rng = self._generators(self.random_state)
        rows = [array[here] for array, here in zip(views.arrays, present.T, strict=True)]
        arrays = scaled_arrays(replace(views, arrays=tuple(rows), present=None), self.normalize)
        varies = [X.shape[0] > 1 and not has_equal_rows(X) for X in arrays]
        if not any(varies):
            varies = [X.shape[0] > 1 for X in arrays]
        total = sp.csr_array((n, n))
        for X, here, k, used in zip(arrays, present.T, counts, varies, strict=True):
            if used:
                total = total + on_samples(relative_similarities(X, k), np.flatnonzero(here), n)
        mean = over_shared_views(total, present[:, varies])
        laplacian = normalized_laplacian(mean)
        F = smallest_eigenvectors(laplacian, self.n_clusters, rng)
        self.labels_ = self._cluster(F, label_rng)
        self.affinity_ = mean
        self.embedding_ = F
        return Iterated(F, [float(np.sum(F * (laplacian @ F)))], converged=True)

    def _count(self, size: int) -> int:
        """Return the number of neighbours in a view that some samples have."""
        wanted = size // _SAMPLES_PER_NEIGHBOR if self.n_neighbors is None else self.n_neighbors
        return max(1, min(wanted, size - 1))

    def _cluster(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        return super()._cluster(unit_rows(embedding), rng)


def relative_similarities(X: Array, n_neighbors: int) -> sp.csr_array:
    """Return R of a view."""
    near, values = [], []
    for begin, affinities in local_affinity_blocks(X, n_neighbors):
        rows = np.arange(begin, begin + affinities.shape[0])
        affinities[rows - begin, rows] = np.finfo(np.float64).tiny  # no sample is its neighbour
        found = strongest(affinities, n_neighbors)
        near.append(found[0])
        values.append(found[1] / found[1].sum(axis=1, keepdims=True))
    begins = np.arange(0, X.shape[0] * n_neighbors + 1, n_neighbors)
    graph = sp.csr_array(
        (np.concatenate(values).ravel(), np.concatenate(near).ravel(), begins),
        shape=(X.shape[0],) * 2,
    )
    return sp.csr_array(graph + graph.T)


def on_samples(graph: sp.csr_array, samples: Any, n_samples: int) -> sp.csr_array:
    """Return a graph of some of the samples as one of all."""
    edges = graph.tocoo()
    places = samples[edges.row], samples[edges.col]
    return sp.csr_array(sp.coo_array((edges.data, places), shape=(n_samples, n_samples)))


def over_shared_views(total: sp.csr_array, present: Any) -> sp.csr_array:
    """Return sums of similarities divided by the number of views that both samples have."""
    edges = total.tocoo()
    shared = np.zeros(edges.nnz)
    for here in present.T:
        shared += here[edges.row] & here[edges.col]
    return sp.csr_array(sp.coo_array((edges.data / shared, edges.coords), shape=total.shape))
