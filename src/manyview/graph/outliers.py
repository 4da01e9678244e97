"""Outlier scores of samples, by their distances from their nearest neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, largest, namespace, to_numpy
from manyview.graph.neighbours import Comparison, chunks_of, compared_rows, comparison_with
from manyview.graph.settings import DEFAULTS, GraphSettings

__all__ = ["outlier_scores"]


def outlier_scores(
    engine: Engine,
    rng: np.random.Generator,
    settings: GraphSettings = DEFAULTS,
) -> npt.NDArray[np.float64]:
    """Return how far each sample is from its neighbours, relative to these neighbours.

    The score is the mean distance from a sample's nearest neighbours, divided by the mean of what
    the same number is for them. It is about 1 within a cluster, whatever its density, and larger
    for samples that are far from all others. This is the simplified local outlier factor.

    The squared distance of two samples is the mean over the views that both have: between unit
    rows, or between standardised rows if these are compared by distance. If there are many samples,
    neighbours are found among a random part of them.
    """
    n, most = engine.n_samples, settings.outlier_samples
    sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    count = min(settings.outlier_neighbours, sample.size - 1)
    if count < 1:
        return np.ones(n)
    rows = engine.take(sample)
    comparison = comparison_with(engine, rows, settings=settings)
    own = comparison._replace(chunk=min(comparison.chunk, Engine.chunk))
    block = Block(slice(0, sample.size), rows)

    def nearest(chunk: slice) -> tuple[Matrix, npt.NDArray[np.integer]]:
        squares = _squared_distances(block, chunk, own)
        places = np.arange(chunk.start, chunk.stop)
        squares[places - chunk.start, places] = np.inf
        return _nearest(squares, count)

    parts = engine.side_by_side(nearest, chunks_of(block, own))
    reaches, near = (np.concatenate(part) for part in zip(*parts, strict=True))
    # among duplicates all distances are 0, and any other would be infinitely larger
    floor = max(settings.least_reach * float(reaches.mean()), float(np.finfo(np.float32).tiny))
    scores = np.maximum(reaches, floor) / np.maximum(reaches[near].mean(axis=1), floor)
    if sample.size == n:
        return np.asarray(scores, dtype=np.float64)
    engine.update(_outlier_kernel, comparison, reaches.astype(engine.dtype), floor, count)
    found = to_numpy(engine.gather(State.OUTLIER_SCORE)).astype(np.float64)
    engine.forget(State.OUTLIER_SCORE)
    found[sample] = scores
    return found


def _outlier_kernel(
    block: Block, comparison: Comparison, reaches: Array, floor: float, count: int
) -> Update:
    xp, parts = namespace(reaches), []
    for chunk in chunks_of(block, comparison):
        own, near = _nearest(_squared_distances(block, chunk, comparison), count)
        theirs = xp.mean(xp.reshape(xp.take(reaches, xp.reshape(near, (-1,))), near.shape), axis=1)
        parts.append(xp.clip(own, floor, None) / xp.clip(theirs, floor, None))
    return {State.OUTLIER_SCORE: xp.concat(parts, axis=0)}, ()


def _nearest(squares: Array, count: int) -> tuple[Array, Array]:
    """Return the mean distance from the `count` nearest landmarks, and which these are."""
    xp = namespace(squares)
    near = largest(-squares, count)
    return xp.mean(xp.sqrt(xp.take_along_axis(squares, near, axis=1)), axis=1), near


def _squared_distances(block: Block, chunk: slice, comparison: Comparison) -> Array:
    """Return the mean squared distances of some rows of a block from the landmarks."""
    prepared, products = compared_rows(block, chunk, comparison)
    total, weight = 0.0, 0.0
    for view, compared, rows, product in zip(
        block.views, comparison.views, prepared, products, strict=True
    ):
        xp = namespace(product)
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
