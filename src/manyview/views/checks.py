"""Validation of views: shapes, types, finite values, repeated samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import ViewWarning, warn_user
from manyview.views.backends import is_dense_tensor, place_of, tensor_not_finite, value_range
from manyview.views.container import Array, Views, listed

__all__ = [
    "ROUNDING_OF_MEAN",
    "check_compressed",
    "check_indexes",
    "check_n_clusters",
    "check_rows",
    "check_same_views",
    "check_scale",
    "check_values",
    "has_equal_rows",
    "position",
    "size_within_range",
    "warn_of_few_distinct",
    "warn_of_numbers",
    "warn_of_single_features",
]


def check_compressed(array: Any) -> None:
    """Raise ValueError where a CSR or CSC array points outside itself.

    SciPy's compiled code follows indices unchecked, so that a damaged file, or a map of one that is
    not written whole, could read and write memory that is not the array's.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> check_compressed(sp.csr_array(([1.0, 2.0], [0, 7], [0, 1, 2]), shape=(2, 3)))
    Traceback (most recent call last):
    ...
    ValueError: indices must be < 3
    """
    # check_format looks no further than the last pointer when that one says that nothing is stored
    if (np.diff(array.indptr) < 0).any():
        raise ValueError("the pointers to the rows or columns of a sparse array decrease")
    array.check_format(full_check=True)


ROUNDING_OF_MEAN = 1e-11
"""Part of a feature's mean below which its deviation is rounding: the feature is constant."""

_CHECK_BYTES = 1 << 24
_FEWEST_NUMBERED = 10  # samples, of which one would call a feature from 1 to 10 their number
_MOST_NUMBERED = 3  # features that do so, as several indexes may


def check_n_clusters(n_clusters: int, views: Views) -> None:
    """Raise unless ``n_clusters`` clusters can be made of the samples at hand."""
    if isinstance(n_clusters, bool):  # an integer to Python, and to scikit-learn's own check
        raise ValueError(f"n_clusters={n_clusters}; expected a whole number of at least 1")
    if n_clusters > views.n_samples:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {views.n_samples} samples received: "
            "every cluster needs at least one sample"
        )


def check_same_views(
    views: Views,
    *,
    names: Sequence[str],
    n_features: Sequence[int],
    feature_names: Sequence[npt.NDArray[np.str_] | None],
) -> Views:
    """Return `views` in the order of those that fit saw, or raise where they differ.

    A dict may list its views in any order; views without names are taken by position.
    """
    names = tuple(names)
    if len(views) != len(names):
        raise ValueError(
            f"received {len(views)} view(s) ({listed(views.names)}); "
            f"fit saw {len(names)} ({listed(names)})"
        )
    if views.named and views.names != names:
        if set(views.names) != set(names):
            raise ValueError(f"received views named {listed(views.names)}; fit saw {listed(names)}")
        order = [views.names.index(name) for name in names]
        views = replace(
            views,
            arrays=tuple(views.arrays[v] for v in order),
            names=names,
            feature_names=tuple(views.feature_names[v] for v in order),
            present=None if views.present is None else views.present[:, order],
        )
    for v, name in enumerate(names):
        if views.n_features[v] != n_features[v]:
            raise ValueError(
                f"view {name!r} has {views.n_features[v]} features; fit saw {n_features[v]}"
            )
        new, old = views.feature_names[v], feature_names[v]
        if new is not None and old is not None and not np.array_equal(new, old):
            d = int(np.flatnonzero(new != old)[0])
            raise ValueError(
                f"view {name!r}: feature {d} is named {str(new[d])!r}, fit saw {str(old[d])!r}: "
                "features must come in the order of fit"
            )
    return views


def check_rows(views: Views) -> None:
    """Raise unless all views have the same number of rows, at least one."""
    first = views.arrays[0].shape[0]
    for name, array in zip(views.names, views.arrays, strict=True):
        if array.shape[0] != first:
            raise ValueError(
                f"view {name!r} has {array.shape[0]} rows, view {views.names[0]!r} has {first}: "
                "views describe the same samples, row by row"
            )
    if first == 0:
        raise ValueError(f"view {views.names[0]!r} has no rows; expected at least one sample")


def _plain(value: Any) -> Any:
    """Return a scalar of NumPy's as one of Python's, which is shown without its type."""
    return value.item() if isinstance(value, np.generic) else value


def check_indexes(indexes: list[tuple[str, Any]], what: str = "views ") -> None:
    """Raise unless the views, or `what` else has an index as DataFrames do, have the same one."""
    for name, index in indexes[1:]:
        first_name, first = indexes[0]
        if len(index) != len(first) or index.equals(first):
            continue
        # the types of indexes may differ where what they hold does not
        pairs = zip(list(index), list(first), strict=True)
        different = (n for n, (a, b) in enumerate(pairs) if not (a == b or (a != a and b != b)))
        n = next(different, None)
        if n is None:
            continue
        raise ValueError(
            f"{what}{first_name!r} and {name!r} have different indexes: row {n} is "
            f"{_plain(first[n])!r} in {first_name!r} and {_plain(index[n])!r} in {name!r}; "
            "align them first, for example with DataFrame.reindex"
        )


def check_values(
    name: str,
    array: Array,
    features: npt.NDArray[np.str_] | None,
    here: npt.NDArray[np.bool_] | None = None,
    *,
    warn: bool,
) -> None:
    """Refuse NaN and infinity, and, if asked to, warn of a view that carries nothing.

    Parameters
    ----------
    name : str
        Of the view.
    array : array
        The view.
    features : ndarray of str, or None
        Names of its features.
    here : ndarray of bool, optional
        Which samples have the view; by default all.
    warn : bool
        Whether to warn.
    """
    low, high = _whole_range(array)
    if not np.isfinite([low, high]).all():
        at, value = (None, low + high) if place_of(array) == "dask" else _first_not_finite(array)
        shown = "NaN" if np.isnan(value) else "infinity" if value > 0 else "-infinity"
        where = "" if at is None else f" at {position(at, features)}"
        way_out = (
            ": fill or leave out what is missing. That samples lack a whole view is said by "
            "as_views(..., present=...)"
        )
        raise ValueError(
            f"view {name!r} holds {shown}{where}; expected finite numbers"
            + (way_out if np.isnan(value) else "")
        )
    count = array.shape[0] if here is None else int(here.sum())
    if warn and count > 1 and (low == high or has_equal_rows(array, here)):
        warn_user(f"every sample of view {name!r} is the same: it carries nothing", ViewWarning)


def warn_of_numbers(
    name: str,
    array: Array,
    features: npt.NDArray[np.str_] | None,
    here: npt.NDArray[np.bool_] | None = None,
) -> None:
    """Warn of a feature that numbers the samples, in whichever order, as an index in a table does.

    Of arrays in this process only, and not of sparse ones, where nobody would put it. Parameters
    are those of :func:`check_values`.
    """
    if place_of(array) != "numpy" or sp.issparse(array):
        return
    n, likely = array.shape[0], np.arange(array.shape[1])
    there = None if here is None else np.flatnonzero(here)
    if (n if there is None else there.size) < _FEWEST_NUMBERED:
        return

    def some(rows: int | None, columns: Any) -> Array:
        if there is None:
            return array[:rows][:, columns]
        return array[np.ix_(there[:rows], columns)]

    # whole numbers that all differ and are not far apart: in ever more rows, of ever fewer features
    for rows in (100, 1_000, 10_000, None):
        if rows is None and likely.size > _MOST_NUMBERED:
            return  # ranks, rather than an index
        held = np.sort(some(rows, likely), axis=0)
        differ = (np.floor(held) == held).all(axis=0) & (held[1:] > held[:-1]).all(axis=0)
        likely = likely[differ & (held[-1] - held[0].astype(np.float64) < n)]
    for d in likely:
        shown = str(d) if features is None else repr(str(features[d]))
        column = some(None, [d])
        least, most = int(column.min()), int(column.max())
        warn_user(
            f"view {name!r}: feature {shown} numbers the samples, {least} to {most}; "
            "leave it out unless it was measured: clusters may follow it",
            ViewWarning,
        )


def _whole_range(array: Array) -> tuple[float, float]:
    if sp.issparse(array) or place_of(array) != "numpy":
        return value_range(array)
    low, high = np.inf, -np.inf
    step = max(1, _CHECK_BYTES // max(1, array[:1].nbytes))
    for begin in range(0, array.shape[0], step):  # a view on disk is read a part at a time
        bounds = value_range(array[begin : begin + step])
        if not np.isfinite(bounds).all():
            return bounds
        low, high = min(low, bounds[0]), max(high, bounds[1])
    return low, high


def has_equal_rows(array: Array, here: npt.NDArray[np.bool_] | None = None) -> bool:
    """Return whether every row of a view is the same, where a look at all of them is cheap.

    It is so for arrays in this process and dense tensors; for others it is taken that they differ.

    Parameters
    ----------
    array : array
        The view.
    here : ndarray of bool, optional
        Which samples have it; by default all.
    """
    place = place_of(array)
    if place == "dask" or (place == "torch" and not is_dense_tensor(array)):
        return False
    there = None if here is None else np.flatnonzero(here)
    count = array.shape[0] if there is None else there.size

    def rows(begin: int, end: int) -> Array:
        return array[begin:end] if there is None else array[there[begin:end]]

    if count < 2:
        return True
    # rows differ early or, if at all, late
    if sp.issparse(array):
        step = max(1, int(_CHECK_BYTES * array.shape[0] / max(1, 48 * array.nnz)))
        # a maximum over rows makes copies: a part at a time, each with a row of the one before
        parts = ((0, 2), *((begin, begin + step + 1) for begin in range(0, count, step)))
        return all(
            bool((part.max(axis=0) != part.min(axis=0)).nnz == 0)
            for part in (rows(*bounds) for bounds in parts)
        )
    step, first = max(1, _CHECK_BYTES // max(1, array[:1].nbytes)), rows(0, 1)
    parts = ((0, 2), *((begin, begin + step) for begin in range(0, count, step)))
    return all(bool((rows(*bounds) == first).all()) for bounds in parts)


def check_scale(views: Views, normalize: str | None) -> None:
    """Raise if products of the views, as they will be scaled, leave the range of their precision.

    Unit rows can be of almost any scale; standardised columns of any whose squares can be written
    down; views that are left as they are also need room for the products across all of them.
    """
    largest = float(np.finfo(views.dtype).max)
    power = _room(views, normalize)
    for name, array in zip(views.names, views.arrays, strict=True):
        low, high = _whole_range(array)
        peak = max(abs(low), abs(high))
        if not np.isfinite(low + high):
            raise ValueError(f"view {name!r} has entries that are not finite, put in since a check")
        too_large = peak * np.sqrt(array.shape[1]) > largest**power
        too_small = normalize is not None and 0.0 < peak < largest**-power
        if too_large or too_small:
            raise ValueError(
                f"view {name!r} has entries of size {peak:.3g}: with normalize={normalize!r} their "
                f"products leave the range of {views.dtype}; rescale them"
                + ("" if normalize == "rows" else ", or use normalize='rows'")
            )


def warn_of_single_features(views: Views) -> None:
    """Warn of views that are one feature of one sign, of which unit rows leave nothing."""
    for v, (name, array) in enumerate(zip(views.names, views.arrays, strict=True)):
        if array.shape[1] > 1 or array.shape[0] == 1:
            continue
        if views.present is not None and views.place == "numpy":  # not all tensors take indexes
            array = array[views.present[:, v]]
        low, high = _whole_range(array)
        if low < high and (low > 0 or high < 0):
            warn_user(
                f"view {name!r} is one feature of one sign: with normalize='rows' every sample of "
                "it is the same, and it carries nothing; use normalize='columns'",
                ViewWarning,
            )


def size_within_range(views: Views, v: int) -> float:
    """Return the size of entries of a view that :func:`check_scale` lets pass in any scaling."""
    largest = float(np.finfo(views.dtype).max)
    return float(largest ** _room(views, None) / np.sqrt(views.n_features[v]))


def _room(views: Views, normalize: str | None) -> float:
    """Return the power of the largest number that entries may reach."""
    return {"rows": 0.8, "columns": 0.4}.get(str(normalize), 0.4 / len(views))


def _first_not_finite(array: Array) -> tuple[tuple[int, ...], float]:
    if place_of(array) == "torch":
        return tensor_not_finite(array)
    if sp.issparse(array):
        at = int(np.flatnonzero(~np.isfinite(array.data))[0])
        row = int(np.searchsorted(array.indptr, at, side="right")) - 1
        return (row, int(array.indices[at])), float(array.data[at])
    for row in range(array.shape[0]):
        bad = np.flatnonzero(~np.isfinite(array[row]))
        if bad.size:
            return (row, int(bad[0])), float(array[row, bad[0]])
    raise AssertionError("no such entry")


def position(at: tuple[int, ...], features: npt.NDArray[np.str_] | None = None) -> str:
    """Return a place in an array, for a message."""
    if len(at) != 2:
        return f"position {at}"
    column = str(at[1]) if features is None else repr(str(features[at[1]]))
    return f"row {at[0]}, column {column}"


_READ_BYTES = 1 << 24


def warn_of_few_distinct(n_clusters: int, views: Views) -> None:
    """Warn of fewer distinct samples than clusters, which would have to split equal ones.

    Of arrays in this process only.
    """
    if views.place != "numpy":
        return
    distinct = _count_distinct(views, n_clusters)
    if distinct < n_clusters:
        warn_user(
            f"n_clusters={n_clusters} is more than the {distinct} distinct sample(s) among "
            f"{views.n_samples}: samples that are the same come into different clusters; expected "
            f"n_clusters of at most {distinct}",
            ConvergenceWarning,
        )


def _count_distinct(views: Views, enough: int) -> int:
    """Return the number of samples that differ in some view; no more are read than are `enough`."""
    per_row = sum(
        array.data.nbytes // views.n_samples if sp.issparse(array) else array[:1].nbytes
        for array in views.arrays
    )
    most = max(1, _READ_BYTES // max(1, per_row))
    seen: set[int] = set()
    begin = 0
    while begin < views.n_samples and len(seen) < enough:
        # of most data the very first rows differ
        end = begin + min(most, max(begin, enough))
        part = views.take(slice(begin, end))
        seen.update(map(hash, zip(*_keys_of_views(part), strict=True)))
        begin = end
    return len(seen)


def _keys_of_views(views: Views) -> list[list[Any]]:
    keys = [_keys(array) for array in views.arrays]
    if views.present is not None:
        # what a row holds that lacks the view does not matter
        for v, here in enumerate(views.present.T):
            keys[v] = [key if there else None for key, there in zip(keys[v], here, strict=True)]
    return keys


def _keys(array: Array) -> list[Any]:
    """Return of each row what equal ones share and others do not."""
    if sp.issparse(array):
        array = array.copy()
        array.eliminate_zeros()
        return [
            array.indices[row].tobytes() + array.data[row].tobytes()
            for row in (slice(*ends) for ends in pairwise(array.indptr))
        ]
    rows = np.ascontiguousarray(array + array.dtype.type(0))  # of two zeros with a sign each, one
    keys: list[Any] = rows.view(np.dtype((np.void, rows[:1].nbytes))).ravel().tolist()
    return keys
