"""Cosines of rows with landmarks, view by view: dense or sparse, here or on a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine import RowView
from manyview.engine.arrays import Array, as_dtype_of, is_sparse, namespace, to_numpy
from manyview.engine.entries import row_sums, times

__all__ = ["Rows", "column_moments", "cosines_of", "prepared"]


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
