"""Nearest neighbours and nearest landmarks in the product kernel.

The product kernel as a graph: which samples are near each other in all views together.

The kernel is ``G = prod_v (1 + c_v)`` with c_v the cosine of two rows of view v, every
feature divided by the square root of its root mean square. That is half of the way from features
as they are, where a few loud ones speak for all, to standardised ones, where noise speaks as
loudly as signal. The scale of a view does not matter; few features do not outvote many, and what
two samples share in one view does not outvote the others (:mod:`manyview.graph.affinity`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Update
from manyview.engine.arrays import (
    Array,
    as_dtype_of,
    is_sparse,
    largest,
    namespace,
    placed_like,
    uniform_of_rows,
)
from manyview.graph.affinity import Rows, bent, cosines_of, evened, prepared, spread_of

__all__ = [
    "FEWEST_NEIGHBOURS",
    "Search",
    "find_nearest",
    "halfway_widths",
    "harmonic_weights",
    "nearest_chunks",
    "nearest_of",
    "neighbour_graphs",
    "product_kernel",
    "weighted_links",
]


FEWEST_NEIGHBOURS = 5
"""Of a sample, however few an average cluster has."""

_REACH_IN_CLUSTERS = 1 / 2  # most neighbours, as part of an average cluster
_ZERO_MEAN_SQUARE = 1e-24  # as part of the largest; below it, a feature is constant zero


def neighbour_graphs(
    engine: Engine,
    n_clusters: int,
    reaches: Sequence[float],
    *,
    order: int | None = None,
) -> list[Any]:
    """Return graphs of neighbours at every scale up to half of an average cluster, or less.

    Each is the mean over k of the graphs in which a sample is linked to its k nearest with a
    weight of 1/k, for k up to half of ``n_samples / n_clusters``: near samples count at every
    scale, far ones at the large scales only, and no number of neighbours has to be chosen.

    Parameters
    ----------
    engine : Engine
        The samples.
    n_clusters : int
        Number of clusters.
    reaches : sequence of float
        Part of half a cluster to which neighbours are looked at, one per graph.
    order : int, optional
        Most views that the kernel multiplies; by default all.

    Returns
    -------
    list of csr_array of shape (n_samples, n_samples)
        Symmetric weights, one for each number of neighbours that the reaches come to.
    """
    n = engine.n_samples
    most = [int(np.ceil(reach * _REACH_IN_CLUSTERS * n / n_clusters)) for reach in reaches]
    counts = list(dict.fromkeys(min(max(count, FEWEST_NEIGHBOURS), n - 1) for count in most))
    marks = engine.take(np.arange(n))
    search = Search.of(engine, marks, max(counts), halfway_widths(engine), order=order)
    find_nearest(engine, search, itself=False)
    near = engine.take_state("near", np.arange(n))
    engine.forget("near")
    return [_linked(near[:, :count]) for count in counts]


def _linked(near: npt.NDArray[np.integer[Any]]) -> Any:
    """Return the graph in which samples are linked to others, nearest first."""
    n, count = near.shape
    graph = weighted_links(near, harmonic_weights(count), n)
    return sp.csr_array(graph + graph.T)


def weighted_links(near: npt.NDArray[np.integer[Any]], weights: Matrix, width: int) -> Any:
    """Return a matrix, `width` wide, whose row n holds the weights at the places ``near[n]``."""
    n, count = near.shape
    parts = (np.tile(weights, n), near.ravel(), np.arange(0, near.size + 1, count))
    return sp.csr_array(parts, (n, width))


def harmonic_weights(count: int) -> npt.NDArray[np.float64]:
    """Return the mean over k = 1, ..., `count` of the weights 1/k of the k nearest, nearest first.

    Examples
    --------
    >>> harmonic_weights(2)
    array([0.75, 0.25])
    """
    shares = 1.0 / np.arange(1, count + 1)
    return np.asarray(np.cumsum(shares[::-1])[::-1] / count)


def product_kernel(cosines: list[Array], order: int | None = None) -> Array:
    """Return ``prod_v (1 + c_v)``, or its terms with at most `order` of the c_v.

    Parameters
    ----------
    cosines : list of array, all of one shape
        c_v, one per view.
    order : int, optional
        Most views that are multiplied; by default all.

    Returns
    -------
    array of the same shape
        The kernel.

    Examples
    --------
    >>> product_kernel([np.array(0.5), np.array(0.2)]).round(6).item()
    1.8
    >>> product_kernel([np.array(0.5), np.array(0.2)], order=1).item()
    1.7
    """
    if order is None or order >= len(cosines):
        # two views that say "opposite" may both be below 0 by rounding: their product is smaller
        kernel = 1.0 + cosines[0]
        for cosine in cosines[1:]:
            kernel *= 1.0 + cosine
        return kernel
    xp = namespace(cosines[0])
    sums = [xp.ones_like(cosines[0])] + [xp.zeros_like(cosines[0]) for _ in range(order)]
    for cosine in cosines:
        for degree in range(order, 0, -1):
            sums[degree] = sums[degree] + cosine * sums[degree - 1]
    return reduce(add, sums)


def find_nearest(engine: Engine, search: Search, *, itself: bool = True) -> None:
    """Put each sample's nearest landmarks, by their places, into the blocks as ``near``.

    Parameters
    ----------
    engine : Engine
        The samples.
    search : Search
        What they are compared with.
    itself : bool
        Whether a sample may be its own neighbour; if not, all samples are landmarks.
    """
    engine.update(_nearest_kernel, search, itself)


def nearest_of(rows: list[RowView], search: Search) -> npt.NDArray[np.integer[Any]]:
    """Return the nearest landmarks of samples that were taken out of an engine, by their places.

    `rows` are theirs of each view.
    """
    block = Block(slice(0, rows[0].x.shape[0]), rows)
    return np.concatenate(list(nearest_chunks(block, search)))


def halfway_widths(engine: Engine) -> list[Matrix]:
    """Return what the features of each view are multiplied by: mean square to the power -1/4."""
    widths = []
    for _, squares in engine.moments:
        squares = squares[:-1]
        largest_square = max(float(squares.max(initial=0.0)), np.finfo(np.float64).tiny)
        there = squares > _ZERO_MEAN_SQUARE * largest_square
        width = np.where(there, np.where(there, squares, 1.0) ** -0.25, 0.0)
        widths.append(width.astype(engine.dtype))
    return widths


class Search(NamedTuple):
    """What samples are compared with, and how, as a kernel is given it.

    Attributes
    ----------
    columns : list of tuple or None
        How the columns of each view are scaled.
    widths : list of array
        What the features of each view are multiplied by.
    marks : list of Rows
        The landmarks' rows of each view, as they are compared.
    unknown : list of array or None
        Which landmarks lack each view; None where all have it.
    bounds : list of float
        Above which the cosines of each view count less.
    factors : list of float
        What the cosines of each view are multiplied by.
    n_nearest : int
        Number of landmarks for each sample.
    order : int or None
        Most views that the kernel multiplies.
    sequence : array of int of shape (n_landmarks,)
        The landmarks in random order, in which samples meet them: of those that are as near, the
        first would otherwise be the first of a file.
    chunk : int
        Number of rows that are compared at a time.
    """

    columns: list[tuple[Array, Array] | None]
    widths: list[Array]
    marks: list[Rows]
    unknown: list[Array | None]
    bounds: list[float]
    factors: list[float]
    n_nearest: int
    order: int | None
    sequence: Array
    chunk: int

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return int(self.marks[0].x.shape[0])

    @classmethod
    def of(
        cls,
        engine: Engine,
        landmarks: list[RowView],
        count: int,
        widths: list[Matrix],
        *,
        order: int | None = None,
    ) -> Self:
        """Prepare the landmarks.

        Parameters
        ----------
        engine : Engine
            The samples.
        landmarks : list of RowView
            Rows of each view of the samples that others are compared with.
        count : int
            Number of landmarks for each sample.
        widths : list of ndarray
            What the features of each view are multiplied by.
        order : int, optional
            Most views that the kernel multiplies; by default all.
        """
        columns = [scaling.columns for scaling in engine.scalings]
        marks = list(map(prepared, landmarks, columns, widths))
        unknown = list(map(_lacking, landmarks))
        spreads = list(map(spread_of, landmarks, columns, widths))
        bounds = [spread.bound for spread in spreads]
        factors = evened(spreads)
        drawn = uniform_of_rows(np.arange(marks[0].x.shape[0], dtype=np.uint64), seed=0)
        return cls(
            columns,
            widths,
            marks,
            unknown,
            bounds,
            factors,
            count,
            order,
            np.argsort(drawn),
            engine.chunk,
        )


def _lacking(view: RowView) -> Array | None:
    """Return which rows lack the view, or None where none do."""
    lacking = view.lacking
    return lacking if lacking is not None and bool(namespace(lacking).any(lacking)) else None


def nearest_chunks(block: Block, search: Search, *, itself: bool = True) -> Iterator[Array]:
    """Yield the nearest landmarks of a block's rows, nearest first, some rows at a time."""
    size = block.rows.stop - block.rows.start
    compared = list(
        zip(
            block.views,
            search.columns,
            search.widths,
            search.marks,
            search.unknown,
            search.bounds,
            search.factors,
            strict=True,
        )
    )
    for begin in range(0, size, search.chunk):
        chunk = slice(begin, min(begin + search.chunk, size))
        cosines = []
        for view, of_view, width, mark, unknown, bound, factor in compared:
            scale = None if view.scale is None else view.scale[chunk]
            some = RowView(view.x[chunk] if is_sparse(view.x) else view.x[chunk, ...], scale)
            cosine = bent(cosines_of(prepared(some, of_view, width), mark, unknown), bound)
            cosines.append(cosine if factor == 1.0 else factor * cosine)
        kernel = product_kernel(cosines, search.order)
        if not itself:
            own = np.arange(block.rows.start + chunk.start, block.rows.start + chunk.stop)
            others = placed_like(own[:, None] != np.arange(kernel.shape[1]), kernel)
            xp = namespace(kernel)
            kernel = xp.where(others, kernel, xp.full_like(kernel, -xp.inf))
        yield _nearest(kernel, search)


def _nearest(kernel: Array, search: Search) -> Array:
    """Return the landmarks of the largest entries; of equal ones the first in the sequence."""
    xp = namespace(kernel)
    places = largest(xp.take(kernel, search.sequence, axis=1), search.n_nearest)
    near = xp.take(search.sequence, xp.reshape(places, (-1,)))
    return as_dtype_of(xp.reshape(near, places.shape), places)


def _nearest_kernel(block: Block, search: Search, itself: bool) -> Update:
    near = list(nearest_chunks(block, search, itself=itself))
    return {"near": namespace(near[0]).concat(near, axis=0)}, ()
