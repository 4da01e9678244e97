"""The product kernel as a graph: which samples are near each other in all views together.

The kernel is ``G = prod_v (1 + c_v)`` with c_v the cosine of two rows of view v, every
feature divided by the square root of its root mean square. That is half of the way from features
as they are, where a few loud ones speak for all, to standardised ones, where noise speaks as
loudly as signal. The scale of a view does not matter. Among landmarks features stay as they are.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.engine import Block, Engine, RowView, Scaling, Update

__all__ = ["harmonic_weights", "landmark_graph", "neighbour_graph", "product_kernel"]

Matrix = npt.NDArray[np.floating[Any]]

PART_OF_CLUSTER = 1 / 2
PART_OF_LANDMARKS = 1 / 8
_FEWEST = 5
_CHUNK = 256
_NOTHING = 1e-24  # part of the largest mean square below which a feature is constant zero


def neighbour_graph(
    engine: Engine, n_clusters: int, *, order: int | None = None, reach: float = 1.0
) -> Any:
    """Return the graph of neighbours at every scale up to half of an average cluster.

    It is the mean over k of the graphs in which each sample is linked to its k nearest with a
    weight of 1/k, for k up to half of ``n_samples / n_clusters``: near samples count at every
    scale, far ones at the large scales only, and no number of neighbours has to be chosen.

    Parameters
    ----------
    engine : Engine
        The samples.
    n_clusters : int
        Number of clusters.
    order : int, optional
        Most views that the kernel multiplies; by default all.
    reach : float
        Part of half a cluster to which neighbours are looked at.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        Symmetric weights.
    """
    n = engine.n_samples
    most = int(np.ceil(reach * PART_OF_CLUSTER * n / n_clusters))
    count = min(max(most, _FEWEST), n - 1)
    widths = [_feature_widths(engine, v) for v in range(len(engine.scalings))]
    weights = harmonic_weights(count)
    graph = _nearest(engine, np.arange(n), weights, widths, order=order, itself=False)
    return sp.csr_array(graph + graph.T)


def landmark_graph(
    engine: Engine,
    landmarks: npt.NDArray[np.intp],
    n_clusters: int,
    *,
    order: int | None = None,
    reach: float = 1.0,
) -> Any:
    """Return the graph of each sample's nearest landmarks, at every scale as for neighbours.

    The reach is an eighth of the landmarks of an average cluster: from a sample over a landmark to
    another sample is two steps, and many samples tell fine clusters apart. Features are taken as
    they are.

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

    Returns
    -------
    csr_array of shape (n_samples, n_landmarks)
        Weights.
    """
    most = int(np.ceil(reach * PART_OF_LANDMARKS * landmarks.size / n_clusters))
    count = min(max(most, _FEWEST), landmarks.size)
    widths = [np.ones(scaling.n_features, dtype=engine.dtype) for scaling in engine.scalings]
    weights = harmonic_weights(count)
    return _nearest(engine, landmarks, weights, widths, order=order, itself=True)


def harmonic_weights(count: int) -> npt.NDArray[np.float64]:
    """Return the mean over k = 1, ..., `count` of the weights 1/k of the k nearest, nearest first.

    Examples
    --------
    >>> harmonic_weights(2)
    array([0.75, 0.25])
    """
    shares = 1.0 / np.arange(1, count + 1)
    return np.asarray(np.cumsum(shares[::-1])[::-1] / count)


def product_kernel(cosines: list[Matrix], order: int | None = None) -> Matrix:
    """Return ``prod_v (1 + c_v)``, or its terms with at most `order` of the c_v.

    Parameters
    ----------
    cosines : list of ndarray, all of one shape
        c_v, one a view.
    order : int, optional
        Most views that are multiplied; by default all.

    Returns
    -------
    ndarray of the same shape
        The kernel.

    Examples
    --------
    >>> product_kernel([np.array(0.5), np.array(0.2)]).round(6).item()
    1.8
    >>> product_kernel([np.array(0.5), np.array(0.2)], order=1).item()
    1.7
    """
    if order is None or order >= len(cosines):
        # rounding must not make a large product of two views that both say "opposite"
        return reduce(np.multiply, [np.maximum(1.0 + cosine, 0.0) for cosine in cosines])
    sums = [np.ones_like(cosines[0])] + [np.zeros_like(cosines[0]) for _ in range(order)]
    for cosine in cosines:
        for degree in range(order, 0, -1):
            sums[degree] = sums[degree] + cosine * sums[degree - 1]
    return reduce(np.add, sums)


def _nearest(
    engine: Engine,
    landmarks: npt.NDArray[np.intp],
    weights: npt.NDArray[np.float64],
    widths: list[Matrix],
    *,
    order: int | None,
    itself: bool,
) -> Any:
    """Return the graph that gives `weights` to each sample's nearest landmarks, in their order."""
    marks = [
        _prepared(view, scaling, width)
        for view, scaling, width in zip(
            engine.take(landmarks), engine.scalings, widths, strict=True
        )
    ]
    engine.update(_nearest_kernel, engine.scalings, widths, marks, weights.size, order, itself)
    columns = engine.gather("near")
    engine.forget("near")
    n = engine.n_samples
    pointers = np.arange(0, columns.size + 1, weights.size)
    return sp.csr_array((np.tile(weights, n), columns.ravel(), pointers), (n, landmarks.size))


def _feature_widths(engine: Engine, v: int) -> Matrix:
    """Return what each feature of a view is multiplied by: its mean square to the power -1/4."""
    squares = engine.moments[v][1][:-1]
    there = squares > _NOTHING * max(float(squares.max(initial=0.0)), np.finfo(np.float64).tiny)
    widths = np.where(there, np.where(there, squares, 1.0) ** -0.25, 0.0)
    return np.asarray(widths, dtype=engine.dtype)


class _Rows(NamedTuple):
    """Rows ``z = x - shift`` of a view: x by itself, what its products lack, 1 / |z|."""

    x: Any
    shift: Matrix | None
    overlap: Matrix
    inverse_length: Matrix


def _prepared(view: RowView, scaling: Scaling, widths: Matrix) -> _Rows:
    x = view.x.astype(np.result_type(np.float32, view.x.dtype), copy=False)
    shift = None
    if scaling.columns is None:
        if (
            view.scale is not None
        ):  # before anything is multiplied: products of raw rows may overflow
            x = sp.diags_array(view.scale) @ x if sp.issparse(x) else x * view.scale[:, None]
        x = x * widths
    elif sp.issparse(x):
        centre, width = scaling.columns
        x, shift = x * (width * widths), centre * width * widths  # centred rows would be dense
    else:
        centre, width = scaling.columns
        x = (x - centre) * (width * widths)
    x = sp.csr_array(x) if sp.issparse(x) else x
    squares = np.asarray((x * x).sum(axis=1)).ravel()
    overlap = np.zeros_like(squares)
    if shift is not None:
        overlap = np.asarray(x @ shift - 0.5 * (shift @ shift))
        squares = np.maximum(squares - 2.0 * overlap, 0.0)
    if view.scale is not None:
        squares = np.where(view.scale > 0, squares, 0.0)  # a sample that lacks the view
    inverse = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    return _Rows(x, shift, overlap, inverse)


def _cosines(rows: _Rows, marks: _Rows) -> Matrix:
    products = rows.x @ marks.x.T
    products = products.toarray() if sp.issparse(products) else np.asarray(products)
    if rows.shift is not None:
        products -= rows.overlap[:, None] + marks.overlap
    products *= rows.inverse_length[:, None]
    products *= marks.inverse_length
    return products


def _nearest_kernel(
    block: Block,
    scalings: list[Scaling],
    widths: list[Matrix],
    marks: list[_Rows],
    count: int,
    order: int | None,
    itself: bool,
) -> Update:
    size = block.rows.stop - block.rows.start
    near = np.empty((size, count), dtype=np.int32)
    for begin in range(0, size, _CHUNK):
        chunk = slice(begin, min(begin + _CHUNK, size))
        cosines = []
        for view, scaling, width, mark in zip(block.views, scalings, widths, marks, strict=True):
            some = RowView(view.x[chunk], None if view.scale is None else view.scale[chunk])
            cosines.append(_cosines(_prepared(some, scaling, width), mark))
        kernel = product_kernel(cosines, order)
        if not itself:
            own = np.arange(chunk.start, chunk.stop)
            kernel[own - chunk.start, block.rows.start + own] = -1.0
        top = np.argpartition(kernel, kernel.shape[1] - count, axis=1)[:, -count:]
        ranks = np.argsort(-np.take_along_axis(kernel, top, axis=1), axis=1, kind="stable")
        near[chunk] = np.take_along_axis(top, ranks, axis=1)
    return {"near": near}, ()
