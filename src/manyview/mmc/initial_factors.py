"""First factors from a first indicator."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from manyview.engine import Block, Engine, Sums
from manyview.engine.arrays import namespace, placed_like, to_numpy
from manyview.linalg.hashing import uniform_of_rows
from manyview.mmc.model import Factors, Moments, project_all

__all__ = ["start_factors"]


def start_factors(
    engine: Engine, n_clusters: int, rank: int, seed: int, *, order: int | None = None
) -> tuple[Factors, Moments]:
    """Return factors that fit the indicator in the blocks roughly, and set the projections.

    Column r of every view factor is the mean of one part of one cluster in that view, with bias
    1, so that its product over the views is large for samples like those. The parts are random
    and the same in all views: means of the same samples carry what the views have in common,
    also where the mean of a whole cluster says nothing. The cluster factor follows by ridge
    regression. With `order`, features of no more views than this take part in a column; the
    views take turns.
    """
    sums = engine.sum(_part_sums_kernel, n_clusters, rank, seed)
    columns = np.arange(rank) % n_clusters
    factors = []
    taking_part = _views_of_columns(len(sums), n_clusters, rank, order)
    for v, (scaling, pulled) in enumerate(zip(engine.scalings, sums, strict=True)):
        parts = to_numpy(scaling.unfold(pulled))[:-1]
        whole = np.stack([parts[:, columns == k].sum(axis=1) for k in range(n_clusters)], axis=1)
        norms = np.linalg.norm(parts, axis=0)
        parts = np.where(norms > 0, parts, whole[:, columns])
        norms = np.linalg.norm(parts, axis=0)
        parts = parts / np.where(norms > 0, norms, 1.0) * taking_part[v]
        factors.append(engine.asarray(np.vstack([parts, np.ones(rank)]).astype(engine.dtype)))
    moments = project_all(engine, tuple(factors))
    ridge = 0.01 * np.trace(moments.gram) / rank
    clusters = np.linalg.solve(moments.gram + ridge * np.eye(rank), moments.cross).T
    return Factors(tuple(factors), clusters.astype(engine.dtype)), moments


def _views_of_columns(
    n_views: int, n_clusters: int, rank: int, order: int | None
) -> npt.NDArray[np.bool_]:
    """Return which views' features take part in which columns, n_views x rank.

    Every choice of `order` views has its turn among the columns of each cluster.
    """
    choices = list(combinations(range(n_views), min(order or n_views, n_views)))
    turn = (np.arange(rank) // n_clusters) % len(choices)
    return np.array([[v in choices[t] for t in turn] for v in range(n_views)])


def _part_sums_kernel(block: Block, n_clusters: int, rank: int, seed: int) -> Sums:
    indicator = block.state["indicator"]
    xp = namespace(indicator)
    columns = np.arange(rank)
    drawn = uniform_of_rows(block.numbers(indicator), seed)[:, None]
    parts = -(-(rank - columns % n_clusters) // n_clusters)  # of the cluster of each column
    parts, turns = (
        placed_like(part.astype(np.float64), indicator) for part in (parts, columns // n_clusters)
    )
    chosen = xp.floor(drawn * parts) == turns
    of_cluster = xp.take(indicator, placed_like(columns % n_clusters, indicator), axis=1)
    weights = of_cluster * xp.astype(chosen, indicator.dtype)
    return tuple(view.pull(weights) for view in block.views)
