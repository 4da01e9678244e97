"""Which of several graphs shows its clusters clearly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.linalg.embedding import clear_embedding
from manyview.linalg.partition import Labels, cluster_rows

__all__ = ["Seen", "clearest_labels", "unexplained"]

Matrix = npt.NDArray[np.floating[Any]]

CLEARER = 0.75


def clearest_labels(graphs: Sequence[Any], n_clusters: int, rng: np.random.Generator) -> Labels:
    """Return the clusters of the first graph, or of a later one that shows them more clearly.

    How clear clusters are is the part of the embedding's variance that lies within them. Embeddings
    of different graphs can be compared by it, as their rows are of unit length and their columns
    as many. A later graph has to bring it below three quarters, and one that falls into more pieces
    than there are clusters is not asked: its pieces are clear, and say nothing.

    Parameters
    ----------
    graphs : sequence of csr_array of shape (n_samples, n_samples)
        Symmetric weights.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of all that is random.

    Returns
    -------
    ndarray of shape (n_samples,)
        Labels; every cluster has a member.
    """
    first, *others = graphs
    best = Seen.of(clear_embedding(first, n_clusters, rng=rng), n_clusters, rng)
    for graph in others:
        if sp.csgraph.connected_components(graph, directed=False)[0] > n_clusters:
            continue
        seen = Seen.of(clear_embedding(graph, n_clusters, rng=rng), n_clusters, rng)
        if seen.within < CLEARER * best.within:
            best = seen
    return best.labels


@dataclass(frozen=True)
class Seen:
    """Clusters of an embedding, and how clear they are.

    Attributes
    ----------
    labels : ndarray
        Clusters of k-means.
    within : float
        Part of the embedding's variance that lies within them.
    """

    labels: Labels
    within: float

    @classmethod
    def of(cls, rows: Matrix, n_clusters: int, rng: np.random.Generator) -> Self:
        """Cluster the rows of an embedding."""
        labels, _ = cluster_rows(rows, n_clusters, rng)
        return cls(labels, unexplained(rows, labels))


def unexplained(rows: Matrix, labels: Labels) -> float:
    """Return the part of the variance of rows that lies within clusters: 0 for a perfect partition.

    Examples
    --------
    >>> unexplained(np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])).round(3).item()
    0.059
    """
    sizes = np.bincount(labels)
    sums = np.zeros((sizes.size, rows.shape[1]))
    np.add.at(sums, labels, rows)
    means = sums / np.maximum(sizes, 1)[:, None]
    within = np.sum((rows - means[labels]) ** 2)
    total = np.sum((rows - rows.mean(axis=0)) ** 2)
    return np.float64(within / total if total > 0 else 0.0)
