"""Affinity of samples over several views: cosines, their spread and their product.

How widely the cosines of each view are spread, and how much of that its features say together.

Each view has a say in who is near whom, and none is to have all of it. Two dangers are met here.

Cosines of noise in d features of both signs have the standard deviation ``1 / sqrt(d)``; those of
thousands of words that tell topics apart have .04. In the product of both the noise would decide
alone who is near whom. What tells the two apart is that features which say something go together.
With the same variances but each feature on its own, cosines would have a variance that can be
computed. Where they have hardly more, the view counts for no more than one that says something.

Cosines of few words, names or categories are 0 for most pairs and 1 for the few that share them: a
pair that agrees there would be nearest whatever the other views say. So what a cosine has above
four standard deviations counts a fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import RowView
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

__all__ = [
    "Rows",
    "Spread",
    "bent",
    "column_moments",
    "cosines_of",
    "evened",
    "prepared",
    "spread_of",
]


class Rows(NamedTuple):
    """Rows ``z = x - shift`` of a view, as they are compared.

    Attributes
    ----------
    x : array or sparse array
        Not yet shifted: centred sparse rows would be dense.
    shift, overlap : array or None
        s, and ``x s' - s s' / 2`` of each row, so that the product of two rows z is that of their
        x less both overlaps; None where nothing is to be shifted.
    inverse_length : array or None
        1 / |z|; None where it is 1.
    """

    x: Any
    shift: Array | None
    overlap: Array | None
    inverse_length: Array | None


def prepared(view: RowView, columns: tuple[Array, Array] | None, widths: Array) -> Rows:
    """Return rows as they are compared.

    Parameters
    ----------
    view : RowView
        Raw rows, with their factors.
    columns : tuple of array, or None
        What is taken away from the columns, and what they are multiplied by.
    widths : array of shape (n_features,)
        What the features are multiplied by beside that.
    """
    if is_sparse(view.x):
        return _prepared_sparse(view, columns, widths)
    xp = namespace(view.x)
    x = view.in_precision(xp.result_type(view.x, widths)).x
    # rows are copied once, and multiplied in place from then on
    if columns is not None:
        centre, width = columns
        x = x - centre
        x *= width * widths
    elif view.scale is not None:
        # before anything is multiplied: products of raw rows may overflow
        x = x * view.scale[:, None]
        x *= widths
    else:
        x = x * widths
    x *= _inverse_lengths(xp.sum(x * x, axis=1), view.scale)[:, None]
    return Rows(x, None, None, None)


def _prepared_sparse(view: RowView, columns: tuple[Array, Array] | None, widths: Array) -> Rows:
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


def _inverse_lengths(squares: Array, scale: Array | None) -> Array:
    xp = namespace(squares)
    there = squares > 0
    if scale is not None:
        there = there & (scale > 0)  # what lacks the view may hold anything
    safe = xp.where(there, squares, xp.ones_like(squares))
    return xp.where(there, 1.0 / xp.sqrt(safe), xp.zeros_like(squares))


def cosines_of(rows: Rows, marks: Rows, unknown: Array | None = None) -> Array:
    """Return the cosines of rows with landmarks.

    A row that lacks the view has 0 with all, so that the view does not tell them apart. A landmark
    that lacks it is as near to a row as the others are on average.

    Parameters
    ----------
    rows, marks : Rows
        What is compared.
    unknown : array of bool of shape (n_marks,), optional
        Which landmarks lack the view; by default none.

    Returns
    -------
    array of shape (n_rows, n_marks)
    """
    products = rows.x @ marks.x.T
    products = products.toarray() if sp.issparse(products) else products
    if rows.overlap is not None and marks.overlap is not None:
        products -= rows.overlap[:, None] + marks.overlap
    if rows.inverse_length is not None and marks.inverse_length is not None:
        products *= rows.inverse_length[:, None]
        products *= marks.inverse_length
    if unknown is None:
        return products
    xp = namespace(products)
    known = unknown.shape[0] - xp.count_nonzero(unknown)
    mean = xp.sum(products, axis=1) / max(int(known), 1)
    return xp.where(unknown, mean[:, None], products)


def column_moments(rows: Rows) -> tuple[Matrix, Matrix]:
    """Return the mean and the mean square of every column, of rows scaled to unit length.

    Parameters
    ----------
    rows : Rows
        A few rows as they are compared: sparse ones that are elsewhere are brought here.

    Returns
    -------
    means, squares : ndarray of shape (n_features,), float64
    """
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


_MOST_ROWS = 1000  # among which the spread is measured
_ENOUGH = 0.25  # of the variance of cosines, that features must say together to be trusted in full
_HARDLY_ANY = 0.05  # where no view's do, the best is trusted, but not for less than this
_USUAL_DEVIATIONS = 4.0  # from the mean of the cosines, up to which they count in full
_BEYOND_USUAL = 0.2  # how much the rest counts


class Spread(NamedTuple):
    """How widely the cosines of a view are spread.

    Attributes
    ----------
    deviation : float
        The standard deviation of the cosines between different rows, bent.
    together : float
        The part of the variance of the cosines as they are, 0 to 1, that is there only because
        features go together.
    bound : float
        Above which cosines count less; see :func:`bent`.
    """

    deviation: float
    together: float
    bound: float = np.inf


def spread_of(view: RowView, columns: tuple[Array, Array] | None, widths: Array) -> Spread:
    """Return how widely the cosines between different rows of a view are spread.

    Of more than ``_MOST_ROWS``, as many at equal steps stand for all.

    Parameters
    ----------
    view : RowView
        Raw rows, with their factors; those that lack the view are left out.
    columns, widths
        How features are scaled; see :func:`manyview.graph.affinity.prepared`.

    Returns
    -------
    Spread
        Without a bound and of zeros for fewer than two rows, or equal ones.
    """
    nothing = Spread(0.0, 0.0)
    places = np.arange(view.x.shape[0])
    if view.lacking is not None:
        places = places[~to_numpy(view.lacking)]
    if places.size < 2:
        return nothing
    places = places[np.linspace(0, places.size - 1, min(places.size, _MOST_ROWS)).astype(np.intp)]
    like = view.x.data if is_sparse(view.x) else view.x
    rows = prepared(view.take(placed_like(places, like)), columns, widths)
    cosines = to_numpy(cosines_of(rows, rows)).astype(np.float64)
    cosines = cosines[~np.eye(places.size, dtype=bool)]
    variance = float(np.var(cosines))
    if variance == 0.0:
        return nothing
    bound = float(np.mean(cosines)) + _USUAL_DEVIATIONS * variance**0.5
    together = max(0.0, 1.0 - _variance_apart(rows, places.size) / variance)
    return Spread(float(np.std(bent(cosines, bound))), together, bound)


def _variance_apart(rows: Rows, n_rows: int) -> float:
    """Return the variance that cosines would have if every feature went its own way.

    Of independent rows with the mean m and the covariance S it is ``2 m'Sm + tr(S S)``. Features
    on their own have a diagonal D for S. That rows have unit length takes away what lies along
    their mean, the more the nearer they are to it: ``S = P D P`` with ``P = I - m m'``.
    """
    means, squares = column_moments(rows)
    variances = np.maximum(squares - means**2, 0.0) * n_rows / (n_rows - 1)
    means_squared = np.maximum(means**2 - variances / n_rows, 0.0)  # less what chance adds
    along = float(means_squared @ variances)
    length = min(1.0, float(means_squared.sum()))
    crossed = float(np.sum(variances**2) - 2.0 * means_squared @ variances**2 + along**2)
    return 2.0 * (1.0 - length) ** 2 * along + max(crossed, 0.0)


def bent(cosines: Array, bound: float) -> Array:
    """Return cosines of which what is above a bound counts a fifth; they may be overwritten.

    Examples
    --------
    >>> bent(np.array([0.2, 0.5, 1.0]), 0.5).round(6)
    array([0.2, 0.5, 0.6])
    """
    if bound >= 1.0:
        return cosines
    xp = namespace(cosines)
    # which NumPy does in a quarter of the time that it clips in
    usual = xp.minimum(cosines, xp.full_like(cosines[:1, ...], bound))
    usual *= 1.0 - _BEYOND_USUAL
    cosines *= _BEYOND_USUAL
    cosines += usual
    return cosines


def evened(spreads: Sequence[Spread]) -> list[float]:
    """Return what the cosines of each view are multiplied by, so that noise decides nothing.

    Parameters
    ----------
    spreads : sequence of Spread
        Of each view.

    Returns
    -------
    list of float
        1 for a view whose features go together, or that is spread no more widely than the narrowest
        of such views. Others are brought down to that one, those in between not as far.

    Examples
    --------
    >>> words, noise = Spread(0.04, together=0.5), Spread(0.4, together=0.0)
    >>> [round(factor, 3) for factor in evened([words, noise])]
    [1.0, 0.1]
    """
    deviations, together, _ = (np.array(values) for values in zip(*spreads, strict=True))
    enough = min(_ENOUGH, max(float(together.max()), _HARDLY_ANY))
    trust = np.minimum(together / enough, 1.0)
    trusted = deviations[(trust >= 0.5) & (deviations > 0.0)]
    if not trusted.size:
        return [1.0] * len(spreads)
    narrowest = float(trusted.min())
    factors = np.maximum(trust, narrowest / np.maximum(deviations, narrowest))
    return [float(factor) for factor in factors]
