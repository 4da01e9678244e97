"""Comparison of samples with landmarks, by each view and by the product of all views."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView
from manyview.engine.arrays import Array, is_sparse, largest, namespace, placed_like
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
    products_of_known,
    view_weights,
    winsorised,
)
from manyview.graph.settings import DEFAULTS, GraphSettings

__all__ = [
    "Comparison",
    "chunks_of",
    "compare_sample",
    "compared_rows",
    "comparison_with",
    "filled_products",
    "harmonic_weights",
    "kernels_of",
    "weighted_links",
]


def weighted_links(near: npt.NDArray[np.integer[Any]], weights: Matrix, width: int) -> Any:
    """Return a sparse matrix, `width` wide, with `weights` in the columns ``near[n]`` of row n."""
    n, count = near.shape
    # of one type, since SciPy takes the wider one for all positions
    starts = np.arange(0, near.size + 1, count, dtype=near.dtype)
    parts = (np.tile(weights, n), near.ravel(), starts)
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


class ComparedView(NamedTuple):
    """Landmarks of one view, and how samples are compared with them.

    ``columns`` and ``widths`` scale the features, ``missing`` marks landmarks that miss the view
    (None: none), and ``means`` are the mean products of the others, by which samples that miss it
    are known. For neighbours, cosines are winsorised above ``bound`` and multiplied by
    ``weight``.
    """

    columns: tuple[Array, Array] | None
    widths: Array
    by_distance: bool
    landmarks: Rows
    missing: Array | None
    means: Array | None
    bound: float
    weight: float


class Comparison(NamedTuple):
    """Comparison of samples with landmarks, as it is passed to the blocks.

    ``chunk`` rows are compared at a time. Kernels are raised to ``power``.
    """

    views: list[ComparedView]
    order: int | None
    chunk: int
    power: int = 1

    def with_first(self, count: int) -> Comparison:
        """Return the comparison with the first `count` landmarks only."""
        views = []
        for view in self.views:
            x = view.landmarks.x
            first = np.arange(count)
            landmarks = view.landmarks.take(first if is_sparse(x) else placed_like(first, x))
            missing = None if view.missing is None else view.missing[:count]
            views.append(view._replace(landmarks=landmarks, missing=missing))
        return self._replace(views=views)


def comparison_with(
    engine: Engine,
    landmarks: list[RowView],
    *,
    order: int | None = None,
    power: int = 1,
    settings: GraphSettings = DEFAULTS,
) -> Comparison:
    """Prepare the comparison with landmarks, given their rows of each view."""
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
    missing = list(map(_missing, landmarks))
    means = list(map(_mean_products, prepared, missing, by_distance))
    views = map(
        ComparedView, columns, widths, by_distance, prepared, missing, means, bounds, weights
    )
    return Comparison(list(views), order, engine.chunk, power)


def _missing(view: RowView) -> Array | None:
    """Return which rows miss the view, or None where none do."""
    missing = view.missing
    return missing if missing is not None and bool(namespace(missing).any(missing)) else None


def _mean_products(landmarks: Rows, missing: Array | None, by_distance: bool) -> Array | None:
    """Return the mean products of landmarks with each of them, if some but not all miss the view.

    Rows that are compared by distance have a mean of 0 anyway.
    """
    if missing is None or by_distance:
        return None
    xp = namespace(missing)
    some = xp.nonzero(~missing)[0][:1000]
    if not some.shape[0]:
        return None
    return xp.mean(inner_products(landmarks.take(some), landmarks), axis=0)


def _filled(products: Array, compared: ComparedView, missing: Array | None) -> Array:
    """Return products of which samples that miss the view have mean ones."""
    if compared.means is None or compared.missing is None:
        return products
    xp, count = namespace(products), products.shape[1]
    without = compared.missing[:count]
    means = xp.where(without, xp.mean(compared.means), compared.means[:count])
    if missing is not None:
        products = xp.where(missing[:, None], means, products)
    known = xp.where(without, xp.zeros_like(products), products)
    share = max(count - int(xp.count_nonzero(without)), 1)
    return xp.where(without, xp.sum(known, axis=1)[:, None] / share, products)


def chunks_of(block: Block, comparison: Comparison) -> list[slice]:
    """Return the rows of a block that are compared at a time."""
    size, step = block.rows.stop - block.rows.start, comparison.chunk
    return [slice(begin, min(begin + step, size)) for begin in range(0, max(size, 1), step)]


def kernels_of(block: Block, chunk: slice, comparison: Comparison) -> list[Array]:
    """Return the kernels of some rows of a block with the landmarks.

    The first is the product over the views; those of the single views follow if there are several.
    """
    return _kernels(filled_products(block, chunk, comparison), comparison)


def filled_products(block: Block, chunk: slice, comparison: Comparison) -> list[Array]:
    """Return the products of some rows of a block with the landmarks, by view.

    Those of samples that miss a view are filled with mean ones.
    """
    _, products = compared_rows(block, chunk, comparison)
    return _filled_by_view(products, block, chunk, comparison)


def compare_sample(
    engine: Engine,
    rows: list[RowView],
    comparison: Comparison,
    drawn: npt.NDArray[np.intp],
    n_nearest: int,
    n_fitted: int,
    settings: GraphSettings = DEFAULTS,
) -> tuple[list[npt.NDArray[Any]], list[Matrix]]:
    """Return the nearest other samples, and the kernels with the first `n_fitted` landmarks.

    The landmarks are the samples themselves, in the random order `drawn`: of equally near ones the
    first is taken, and the order of the data would favour some. Nearest samples come nearest first.
    Samples that miss a view have the neighbours by the product there.
    Both results have an entry for the product of all views, and one for each view if there are
    several.
    """
    size = rows[0].x.shape[0]
    # the sample is in this process, even if the device of the others takes more rows at a time
    comparison = comparison._replace(chunk=min(comparison.chunk, Engine.chunk))
    block, place = Block(slice(0, size), rows), np.argsort(drawn)

    def compared(chunk: slice) -> tuple[list[Array], list[Array]]:
        prepared, products = compared_rows(block, chunk, comparison)
        fitted = [product[:, :n_fitted] for product in products]
        kernels = _kernels(_filled_by_view(fitted, block, chunk, comparison), comparison)
        affinities = []
        for compared, product, own in zip(comparison.views, products, prepared, strict=True):
            product = products_of_known(product, own, compared.landmarks)
            cosine = cosines(product, own, compared.landmarks, compared.missing)
            cosine = winsorised(cosine, compared.bound, settings.excess_weight)
            affinities.append(cosine if compared.weight == 1.0 else compared.weight * cosine)
        orders = [product_kernel(affinities, comparison.order)]
        if len(affinities) > 1:
            orders += affinities
        near = []
        for affinity in orders:
            affinity[np.arange(len(affinity)), place[chunk]] = -np.inf
            near.append(drawn[largest(affinity, n_nearest)].astype(np.int32))
        for of_view, view in zip(near[1:], block.views, strict=False):
            if view.missing is not None:  # such samples are near to none in this view
                missing = view.missing[chunk]
                of_view[missing] = near[0][missing]
        return near, kernels

    near, kernels = zip(*engine.side_by_side(compared, chunks_of(block, comparison)), strict=True)
    return (
        [np.concatenate(parts) for parts in zip(*near, strict=True)],
        [np.concatenate(parts) for parts in zip(*kernels, strict=True)],
    )


def compared_rows(
    block: Block, chunk: slice, comparison: Comparison
) -> tuple[list[Rows], list[Array]]:
    """Return some rows of a block, prepared, and their products with the landmarks, by view."""
    prepared, products = [], []
    for view, compared in zip(block.views, comparison.views, strict=True):
        some = view.part(chunk)
        prepared.append(prepare_rows(some, compared.columns, compared.widths, compared.by_distance))
        products.append(inner_products(prepared[-1], compared.landmarks))
    return prepared, products


def _filled_by_view(
    products: list[Array], block: Block, chunk: slice, comparison: Comparison
) -> list[Array]:
    missing = [None if view.missing is None else view.missing[chunk] for view in block.views]
    return list(map(_filled, products, comparison.views, missing))


def _kernels(products: list[Array], comparison: Comparison) -> list[Array]:
    kernels = [product_kernel(products, comparison.order)]
    if len(products) > 1:
        kernels += [1.0 + product for product in products]
    return [kernel**comparison.power for kernel in kernels] if comparison.power > 1 else kernels
