"""The graph of the product kernel through landmarks, for samples too many to be compared.

Two samples are near when they share landmarks: with Z the weights of each sample's nearest
landmarks, summing to 1, and L the diagonal of its column sums, the graph is ``Z L^-1 Z'``. It is
never formed, and nothing but the embedding of a sample stays with the sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from manyview.engine import Block, Engine, Sums, Update
from manyview.engine.arrays import Array, as_dtype, in_memory, namespace, scattered, to_numpy
from manyview.mmc.graph import FEWEST, find_nearest, harmonic_weights

__all__ = ["embed_by_landmarks"]

Matrix = npt.NDArray[np.floating[Any]]

PART_OF_CLUSTER = 1 / 8


def embed_by_landmarks(
    engine: Engine,
    landmarks: npt.NDArray[np.intp],
    n_clusters: int,
    *,
    order: int | None = None,
    reach: float = 1.0,
) -> None:
    """Put the samples' rows of the graph's top eigenvectors, unit length, into the blocks.

    They are the state ``embedding``. Landmarks count at every scale, as neighbours do in the whole
    graph, up to an eighth of those of an average cluster: from a sample over a landmark to another
    sample is two steps, and many samples tell fine clusters apart. Features are taken as they are.

    Parameters
    ----------
    engine : Engine
        The samples.
    landmarks : ndarray of int
        Samples that stand for those around them.
    n_clusters : int
        Number of clusters.
    order : int, optional
        Most views that the kernel multiplies; by default all.
    reach : float
        Part of that eighth to which landmarks are looked at.
    """
    most = int(np.ceil(reach * PART_OF_CLUSTER * landmarks.size / n_clusters))
    count = min(max(most, FEWEST), landmarks.size)
    widths = [np.ones(scaling.n_features, dtype=engine.dtype) for scaling in engine.scalings]
    find_nearest(engine, landmarks, count, widths, order=order)
    weights = harmonic_weights(count) / harmonic_weights(count).sum()
    (gram,) = engine.sum(_gram_kernel, weights, landmarks.size, engine.dtype, engine.chunk)
    engine.update(_embed_kernel, weights, _readout(to_numpy(gram), n_clusters), engine.chunk)


def _readout(gram: Matrix, n_components: int) -> Matrix:
    """Return what takes weights of landmarks to the top left singular vectors of ``Z L^(-1/2)``."""
    mass = gram.sum(axis=1)  # rows of Z sum to 1, so that Z'Z 1 = Z'1
    scale = np.divide(1.0, np.sqrt(mass), where=mass > 0, out=np.zeros_like(mass))
    size = gram.shape[0]
    n_components = min(n_components, size)
    values, vectors = scipy.linalg.eigh(
        scale[:, None] * gram * scale, subset_by_index=(size - n_components, size - 1)
    )
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    kept = values > 1e-10
    return np.asarray(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))


def _gram_kernel(
    block: Block, weights: Any, n_landmarks: int, dtype: np.dtype[Any], chunk_rows: int
) -> Sums:
    near = block.state["near"]
    if in_memory(near):
        near = to_numpy(near)
        n, count = near.shape
        parts = (np.tile(to_numpy(weights), n), near.ravel(), np.arange(0, near.size + 1, count))
        z = sp.csr_array(parts, (n, n_landmarks))
        return ((z.T @ z).toarray(),)
    # dense, some rows at a time, in the precision of the views: sparse products are slow elsewhere
    weights = as_dtype(weights, dtype)
    chunks = (scattered(part, weights, n_landmarks) for part in _cut(near, chunk_rows))
    return (reduce(add, (as_dtype(z.T @ z, np.float64) for z in chunks)),)


def _cut(rows: Array, chunk_rows: int) -> Iterator[Array]:
    for begin in range(0, rows.shape[0], chunk_rows):
        yield rows[begin : min(begin + chunk_rows, rows.shape[0]), ...]


def _embed_kernel(block: Block, weights: Any, readout: Any, chunk_rows: int) -> Update:
    near = block.state["near"]
    xp = namespace(near)
    cut = [near] if isinstance(near, np.ndarray) else _cut(near, chunk_rows)
    embedded = xp.concat([_weighted(part, weights, readout) for part in cut], axis=0)
    lengths = xp.sqrt(xp.sum(embedded * embedded, axis=1))[:, None]
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return {"embedding": embedded / lengths, "near": None}, ()


def _weighted(near: Array, weights: Array, readout: Array) -> Array:
    """Return the weighted sums of the readout's rows that belong to the nearest landmarks."""
    xp = namespace(near)
    shape = (*near.shape, readout.shape[1])
    rows = xp.reshape(xp.take(readout, xp.reshape(near, (-1,)), axis=0), shape)
    return xp.sum(rows * weights[:, None], axis=1)
