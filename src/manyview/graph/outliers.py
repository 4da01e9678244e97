"""Outlier scores of samples, by their distances from their nearest neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, largest, namespace, to_numpy
from manyview.graph.affinity import products_of_known
from manyview.graph.neighbours import Comparison, chunks_of, compared_rows, comparison_with
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.partition import Labels

__all__ = ["outlier_scores"]


def outlier_scores(
    engine: Engine,
    labels: Labels,
    rng: np.random.Generator,
    settings: GraphSettings = DEFAULTS,
) -> npt.NDArray[np.float64]:
    """Return how far each sample is from its neighbours, compared with others of its cluster.

    The score is the logarithm of the mean distance from the nearest samples, less its median in the
    cluster, in standard deviations, which follow from the median absolute deviation.

    The squared distance of two samples is the mean over the views that both have: between unit
    rows, or between standardised rows if these are compared by distance. If there are many samples,
    neighbours are found among a random part of them. Samples of clusters with hardly more samples
    than neighbours are compared with all samples.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Cluster of each sample.
    """
    n, most = engine.n_samples, settings.outlier_samples
    sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    count = min(settings.outlier_neighbours, sample.size - 1)
    rows = engine.take(sample)
    comparison = comparison_with(engine, rows, settings=settings)
    own = comparison._replace(chunk=min(comparison.chunk, Engine.chunk))
    block = Block(slice(0, sample.size), rows)

    def to_others(chunk: slice) -> Matrix:
        squares = _squared_distances(block, chunk, own)
        places = np.arange(chunk.start, chunk.stop)
        squares[places - chunk.start, places] = np.inf
        return np.asarray(_mean_of_nearest(squares, count), dtype=np.float64)

    distances = np.concatenate(engine.side_by_side(to_others, chunks_of(block, own)))
    if sample.size < n:
        engine.update(_distance_kernel, comparison, count)
        of_all = to_numpy(engine.gather(State.DISTANCE)).astype(np.float64)
        engine.forget(State.DISTANCE)
        of_all[sample] = distances  # without the distance from themselves
        distances = of_all
    return _standardised(distances, labels, settings)


def _standardised(
    distances: npt.NDArray[np.float64], labels: Labels, settings: GraphSettings
) -> npt.NDArray[np.float64]:
    """Return robust z-scores of the logarithms of distances within each cluster.

    The spread of distances depends on the number of dimensions, so their ratio to the median would
    not do: among words, outliers are hardly farther from their neighbours than other samples.
    """
    # among duplicates distances are 0
    least = settings.least_distance * float(distances.mean())
    logs = np.log(np.maximum(distances, max(least, np.finfo(np.float64).tiny)))
    scores = np.empty(logs.size)
    enough = np.bincount(labels) > 2 * settings.outlier_neighbours
    for cluster in np.unique(labels):
        members = labels == cluster
        usual = logs[members] if enough[cluster] else logs
        median = np.median(usual)
        # that of a normal distribution is this multiple of the median absolute deviation
        deviation = 1.4826 * float(np.median(np.abs(usual - median)))
        scores[members] = (logs[members] - median) / max(deviation, settings.least_deviation)
    return scores


def _distance_kernel(block: Block, comparison: Comparison, count: int) -> Update:
    parts = [
        _mean_of_nearest(_squared_distances(block, chunk, comparison), count)
        for chunk in chunks_of(block, comparison)
    ]
    return {State.DISTANCE: namespace(*parts).concat(parts, axis=0)}, ()


def _mean_of_nearest(squares: Array, count: int) -> Array:
    """Return the mean distance from the `count` nearest landmarks."""
    xp = namespace(squares)
    nearest = xp.take_along_axis(squares, largest(-squares, count), axis=1)
    return xp.mean(xp.sqrt(nearest), axis=1)


def _squared_distances(block: Block, chunk: slice, comparison: Comparison) -> Array:
    """Return the mean squared distances of some rows of a block from the landmarks."""
    prepared, products = compared_rows(block, chunk, comparison)
    total, weight = 0.0, 0.0
    for view, compared, rows, product in zip(
        block.views, comparison.views, prepared, products, strict=True
    ):
        xp = namespace(product)
        product = products_of_known(product, rows, compared.landmarks)
        squares = 2.0 - 2.0 * product
        if rows.squares is not None and compared.landmarks.squares is not None:
            squares = rows.squares[:, None] + compared.landmarks.squares - 2.0 * product
        # differences below this are rounding
        rounding = 16.0 * float(xp.finfo(squares.dtype).eps)
        squares = xp.where(squares > rounding, squares, xp.zeros_like(squares))
        present = xp.full_like(squares, compared.weight)
        if view.missing is not None:
            present = xp.where(view.missing[chunk][:, None], xp.zeros_like(present), present)
        if compared.missing is not None:
            present = xp.where(compared.missing, xp.zeros_like(present), present)
        total, weight = total + present * squares, weight + present
    # samples without a common view are as far apart as unrelated ones
    xp = namespace(weight)
    known = weight > 0
    mean = total / xp.where(known, weight, xp.ones_like(weight))
    return xp.where(known, mean, xp.full_like(mean, 2.0))
