"""Views as the baselines take them: floats, scaled if asked for, side by side if need be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.views import Array, Views
from manyview.views.checks import ROUNDING_OF_MEAN

__all__ = ["ColumnScale", "beside", "column_scales", "scaled_arrays"]


_SMALLEST, _LARGEST = 1e-140, 1e140


class ColumnScale(NamedTuple):
    """Mean and standard deviation of the features of a view; 1 for the latter where it is 0."""

    mean: Matrix
    deviation: Matrix


def scaled_arrays(
    views: Sequence[Array],
    normalize: str | None,
    columns: Sequence[ColumnScale] | None = None,
) -> list[Array]:
    """Return the views in double precision, scaled.

    Parameters
    ----------
    views : sequence of ndarray or csr_array
        One array a view, rows as samples; not changed.
    normalize : {"rows", "columns"} or None
        Samples to unit Euclidean length, where rows of zeros stay; features to mean 0 and
        standard deviation 1, where constant ones become 0; or neither.
    columns : sequence of ColumnScale, optional
        What ``"columns"`` takes off and divides by, one a view: that of the training samples
        where others are scaled. By default that of `views`.

    Returns
    -------
    list of ndarray or csr_array
        Sparse views stay sparse but for ``"columns"``, which makes them dense: a feature less its
        mean has hardly any zeros.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_arrays([np.array([[3, 4], [0, 0]])], "rows")
    [array([[0.6, 0.8],
           [0. , 0. ]])]
    """
    if normalize == "rows":
        return [_unit_length(array.astype(np.float64, copy=False)) for array in views]
    floats = _floats(views)
    if normalize is None:
        return floats
    if normalize == "columns":
        scales = [_column_scale(array) for array in floats] if columns is None else columns
        return [
            ((array.toarray() if sp.issparse(array) else array) - scale.mean) / scale.deviation
            for array, scale in zip(floats, scales, strict=True)
        ]
    raise ValueError(f"normalize={normalize!r}; expected 'rows', 'columns' or None")


def column_scales(views: Sequence[Array]) -> list[ColumnScale]:
    """Return mean and deviation of the features of every view; sparse views are not densified."""
    return [_column_scale(array) for array in _floats(views)]


def beside(arrays: Sequence[Array]) -> Array:
    """Return the views side by side, ``[X_1 ... X_V]``: sparse if any of them is."""
    if len(arrays) == 1:
        return arrays[0]
    if any(sp.issparse(array) for array in arrays):
        return sp.hstack([sp.csr_array(array) for array in arrays], format="csr")
    return np.hstack(list(arrays))


def _floats(views: Sequence[Array]) -> list[Array]:
    """Return the views in double precision, in which their squares can be written."""
    floats = [array.astype(np.float64, copy=False) for array in views]
    names = views.names if isinstance(views, Views) else [f"view{v}" for v in range(len(floats))]
    for name, array in zip(names, floats, strict=True):
        _check_range(name, array)
    return floats


def _unit_length(array: Array) -> Array:
    # by the largest entry first, which keeps the squares in range
    if sp.issparse(array):
        peaks = abs(array).max(axis=1).toarray().ravel()
    else:
        peaks = np.abs(array).max(axis=1)
    array = _divided(array, peaks)
    return _divided(array, np.sqrt(np.asarray((array * array).sum(axis=1)).ravel()))


def _divided(array: Array, lengths: Matrix) -> Array:
    lengths = np.where(lengths > 0, lengths, 1.0)
    if sp.issparse(array):
        data = array.data / np.repeat(lengths, np.diff(array.indptr))
        return sp.csr_array((data, array.indices, array.indptr), shape=array.shape)
    return array / lengths[:, None]


def _check_range(name: str, array: Array) -> None:
    values = array.data if sp.issparse(array) else array
    peak = max(float(values.max()), -float(values.min())) if values.size else 0.0
    if peak and not _SMALLEST < peak < _LARGEST:
        raise ValueError(
            f"view {name!r} has entries of size {peak:.3g}, whose squares leave the range of "
            "float64; rescale them, or use normalize='rows'"
        )


def _column_scale(array: Array) -> ColumnScale:
    n = array.shape[0]
    mean = np.asarray(array.mean(axis=0), dtype=np.float64).ravel()
    if sp.issparse(array):
        # deviations at the entries that are there, and the mean itself at those that are not
        filled = np.bincount(array.indices, minlength=mean.size)
        apart = (array.data - mean[array.indices]) ** 2
        squares = np.bincount(array.indices, weights=apart, minlength=mean.size)
        variance = (squares + (n - filled) * mean**2) / n
    else:
        variance = np.asarray(array.var(axis=0), dtype=np.float64)
    deviation = np.sqrt(variance)
    varies = deviation > ROUNDING_OF_MEAN * np.abs(mean)
    return ColumnScale(mean, np.where(varies, deviation, 1.0))
