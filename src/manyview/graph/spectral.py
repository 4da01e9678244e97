"""Spectral clustering of the affinity graph, exact or through landmarks.

With landmarks, two samples are near if they share landmarks. Let Z hold the weights of each
sample's nearest landmarks, summing to 1, and L be the diagonal matrix of its column sums. The graph
is ``Z L^-1 Z'``. It is never formed, and of Z only the few nonzeros of each sample are stored, or
none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, State, Sums, Update
from manyview.engine.arrays import (
    Array,
    as_dtype,
    in_memory,
    is_sparse,
    namespace,
    placed_like,
    scattered,
    to_numpy,
    uniform_of_rows,
    weighted_sums,
)
from manyview.graph.kmeans import cluster_state
from manyview.graph.neighbours import (
    Search,
    find_nearest,
    graph_of_all_orders,
    harmonic_weights,
    landmark_search,
    nearest_chunks,
    nearest_of,
    neighbour_graphs,
    weighted_links,
)
from manyview.graph.select import Clusters, clearest_clusters, cut
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.eigen import largest_eigenpairs
from manyview.linalg.partition import (
    Labels,
    clear_embedding,
    clear_weights,
    cluster_rows,
    unit_rows,
)

__all__ = [
    "all_order_labels",
    "choose_search",
    "exact_clusters",
    "landmark_clusters",
    "searches",
    "spectral_labels",
]


def spectral_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    neighbourhood: float = 1.0,
    settings: GraphSettings = DEFAULTS,
) -> float:
    """Put the clusters of the affinity graph into the blocks, as ``labels``.

    Up to ``settings.exact_limit`` samples the graph links each sample to its nearest samples.
    Beyond, it links samples to the nearest of random landmarks, so that nothing grows with the
    square of the number of samples. Of several neighbourhood sizes the one with the clearest
    clusters is used (:mod:`manyview.graph.select`). A `neighbourhood` other than 1 leaves no
    choice: it multiplies the first size of the exact graph, or the last one with landmarks.

    Returns
    -------
    float
        Part of the embedding's variance within the clusters, with landmarks that of some samples:
        0 for perfectly clear clusters, about .3 to .7 for noise with twenty samples or more per
        cluster.
    """
    if neighbourhood != 1.0:
        size, halfway = settings.landmark_sizes[-1]
        settings = replace(
            settings,
            exact_sizes=(neighbourhood * settings.exact_sizes[0],),
            landmark_sizes=((neighbourhood * size, halfway),),
        )
    if engine.n_samples <= settings.exact_limit:
        clusters, _ = exact_clusters(engine, n_clusters, rng, order=order, settings=settings)
        engine.scatter(State.LABELS, clusters.labels)
        return clusters.unexplained
    unexplained = landmark_clusters(engine, n_clusters, rng, order=order, settings=settings)
    engine.forget(State.EMBEDDING)
    return unexplained


def exact_clusters(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> tuple[Clusters, Any]:
    """Return the clusters of the graph that compares all samples, and that graph.

    Small neighbourhoods are left out if their graph has more components than there are clusters.
    """
    sizes = settings.exact_sizes
    first, *others = neighbour_graphs(engine, n_clusters, sizes, order=order, settings=settings)
    graphs = [first]
    for graph in others:
        if sp.csgraph.connected_components(graph, directed=False)[0] <= n_clusters:
            graphs.append(graph)
    clusters = clearest_clusters(
        (clear_embedding(graph, n_clusters, rng=rng) for graph in graphs),
        lambda labels: cut(first, labels, labels),
        n_clusters,
        rng,
        n_init=int(np.clip(300 // n_clusters, *settings.embedding_restarts)),
        settings=settings,
    )
    return clusters, graphs[clusters.number]


def all_order_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> Labels:
    """Return the clusters of the exact graph of all orders: single views and their product."""
    graph = graph_of_all_orders(engine, n_clusters, order=order, settings=settings)
    n_init = int(np.clip(300 // n_clusters, *settings.embedding_restarts))
    rows = clear_embedding(graph, n_clusters, rng=rng)
    return cluster_rows(rows, n_clusters, rng, n_init=n_init)[0]


def landmark_clusters(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> float:
    """Put ``embedding`` and ``labels`` by random landmarks into the blocks.

    A cluster with few landmarks is not found, so that many clusters have more landmarks.
    """
    n = engine.n_samples
    wanted = min(settings.landmarks_per_cluster * n_clusters, settings.exact_limit)
    count = min(n, max(settings.n_landmarks, wanted, 2 * n_clusters))
    landmarks = engine.take(np.sort(rng.choice(n, count, replace=False)))
    candidates = searches(engine, landmarks, n_clusters, order=order, settings=settings)
    search, unexplained = choose_search(engine, candidates, n_clusters, rng, settings=settings)
    _embed(engine, search, n_clusters, rng, settings)
    cluster_state(engine, State.EMBEDDING, n_clusters, rng, settings=settings)
    return unexplained


def searches(
    engine: Engine,
    landmarks: list[RowView],
    n_clusters: int,
    *,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> list[Search]:
    """Return a search for the nearest landmarks for each of the neighbourhood sizes."""
    size = int(landmarks[0].x.shape[0])
    found = []
    for part, halfway in settings.landmark_sizes:
        most = int(np.ceil(part * size / n_clusters))
        count = min(max(most, settings.fewest_neighbours), size)
        found.append(
            landmark_search(
                engine, landmarks, count, halfway=halfway, order=order, settings=settings
            )
        )
    return found


def choose_search(
    engine: Engine,
    candidates: list[Search],
    n_clusters: int,
    rng: np.random.Generator,
    *,
    settings: GraphSettings = DEFAULTS,
) -> tuple[Search, float]:
    """Return the search whose clusters of some random samples are clearest.

    Also returns the part of their embedding's variance within these clusters.
    """
    n, size = engine.n_samples, candidates[0].n_landmarks
    judged = min(n, max(int(settings.judged_per_landmark * size), 10 * n_clusters))
    rows = engine.take(np.sort(rng.choice(n, judged, replace=False)))

    def embedded(search: Search) -> tuple[Any, Matrix]:
        weights = _summing_to_one(search.n_nearest)
        links = weighted_links(nearest_of(rows, search), weights, size)
        return links, unit_rows(links @ _readout(_gram(links), n_clusters))

    links, embeddings = zip(*engine.side_by_side(embedded, candidates), strict=True)
    clusters = clearest_clusters(
        embeddings,
        partial(cut, links[0]),
        n_clusters,
        rng,
        n_init=settings.embedding_restarts[0],
        settings=settings,
    )
    return candidates[clusters.number], clusters.unexplained


def _embed(
    engine: Engine,
    search: Search,
    n_clusters: int,
    rng: np.random.Generator,
    settings: GraphSettings = DEFAULTS,
) -> None:
    """Put the samples' rows of the top eigenvectors into the blocks, as ``embedding``.

    Eigenvectors are weighted by :func:`manyview.linalg.partition.clear_weights`; rows have unit
    length. The eigenvectors are those of a random part of the samples.
    """
    size, count = search.n_landmarks, search.n_nearest
    again: Search | None = search
    if count <= settings.kept_landmarks:
        find_nearest(engine, search)
        again = None
    weights = _summing_to_one(count)
    part = min(1.0, settings.embedded_per_landmark * size / engine.n_samples)
    seed = int(rng.integers(2**31 - 1))
    (gram,) = engine.sum(_gram_kernel, again, weights, size, engine.dtype, part, seed)
    engine.update(_embed_kernel, again, weights, _readout(to_numpy(gram), n_clusters))
    engine.forget(State.NEIGHBOURS)


def _summing_to_one(count: int) -> Matrix:
    weights = harmonic_weights(count)
    return np.asarray(weights / weights.sum())


def _readout(gram: Matrix, n_clusters: int) -> Matrix:
    """Return the matrix that maps rows of Z to the top left singular vectors of ``Z L^(-1/2)``."""
    mass = gram.sum(axis=1)  # rows of Z sum to 1, so that Z'Z 1 = Z'1
    scale = np.divide(1.0, np.sqrt(mass), where=mass > 0, out=np.zeros_like(mass))
    more = min(2 * n_clusters, gram.shape[0])
    values, vectors = largest_eigenpairs(scale[:, None] * gram * scale, more)
    values = np.maximum(values, 0.0)
    weights = clear_weights(values, n_clusters)
    kept = np.flatnonzero(values[: weights.size] > 1e-10)
    return np.asarray(scale[:, None] * vectors[:, kept] * weights[kept] / np.sqrt(values[kept]))


def _gram(links: Any) -> Matrix:
    """Return ``Z'Z``; above a density of a tenth, dense products are faster."""
    if links.nnz < 0.1 * links.shape[0] * links.shape[1]:
        return np.asarray((links.T @ links).toarray())
    z = links.toarray()
    return np.asarray(z.T @ z)


def _gram_kernel(
    block: Block,
    search: Search | None,
    weights: Array,
    n_landmarks: int,
    dtype: np.dtype[Any],
    part: float,
    seed: int,
) -> Sums:
    """Sum ``Z'Z`` over a random part of the rows; without a search, by the stored landmarks."""
    like = block.state[State.NEIGHBOURS] if search is None else block.views[0].x
    drawn = uniform_of_rows(block.numbers(like.data if is_sparse(like) else like), seed)
    (chosen,) = namespace(drawn).nonzero(drawn < part)
    if search is None:
        near = namespace(like).take(like, chosen, axis=0)
    else:
        # every view is read before the early return: engines may probe a kernel with a few rows to
        # learn which views it reads
        some = Block(slice(0, chosen.shape[0]), [view.take(chosen) for view in block.views])
        if not chosen.shape[0]:
            return (placed_like(np.zeros((n_landmarks, n_landmarks)), drawn),)
        parts = list(nearest_chunks(some, search))
        near = namespace(parts[0]).concat(parts, axis=0)
    if in_memory(near):
        z = weighted_links(to_numpy(near), to_numpy(weights), n_landmarks)
        return (_gram(z),)
    # dense, in the precision of the views: sparse products are slow on a device
    z = scattered(near, as_dtype(weights, dtype), n_landmarks)
    return (as_dtype(z.T @ z, np.float64),)


def _embed_kernel(block: Block, search: Search | None, weights: Array, readout: Array) -> Update:
    """Embed the rows by their nearest landmarks; without a search, by the stored ones."""
    # a few rows at a time: the nearest landmarks of all may take more memory than the views
    chunks = [block.state[State.NEIGHBOURS]] if search is None else nearest_chunks(block, search)
    parts = [_embedded(near, weights, readout) for near in chunks]
    xp = namespace(parts[0])
    embedded = xp.concat(parts, axis=0)
    lengths = xp.sqrt(xp.sum(embedded * embedded, axis=1))[:, None]
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return {State.EMBEDDING: embedded / lengths}, ()


def _embedded(near: Array, weights: Array, readout: Array) -> Array:
    """Return the weighted sums of the readout's rows that belong to the nearest landmarks."""
    if isinstance(near, np.ndarray):
        # a sparse product, as a copy of the rows for each landmark would take much memory
        return np.asarray(weighted_links(near, weights, readout.shape[0]) @ readout)
    return weighted_sums(near, weights, readout)
