"""Validation of views, and warnings about views that cannot help a clustering.

:func:`manyview.views.as_views` reads every view once. It rejects entries that are not finite and
keeps the smallest and the largest entry, which the checks of a fit use again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import ViewWarning, warn_user
from manyview.views.backends import first_nonfinite, is_dense_tensor, place_of, value_range
from manyview.views.container import Array, Views, listed

__all__ = [
    "ROUNDING_OF_MEAN",
    "SCALINGS",
    "Normalize",
    "check_compressed",
    "check_finite",
    "check_indexes",
    "check_n_clusters",
    "check_rows",
    "check_same_views",
    "check_scale",
    "has_equal_rows",
    "normalize_by_view",
    "position",
    "size_within_range",
    "warn_of_few_distinct",
    "warn_of_single_features",
    "warn_of_view",
]

ROUNDING_OF_MEAN = 1e-11
"""A feature whose deviation is below this part of its mean is constant but for rounding."""

SCALINGS = ("rows", "columns", "log", None)

_CHECK_BYTES = 1 << 24  # rows that are compared at a time

_FEWEST_NUMBERED = 10  # with fewer samples, consecutive numbers may well be measurements
_MOST_NUMBERED = 3  # with more such features in a view, they are ranks rather than indexes


# Shapes and names


def check_compressed(array: Any) -> None:
    """Raise ValueError if a CSR or CSC array points outside itself.

    SciPy's compiled code follows indices unchecked: those of a damaged file, or of a memory map of
    a file that is still being written, could read and write memory outside the array.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> check_compressed(sp.csr_array(([1.0, 2.0], [0, 7], [0, 1, 2]), shape=(2, 3)))
    Traceback (most recent call last):
    ...
    ValueError: indices must be < 3
    """
    # check_format compares nothing more if the last pointer says that nothing is stored
    if (np.diff(array.indptr) < 0).any():
        raise ValueError("the pointers to the rows or columns of a sparse array decrease")
    array.check_format(full_check=True)


def check_rows(views: Views) -> None:
    """Raise unless all views have the same number of rows, at least one."""
    first = views.n_samples
    for name, array in zip(views.names, views.arrays, strict=True):
        if array.shape[0] != first:
            raise ValueError(
                f"view {name!r} has {array.shape[0]} rows, view {views.names[0]!r} has {first}; "
                "all views must have the same samples. as_views(..., join='outer') joins data "
                "frames by their index. To split samples, as with train_test_split, split "
                "as_views(...) of all views"
            )
    if first == 0:
        raise ValueError(f"view {views.names[0]!r} has no rows; expected at least one sample")


def check_indexes(indexes: list[tuple[str, Any]], what: str = "views ") -> None:
    """Raise unless all of the named pandas indexes of one length hold the same."""
    for name, index in indexes[1:]:
        first_name, first = indexes[0]
        if len(index) != len(first) or index.equals(first):
            continue
        # indexes of different types may hold the same; NaN agrees with NaN
        for n, (a, b) in enumerate(zip(first.tolist(), index.tolist(), strict=True)):
            if a != b and (a == a or b == b):
                raise ValueError(
                    f"{what}{first_name!r} and {name!r} have different indexes: row {n} is {a!r} "
                    f"in {first_name!r} and {b!r} in {name!r}; align them first, for example with "
                    f"{'join, or with ' if what else ''}DataFrame.reindex"
                )


def check_n_clusters(n_clusters: int, views: Views) -> None:
    """Raise unless the samples can form `n_clusters` clusters."""
    if isinstance(n_clusters, bool):  # which scikit-learn takes for an integer
        raise ValueError(f"n_clusters={n_clusters}; expected an integer of at least 1")
    if n_clusters > views.n_samples:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {views.n_samples} samples received; "
            "every cluster needs at least one sample"
        )


def check_same_views(
    views: Views,
    *,
    names: Sequence[str],
    n_features: Sequence[int],
    feature_names: Sequence[npt.NDArray[np.str_] | None],
) -> Views:
    """Return `views` in the order of fit; raise if views or features differ from those of fit.

    Named views may come in any order; views without names are taken by position.
    """
    names = tuple(names)
    if views.n_views != len(names):
        raise ValueError(
            f"received {views.n_views} view(s) ({listed(views.names)}); expected the "
            f"{len(names)} of fit ({listed(names)}). Mark missing views with "
            "as_views(..., present=...), or leave them out of a dict"
        )
    if views.named and views.names != names:
        if set(views.names) != set(names):
            raise ValueError(
                f"received views named {listed(views.names)}; expected those of fit, "
                f"{listed(names)}"
            )
        order = [views.names.index(name) for name in names]
        views = replace(
            views,
            arrays=tuple(views.arrays[v] for v in order),
            names=names,
            feature_names=tuple(views.feature_names[v] for v in order),
            present=None if views.present is None else views.present[:, order],
            ranges=_reordered(views.ranges, order),
            unknown=_reordered(views.unknown, order),
            known=_reordered(views.known, order),
        )
    for v, name in enumerate(names):
        if views.n_features[v] != n_features[v]:
            raise ValueError(
                f"view {name!r} has {views.n_features[v]} features; "
                f"expected {n_features[v]}, as in fit"
            )
        new, old = views.feature_names[v], feature_names[v]
        if new is not None and old is not None and not np.array_equal(new, old):
            d = int(np.flatnonzero(new != old)[0])
            raise ValueError(
                f"view {name!r}: feature {d} is named {str(new[d])!r}; expected {str(old[d])!r}, "
                "as in fit: features must have the same order (manyview.views.align_to sorts them)"
            )
    return views


def _reordered(parts: tuple[Any, ...] | None, order: Sequence[int]) -> tuple[Any, ...] | None:
    return None if parts is None else tuple(parts[v] for v in order)


# Values


def check_finite(
    name: str,
    array: Array,
    features: npt.NDArray[np.str_] | None,
    bounds: tuple[float, float],
) -> None:
    """Raise if a view, whose smallest and largest entries are `bounds`, holds NaN or infinity."""
    if np.isfinite(bounds).all():
        return
    value, where = sum(bounds), ""
    if place_of(array) != "dask":
        if not sp.issparse(array) and not np.isnan(bounds).any():  # NaN are unknown cells
            if place_of(array) == "torch":
                array = array.nan_to_num(0.0, np.inf, -np.inf)
            else:
                array = np.nan_to_num(array, nan=0.0, posinf=np.inf, neginf=-np.inf)
        at, value = first_nonfinite(array)
        where = f" at {position(at, features)}"
    shown = "NaN" if np.isnan(value) else "infinity" if value > 0 else "-infinity"
    message = f"view {name!r} holds {shown}{where}; expected finite numbers"
    if np.isnan(value):
        message += (
            "; unknown cells are supported in dense arrays of NumPy and torch. If samples miss the "
            "whole view, pass as_views(..., present=...)"
        )
    raise ValueError(message)


def position(at: tuple[int, ...], features: npt.NDArray[np.str_] | None = None) -> str:
    """Return a position in an array, for a message."""
    if len(at) != 2:
        return f"position {at}"
    column = str(at[1]) if features is None else repr(str(features[at[1]]))
    return f"row {at[0]}, column {column}"


Normalize: TypeAlias = str | Sequence[str | None] | Mapping[str, str | None] | None
"""Scaling of all views or of each, not validated: unit rows, standardised columns, or neither, or
unit rows of the logarithms of counts."""


def normalize_by_view(
    normalize: Normalize, views: Views, choices: Sequence[str | None] = SCALINGS
) -> list[str | None]:
    """Return the scaling of each view, given one for all, a list, or a dict by view name.

    Views that a dict does not name have the first of the choices.

    Examples
    --------
    >>> from manyview import as_views
    >>> views = as_views({"text": [[1.0], [2.0]], "clinic": [[3.0], [4.0]]})
    >>> normalize_by_view({"clinic": "columns"}, views)
    ['rows', 'columns']
    """
    if normalize is None or isinstance(normalize, str):
        found = [normalize] * views.n_views
    elif isinstance(normalize, Mapping):
        unknown = [name for name in normalize if name not in views.names]
        if unknown:
            raise ValueError(
                f"normalize names the view {unknown[0]!r}; the views are {', '.join(views.names)}"
            )
        found = [normalize.get(name, choices[0]) for name in views.names]
    else:
        found = list(normalize)
        if len(found) != views.n_views:
            raise ValueError(
                f"normalize has {len(found)} entries; expected one for each of the "
                f"{views.n_views} views"
            )
    found = [str(of_view) if isinstance(of_view, str) else of_view for of_view in found]
    for name, of_view in zip(views.names, found, strict=True):
        if of_view not in choices:
            raise ValueError(
                f"normalize is {of_view!r} for view {name!r}; expected one of "
                f"{', '.join(map(repr, choices))}"
            )
    return found


def check_scale(views: Views, normalize: Normalize) -> None:
    """Raise if products of the scaled views overflow or underflow their precision.

    With unit rows, entries may have almost any size. With standardised columns, their squares must
    be representable; without scaling, the products across all views. Counts may not be negative.
    """
    largest = float(np.finfo(views.dtype).max)
    ranges = views.ranges or tuple(map(value_range, views.arrays))
    by_view = normalize_by_view(normalize, views)
    each = zip(views.names, views.arrays, by_view, ranges, strict=True)
    for v, (name, array, of_view, (low, high)) in enumerate(each):
        power = _power_of_largest(views, of_view)
        if not np.isfinite(low + high):
            raise ValueError(
                f"view {name!r} has entries that are not finite; they were changed after as_views"
            )
        if of_view == "log" and low < 0 and (low := _lowest(views, v)) < 0:
            raise ValueError(
                f"view {name!r} has negative entries, the lowest {low:.3g}; normalize='log' "
                "expects counts. Use 'rows' or 'columns' for this view"
            )
        peak = max(abs(low), abs(high))
        too_large = peak * np.sqrt(array.shape[1]) > largest**power
        too_small = of_view is not None and 0.0 < peak < largest**-power
        if too_large or too_small:
            raise ValueError(
                f"view {name!r} has entries of size {peak:.3g}: with normalize={of_view!r} their "
                f"products leave the range of {views.dtype}; rescale them"
                + ("" if of_view in ("rows", "log") else ", or use normalize='rows'")
            )


def _lowest(views: Views, v: int) -> float:
    """Return the smallest entry of the samples that have a view."""
    array = views.arrays[v]
    if views.present is None or views.place == "dask":
        return value_range(array)[0]
    return value_range(views.take(views.present[:, v]).arrays[v])[0]


def size_within_range(views: Views, v: int) -> float:
    """Return the size of entries of a view that :func:`check_scale` accepts in any scaling."""
    largest = float(np.finfo(views.dtype).max)
    return float(largest ** _power_of_largest(views, None) / np.sqrt(views.n_features[v]))


def _power_of_largest(views: Views, normalize: str | None) -> float:
    """Return the power of the largest representable number that entries may reach."""
    return {"rows": 0.8, "log": 0.8, "columns": 0.4}.get(str(normalize), 0.4 / views.n_views)


# Warnings


def warn_of_view(
    name: str,
    array: Array,
    features: npt.NDArray[np.str_] | None,
    bounds: tuple[float, float],
    here: npt.NDArray[np.bool_] | None,
) -> None:
    """Warn of a view without effect, and of features that number the samples.

    `here` marks the samples that have the view; None stands for all.
    """
    count = array.shape[0] if here is None else int(here.sum())
    if count == 0:
        warn_user(f"no sample has view {name!r}; it does not affect the result", ViewWarning)
    if count > 1 and (bounds[0] == bounds[1] or has_equal_rows(array, here)):
        warn_user(f"view {name!r} is constant and does not affect the result", ViewWarning)
    # nobody puts an index into a sparse array
    if count >= _FEWEST_NUMBERED and place_of(array) == "numpy" and not sp.issparse(array):
        _warn_of_numbers(name, array, features, here)


def has_equal_rows(
    array: Array,
    here: npt.NDArray[np.bool_] | None = None,
    *,
    chunk_bytes: int = _CHECK_BYTES,
) -> bool:
    """Return whether all rows of a view are equal, or those of the samples that are `here`.

    Reading stops at the first difference. False for Dask arrays and sparse tensors, whose rows are
    expensive to compare.
    """
    place = place_of(array)
    if place == "dask" or (place == "torch" and not is_dense_tensor(array)):
        return False
    rows = None if here is None else np.flatnonzero(here)
    count = array.shape[0] if rows is None else rows.size
    if count < 2:
        return True
    if sp.issparse(array):
        return _has_equal_sparse_rows(array if rows is None else array[rows])

    def part(begin: int, end: int) -> Array:
        return array[begin:end] if rows is None else array[rows[begin:end]]

    first = part(0, 1)
    step = max(1, chunk_bytes // max(1, first.nbytes))
    # rows that differ at all mostly differ at once
    bounds = ((0, 2), *((begin, begin + step) for begin in range(0, count, step)))
    return all(bool((part(begin, end) == first).all()) for begin, end in bounds)


def _has_equal_sparse_rows(array: sp.csr_array) -> bool:
    if not array.data.all():
        array = array.copy()
        array.eliminate_zeros()
    width = int(array.indptr[1])
    if (np.diff(array.indptr) != width).any():
        return False
    shape = (array.shape[0], width)
    parts = (part[: array.nnz].reshape(shape) for part in (array.indices, array.data))
    return all(bool((part == part[0]).all()) for part in parts)


def _warn_of_numbers(
    name: str,
    array: Array,
    features: npt.NDArray[np.str_] | None,
    here: npt.NDArray[np.bool_] | None,
) -> None:
    """Warn of features that number the samples in any order, as the index of a table does."""
    n, likely = array.shape[0], np.arange(array.shape[1])
    rows = np.arange(n) if here is None else np.flatnonzero(here)
    # distinct integers in a narrow range: in ever more rows, of ever fewer features
    for count in (100, 1_000, 10_000, None):
        if count is None and likely.size > _MOST_NUMBERED:
            return
        held = np.sort(array[np.ix_(rows[:count], likely)], axis=0)
        with np.errstate(invalid="ignore"):  # of NaN in half precision
            distinct = (np.floor(held) == held).all(axis=0) & (held[1:] > held[:-1]).all(axis=0)
            narrow = held[-1] - held[0].astype(np.float64) < n
        likely, held = likely[distinct & narrow], held[:, distinct & narrow]
    for d, column in zip(likely, held.T, strict=True):
        shown = str(d) if features is None else repr(str(features[d]))
        warn_user(
            f"view {name!r}: feature {shown} numbers the samples from {int(column[0])} to "
            f"{int(column[-1])}, as an index does; drop it unless it is a measurement",
            ViewWarning,
        )


def warn_of_single_features(views: Views, normalize: Normalize) -> None:
    """Warn of views with a single feature of one sign, which become constant in unit rows.

    Samples that are standardised become constant whatever the signs.
    """
    by_view = normalize_by_view(normalize, views, ("auto", "zscore", *SCALINGS))
    for v, (name, array) in enumerate(zip(views.names, views.arrays, strict=True)):
        standardised = by_view[v] == "zscore"
        scaled = standardised or by_view[v] == "rows"
        if not scaled or array.shape[1] > 1 or array.shape[0] == 1:
            continue
        if views.present is not None and views.place == "numpy":  # not all tensors take indexes
            low, high = value_range(array[views.present[:, v]])
        else:
            low, high = value_range(array) if views.ranges is None else views.ranges[v]
        if low < high and (standardised or low > 0 or high < 0):
            sign = "" if standardised else ", and all of its values have the same sign"
            warn_user(
                f"view {name!r} has a single feature{sign}; with normalize={by_view[v]!r} it is "
                "constant and does not affect the result; use normalize='columns'",
                ViewWarning,
            )


def warn_of_few_distinct(n_clusters: int, views: Views, *, chunk_bytes: int = _CHECK_BYTES) -> None:
    """Warn if there are fewer distinct samples than clusters, for NumPy and SciPy arrays.

    Samples are read until `n_clusters` of them differ.
    """
    if views.place != "numpy":
        return
    row_bytes = sum(
        array.data.nbytes // views.n_samples if sp.issparse(array) else array[:1].nbytes
        for array in views.arrays
    )
    most = max(1, chunk_bytes // max(1, row_bytes))
    seen: set[int] = set()
    begin = 0
    while begin < views.n_samples and len(seen) < n_clusters:
        end = begin + min(most, max(begin, n_clusters))
        part = views.take(slice(begin, end))
        present = [None] * views.n_views if part.present is None else part.present.T
        keys = map(_row_keys, part.arrays, present)
        seen.update(map(hash, zip(*keys, strict=True)))
        begin = end
    if len(seen) < n_clusters:
        warn_user(
            f"n_clusters={n_clusters} is more than the {len(seen)} distinct samples among "
            f"{views.n_samples}, so equal samples are put into different clusters; expected "
            f"n_clusters of at most {len(seen)}",
            ConvergenceWarning,
        )


def _row_keys(array: Array, here: npt.NDArray[np.bool_] | None) -> list[Any]:
    """Return one hashable value per row, the same for equal rows; None for missing views."""
    if sp.issparse(array):
        array = array.copy()
        array.eliminate_zeros()
        bounds = list(pairwise(array.indptr))
        keys = [array.indices[a:b].tobytes() + array.data[a:b].tobytes() for a, b in bounds]
    else:
        # adding zero turns -0 into 0
        keys = [row.tobytes() for row in np.asarray(array + array.dtype.type(0))]
    return keys if here is None else [k if has else None for k, has in zip(keys, here, strict=True)]
