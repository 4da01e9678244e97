"""Similarity network fusion (SNF)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix, Scaling
from manyview.baselines.common import EmbeddingClusterer, check_pairwise_memory, scaled_arrays
from manyview.baselines.graphs import local_affinity_blocks, normalized_laplacian, strongest
from manyview.iterate import Iterated, iterate
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, unit_rows
from manyview.views import Array, Views, has_equal_rows

__all__ = ["SNF"]


class SNF(EmbeddingClusterer):
    """Similarity network fusion, and spectral clustering of the fused network.

    The affinities of the samples in view v are ``W_ij = exp(-d_ij^2 / (2 s_ij^2)) / s_ij``, with
    squared Euclidean distances d_ij, widths ``s_ij = (r_i + r_j + d_ij) / 6``, and r_i the mean of
    d_i over the k nearest neighbours of i. P_v is W with rows that sum to 1, made symmetric, and
    S_v has the k largest entries of each row of P_v, again with rows that sum to 1. Each iteration
    passes the networks of the other views on between the neighbours in a view::

        P_v <- S_v (mean over u != v of P_u) S_v' + I

    The mean of the P_v, with rows that sum to 1 and made symmetric, is the fused network. The rows
    of the eigenvectors of the smallest eigenvalues of its normalised Laplacian, scaled to unit
    length, are clustered by k-means.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    n_neighbors : int, default=20
        Number of neighbours, k, less than the number of samples.
    max_iter : int, default=20
        Number of iterations. They are not repeated until convergence: the method ends after a
        fixed number, of which its authors advise 10 to 20.
    n_init : int, default=1
        Number of initialisations of k-means.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither. The authors standardise the features.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means and of the eigensolver.
    verbose : int, default=0
        1 shows a progress bar with the change of the fused network.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    affinity_ : ndarray of shape (n_samples, n_samples)
        The fused network.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        The eigenvectors, with orthonormal columns.
    objective_ : ndarray of shape (n_iter_,)
        Change of the mean of the P_v in each iteration, as a fraction of it. The method minimises
        no objective.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    The paper has distances that are not squared, a kernel without the factor 1 / s_ij, P_v with
    1/2 on the diagonal in place of the added identity, and no symmetrisation. This is the variant
    of the first program of its authors, except that clusters are found by k-means and not by
    rotating the eigenvectors. Widths are at least 1e-3 of the mean of the r_i.

    A view with equal rows has no effect. A single view is not fused: its P is the network.

    Memory is that of a dense n_samples x n_samples matrix for each view and four more; a fit that
    would need more than half of the memory is rejected. An iteration takes
    O(n_views n_samples^2 n_neighbors).

    References
    ----------
    B. Wang, A. M. Mezlini, F. Demir, M. Fiume, Z. Tu, M. Brudno, B. Haibe-Kains, A. Goldenberg.
    Similarity network fusion for aggregating data types on a genomic scale. Nature Methods 11,
    2014.

    Examples
    --------
    >>> from manyview.baselines import SNF
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = SNF(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, model.affinity_.shape
    ((90,), (90, 90))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EmbeddingClusterer._parameter_constraints
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int = 20,
        max_iter: int = 20,
        n_init: int = 1,
        normalize: Scaling | None = "rows",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        n = views.n_samples
        check_pairwise_memory(8.0 * (views.n_views + 4) * n**2, method="SNF", n_samples=n)
        rng, label_rng = self._generators(self.random_state)
        arrays = scaled_arrays(views, self.normalize)
        used = [X for X in arrays if not has_equal_rows(X)] or arrays[:1]
        networks = [normalized(affinities(X, self.n_neighbors)) for X in used]
        locals_ = [local_network(P, self.n_neighbors) for P in networks]

        def update(state: tuple[list[Matrix], Matrix]) -> tuple[Any, float]:
            before = state[1]
            diffused = diffuse(state[0], locals_)
            mean = np.mean(diffused, axis=0)
            change = float(np.linalg.norm(mean - before) / np.linalg.norm(before))
            return (diffused, mean), change

        with self._progress(self.max_iter, "change") as show:
            found = iterate(
                update,
                (networks, np.mean(networks, axis=0)),
                max_iter=self.max_iter,
                settled=lambda state, changes: len(changes) == self.max_iter,
                on_iteration=show,
            )
        fused = normalized(found.state[1])
        F = smallest_eigenvectors(normalized_laplacian(fused), self.n_clusters, rng)
        self.labels_ = self._cluster(F, label_rng)
        self.affinity_ = fused
        self.embedding_ = F
        return found

    def _cluster(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        return super()._cluster(unit_rows(embedding), rng)


def affinities(X: Array, n_neighbors: int) -> Matrix:
    """Return W of a view."""
    return np.vstack([block for _, block in local_affinity_blocks(X, n_neighbors)])


def normalized(W: Matrix) -> Matrix:
    """Return a network with rows that sum to 1, made symmetric."""
    P = W / W.sum(axis=1, keepdims=True)
    return np.asarray(0.5 * (P + P.T))


def local_network(P: Matrix, n_neighbors: int) -> sp.csr_array:
    """Return S of a view: the largest entries of each row, with rows that sum to 1."""
    near, values = strongest(P, n_neighbors)
    values /= values.sum(axis=1, keepdims=True)
    begins = np.arange(0, near.size + 1, n_neighbors)
    return sp.csr_array((values.ravel(), near.ravel(), begins), shape=P.shape)


def diffuse(networks: Sequence[Matrix], locals_: Sequence[sp.csr_array]) -> list[Matrix]:
    """Return the networks P after an iteration; a single one stays."""
    if len(networks) == 1:
        return list(networks)
    total = np.sum(networks, axis=0)
    diffused = []
    for P, S in zip(networks, locals_, strict=True):
        others = (total - P) / (len(networks) - 1)
        passed = S @ (S @ others).T  # the mean of the others is symmetric
        passed = 0.5 * (passed + passed.T)
        passed[np.diag_indices_from(passed)] += 1.0
        diffused.append(passed)
    return diffused
