"""Comparison of samples with landmarks, by each view and by the product of all views."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView
from manyview.engine.arrays import (
    Array,
    as_dtype_of,
    is_sparse,
    largest,
    namespace,
    placed_like,
    uniform_of_rows,
)
from manyview.graph.affinity import (
    Rows,
    Spread,
    compared_by_distance,
    cosines,
    feature_widths,
    inner_products,
    measure_spread,
    prepare_rows,
    product_kernel,
    view_weights,
    winsorised,
)
from manyview.graph.settings import DEFAULTS, GraphSettings

__all__ = [
    "Search",
    "chunks_of",
    "compared_rows",
    "harmonic_weights",
    "landmark_search",
    "weighted_links",
]


def weighted_links(near: npt.NDArray[np.integer[Any]], weights: Matrix, width: int) -> Any:
    """Return a sparse matrix, `width` wide, with `weights` in the columns ``near[n]`` of row n."""
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


class SearchedView(NamedTuple):
    """Landmarks of one view, and how samples are compared with them.

    ``columns`` and ``widths`` scale the features, ``missing`` marks landmarks that miss the view
    (None: none), cosines are winsorised above ``bound`` and multiplied by ``weight``.
    """

    columns: tuple[Array, Array] | None
    widths: Array
    by_distance: bool
    landmarks: Rows
    missing: Array | None
    bound: float
    weight: float


class Search(NamedTuple):
    """Comparison of samples with landmarks, as it is passed to the blocks.

    ``sequence`` has the landmarks in random order; of equally near ones the first in it is taken,
    where the first in the data would favour some landmarks. ``fitted`` are the landmarks of the
    regressions. ``chunk`` rows are compared at a time. Without ``itself`` the landmarks are the
    samples themselves, and none is its own neighbour.
    """

    views: list[SearchedView]
    n_nearest: int
    order: int | None
    excess_weight: float
    sequence: Array
    fitted: Array
    chunk: int
    itself: bool = True

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return int(self.views[0].landmarks.x.shape[0])


def landmark_search(
    engine: Engine,
    landmarks: list[RowView],
    n_nearest: int,
    *,
    fitted: npt.NDArray[np.intp] | None = None,
    itself: bool = True,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> Search:
    """Prepare the search for nearest landmarks, given the landmarks' rows of each view."""
    columns = [scaling.columns for scaling in engine.scalings]
    by_distance = compared_by_distance(engine, landmarks, settings)
    widths = feature_widths(engine, by_distance)
    prepared = list(map(prepare_rows, landmarks, columns, widths, by_distance))
    # distances are neither winsorised nor weighted
    spreads = []
    for v, view in enumerate(landmarks):
        found = Spread(0.0, 0.0)
        if not by_distance[v]:
            found = measure_spread(view, columns[v], widths[v], settings)
        spreads.append(found)
    bounds = [spread.bound for spread in spreads]
    weights = view_weights(spreads, settings)
    missing = map(_missing, landmarks)
    views = map(SearchedView, columns, widths, by_distance, prepared, missing, bounds, weights)
    drawn = uniform_of_rows(np.arange(prepared[0].x.shape[0], dtype=np.uint64), seed=0)
    return Search(
        list(views),
        n_nearest,
        order,
        settings.excess_weight,
        np.argsort(drawn),
        np.arange(0) if fitted is None else fitted,
        engine.chunk,
        itself,
    )


def _missing(view: RowView) -> Array | None:
    """Return which rows miss the view, or None where none do."""
    missing = view.missing
    return missing if missing is not None and bool(namespace(missing).any(missing)) else None


def chunks_of(block: Block, search: Search) -> list[slice]:
    """Return the rows of a block that are compared at a time."""
    size, step = block.rows.stop - block.rows.start, search.chunk
    return [slice(begin, min(begin + step, size)) for begin in range(0, max(size, 1), step)]


def compared_rows(block: Block, chunk: slice, search: Search) -> tuple[list[Array], list[Array]]:
    """Return the nearest landmarks and the kernels of some rows of a block.

    Both have an entry for the product of all views, and one for each view if there are several.
    Landmarks come nearest first; kernels are those with the ``fitted`` landmarks.
    """
    affinities, products = [], []
    for view, searched in zip(block.views, search.views, strict=True):
        scale = None if view.scale is None else view.scale[chunk]
        some = RowView(view.x[chunk] if is_sparse(view.x) else view.x[chunk, ...], scale)
        rows = prepare_rows(some, searched.columns, searched.widths, searched.by_distance)
        product = inner_products(rows, searched.landmarks)
        products.append(namespace(product).take(product, search.fitted, axis=1))
        cosine = cosines(product, rows, searched.landmarks, searched.missing)
        cosine = winsorised(cosine, searched.bound, search.excess_weight)
        affinities.append(cosine if searched.weight == 1.0 else searched.weight * cosine)
    kernels = [product_kernel(products, search.order)]
    orders = [product_kernel(affinities, search.order)]
    if len(products) > 1:
        kernels += [1.0 + product for product in products]
        orders += affinities
    begin = block.rows.start + chunk.start
    return [_nearest_by(affinity, begin, search) for affinity in orders], kernels


def _nearest_by(affinity: Array, begin: int, search: Search) -> Array:
    """Return the nearest landmarks by an affinity of rows, which are numbered from `begin`."""
    xp = namespace(affinity)
    if not search.itself:
        own = np.arange(begin, begin + affinity.shape[0])
        others = placed_like(own[:, None] != np.arange(affinity.shape[1]), affinity)
        affinity = xp.where(others, affinity, xp.full_like(affinity, -xp.inf))
    places = largest(xp.take(affinity, search.sequence, axis=1), search.n_nearest)
    near = xp.take(search.sequence, xp.reshape(places, (-1,)))
    return as_dtype_of(xp.reshape(near, places.shape), places)
