"""Nearest neighbours by affinity: among all samples, or among landmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, State, Update
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
    measure_spread,
    prepare_rows,
    product_kernel,
    view_weights,
    winsorised,
)
from manyview.graph.settings import DEFAULTS, GraphSettings

__all__ = [
    "Search",
    "find_nearest",
    "graph_of_all_orders",
    "harmonic_weights",
    "landmark_search",
    "nearest_chunks",
    "nearest_of",
    "neighbour_graphs",
    "weighted_links",
]


def neighbour_graphs(
    engine: Engine,
    n_clusters: int,
    sizes: Sequence[float],
    *,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> list[Any]:
    """Return symmetric graphs of nearest neighbours, one for each different neighbourhood size.

    A size of 1 is half of an average cluster. Each graph is the mean over k, up to its
    size, of the graphs that link a sample to its k nearest with weight 1/k. So near samples count
    at every scale and far ones at large scales only, and no single k has to be chosen.
    """
    n = engine.n_samples
    most = [int(np.ceil(size * settings.cluster_part * n / n_clusters)) for size in sizes]
    fewest = settings.fewest_neighbours
    counts = list(dict.fromkeys(min(max(count, fewest), n - 1) for count in most))
    samples = engine.take(np.arange(n))
    search = landmark_search(engine, samples, max(counts), order=order, settings=settings)
    find_nearest(engine, search, itself=False)
    near = engine.take_state(State.NEIGHBOURS, np.arange(n))
    engine.forget(State.NEIGHBOURS)
    graphs = [weighted_links(near[:, :count], harmonic_weights(count), n) for count in counts]
    return [sp.csr_array(graph + graph.T) for graph in graphs]


def graph_of_all_orders(
    engine: Engine,
    n_clusters: int,
    *,
    order: int | None = None,
    settings: GraphSettings = DEFAULTS,
) -> Any:
    """Return the graph of neighbours by single views and by their product, near and far.

    The product of affinities is an AND: a view that says something else spoils it. Graphs of the
    single views, added, are an OR. Their mean counts twice as much as the graph of the product.
    Both have the neighbourhood sizes of the exact graph.
    """
    n, n_views = engine.n_samples, len(engine.scalings)
    halves = [size * settings.cluster_part * n / n_clusters for size in settings.exact_sizes]
    counts = [min(max(int(np.ceil(half)), settings.fewest_neighbours), n - 1) for half in halves]
    search = landmark_search(
        engine,
        engine.take(np.arange(n)),
        max(counts),
        order=order,
        each_view=True,
        settings=settings,
    )
    find_nearest(engine, search, itself=False)
    near = engine.take_state(State.NEIGHBOURS, np.arange(n))
    engine.forget(State.NEIGHBOURS)
    total = sp.csr_array((n, n))
    for number, of_order in enumerate(np.split(near, n_views + 1, axis=1)):
        weight = 1.0 if number == 0 else 2.0 / n_views
        for count in counts:
            links = weighted_links(of_order[:, :count], weight * harmonic_weights(count), n)
            total = total + links
    return sp.csr_array(total + total.T)


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
    """Search for the landmarks nearest to each sample, as it is passed to the blocks.

    ``sequence`` has the landmarks in random order; of equally near ones the first in it is taken,
    where the first in the data would favour some landmarks. ``chunk`` rows are compared at a time.
    With ``each_view`` the nearest by each view alone follow those by the product of all views.
    """

    views: list[SearchedView]
    n_nearest: int
    order: int | None
    excess_weight: float
    sequence: Array
    chunk: int
    each_view: bool = False

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return int(self.views[0].landmarks.x.shape[0])


def landmark_search(
    engine: Engine,
    landmarks: list[RowView],
    n_nearest: int,
    *,
    halfway: bool = True,
    order: int | None = None,
    each_view: bool = False,
    settings: GraphSettings = DEFAULTS,
) -> Search:
    """Prepare the search for nearest landmarks, given the landmarks' rows of each view.

    `halfway` says whether features are scaled half-way to unit variance.
    """
    columns = [scaling.columns for scaling in engine.scalings]
    by_distance = compared_by_distance(engine, landmarks, settings)
    widths = feature_widths(engine, by_distance, halfway=halfway)
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
        engine.chunk,
        each_view,
    )


def _missing(view: RowView) -> Array | None:
    """Return which rows miss the view, or None where none do."""
    missing = view.missing
    return missing if missing is not None and bool(namespace(missing).any(missing)) else None


def find_nearest(engine: Engine, search: Search, *, itself: bool = True) -> None:
    """Put the places of each sample's nearest landmarks into the blocks, as ``near``.

    With ``itself=False`` all samples are landmarks, and none is its own neighbour.
    """
    engine.update(_nearest_kernel, search, itself)


def _nearest_kernel(block: Block, search: Search, itself: bool) -> Update:
    near = list(nearest_chunks(block, search, itself=itself))
    return {State.NEIGHBOURS: namespace(near[0]).concat(near, axis=0)}, ()


def nearest_of(rows: list[RowView], search: Search) -> npt.NDArray[np.integer[Any]]:
    """Return the places of the nearest landmarks of samples that were taken from an engine."""
    block = Block(slice(0, rows[0].x.shape[0]), rows)
    return np.concatenate(list(nearest_chunks(block, search)))


def nearest_chunks(block: Block, search: Search, *, itself: bool = True) -> Iterator[Array]:
    """Yield the nearest landmarks of a block's rows, nearest first, some rows at a time."""
    size = block.rows.stop - block.rows.start
    for begin in range(0, size, search.chunk):
        chunk = slice(begin, min(begin + search.chunk, size))
        found = [
            _nearest_by(kernel, block.rows.start + begin, search, itself)
            for kernel in _affinities(block, chunk, search)
        ]
        yield found[0] if len(found) == 1 else namespace(found[0]).concat(found, axis=1)


def _nearest_by(kernel: Array, begin: int, search: Search, itself: bool) -> Array:
    """Return the nearest landmarks by an affinity of rows, which are numbered from `begin`."""
    xp = namespace(kernel)
    if not itself:
        own = np.arange(begin, begin + kernel.shape[0])
        others = placed_like(own[:, None] != np.arange(kernel.shape[1]), kernel)
        kernel = xp.where(others, kernel, xp.full_like(kernel, -xp.inf))
    places = largest(xp.take(kernel, search.sequence, axis=1), search.n_nearest)
    near = xp.take(search.sequence, xp.reshape(places, (-1,)))
    return as_dtype_of(xp.reshape(near, places.shape), places)


def _affinities(block: Block, chunk: slice, search: Search) -> list[Array]:
    """Return the affinities of some rows of a block with all landmarks: of all views, and each."""
    found = []
    for view, searched in zip(block.views, search.views, strict=True):
        scale = None if view.scale is None else view.scale[chunk]
        some = RowView(view.x[chunk] if is_sparse(view.x) else view.x[chunk, ...], scale)
        rows = prepare_rows(some, searched.columns, searched.widths, searched.by_distance)
        cosine = cosines(rows, searched.landmarks, searched.missing)
        cosine = winsorised(cosine, searched.bound, search.excess_weight)
        found.append(cosine if searched.weight == 1.0 else searched.weight * cosine)
    return [product_kernel(found, search.order), *(found if search.each_view else ())]
