"""Affinity graphs of samples and their spectral clustering, exact or through landmarks.

There is a graph for the product of all views, and one for each single view. The product of
affinities is an AND: a view that says something else spoils it. Graphs of single views, added, are
an OR. A weighted sum of both has all orders.

Exact graphs link each sample to its nearest samples. With landmarks, two samples are near if they
share landmarks. Let Z hold the weights of each sample's nearest landmarks, summing to 1, and L be
the diagonal matrix of its column sums. The graph is ``Z L^-1 Z'``, which is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, namespace, placed_like, to_numpy, weighted_sums
from manyview.graph.kmeans import cluster_state
from manyview.graph.neighbours import (
    Search,
    chunks_of,
    compared_rows,
    harmonic_weights,
    landmark_search,
    weighted_links,
)
from manyview.graph.settings import ALL_ORDERS, DEFAULTS, GraphOf, GraphSettings
from manyview.linalg.eigen import largest_eigenpairs
from manyview.linalg.partition import (
    Labels,
    clear_embedding,
    clear_weights,
    cluster_rows,
    unit_rows,
)

__all__ = [
    "AffinityGraphs",
    "Clusters",
    "compare",
    "spectral_labels",
    "unexplained",
    "votes_of",
]


class Clusters(NamedTuple):
    """Clusters of an embedding.

    ``unexplained`` is the part of the embedding's variance within the clusters: 0 for perfectly
    clear ones, .3 to .7 for noise. That of the first K columns, in which K clusters should show,
    counts twice as much as that of all.
    """

    labels: Labels
    embedding: Matrix
    unexplained: float


class AffinityGraphs:
    """Affinity graphs of some samples: all of them, or random ones if there are very many.

    Up to ``settings.exact_limit`` samples the graphs are exact. Beyond, they link samples to the
    nearest of random landmarks, so that nothing grows with the square of the number of samples.

    Attributes
    ----------
    sample : ndarray of shape (n,)
        Numbers of the samples.
    fitted : ndarray of shape (n_fitted,)
        Positions in the sample of the landmarks of the regressions.
    search : Search
        Comparison with landmarks, or with all samples.
    near : list of ndarray of shape (n, n_nearest)
        Nearest samples or landmarks by the product of all views, and by each view if there are
        several.
    kernels : list of ndarray of shape (n, n_fitted)
        Kernels of the regressions, in the same order.
    """

    def __init__(
        self,
        engine: Engine,
        n_clusters: int,
        rng: np.random.Generator,
        *,
        n_fitted: int = 0,
        order: int | None = None,
        neighbourhood: float = 1.0,
        settings: GraphSettings = DEFAULTS,
    ) -> None:
        n, most = engine.n_samples, max(settings.n_samples, 10 * n_clusters)
        self.settings = settings
        self.exact = n <= settings.exact_limit
        self.sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
        rows, size = engine.take(self.sample), self.sample.size
        count, per_cluster = size, settings.cluster_part * size / n_clusters
        # in random order, as of equally near landmarks the first is taken
        drawn = rng.permutation(size)
        if not self.exact:
            wanted = min(settings.landmarks_per_cluster * n_clusters, settings.exact_limit)
            count = min(size, max(settings.n_landmarks, wanted, 2 * n_clusters))
            per_cluster = count / n_clusters
        self.sizes = [
            int(
                np.clip(
                    np.ceil(neighbourhood * part * per_cluster),
                    settings.fewest_neighbours,
                    count - self.exact,
                )
            )
            for part in settings.sizes
        ]
        self.fitted = drawn[: min(n_fitted, count)]
        self.search = landmark_search(
            engine,
            rows if self.exact else [view.take(drawn[:count]) for view in rows],
            max(self.sizes),
            fitted=self.fitted if self.exact else np.arange(self.fitted.size),
            itself=not self.exact,
            order=order,
            settings=settings,
        )
        self.near, self.kernels = compare(engine, rows, self.search)

    @property
    def n_orders(self) -> int:
        """Number of graphs: of the product of all views, and of each view if there are several."""
        return len(self.near)

    def weights(self, sizes: Sequence[int] = (0, 1)) -> Matrix:
        """Return the weights of the nearest, nearest first, for some neighbourhood sizes."""
        total = np.zeros(self.near[0].shape[1])
        for size in {self.sizes[min(number, len(self.sizes) - 1)] for number in sizes}:
            total[:size] += harmonic_weights(size)
        return total[: np.flatnonzero(total)[-1] + 1] / total.sum()

    def links(self, graph: GraphOf) -> Any:
        """Return the sparse weights from samples to the nearest samples or landmarks."""
        weights = self.weights(graph.sizes)
        total = sum(
            share * self._links_by(number, weights)
            for number, share in enumerate(self.shares(graph))
            if share > 0.0
        )
        return sp.csr_array(total)

    def shares(self, graph: GraphOf) -> list[float]:
        """Return the weight of each order in a graph, summing to one."""
        n_views = self.n_orders - 1
        if n_views == 0:  # a single view is the product
            return [1.0]
        total = graph.product + graph.views
        return [graph.product / total, *[graph.views / n_views / total] * n_views]

    def _links_by(self, number: int, weights: Matrix) -> Any:
        near = self.near[number][:, : weights.size]
        return weighted_links(near, weights, self.search.n_landmarks)

    def affinity(self, graph: GraphOf) -> Any:
        """Return the symmetric weights of an exact graph."""
        links = self.links(graph)
        return sp.csr_array(links + links.T)

    def embedding(self, graph: GraphOf, n_clusters: int, rng: np.random.Generator) -> Matrix:
        """Return the spectral embedding of the samples, with rows of unit length."""
        if self.exact:
            return clear_embedding(self.affinity(graph), n_clusters, rng=rng)
        links = self.links(graph)
        return unit_rows(links @ _readout(_gram(links), n_clusters))

    def clusters(self, graph: GraphOf, n_clusters: int, rng: np.random.Generator) -> Clusters:
        """Return the spectral clusters of the samples."""
        rows = self.embedding(graph, n_clusters, rng)
        n_init = int(np.clip(300 // n_clusters, *self.settings.embedding_restarts))
        labels, _ = cluster_rows(rows, n_clusters, rng, n_init=n_init)
        return Clusters(labels, rows, _unclear(rows, labels, n_clusters))

    def smoothers(self) -> list[Smoother]:
        """Return the votes of neighbours, by the graph of each order."""
        weights = self.weights()
        found: list[Smoother] = []
        for number in range(self.n_orders):
            links = self._links_by(number, weights)
            found.append(ExactVotes(links) if self.exact else LandmarkVotes(links))
        return found


class ExactVotes:
    """Votes of the neighbours in an exact graph, in which no sample votes for itself."""

    def __init__(self, links: Any) -> None:
        graph = sp.csr_array(links + links.T)
        total = np.asarray(graph.sum(axis=1)).ravel()
        self._graph = sp.csr_array(sp.diags_array(1.0 / np.where(total > 0, total, 1.0)) @ graph)

    def __call__(self, F: Matrix) -> Matrix:
        """Return the weighted mean of the neighbours' rows of F."""
        return np.asarray(self._graph @ F)


class LandmarkVotes:
    """Votes of the nearest landmarks, each for the mean of the samples near to it."""

    def __init__(self, links: Any) -> None:
        self._links = links
        reached = np.asarray(links.sum(axis=0)).ravel()
        self._reached = np.where(reached > 0, reached, 1.0)[:, None]

    def profiles(self, F: Matrix) -> Matrix:
        """Return the weighted mean row of F of the samples near to each landmark."""
        return np.asarray((self._links.T @ F) / self._reached)

    def __call__(self, F: Matrix) -> Matrix:
        """Return the weighted mean of the nearest landmarks' profiles."""
        return np.asarray(self._links @ self.profiles(F))


Smoother = ExactVotes | LandmarkVotes


def compare(
    engine: Engine, rows: list[Any], search: Search
) -> tuple[list[npt.NDArray[Any]], list[Matrix]]:
    """Return the nearest landmarks and the kernels of samples that were taken from an engine."""
    block = Block(slice(0, rows[0].x.shape[0]), rows)

    def compared(chunk: slice) -> tuple[list[Array], list[Array]]:
        return compared_rows(block, chunk, search)

    near, kernels = zip(*engine.side_by_side(compared, chunks_of(block, search)), strict=True)
    return (
        [np.concatenate(parts) for parts in zip(*near, strict=True)],
        [np.concatenate(parts) for parts in zip(*kernels, strict=True)],
    )


def spectral_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    neighbourhood: float = 1.0,
    graph: GraphOf = ALL_ORDERS,
    settings: GraphSettings = DEFAULTS,
) -> tuple[float, Any]:
    """Put the ``labels`` and the ``embedding`` of a graph's clusters into the blocks.

    Returns
    -------
    float
        Part of the embedding's variance within the clusters, with many samples that of some.
    csr_array or None
        The graph, if it is exact.
    """
    graphs = AffinityGraphs(
        engine, n_clusters, rng, order=order, neighbourhood=neighbourhood, settings=settings
    )
    if graphs.exact:
        clusters = graphs.clusters(graph, n_clusters, rng)
        engine.scatter(State.LABELS, clusters.labels)
        engine.scatter(State.EMBEDDING, clusters.embedding)
        return clusters.unexplained, graphs.affinity(graph)
    readout = _readout(_gram(graphs.links(graph)), n_clusters).astype(engine.dtype)
    weights = graphs.weights(graph.sizes)
    shares = graphs.shares(graph)
    engine.update(_embed_kernel, graphs.search, shares, weights.astype(engine.dtype), readout)
    cluster_state(engine, State.EMBEDDING, n_clusters, rng, settings=settings)
    rows = engine.take_state(State.EMBEDDING, graphs.sample)
    labels = engine.take_state(State.LABELS, graphs.sample).astype(np.intp)
    return _unclear(rows, labels, n_clusters), None


def _embed_kernel(
    block: Block, search: Search, shares: list[float], weights: Array, readout: Array
) -> Update:
    """Embed the rows of a block by their nearest landmarks."""
    parts = []
    # a few rows at a time: the nearest landmarks of all may take more memory than the views
    for chunk in chunks_of(block, search):
        near, _ = compared_rows(block, chunk, search)
        pairs = [(share, places) for share, places in zip(shares, near, strict=True) if share]
        parts.append(sum(share * votes_of(places, weights, readout) for share, places in pairs))
    embedded = namespace(parts[0]).concat(parts, axis=0)
    xp = namespace(embedded)
    lengths = xp.sqrt(xp.sum(embedded * embedded, axis=1))[:, None]
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return {State.EMBEDDING: embedded / lengths}, ()


def votes_of(near: Array, weights: Array, rows: Array) -> Array:
    """Return the weighted sums of the rows that belong to the nearest landmarks."""
    near = near[:, : weights.shape[0]]
    if isinstance(near, np.ndarray):
        # a sparse product, as a copy of the rows for each landmark would take much memory
        return np.asarray(weighted_links(near, weights, rows.shape[0]) @ rows)
    return weighted_sums(near, placed_like(to_numpy(weights), rows), rows)


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


def _unclear(rows: Matrix, labels: Labels, n_clusters: int) -> float:
    first = unexplained(unit_rows(rows[:, :n_clusters]), labels)
    return float((2.0 * first + unexplained(rows, labels)) / 3.0)


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
