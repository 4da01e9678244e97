"""Affinity of samples over several views.

The affinity of two samples is the product over the views of ``1 + c``, with c the cosine of their
rows. Two corrections keep a single view from dominating the product:

- Cosines far above the mean are winsorised. In views of names, categories or few words most
  cosines are 0 and a few are 1, and a pair that shares a name would be nearest whatever the other
  views contain.
- Cosines of an uninformative view are shrunk. Those of noise in d features have the standard
  deviation ``1 / sqrt(d)``, those of thousands of words about .04, so that noise would decide.
  Informative features are correlated. A view whose cosines hardly vary more than those of
  uncorrelated features would is shrunk to the spread of an informative view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import Engine, RowView
from manyview.engine.arrays import (
    Array,
    as_dtype_of,
    is_sparse,
    namespace,
    placed_like,
    row_sums,
    times,
    to_numpy,
)
from manyview.graph.settings import DEFAULTS, GraphSettings

__all__ = [
    "Rows",
    "Spread",
    "column_moments",
    "compared_by_distance",
    "cosines",
    "feature_widths",
    "inner_products",
    "measure_spread",
    "prepare_rows",
    "product_kernel",
    "products_of_known",
    "view_weights",
    "winsorised",
]


def product_kernel(cosines: list[Array], order: int | None = None) -> Array:
    """Return ``prod_v (1 + c_v)``, or its terms with at most `order` of the c_v.

    Examples
    --------
    >>> product_kernel([np.array(0.5), np.array(0.2)]).round(6).item()
    1.8
    >>> product_kernel([np.array(0.5), np.array(0.2)], order=1).item()
    1.7
    """
    if order is None or order >= len(cosines):
        # rounding may leave two factors just below 0; their product is smaller still
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


def compared_by_distance(
    engine: Engine, rows: Sequence[RowView], settings: GraphSettings = DEFAULTS
) -> list[bool]:
    """Return which views are compared by distance: dense standardised ones, if settings say so."""
    return [
        settings.distance and scaling.columns is not None and not is_sparse(view.x)
        for scaling, view in zip(engine.scalings, rows, strict=True)
    ]


def feature_widths(engine: Engine, by_distance: Sequence[bool]) -> list[Matrix]:
    """Return the factors of each view's features.

    Standardised rows that are compared by distance have a mean square length of 1. Features of
    other views stay as they are.
    """
    widths = []
    for scaling, distance in zip(engine.scalings, by_distance, strict=True):
        varying = int(np.sum(scaling.width != 0)) if distance else 1  # constant ones have width 0
        size = 1.0 / np.sqrt(max(varying, 1))
        widths.append(np.full(scaling.n_features, size, dtype=engine.dtype))
    return widths


class Rows(NamedTuple):
    """Scaled rows ``z = x - shift`` of a view, ready to be compared.

    Sparse rows stay unshifted, because centred they would be dense. Their ``overlap`` is
    ``x s' - s s' / 2`` with the shift s: the product of two rows z is that of their x less both
    overlaps. ``inverse_length`` is 1 / |z|. Dense rows have unit length, and None for the rest.
    Rows that are compared by distance keep their length, whose squares are ``squares``.

    Where entries are unknown, ``known`` is 1 for the others and 0 for these, and ``variances`` are
    those of the features.
    """

    x: Any
    shift: Array | None = None
    overlap: Array | None = None
    inverse_length: Array | None = None
    squares: Array | None = None
    known: Array | None = None
    variances: Array | None = None

    def take(self, rows: Array) -> Rows:
        """Return a copy of some of the rows, by position."""
        x = self.x[rows] if is_sparse(self.x) else _taken(self.x, rows)
        of_rows = (self.overlap, self.inverse_length, self.squares, self.known)
        parts = [None if part is None else _taken(part, rows) for part in of_rows]
        return self._replace(
            x=x, overlap=parts[0], inverse_length=parts[1], squares=parts[2], known=parts[3]
        )


def prepare_rows(
    view: RowView,
    columns: tuple[Array, Array] | None,
    widths: Array,
    by_distance: bool = False,
) -> Rows:
    """Scale rows by the view's own centres and factors of columns, if any, and by `widths`.

    Rows have unit length, unless they are compared by distance.
    """
    if is_sparse(view.x):
        return _prepare_sparse(view, columns, widths)
    xp = namespace(view.x)
    x = view.in_precision(xp.result_type(view.x, widths)).x
    # one copy, which is then scaled in place
    if columns is not None:
        centre, width = columns
        x = x - centre
        x *= width * widths
    elif view.scale is not None:
        # first of all, as products of raw rows may overflow
        x = x * view.scale[:, None]
        x *= widths
    else:
        x = x * widths
    if by_distance:
        if view.missing is not None:  # such rows may hold anything
            x = xp.where(view.missing[:, None], xp.zeros_like(x), x)
        rows = Rows(x, squares=xp.sum(x * x, axis=1))
    else:
        x *= _inverse_lengths(xp.sum(x * x, axis=1), view.scale)[:, None]
        rows = Rows(x)
    return rows if view.known is None else _partly_known(rows, view)


def _partly_known(rows: Rows, view: RowView) -> Rows:
    """Return rows with what else is needed to compare them by known features."""
    xp, known = namespace(rows.x), as_dtype_of(view.known, rows.x)
    if view.missing is not None:
        known = xp.where(view.missing[:, None], xp.zeros_like(known), known)
    counts = xp.clip(xp.sum(known, axis=0), 1.0, None)
    means = xp.sum(rows.x * known, axis=0) / counts
    variances = xp.sum(known * (rows.x - means) ** 2, axis=0) / counts
    return rows._replace(known=known, variances=variances)


def _prepare_sparse(view: RowView, columns: tuple[Array, Array] | None, widths: Array) -> Rows:
    shift = overlap = None
    if columns is not None:
        centre, width = columns
        x, shift = times(view.x, None, width * widths), centre * width * widths
    else:
        x = times(view.x, view.scale, widths)
    squares = as_dtype_of(row_sums(x, x.data**2), x.data)
    if shift is not None:
        overlap = x @ shift - 0.5 * (shift @ shift)
        squares = namespace(squares).clip(squares - 2.0 * overlap, 0.0, None)
    return Rows(x, shift, overlap, _inverse_lengths(squares, view.scale))


def _taken(x: Array, rows: Array) -> Array:
    return namespace(x).take(x, rows, axis=0)


def _inverse_lengths(squares: Array, scale: Array | None) -> Array:
    xp = namespace(squares)
    there = squares > 0
    if scale is not None:
        there = there & (scale > 0)  # rows of missing views may hold anything
    safe = xp.where(there, squares, xp.ones_like(squares))
    return xp.where(there, 1.0 / xp.sqrt(safe), xp.zeros_like(squares))


def inner_products(rows: Rows, landmarks: Rows) -> Array:
    """Return the products of rows with landmarks, which are cosines if rows have unit length."""
    products = rows.x @ landmarks.x.T
    products = products.toarray() if sp.issparse(products) else products
    if rows.overlap is not None and landmarks.overlap is not None:
        products -= rows.overlap[:, None] + landmarks.overlap
    if rows.inverse_length is not None and landmarks.inverse_length is not None:
        products *= rows.inverse_length[:, None]
        products *= landmarks.inverse_length
    return products


def products_of_known(products: Array, rows: Rows, landmarks: Rows) -> Array:
    """Return products that imply the distances between rows by the features known in both.

    Squared distances are scaled up to all features by the part of the variance that these have.
    Rows without a common feature are as far apart as the mean. Where all entries are known,
    `products` are returned.
    """
    if rows.known is None or landmarks.known is None or landmarks.variances is None:
        return products
    xp, variances = namespace(products), landmarks.variances
    x, other = rows.x * rows.known, landmarks.x * landmarks.known
    squares = x**2 @ landmarks.known.T + rows.known @ (other**2).T - 2.0 * x @ other.T
    variance = xp.sum(variances)
    share = (rows.known * variances) @ landmarks.known.T
    safe = xp.where(share > 0, share, xp.ones_like(share))
    squares = variance * xp.where(share > 0, squares / safe, xp.full_like(share, 2.0))
    if rows.squares is None or landmarks.squares is None:
        return xp.clip(1.0 - 0.5 * squares, -1.0, None)
    return 0.5 * (rows.squares[:, None] + landmarks.squares - squares)


def cosines(products: Array, rows: Rows, landmarks: Rows, missing: Array | None = None) -> Array:
    """Return the cosines of rows with landmarks, given their inner products, which may be changed.

    Rows that are compared by distance d have ``1 - d^2 / 2`` instead, at least -1: as with cosines
    it is 1 for equal rows, and 0 on average. A row whose view is missing has 0 with all landmarks,
    so that the view has no influence. Landmarks whose view is `missing` have the row's mean with
    the others.
    """
    if rows.squares is not None and landmarks.squares is not None:
        xp = namespace(products)
        there = rows.squares[:, None] > 0
        products += 1.0 - 0.5 * (rows.squares[:, None] + landmarks.squares)
        products = xp.where(there, xp.clip(products, -1.0, None), xp.zeros_like(products))
    if missing is None:
        return products
    xp = namespace(products)
    known = missing.shape[0] - xp.count_nonzero(missing)
    total = xp.sum(xp.where(missing, xp.zeros_like(products), products), axis=1)
    mean = total / max(int(known), 1)
    return xp.where(missing, mean[:, None], products)


class Spread(NamedTuple):
    """Distribution of a view's cosines between different rows.

    ``deviation`` is their standard deviation, winsorised; ``coherence`` the part of their variance,
    0 to 1, that is due to correlations between features; ``bound`` where winsorising starts.
    """

    deviation: float
    coherence: float
    bound: float = np.inf


def measure_spread(
    view: RowView,
    columns: tuple[Array, Array] | None,
    widths: Array,
    settings: GraphSettings = DEFAULTS,
) -> Spread:
    """Measure the cosines among rows of a view, or among some at equal steps if they are many.

    Rows of missing views are left out. Fewer than two rows, or equal ones, have no spread.
    """
    places = np.arange(view.x.shape[0])
    if view.missing is not None:
        places = places[~to_numpy(view.missing)]
    if places.size < 2:
        return Spread(0.0, 0.0)
    count = min(places.size, settings.spread_rows)
    places = places[np.linspace(0, places.size - 1, count).astype(np.intp)]
    like = view.x.data if is_sparse(view.x) else view.x
    some = view.take(placed_like(places, like))
    rows = prepare_rows(replace(some, known=None), columns, widths)
    found = to_numpy(inner_products(rows, rows)).astype(np.float64)
    found = found[~np.eye(places.size, dtype=bool)]
    variance = float(np.var(found))
    if variance == 0.0:
        return Spread(0.0, 0.0)
    bound = float(np.mean(found)) + settings.winsorise_at * variance**0.5
    coherence = max(0.0, 1.0 - _uncorrelated_variance(rows, places.size) / variance)
    deviation = float(np.std(winsorised(found, bound, settings.excess_weight)))
    return Spread(deviation, coherence, bound)


def _uncorrelated_variance(rows: Rows, n_rows: int) -> float:
    """Return the variance that cosines would have if all features were uncorrelated.

    For independent rows with mean m and covariance S it is ``2 m'Sm + tr(S S)``. Uncorrelated
    features have a diagonal covariance D. As rows have unit length, they hardly vary along their
    mean, which leaves ``S = P D P`` with ``P = I - m m'``.
    """
    means, squares = column_moments(rows)
    variances = np.maximum(squares - means**2, 0.0) * n_rows / (n_rows - 1)
    means_squared = np.maximum(means**2 - variances / n_rows, 0.0)  # unbiased
    along = float(means_squared @ variances)
    length = min(1.0, float(means_squared.sum()))
    crossed = float(np.sum(variances**2) - 2.0 * means_squared @ variances**2 + along**2)
    return 2.0 * (1.0 - length) ** 2 * along + max(crossed, 0.0)


def column_moments(rows: Rows) -> tuple[Matrix, Matrix]:
    """Return the mean and the mean square of every column of unit rows, in double precision."""
    if not is_sparse(rows.x):
        xp = namespace(rows.x)
        moments = (xp.mean(rows.x, axis=0), xp.mean(rows.x * rows.x, axis=0))
        means, squares = (to_numpy(moment).astype(np.float64) for moment in moments)
        return means, squares
    x = rows.x if sp.issparse(rows.x) else rows.x.to_scipy()
    inverse_length = to_numpy(rows.inverse_length).astype(np.float64)
    x = times(x, inverse_length, None)
    means, squares = (np.asarray(part.mean(axis=0)).ravel() for part in (x, x * x))
    if rows.shift is not None:
        shift = to_numpy(rows.shift).astype(np.float64)
        again = np.asarray(times(x, inverse_length, None).mean(axis=0)).ravel()
        squares += shift * (shift * np.mean(inverse_length**2) - 2.0 * again)
        means -= shift * inverse_length.mean()
    return means, squares


def winsorised(cosines: Array, bound: float, excess_weight: float) -> Array:
    """Multiply what cosines have above a bound by `excess_weight`; they may be overwritten.

    Examples
    --------
    >>> winsorised(np.array([0.2, 0.5, 1.0]), 0.5, 0.2).round(6)
    array([0.2, 0.5, 0.6])
    """
    if bound >= 1.0:
        return cosines
    xp = namespace(cosines)
    # in NumPy four times as fast as clip
    usual = xp.minimum(cosines, xp.full_like(cosines[:1, ...], bound))
    usual *= 1.0 - excess_weight
    cosines *= excess_weight
    cosines += usual
    return cosines


def view_weights(spreads: Sequence[Spread], settings: GraphSettings = DEFAULTS) -> list[float]:
    """Return the factor of each view's cosines that keeps noise from dominating the affinity.

    It is 1 for a view with correlated features, and for one whose cosines are spread no wider than
    those of the narrowest such view. Wider views are shrunk to that one, in part if their features
    are correlated in part.

    Examples
    --------
    >>> words, noise = Spread(0.04, coherence=0.5), Spread(0.4, coherence=0.0)
    >>> [round(weight, 3) for weight in view_weights([words, noise])]
    [1.0, 0.1]
    """
    deviations, coherence, _ = (np.array(values) for values in zip(*spreads, strict=True))
    threshold = min(settings.informative, max(float(coherence.max()), settings.least_informative))
    confidence = np.minimum(coherence / threshold, 1.0)
    informative = deviations[(confidence >= 0.5) & (deviations > 0.0)]
    if not informative.size:
        return [1.0] * len(spreads)
    narrowest = float(informative.min())
    weights = np.maximum(confidence, narrowest / np.maximum(deviations, narrowest))
    return [float(weight) for weight in weights]
