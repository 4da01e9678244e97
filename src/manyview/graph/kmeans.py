"""k-means over the rows of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Sums, Update
from manyview.engine.arrays import (
    Array,
    as_dtype,
    namespace,
    placed_like,
    product_over_rows,
    to_numpy,
)
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.partition import cluster_rows, without_empty

__all__ = ["assigned", "cluster_sizes", "cluster_state", "lloyd", "members_of"]


def cluster_state(
    engine: Engine,
    name: str,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    settings: GraphSettings = DEFAULTS,
) -> Matrix:
    """Cluster the rows of a state, put ``labels`` into the blocks, and return the centres."""
    n, most = engine.n_samples, max(settings.kmeans_rows, 10 * n_clusters)
    if n <= most:
        labels, centres = cluster_rows(engine.take_state(name, np.arange(n)), n_clusters, rng)
        engine.scatter(State.LABELS, labels)
        return centres
    sample = np.sort(rng.choice(n, most, replace=False))
    _, centres = cluster_rows(engine.take_state(name, sample), n_clusters, rng)

    def step(centres: list[Matrix]) -> Sums:
        return engine.update(_assign_kernel, name, centres[0].astype(engine.dtype))

    return lloyd(engine, step, [centres], settings=settings)[0]


def lloyd(
    engine: Engine,
    step: Callable[[list[Matrix]], Sums],
    centres: list[Matrix],
    means: Callable[[int, Any], Matrix] = lambda part, sums: to_numpy(sums),
    *,
    settings: GraphSettings = DEFAULTS,
) -> list[Matrix]:
    """Run Lloyd's iterations from given centres, and return the final ones.

    `centres` has a part of n_clusters x width for each view, or a single one. ``step(centres)``
    puts ``labels`` into the blocks and returns the cost, the cluster sizes and, for each part, the
    sums of the members, which ``means(part, sums)`` turns into n_clusters x width. Each sample
    belongs to the nearest final centre, except that no cluster is left empty.
    """
    previous = np.inf
    for left in reversed(range(settings.kmeans_max_iter)):
        cost, sizes, *sums = step(centres)
        sizes = to_numpy(sizes)[:, None]
        if previous - float(cost) <= settings.kmeans_tol * abs(float(cost)) or not left:
            break
        previous = float(cost)
        centres = [
            np.where(sizes > 0, means(part, total) / np.maximum(sizes, 1.0), centre)
            for part, (total, centre) in enumerate(zip(sums, centres, strict=True))
        ]
    if not sizes.all():
        labels = to_numpy(engine.gather(State.LABELS)).astype(np.intp)
        engine.scatter(State.LABELS, without_empty(labels, sizes.size))
    return centres


def _assign_kernel(block: Block, name: str, centres: Array) -> Update:
    rows = block.state[name]
    xp = namespace(rows)
    centres = xp.astype(centres, rows.dtype, copy=False)
    distances = xp.sum(centres * centres, axis=1) - 2.0 * (rows @ centres.T)
    labels, members, cost = assigned(distances)
    exact = as_dtype(members, np.float64)
    sums = product_over_rows(exact, as_dtype(rows, np.float64))
    return {State.LABELS: labels}, (cost, xp.sum(exact, axis=0), sums)


def assigned(distances: Array) -> tuple[Array, Array, Array]:
    """Return the labels, the members as zeros and ones, and the cost, from distances."""
    xp = namespace(distances)
    labels = xp.argmin(distances, axis=1)
    members = xp.astype(members_of(labels, distances.shape[1]), distances.dtype)
    return labels, members, xp.sum(as_dtype(xp.min(distances, axis=1), np.float64))


def members_of(labels: Array, n_clusters: int) -> Array:
    """Return which sample belongs to which cluster, n x n_clusters."""
    return labels[:, None] == placed_like(np.arange(n_clusters), labels)


def cluster_sizes(engine: Engine, n_clusters: int) -> npt.NDArray[np.float64]:
    """Return the number of members of each cluster of the labels in the blocks."""
    (sizes,) = engine.sum(_sizes_kernel, n_clusters)
    return to_numpy(sizes)


def _sizes_kernel(block: Block, n_clusters: int) -> Sums:
    members = as_dtype(members_of(block.state[State.LABELS], n_clusters), np.float64)
    return (namespace(members).sum(members, axis=0),)
