"""Spectral clustering of the affinity graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyview.engine import Engine
from manyview.graph.kmeans import cluster_state
from manyview.graph.neighbours import neighbour_graphs
from manyview.graph.select import clearest_clusters
from manyview.graph.spectral import LOOKS, NEAR_LOOK, embed_by_landmarks

__all__ = ["EXACT_LIMIT", "N_LANDMARKS", "graph_start"]


EXACT_LIMIT = 4000
"""Most samples that are all compared with each other."""

N_LANDMARKS = 1000
"""Samples that stand for all where these are more, of up to 50 clusters."""

_LANDMARKS_PER_CLUSTER = 20  # where that comes to more, up to as many as can all be compared
_NEAR_REACH = 1 / 16  # part of the usual number of neighbours, for a second look


def graph_start(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    reach: float = 1.0,
) -> float:
    """Put the clusters of the graph of the product kernel into the blocks, as ``labels``.

    Up to ``EXACT_LIMIT`` samples each is linked to its nearest samples, and a graph of the very
    nearest is looked at, too, and taken where it shows its clusters more clearly
    (:mod:`manyview.graph.select`). Beyond, samples are linked to the nearest of ``N_LANDMARKS``
    random samples, or more of many clusters, so that nothing grows with the square of the number
    of samples; how far is asked of some of them, in the same way (:mod:`manyview.graph.spectral`).

    Parameters
    ----------
    engine : Engine
        The samples.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of all that is random.
    order : int, optional
        Most views that the kernel multiplies; by default all.
    reach : float
        Number of neighbours, as part of the usual one. Below 1 there is one graph only; by
        landmarks, that of the second look.

    Returns
    -------
    float
        Part of the variance of the graph's embedding that lies within its clusters, by landmarks
        of the samples that were asked: 0 where they are perfectly clear, about .3 to .7 where there
        is nothing but noise in twenty samples or more for each cluster.
    """
    n = engine.n_samples
    if n <= EXACT_LIMIT:
        reaches = (reach,) if reach < 1.0 else (reach, _NEAR_REACH)
        graphs = neighbour_graphs(engine, n_clusters, reaches, order=order)
        seen = clearest_clusters(graphs, n_clusters, rng)
        engine.scatter("labels", seen.labels)
        return seen.within
    count = min(n, _n_landmarks(n_clusters))
    landmarks = engine.take(np.sort(rng.choice(n, count, replace=False)))
    looks = LOOKS if reach == 1.0 else (replace(NEAR_LOOK, part=reach * NEAR_LOOK.part),)
    within = embed_by_landmarks(engine, landmarks, n_clusters, rng, looks, order=order)
    cluster_state(engine, "embedding", n_clusters, rng)
    engine.forget("embedding")
    return within


def _n_landmarks(n_clusters: int) -> int:
    """Return how many samples stand for all: a cluster of which few do is not found."""
    wanted = min(_LANDMARKS_PER_CLUSTER * n_clusters, EXACT_LIMIT)
    return max(N_LANDMARKS, wanted, 2 * n_clusters)
