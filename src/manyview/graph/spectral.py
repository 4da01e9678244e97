"""Affinity graphs of samples and their spectral clustering.

There is a graph for the product of all views, and one for each single view. The product of
affinities is an AND: a view that says something else spoils it. Graphs of single views, added, are
an OR. A weighted sum of both has all orders.

Nothing grows with the square of the number of samples: if there are many, the graphs are those of
a random part, and kernel regressions extend the embedding to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, namespace
from manyview.graph.kmeans import cluster_state
from manyview.graph.neighbours import (
    Comparison,
    compare_sample,
    comparison_with,
    harmonic_weights,
    weighted_links,
)
from manyview.graph.regression import Ridge, coefficients_of, predicted_rows
from manyview.graph.settings import ALL_ORDERS, DEFAULTS, GraphOf, GraphSettings
from manyview.linalg.partition import Labels, clear_embedding, cluster_rows, unit_rows

__all__ = ["AffinityGraphs", "Clusters", "spectral_labels", "unexplained"]


class Clusters(NamedTuple):
    """Clusters of an embedding.

    ``unexplained`` is the part of the embedding's variance within the clusters: 0 for perfectly
    clear ones, .3 to .7 for noise. That of the first K columns, in which K clusters should show,
    counts twice as much as that of all. ``eigengap`` is the difference between the K-th and the
    next eigenvalue of the graph, or 0 where there is none.
    """

    labels: Labels
    embedding: Matrix
    unexplained: float
    eigengap: float = 0.0

    @classmethod
    def of(cls, labels: Labels, embedding: Matrix) -> Clusters:
        """Return clusters of an embedding, given their labels."""
        first = unexplained(unit_rows(embedding[:, : int(labels.max()) + 1]), labels)
        return cls(labels, embedding, (2.0 * first + unexplained(embedding, labels)) / 3.0)


class Votes(NamedTuple):
    """Mean rows of a sample's neighbours, by symmetric weights whose sum is one.

    ``links`` are weights of the nearest samples, in one direction.
    """

    links: Any
    inverse_total: Matrix

    @classmethod
    def of(cls, links: Any) -> Votes:
        """Return the votes, given weights of the nearest samples."""
        total = np.asarray(links.sum(axis=1)).ravel() + np.asarray(links.sum(axis=0)).ravel()
        return cls(links, 1.0 / total[:, None])  # each sample has neighbours

    def __matmul__(self, rows: Matrix) -> Matrix:
        return np.asarray((self.links @ rows + self.links.T @ rows) * self.inverse_total)


class AffinityGraphs:
    """Affinity graphs of some samples and regressions on them.

    Attributes
    ----------
    sample : ndarray of shape (n,)
        Numbers of the samples: all of them, or random ones if there are many.
    complete : bool
        Whether these are all samples.
    near : list of ndarray of shape (n, n_nearest)
        Nearest samples, by position in the sample, for the product of all views, and for each view
        if there are several.
    comparison : Comparison
        Comparison of any samples with the landmarks of the regressions.
    """

    def __init__(
        self,
        engine: Engine,
        n_clusters: int,
        rng: np.random.Generator,
        *,
        order: int | None = None,
        neighbourhood: float = 1.0,
        settings: GraphSettings = DEFAULTS,
    ) -> None:
        n, most = engine.n_samples, settings.most_in_graph(n_clusters)
        self.settings, self.complete = settings, n <= most
        self.sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
        rows, size = engine.take(self.sample), self.sample.size
        self._neighbourhood = neighbourhood
        self.sizes = self._sizes_for(n_clusters)
        drawn = rng.permutation(size)
        fitted = settings.n_landmarks if self.complete else settings.extending_landmarks
        power = 1 if self.complete else settings.extending_power
        fitted = min(max(fitted, 5 * n_clusters), size)
        landmarks = [view.take(drawn) for view in rows]
        comparison = comparison_with(engine, landmarks, order=order, power=power, settings=settings)
        self.near, kernels = compare_sample(
            engine, rows, comparison, drawn, max(self.sizes), fitted, settings
        )
        self._kernels: list[Any] = list(kernels)
        self.comparison, self._fitted = comparison.with_first(fitted), drawn[:fitted]

    def _sizes_for(self, n_clusters: int) -> list[int]:
        """Return the neighbourhood sizes, far and near, for a number of clusters."""
        settings, size = self.settings, self.sample.size
        half = min(settings.cluster_part * size / n_clusters, settings.most_neighbours)
        counts = [int(np.ceil(self._neighbourhood * part * half)) for part in settings.sizes]
        return [min(max(count, settings.fewest_neighbours), size - 1) for count in counts]

    def for_clusters(self, n_clusters: int) -> Self:
        """Return the graphs of the same samples for at least as many clusters.

        Neighbours and regressions are shared. With more clusters the neighbourhoods are smaller.
        """
        other = copy(self)
        other.sizes = self._sizes_for(n_clusters)
        return other

    def regressions(self, engine: Engine) -> list[Ridge]:
        """Return the regressions in the kernel of the product and in those of the views.

        They replace the kernels, so this can be called once.
        """

        def of_order(number: int) -> Ridge:
            kernel, self._kernels[number] = self._kernels[number], None
            return Ridge.of(kernel, self._fitted, self.settings.ridges)

        return engine.side_by_side(of_order, range(len(self._kernels)))

    def votes(self) -> list[Votes]:
        """Return the votes of the graph of each order."""
        weights = self._weights((0, 1))
        return [Votes.of(self._links_by(number, weights)) for number in range(len(self.near))]

    def affinity(self, graph: GraphOf) -> Any:
        """Return the symmetric weights of a graph."""
        weights, n_views = self._weights(graph.sizes), len(self.near) - 1
        shares = [graph.product, *[graph.views / max(n_views, 1)] * n_views]
        if n_views == 0:  # a single view is the product
            shares = [1.0]
        orders = [number for number, share in enumerate(shares) if share > 0.0]
        near = np.hstack([self.near[number][:, : weights.size] for number in orders])
        each = np.concatenate([shares[number] * weights for number in orders])
        links = weighted_links(near, each, self.sample.size)
        links.sum_duplicates()
        return _symmetric(links)

    def candidates(self) -> list[GraphOf]:
        """Return the graphs whose clusters compete, without a near one that is hardly nearer."""
        far, near = max(self.sizes), min(self.sizes)
        found = self.settings.graphs
        return [graph for graph in found if 0 in graph.sizes or 4 * near <= far]

    def clusters(self, graph: GraphOf, n_clusters: int, rng: np.random.Generator) -> Clusters:
        """Return the spectral clusters of the samples."""
        rows, values = clear_embedding(self.affinity(graph), n_clusters, rng=rng)
        n_init = int(np.clip(300 // n_clusters, *self.settings.embedding_restarts))
        labels, _ = cluster_rows(rows, n_clusters, rng, n_init=n_init)
        gap = (
            float(values[n_clusters - 1] - values[n_clusters]) if n_clusters < values.size else 0.0
        )
        return Clusters.of(labels, rows)._replace(eigengap=gap)

    def _weights(self, sizes: Sequence[int]) -> Matrix:
        """Return the weights of the nearest, nearest first, for some neighbourhood sizes."""
        total = np.zeros(self.near[0].shape[1])
        for size in {self.sizes[min(number, len(self.sizes) - 1)] for number in sizes}:
            total[:size] += harmonic_weights(size)
        return np.asarray(np.trim_zeros(total, "b") / total.sum())

    def _links_by(self, number: int, weights: Matrix) -> Any:
        near = self.near[number][:, : weights.size]
        return weighted_links(near, weights, self.sample.size)


def _symmetric(links: Any) -> Any:
    return sp.csr_array(links + links.T)


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
        The graph, if it has all samples.
    """
    graphs = AffinityGraphs(
        engine, n_clusters, rng, order=order, neighbourhood=neighbourhood, settings=settings
    )
    clusters = graphs.clusters(graph, n_clusters, rng)
    if graphs.complete:
        engine.scatter(State.LABELS, clusters.labels)
        engine.scatter(State.EMBEDDING, clusters.embedding)
        return clusters.unexplained, graphs.affinity(graph)
    coefficients = coefficients_of(graphs.regressions(engine), clusters.embedding, engine.dtype)
    engine.update(_embed_kernel, graphs.comparison, coefficients)
    cluster_state(engine, State.EMBEDDING, n_clusters, rng, settings=settings)
    return clusters.unexplained, None


def _embed_kernel(block: Block, comparison: Comparison, coefficients: list[Array]) -> Update:
    embedded = predicted_rows(block, comparison, coefficients)
    xp = namespace(embedded)
    lengths = xp.sqrt(xp.sum(embedded * embedded, axis=1))[:, None]
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return {State.EMBEDDING: embedded / lengths}, ()


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
