"""The graph of the product kernel through landmarks, for samples too many to be compared.

Two samples are near when they share landmarks: with Z the weights of each sample's nearest
landmarks, summing to 1, and L the diagonal of its column sums, the graph is ``Z L^-1 Z'``. It is
never formed, and nothing but the embedding of a sample stays with the sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from manyview.engine import Block, Engine, Sums, Update
from manyview.engine.arrays import as_dtype, namespace, scattered, to_numpy
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
    (gram,) = engine.sum(_gram_kernel, weights, landmarks.size)
    engine.update(_embed_kernel, weights, _readout(to_numpy(gram), n_clusters))


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


def _gram_kernel(block: Block, weights: Any, n_landmarks: int) -> Sums:
    near = block.state["near"]
    if isinstance(near, np.ndarray):
        n, count = near.shape
        parts = (np.tile(weights, n), near.ravel(), np.arange(0, near.size + 1, count))
        z = sp.csr_array(parts, (n, n_landmarks))
        return ((z.T @ z).toarray(),)
    z = scattered(near, weights, n_landmarks)
    return (as_dtype(z.T @ z, np.float64),)


def _embed_kernel(block: Block, weights: Any, readout: Any) -> Update:
    near = block.state["near"]
    xp = namespace(near)
    shape = (*near.shape, readout.shape[1])
    rows = xp.reshape(xp.take(readout, xp.reshape(near, (-1,)), axis=0), shape)
    embedded = xp.sum(rows * weights[:, None], axis=1)
    lengths = xp.sqrt(xp.sum(embedded * embedded, axis=1))[:, None]
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return {"embedding": embedded / lengths, "near": None}, ()
