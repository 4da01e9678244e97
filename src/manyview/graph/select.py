"""Choice between neighbourhood sizes by the clarity of their clusters.

Which of several graphs shows its clusters clearly.

Clusters are clear where little of an embedding's variance lies within them, in the K eigenvectors
that K clusters are to show in and in all that count. Embeddings of different graphs can be compared
by that part, as their rows are of unit length and their columns as many. But in a graph of the very
nearest a few copies of one sample are linked to nothing else, and there is no clearer cluster. So
what a later graph shows must hold together in the first one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.linalg.partition import Labels, clear_embedding, cluster_rows, unit_rows

__all__ = ["Seen", "clearest_clusters", "cut", "unexplained"]


_FEWEST_STARTS, _MOST_STARTS = 10, 30  # of k-means, the fewer the more clusters
# m: odds that a link of the first graph leaves its cluster, relative to those for the clusters that
# are compared with. m <= 1.15: the variance within is to be < 0.85 of theirs; above: that bound is
# multiplied by (1.15 / m)^4; m >= 2: rejected
_WITHIN_BOUND = 0.85
_ODDS_TOLERATED, _ODDS_REJECTED = 1.15, 2.0


def clearest_clusters(graphs: Sequence[Any], n_clusters: int, rng: np.random.Generator) -> Seen:
    """Return the clusters of the first graph, or of a later one that shows them more clearly.

    A graph that falls into more pieces than there are clusters is not asked.

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
    Seen
        Labels, every cluster with a member, and how clear they are.
    """
    n_init = int(np.clip(300 // n_clusters, _FEWEST_STARTS, _MOST_STARTS))

    def seen_in(graph: Any) -> Seen:
        rows = clear_embedding(graph, n_clusters, rng=rng)
        return Seen.of(rows, n_clusters, rng, n_init=n_init)

    first, *others = graphs
    best = seen_in(first)
    for graph in others:
        if sp.csgraph.connected_components(graph, directed=False)[0] > n_clusters:
            continue
        seen = seen_in(graph)
        if seen.is_clearer(best, lambda labels: cut(first, labels, labels)):
            best = seen
    return best


@dataclass(frozen=True)
class Seen:
    """Clusters of an embedding, and how clear they are.

    Attributes
    ----------
    labels : ndarray
        Clusters of k-means.
    within : float
        Part of the embedding's variance that lies within them; that of the first K columns, in
        which K clusters are to show, counts twice as much as that of all.
    """

    labels: Labels
    within: float

    @classmethod
    def of(
        cls,
        rows: Matrix,
        n_clusters: int,
        rng: np.random.Generator,
        *,
        n_init: int = _FEWEST_STARTS,
    ) -> Self:
        """Cluster the rows of an embedding, by the best of `n_init` starts of k-means."""
        labels, _ = cluster_rows(rows, n_clusters, rng, n_init=n_init)
        first = unexplained(unit_rows(rows[:, :n_clusters]), labels)
        return cls(labels, float((2.0 * first + unexplained(rows, labels)) / 3.0))

    def is_clearer(self, other: Seen, cut_of: Callable[[Labels], float]) -> bool:
        """Whether these clusters are clearly tighter than `other`.

        The more links they cut, the tighter they must be.

        Parameters
        ----------
        other : Seen
            Clusters that were seen before.
        cut_of : callable
            Returns the part of the first graph's links that given labels cut; see :func:`cut`.
        """
        before = max(_odds(cut_of(other.labels)), np.finfo(np.float64).tiny)
        ratio = max(_odds(cut_of(self.labels)) / before, _ODDS_TOLERATED)
        bound = _WITHIN_BOUND * (_ODDS_TOLERATED / ratio) ** 4
        return ratio < _ODDS_REJECTED and self.within < bound * other.within


def _odds(part: float) -> float:
    return part / max(1.0 - part, np.finfo(np.float64).tiny)


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


def cut(links: Any, labels: Labels, ends: Labels | None = None) -> float:
    """Return the part of a cluster's links that lead out of it, mean over clusters.

    Parameters
    ----------
    links : matrix of shape (n_samples, n_ends)
        Weights of what each sample is linked to.
    labels : ndarray of shape (n_samples,)
        Clusters of the samples, each with a member.
    ends : ndarray of shape (n_ends,), optional
        Clusters of what they are linked to; by default those that most of its links come from.

    Examples
    --------
    >>> links = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> labels = np.array([0, 0, 1])
    >>> cut(links, labels, labels).round(3).item()
    0.571
    """
    reached = links.T @ np.eye(labels.max() + 1)[labels]
    if ends is None:
        ends = reached.argmax(axis=1)
    inside = reached[np.arange(ends.size), ends]
    held = np.bincount(ends, weights=inside, minlength=reached.shape[1])
    return np.float64(1.0 - np.mean(held / reached.sum(axis=0)))
