"""Starts: a first indicator from the views alone.

The full-order model with a ridge on the whole weight tensor, without its factorisation, has a
best indicator in closed form: the top eigenvectors of the product kernel
``G = prod_v (1 + X_v X_v')``. So G is where to look for a start, and it is looked at as a graph
of nearest neighbours, which serves clustering better than G itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.engine import Block, Engine, RowView, Scaling, Update
from manyview.linalg.embedding import graph_embedding, landmark_embedding, unit_rows
from manyview.linalg.partition import Labels, cluster_rows, indicator_of, without_empty
from manyview.linalg.polar import inverse_square_root

__all__ = ["as_labels", "given_start", "graph_start", "kmeans_start", "random_start"]

Matrix = npt.NDArray[np.floating[Any]]

EXACT_LIMIT = 4000
N_NEIGHBORS = 10
N_LANDMARKS = 1000
N_NEAR_LANDMARKS = 5
_CHUNK = 256


def graph_start(engine: Engine, n_clusters: int, rng: np.random.Generator) -> Labels:
    """Return the clusters of the neighbour graph of the product kernel.

    Up to ``EXACT_LIMIT`` samples each is linked to its ``N_NEIGHBORS`` nearest samples; beyond,
    to its ``N_NEAR_LANDMARKS`` nearest of ``N_LANDMARKS`` random samples, so that nothing grows
    with the square of the number of samples.
    """
    n = engine.n_samples
    if n <= EXACT_LIMIT:
        graph = _nearest(engine, np.arange(n), min(N_NEIGHBORS, n))
        embedding = graph_embedding(graph.maximum(graph.T), n_clusters, rng=rng)
    else:
        count = min(n, max(N_LANDMARKS, 2 * n_clusters))
        landmarks = np.sort(rng.choice(n, count, replace=False))
        graph = _nearest(engine, landmarks, N_NEAR_LANDMARKS)
        embedding = landmark_embedding(graph, n_clusters)
    return cluster_rows(unit_rows(embedding), n_clusters, rng)[0]


def kmeans_start(engine: Engine, n_clusters: int, rng: np.random.Generator) -> Labels:
    """Return the clusters of k-means on the scaled views side by side, which are not copied.

    Centres come from scikit-learn's k-means on a sample of the rows, of all of them when they
    are few; Lloyd's iterations over all rows follow.
    """
    most = max(1000, 50 * n_clusters)
    sample = np.arange(engine.n_samples)
    if engine.n_samples > most:
        sample = np.sort(rng.choice(engine.n_samples, most, replace=False))
    pairs = zip(engine.take(sample), engine.scalings, strict=True)
    rows = [_uncentred(view, scaling) for view, scaling in pairs]
    sparse = any(sp.issparse(part) for part in rows)
    beside = sp.hstack(rows, format="csr") if sparse else np.hstack(rows)
    _, centres = cluster_rows(beside, n_clusters, rng)
    widths = np.cumsum([scaling.n_features for scaling in engine.scalings])
    parts = np.split(centres, widths[:-1], axis=1)
    for part, scaling in zip(parts, engine.scalings, strict=True):
        if scaling.columns is not None:
            part -= np.multiply(*scaling.columns)
    return _lloyd(engine, parts)


def random_start(engine: Engine, n_clusters: int, rng: np.random.Generator) -> Labels:
    """Return labels of equal frequency in random order."""
    return rng.permutation(engine.n_samples) % n_clusters


def given_start(array: Any, n_samples: int, n_clusters: int) -> npt.NDArray[np.float64]:
    """Return the indicator that the caller gave, as labels or as an N x K matrix.

    Raises
    ------
    ValueError
        If its shape, its number of clusters or its rank does not fit.
    """
    array = np.asarray(array)
    if array.shape == (n_samples,):
        try:
            names, labels = np.unique(array, return_inverse=True)
        except TypeError:
            raise ValueError("init holds labels of types that cannot be compared") from None
        if names.dtype.kind == "f" and np.isnan(names).any():
            raise ValueError("init holds labels that are NaN")
        if len(names) != n_clusters:
            raise ValueError(
                f"init holds {len(names)} different labels; expected n_clusters={n_clusters}"
            )
        return indicator_of(labels.astype(np.intp), n_clusters)
    if array.shape != (n_samples, n_clusters):
        raise ValueError(
            f"init has shape {array.shape}; expected labels of shape ({n_samples},) or an "
            f"indicator of shape ({n_samples}, {n_clusters})"
        )
    if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        raise ValueError("init holds entries that are not finite real numbers")
    array = array.astype(np.float64) / max(float(np.abs(array).max()), np.finfo(np.float64).tiny)
    root, null = inverse_square_root(array.T @ array)
    if null.shape[1]:
        raise ValueError(
            f"init has {n_clusters} columns but rank {n_clusters - null.shape[1]}: "
            "each cluster needs a column of its own"
        )
    return np.asarray(array @ root)


def as_labels(indicator: Matrix) -> Labels:
    """Return the largest column of each row of an indicator, every cluster with a member."""
    labels = np.abs(indicator).argmax(axis=1).astype(np.intp)
    return without_empty(labels, indicator.shape[1])


def _nearest(engine: Engine, landmarks: npt.NDArray[np.intp], count: int) -> Any:
    """Return the graph of each sample's `count` largest product kernels with landmarks."""
    engine.update(_nearest_kernel, engine.scalings, engine.take(landmarks), count)
    weights, columns = engine.gather("near_weights"), engine.gather("near")
    engine.forget("near_weights", "near")
    pointers = np.arange(0, columns.size + 1, count)
    shape = (engine.n_samples, landmarks.size)
    return sp.csr_array((weights.ravel(), columns.ravel(), pointers), shape=shape)


def _nearest_kernel(
    block: Block, scalings: list[Scaling], landmarks: list[RowView], count: int
) -> Update:
    size = block.rows.stop - block.rows.start
    near = np.empty((size, count), dtype=np.int32)
    weights = np.empty((size, count))
    for begin in range(0, size, _CHUNK):
        chunk = slice(begin, min(begin + _CHUNK, size))
        kernel = np.ones((chunk.stop - chunk.start, landmarks[0].x.shape[0]))
        for view, scaling, marks in zip(block.views, scalings, landmarks, strict=True):
            # two views that both say "opposite" must not make a large product
            kernel *= np.maximum(1.0 + _similarity(view, scaling, marks, chunk), 0.0)
        # the order of the columns decides nothing but rounding, so that it is left as it comes
        top = np.argpartition(kernel, kernel.shape[1] - count, axis=1)[:, -count:]
        near[chunk] = top
        weights[chunk] = np.take_along_axis(kernel, top, axis=1)
    # a weight of zero would cut a sample off
    return {"near": near, "near_weights": np.maximum(weights, 1e-12)}, ()


def _similarity(view: RowView, scaling: Scaling, landmarks: RowView, rows: slice) -> Matrix:
    """Return the inner products of some scaled rows of a view with landmarks."""
    near = RowView(view.x[rows], None if view.scale is None else view.scale[rows])
    if scaling.columns is None:
        # scaled before they are multiplied: products of raw rows may overflow
        x, marks = _scaled(near), _scaled(landmarks)
        products = x @ marks.T
        return np.asarray(products.toarray() if sp.issparse(products) else products)
    if sp.issparse(near.x):
        products = _sparse_products(near.x, landmarks.x, *scaling.columns)
    else:
        centre, width = scaling.columns
        products = ((near.x - centre) * width) @ ((landmarks.x - centre) * width).T
    if near.scale is not None and landmarks.scale is not None:
        products = products * near.scale[:, None] * landmarks.scale
    return np.asarray(products)


def _scaled(view: RowView) -> Any:
    x = view.x.astype(np.result_type(np.float32, view.x.dtype), copy=False)
    if view.scale is None:
        return x
    if sp.issparse(x):
        return sp.csr_array(sp.diags_array(view.scale) @ x)
    return x * view.scale[:, None]


def _sparse_products(x: Any, marks: Any, centre: Matrix, width: Matrix) -> Matrix:
    """Multiply out the centring, so that sparse rows stay sparse."""
    shift = width**2 * centre
    products = (x @ (marks * width**2).tocsr().T).toarray()
    return np.asarray(products - (x @ shift)[:, None] - marks @ shift + centre @ shift)


def _uncentred(view: RowView, scaling: Scaling) -> Any:
    """Return a few rows as the model sees them, but for the centring, to which k-means is blind."""
    x = _scaled(view)
    if scaling.width is None:
        return x
    return (x * scaling.width).tocsr() if sp.issparse(x) else x * scaling.width


def _lloyd(engine: Engine, centres: list[Matrix], *, max_iter: int = 100) -> Labels:
    n_clusters = centres[0].shape[0]
    previous = np.inf
    for _ in range(max_iter):
        norms = sum((part**2).sum(axis=1) for part in centres)
        folded = [
            scaling.fold(np.vstack([part.T, np.zeros(n_clusters)]).astype(engine.dtype))
            for scaling, part in zip(engine.scalings, centres, strict=True)
        ]
        cost, sizes, *sums = engine.update(_assign_kernel, folded, norms)
        if not cost < previous - 1e-6 * abs(previous):
            break
        previous = float(cost)
        for v, scaling in enumerate(engine.scalings):
            means = scaling.unfold(sums[v])[:-1].T / np.maximum(sizes, 1.0)[:, None]
            centres[v] = np.where(sizes[:, None] > 0, means, centres[v])
    labels = without_empty(engine.gather("labels"), n_clusters)
    engine.forget("labels")
    return labels


def _assign_kernel(block: Block, centres: list[Any], norms: Matrix) -> Update:
    products = sum(view.project(part) for view, part in zip(block.views, centres, strict=True))
    distances = norms - 2.0 * products
    labels = distances.argmin(axis=1)
    members = np.zeros_like(products)
    members[np.arange(labels.size), labels] = 1.0
    cost = distances[np.arange(labels.size), labels].sum(dtype=np.float64)
    sums = [view.pull(members) for view in block.views]
    return {"labels": labels}, (cost, members.sum(axis=0), *sums)
