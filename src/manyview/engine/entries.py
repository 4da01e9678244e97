"""Entries of sparse rows, SciPy's or those of a device: multiplied, and summed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manyview.engine.arrays import Array

__all__ = ["column_sums", "row_sums", "rows_of_entries", "times"]


def rows_of_entries(x: Any) -> Array:
    """Return the row of each entry."""
    if not sp.issparse(x):
        return x.rows_of_entries
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))


def times(x: Any, rows: Array | None, columns: Array | None) -> Any:
    """Return sparse rows multiplied by a number for each row and one for each column.

    Examples
    --------
    >>> x = sp.csr_array([[1.0, 0.0], [2.0, 3.0]])
    >>> times(x, np.array([1.0, 10.0]), np.array([1.0, 5.0])).toarray()
    array([[  1.,   0.],
           [ 20., 150.]])
    """
    if not sp.issparse(x):
        return x.times(rows, columns)
    data = x.data
    if rows is not None:
        data = data * rows[rows_of_entries(x)]
    if columns is not None:
        data = data * columns[x.indices]
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)


def row_sums(x: Any, values: Array) -> Array:
    """Return the sums over rows of values that belong to the entries."""
    if not sp.issparse(x):
        return x.row_sums(values)
    return np.bincount(rows_of_entries(x), weights=values, minlength=x.shape[0])


def column_sums(x: Any, values: Array) -> Array:
    """Return the sums over columns of values that belong to the entries."""
    if not sp.issparse(x):
        return x.column_sums(values)
    return np.bincount(x.indices, weights=values, minlength=x.shape[1])
