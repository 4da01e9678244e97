"""Starts: a first indicator from the views alone.

The full-order model with a ridge on the whole weight tensor, without its factorisation, has a
best indicator in closed form: the top eigenvectors of the product kernel
``G = prod_v (1 + X_v X_v')``. So G is where to look for a start, and it is looked at as a graph,
which serves clustering better than G itself (:mod:`manyview.mmc.graph`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Scaling, Sums, Update
from manyview.engine.arrays import Array, namespace, to_numpy
from manyview.engine.entries import times
from manyview.linalg.partition import cluster_rows
from manyview.mmc.clearest import clearest_clusters
from manyview.mmc.graph import neighbour_graphs
from manyview.mmc.kmeans import MOST_ITERATIONS, assigned, cluster_state, lloyd
from manyview.mmc.landmarks import LOOKS, NEAR_LOOK, embed_by_landmarks

__all__ = [
    "EXACT_LIMIT",
    "N_LANDMARKS",
    "graph_start",
    "kmeans_start",
    "random_start",
]


EXACT_LIMIT = 4000
"""Most samples that are all compared with each other."""

N_LANDMARKS = 1000
"""Samples that stand for all where these are more, of up to 50 clusters."""

_LANDMARKS_PER_CLUSTER = 20  # where that comes to more, up to as many as can all be compared
_NEAR_REACH = 1 / 16  # part of the usual number of neighbours, for a second look


def graph_start(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    reach: float = 1.0,
) -> float:
    """Put the clusters of the graph of the product kernel into the blocks, as ``labels``.

    Up to ``EXACT_LIMIT`` samples each is linked to its nearest samples, and a graph of the very
    nearest is looked at, too, and taken where it shows its clusters more clearly
    (:mod:`manyview.mmc.clearest`). Beyond, samples are linked to the nearest of ``N_LANDMARKS``
    random samples, or more of many clusters, so that nothing grows with the square of the number
    of samples; how far is asked of some of them, in the same way (:mod:`manyview.mmc.landmarks`).

    Parameters
    ----------
    engine : Engine
        The samples.
    n_clusters : int
        Number of clusters.
    rng : numpy.random.Generator
        Source of all that is random.
    order : int, optional
        Most views that the kernel multiplies; by default all.
    reach : float
        Number of neighbours, as part of the usual one. Below 1 there is one graph only; by
        landmarks, that of the second look.

    Returns
    -------
    float
        Part of the variance of the graph's embedding that lies within its clusters, by landmarks
        of the samples that were asked: 0 where they are perfectly clear, about .3 to .7 where there
        is nothing but noise in twenty samples or more for each cluster.
    """
    n = engine.n_samples
    if n <= EXACT_LIMIT:
        reaches = (reach,) if reach < 1.0 else (reach, _NEAR_REACH)
        graphs = neighbour_graphs(engine, n_clusters, reaches, order=order)
        seen = clearest_clusters(graphs, n_clusters, rng)
        engine.scatter("labels", seen.labels)
        return seen.within
    count = min(n, _n_landmarks(n_clusters))
    landmarks = engine.take(np.sort(rng.choice(n, count, replace=False)))
    looks = LOOKS if reach == 1.0 else (replace(NEAR_LOOK, part=reach * NEAR_LOOK.part),)
    within = embed_by_landmarks(engine, landmarks, n_clusters, rng, looks, order=order)
    cluster_state(engine, "embedding", n_clusters, rng)
    engine.forget("embedding")
    return within


def _n_landmarks(n_clusters: int) -> int:
    """Return how many samples stand for all: a cluster of which few do is not found."""
    wanted = min(_LANDMARKS_PER_CLUSTER * n_clusters, EXACT_LIMIT)
    return max(N_LANDMARKS, wanted, 2 * n_clusters)


def kmeans_start(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    most_passes: int = MOST_ITERATIONS,
) -> None:
    """Put the clusters of k-means on the scaled views side by side, not copied, into the blocks.

    Centres come from scikit-learn's k-means: on all rows when they are few, else on the leading
    singular vectors of a sample. Lloyd's iterations over all rows follow, up to `most_passes` of
    them.
    """
    n, most = engine.n_samples, max(EXACT_LIMIT, 50 * n_clusters)
    sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    centres_of = _centres if n <= most / 2 else _centres_in_leading_directions
    pairs = zip(engine.take(sample), engine.scalings, strict=True)
    rows = [_uncentred(view, scaling) for view, scaling in pairs]
    centres = centres_of(_beside(rows), n_clusters, rng)
    widths = np.cumsum([scaling.n_features for scaling in engine.scalings])
    parts = np.split(centres, widths[:-1], axis=1)
    for part, scaling in zip(parts, engine.scalings, strict=True):
        if scaling.columns is not None:
            part -= np.multiply(*scaling.columns)

    def step(centres: list[Matrix]) -> Sums:
        norms = sum((part**2).sum(axis=1) for part in centres)
        folded = [
            scaling.fold(
                engine.asarray(np.vstack([part.T, np.zeros(n_clusters)]).astype(engine.dtype))
            )
            for scaling, part in zip(engine.scalings, centres, strict=True)
        ]
        return engine.update(_assign_kernel, folded, norms)

    def means(v: int, sums: Any) -> Matrix:
        return to_numpy(engine.scalings[v].unfold(sums))[:-1].T

    lloyd(engine, step, parts, means, most=most_passes)


def _beside(rows: list[Any]) -> Any:
    """Return the views side by side; dense where a quarter of them is there, or more."""
    stored = sum(part.nnz if sp.issparse(part) else part.size for part in rows)
    if 4 * stored < sum(part.shape[0] * part.shape[1] for part in rows):
        return sp.hstack(rows, format="csr")
    return np.hstack([part.toarray() if sp.issparse(part) else part for part in rows])


def _centres(rows: Any, n_clusters: int, rng: np.random.Generator) -> Matrix:
    return cluster_rows(rows, n_clusters, rng)[1]


def _centres_in_leading_directions(rows: Any, n_clusters: int, rng: np.random.Generator) -> Matrix:
    """Return centres of clusters that k-means finds among the leading singular vectors of rows.

    Of wide rows with much noise they are better, and found in a tenth of the time.
    """
    seed = int(rng.integers(2**31 - 1))
    count = min(2 * n_clusters, *rows.shape)
    left, values, _ = randomized_svd(rows, count, n_iter=4, random_state=seed)
    labels, _ = cluster_rows(left * values, n_clusters, rng)
    members = np.eye(n_clusters, dtype=rows.dtype)[labels]
    return np.asarray((rows.T @ members / members.sum(axis=0)).T)


def random_start(engine: Engine, n_clusters: int, rng: np.random.Generator) -> None:
    """Put labels of equal frequency, in random order, into the blocks."""
    engine.scatter("labels", rng.permutation(engine.n_samples) % n_clusters)


def _uncentred(view: RowView, scaling: Scaling) -> Any:
    """Return a few rows as the model sees them, but not centred, which k-means does not see.

    It does where samples lack a view, as the model puts these at the mean. Then the first centres
    are somewhat off, and Lloyd's iterations over all rows mend it.
    """
    x = view.x.astype(np.result_type(np.float32, view.x.dtype), copy=False)
    if sp.issparse(x):
        return times(x, view.scale, scaling.width)
    x = x if view.scale is None else x * view.scale[:, None]
    return x if scaling.width is None else x * scaling.width


def _assign_kernel(block: Block, centres: list[Any], norms: Array) -> Update:
    products = sum(view.project(part) for view, part in zip(block.views, centres, strict=True))
    labels, members, cost = assigned(norms - 2.0 * products)
    members = namespace(members).astype(members, products.dtype, copy=False)
    sums = [view.pull(members) for view in block.views]
    return {"labels": labels}, (cost, namespace(members).sum(members, axis=0), *sums)
