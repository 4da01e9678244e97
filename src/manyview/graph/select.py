"""Choice between neighbourhood sizes by the clarity of their clusters.

Clusters are clear if little of the embedding's variance lies within them. Embeddings of different
graphs can be compared by that part, because their rows have unit length and they have equally many
columns. In a graph of the very nearest neighbours, however, a few copies of a sample are linked to
nothing else and form the clearest cluster of all. So the clusters of a later graph must also hold
together in the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from manyview._typing import Matrix
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.partition import Labels, cluster_rows, unit_rows

__all__ = ["Clusters", "clearest_clusters", "cut", "is_clearer", "unexplained"]


class Clusters(NamedTuple):
    """Clusters of one of several embeddings.

    ``unexplained`` is the part of the embedding's variance within the clusters. That of the first K
    columns, in which K clusters should show, counts twice as much as that of all.
    """

    number: int
    embedding: Matrix
    labels: Labels
    unexplained: float


def clearest_clusters(
    embeddings: Iterable[Matrix],
    cut_of: Callable[[Labels], float],
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_init: int,
    settings: GraphSettings = DEFAULTS,
) -> Clusters:
    """Cluster the first embedding, and each later one; a later one is chosen if it is clearer.

    ``cut_of(labels)`` returns the part of the first graph's links that labels cut.
    """
    best = None
    for number, rows in enumerate(embeddings):
        labels, _ = cluster_rows(rows, n_clusters, rng, n_init=n_init)
        first = unexplained(unit_rows(rows[:, :n_clusters]), labels)
        part = float((2.0 * first + unexplained(rows, labels)) / 3.0)
        found = Clusters(number, rows, labels, part)
        if best is None or is_clearer(found, best, cut_of, settings):
            best = found
    if best is None:
        raise ValueError("expected at least one embedding")
    return best


def is_clearer(
    clusters: Clusters,
    other: Clusters,
    cut_of: Callable[[Labels], float],
    settings: GraphSettings = DEFAULTS,
) -> bool:
    """Return whether `clusters` are clearly tighter than `other`.

    The more links of the first graph they cut, the tighter they must be.
    """
    tiny = np.finfo(np.float64).tiny

    def odds(part: float) -> float:
        return part / max(1.0 - part, tiny)

    before = max(odds(cut_of(other.labels)), tiny)
    ratio = max(odds(cut_of(clusters.labels)) / before, settings.odds_tolerated)
    bound = settings.clearer * (settings.odds_tolerated / ratio) ** 4
    return ratio < settings.odds_rejected and clusters.unexplained < bound * other.unexplained


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
    """Return the part of a cluster's links that leave it, averaged over clusters.

    `links` holds the weights from samples to what they are linked to, whose clusters are `ends`; by
    default each belongs to the cluster that most of its links come from.

    Examples
    --------
    >>> links = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> labels = np.array([0, 0, 1])
    >>> cut(links, labels, labels).round(3).item()
    0.571
    """
    linked = links.T @ np.eye(labels.max() + 1)[labels]
    if ends is None:
        ends = linked.argmax(axis=1)
    inside = linked[np.arange(ends.size), ends]
    within = np.bincount(ends, weights=inside, minlength=linked.shape[1])
    return np.float64(1.0 - np.mean(within / linked.sum(axis=0)))
