"""Spectral embedding through landmarks.

The graph of the product kernel through landmarks, for samples too many to be compared.

Two samples are near when they share landmarks: with Z the weights of each sample's nearest
landmarks, summing to 1, and L the diagonal of its column sums, the graph is ``Z L^-1 Z'``. It is
never formed; of Z, the few entries of each sample are kept, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Sums, Update
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
from manyview.graph.neighbours import (
    FEWEST_NEIGHBOURS,
    Search,
    find_nearest,
    halfway_widths,
    harmonic_weights,
    nearest_chunks,
    nearest_of,
    weighted_links,
)
from manyview.graph.select import Seen, cut
from manyview.linalg.eigen import largest_eigenpairs
from manyview.linalg.partition import clear_weights, unit_rows

__all__ = ["FAR_LOOK", "LOOKS", "NEAR_LOOK", "Look", "clearest_look", "embed_by_landmarks"]


_ASKED_PER_LANDMARK = 2  # samples by which the look is chosen
_EMBEDDED_PER_LANDMARK = 10  # samples whose eigenvectors are taken for those of all
_MOST_KEPT_LANDMARKS = 32  # nearest ones that are kept with a sample; more are found anew
_SPARSE_PART = 0.1  # of the entries, up to which a sparse product with itself is faster


@dataclass(frozen=True)
class Look:
    """Which landmarks a sample is linked to.

    Attributes
    ----------
    part : float
        How many at most, as a part of those of an average cluster. They count at every scale up to
        that, as neighbours do in the whole graph.
    halfway : bool
        Whether features are taken half-way to standardised, or as they are.
    """

    part: float
    halfway: bool

    def count(self, n_landmarks: int, n_clusters: int) -> int:
        """Return the number of landmarks that a sample is linked to."""
        most = int(np.ceil(self.part * n_landmarks / n_clusters))
        return min(max(most, FEWEST_NEIGHBOURS), n_landmarks)

    def search(
        self, engine: Engine, landmarks: list[RowView], n_clusters: int, order: int | None = None
    ) -> Search:
        """Return what samples are compared with; parameters as in :func:`embed_by_landmarks`."""
        widths = halfway_widths(engine) if self.halfway else _no_widths(engine)
        count = self.count(_size(landmarks), n_clusters)
        return Search.of(engine, landmarks, count, widths, order=order)


FAR_LOOK = Look(1.0, halfway=True)
NEAR_LOOK = Look(1 / 32, halfway=False)
LOOKS = (FAR_LOOK, NEAR_LOOK)


def embed_by_landmarks(
    engine: Engine,
    landmarks: list[RowView],
    n_clusters: int,
    rng: np.random.Generator,
    looks: Sequence[Look] = LOOKS,
    *,
    order: int | None = None,
) -> float:
    """Put the samples' rows of the graph's top eigenvectors, unit length, into the blocks.

    They are the state ``embedding``, each eigenvector weighted by what it says of the clusters
    (:func:`manyview.linalg.partition.clear_weights`).
    The eigenvectors are those of ten times as many random samples as there are landmarks, which
    hardly differ from those of all.

    Parameters
    ----------
    engine : Engine
        The samples.
    landmarks : list of RowView
        Rows of each view of the samples that stand for those around them.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of all that is random.
    looks : sequence of Look
        Which landmarks a sample may be linked to.
    order : int, optional
        Most views that the kernel multiplies; by default all.

    Returns
    -------
    float
        Part of the embedding's variance that lies within clusters, by the samples that were asked.
    """
    search, within = clearest_look(
        engine,
        [look.search(engine, landmarks, n_clusters, order) for look in looks],
        n_clusters,
        rng,
    )
    size, count = search.n_landmarks, search.n_nearest
    anew: Search | None = search
    if count <= _MOST_KEPT_LANDMARKS:
        find_nearest(engine, search)
        anew = None
    weights = _summing_to_one(count)
    part = min(1.0, _EMBEDDED_PER_LANDMARK * size / engine.n_samples)
    seed = int(rng.integers(2**31 - 1))
    (gram,) = engine.sum(_gram_kernel, anew, weights, size, engine.dtype, part, seed)
    readout = _readout(to_numpy(gram), n_clusters)
    engine.update(_embed_kernel, anew, weights, readout)
    engine.forget("near")
    return within


def clearest_look(
    engine: Engine, searches: Sequence[Search], n_clusters: int, rng: np.random.Generator
) -> tuple[Search, float]:
    """Return the first of several looks at landmarks, or a later one that shows clusters better.

    Noisy samples, such as texts, want many landmarks, and fine clusters few. Looks are tried on
    twice as many samples as there are landmarks, and compared as in
    :mod:`manyview.graph.select`.

    Parameters
    ----------
    engine : Engine
        The samples.
    searches : sequence of Search
        What each look compares samples with; see :meth:`Look.search`.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of all that is random.

    Returns
    -------
    search : Search
        The look to take at all samples.
    within : float
        Part of its embedding's variance that lies within clusters.
    """
    n, size = engine.n_samples, searches[0].n_landmarks
    asked = min(n, max(int(_ASKED_PER_LANDMARK * size), 10 * n_clusters))
    rows = engine.take(np.sort(rng.choice(n, asked, replace=False)))

    def embedded(search: Search) -> tuple[Any, Matrix]:
        weights = _summing_to_one(search.n_nearest)
        links = weighted_links(nearest_of(rows, search), weights, size)
        readout = _readout(_gram(links), n_clusters)
        return links, unit_rows(links @ readout)

    (first, embedding), *others = engine.side_by_side(embedded, searches)
    clearest, seen = searches[0], Seen.of(embedding, n_clusters, rng)
    for search, (_, embedding) in zip(searches[1:], others, strict=True):
        now = Seen.of(embedding, n_clusters, rng)
        if now.is_clearer(seen, partial(cut, first)):
            clearest, seen = search, now
    return clearest, seen.within


def _no_widths(engine: Engine) -> list[Matrix]:
    return [np.ones(scaling.n_features, dtype=engine.dtype) for scaling in engine.scalings]


def _size(landmarks: list[RowView]) -> int:
    return int(landmarks[0].x.shape[0])


def _summing_to_one(count: int) -> Matrix:
    weights = harmonic_weights(count)
    return np.asarray(weights / weights.sum())


def _readout(gram: Matrix, n_clusters: int) -> Matrix:
    """Return what takes weights of landmarks to the top left singular vectors of ``Z L^(-1/2)``."""
    mass = gram.sum(axis=1)  # rows of Z sum to 1, so that Z'Z 1 = Z'1
    scale = np.divide(1.0, np.sqrt(mass), where=mass > 0, out=np.zeros_like(mass))
    more = min(2 * n_clusters, gram.shape[0])
    values, vectors = largest_eigenpairs(scale[:, None] * gram * scale, more)
    values = np.maximum(values, 0.0)
    weights = clear_weights(values, n_clusters)
    kept = np.flatnonzero(values[: weights.size] > 1e-10)
    return np.asarray(scale[:, None] * vectors[:, kept] * weights[kept] / np.sqrt(values[kept]))


def _gram(links: Any) -> Matrix:
    """Return ``Z'Z`` of sparse Z; dense where a tenth of Z is there, as few clusters have it."""
    if links.nnz < _SPARSE_PART * links.shape[0] * links.shape[1]:
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
    """Sum ``Z'Z`` over a random part of the rows; without a search, by the landmarks kept."""
    like = block.state["near"] if search is None else block.views[0].x
    drawn = uniform_of_rows(block.numbers(like.data if is_sparse(like) else like), seed)
    (chosen,) = namespace(drawn).nonzero(drawn < part)
    if search is None:
        near = namespace(like).take(like, chosen, axis=0)
    else:
        # before anything is returned: which views a kernel asks for may be seen by a few rows
        some = Block(slice(0, chosen.shape[0]), [view.take(chosen) for view in block.views])
        if not chosen.shape[0]:
            return (placed_like(np.zeros((n_landmarks, n_landmarks)), drawn),)
        parts = list(nearest_chunks(some, search))
        near = namespace(parts[0]).concat(parts, axis=0)
    if in_memory(near):
        z = weighted_links(to_numpy(near), to_numpy(weights), n_landmarks)
        return (_gram(z),)
    # dense, in the precision of the views: sparse products are slow elsewhere
    z = scattered(near, as_dtype(weights, dtype), n_landmarks)
    return (as_dtype(z.T @ z, np.float64),)


def _embed_kernel(block: Block, search: Search | None, weights: Array, readout: Array) -> Update:
    """Embed the rows by their nearest landmarks; without a search, by those kept."""
    # found ones of few samples at a time: those of all may be more than the views
    chunks = [block.state["near"]] if search is None else nearest_chunks(block, search)
    parts = [_embedded(near, weights, readout) for near in chunks]
    xp = namespace(parts[0])
    embedded = xp.concat(parts, axis=0)
    lengths = xp.sqrt(xp.sum(embedded * embedded, axis=1))[:, None]
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return {"embedding": embedded / lengths}, ()


def _embedded(near: Array, weights: Array, readout: Array) -> Array:
    """Return the weighted sums of the readout's rows that belong to the nearest landmarks."""
    if isinstance(near, np.ndarray):
        # as a sparse product: the rows themselves would take as much for each of the landmarks
        return np.asarray(weighted_links(near, weights, readout.shape[0]) @ readout)
    return weighted_sums(near, weights, readout)
