"""What is missing: views of samples, and single cells.

Unknown cells are NaN until a fit puts the mean of the known ones in their place and remembers which
they are (``Views.known``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from array_api_compat import array_namespace, device
from scipy.sparse.csgraph import connected_components

from manyview.exceptions import ViewWarning, warn_user
from manyview.views.backends import blank_rows, is_dense_tensor, place_of
from manyview.views.checks import check_indexes, check_rows, position
from manyview.views.container import Array, Views, listed
from manyview.views.frames import as_numbers, first_non_number, is_frame, is_pandas

__all__ = [
    "check_present",
    "check_shared_samples",
    "fill_unknown",
    "has_unknown",
    "present_in_order",
    "read_unknown",
    "warn_of_unknown",
]

_MANY = 0.5  # part of unknown cells from which a view is warned of


def present_in_order(present: Any, views: Views, index: Any) -> npt.NDArray[Any]:
    """Return the caller's `present` as an array with one column per view, in the order of views.

    The columns of a DataFrame and the keys of a mapping name the views. `index` holds the names of
    the samples, or is None.
    """
    if not isinstance(present, Mapping) and not is_frame(present):
        return _as_array("present", present, "(samples, views)")
    is_mapping = isinstance(present, Mapping)
    given = [str(name) for name in (present if is_mapping else present.columns)]
    shown = f"{'keys' if is_mapping else 'columns'} {listed(given) or '(none)'}"
    if is_mapping:
        check_rows(views)
        if not views.named:
            raise ValueError(
                f"present has {shown}, and the views have no names; expected an array of shape "
                f"(samples, views) = {(views.n_samples, views.n_views)}, or a dict of views"
            )
    if views.named and sorted(given) != sorted(views.names):
        raise ValueError(
            f"present has {shown}; expected the names of the views, {listed(views.names)}"
        )
    if is_mapping:
        vectors = dict(zip(given, present.values(), strict=True))
        return _stacked({name: vectors[name] for name in views.names}, views.n_samples, index)
    if index is not None and is_pandas(present):
        check_indexes([("views", index), ("present", present.index)], what="")
    mask = np.asarray(present)
    return mask[:, [given.index(name) for name in views.names]] if views.named else mask


def _stacked(vectors: dict[str, Any], n_samples: int, index: Any) -> npt.NDArray[Any]:
    """Return vectors of one entry per sample as the columns of an array."""
    columns = []
    indexes = [] if index is None else [("views", index)]
    for name, vector in vectors.items():
        what = f"present[{name!r}]"
        column = _as_array(what, vector, "(samples,)")
        if column.shape != (n_samples,):
            raise ValueError(
                f"{what} has shape {column.shape}; expected (samples,) = {(n_samples,)}"
            )
        columns.append(column)
        if hasattr(vector, "iloc"):
            indexes.append((what, vector.index))
    check_indexes(indexes, what="")
    if any(column.dtype.kind not in "biuf" for column in columns):
        # stacking would turn all columns into text if one of them is text
        columns = [column.astype(np.object_) for column in columns]
    return np.stack(columns, axis=1)


def _as_array(what: str, values: Any, shape: str) -> npt.NDArray[Any]:
    if sp.issparse(values):
        raise ValueError(
            f"{what} is a sparse {type(values).__name__}; expected a dense array: its toarray()"
        )
    if np.ma.is_masked(values):
        raise ValueError(f"{what} has masked entries; expected True or False for every sample")
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} cannot be read as an array of shape {shape}: {error}") from error


def check_present(present: npt.ArrayLike, views: Views) -> npt.NDArray[np.bool_] | None:
    """Return `present` as a boolean array, or None if every sample has every view."""
    mask = np.asarray(present)
    expected = (views.n_samples, views.n_views)
    if mask.shape != expected:
        raise ValueError(f"present has shape {mask.shape}; expected (samples, views) = {expected}")
    # objects come, for example, from a DataFrame with missing values
    numbers = as_numbers(mask) if mask.dtype.kind == "O" else mask
    at: tuple[int, ...] | None = None
    if numbers is None:
        at, shown = first_non_number(mask)
    elif numbers.dtype.kind not in "biuf" and mask.size:
        at, shown = (0, 0), repr(mask[0, 0].item())
    elif (others := np.argwhere(~np.isin(numbers, (0, 1)))).size:
        at = tuple(others[0])
        shown = str(numbers[at])
    if at is not None:
        where = position(at, np.asarray(views.names) if views.named else None)
        raise ValueError(
            f"present holds {shown} at {where}; expected True and False (or 1 and 0) only"
        )
    mask = np.asarray(numbers, dtype=bool)
    without = np.flatnonzero(~mask.any(axis=1))
    if without.size:
        raise ValueError(f"sample {without[0]} is present in no view; drop such samples")
    return None if mask.all() else mask


def check_shared_samples(views: Views) -> None:
    """Raise if views fall into groups without a common sample: they cannot be fitted together.

    A view that no sample has belongs to no group.
    """
    if views.present is None:
        return
    in_common = views.present.T @ views.present
    count, group = connected_components(in_common, directed=False)
    held = in_common.diagonal()
    groups = [np.flatnonzero(held & (group == g)) for g in range(count)]
    named = [f"({listed([views.names[v] for v in members])})" for members in groups if members.size]
    if len(named) > 1:
        raise ValueError(
            f"no sample connects the groups of views {', '.join(named)}, so their clusters cannot "
            "be matched; expected samples with views of several groups, or one fit per group"
        )


# Unknown cells


def has_unknown(array: Array) -> bool:
    """Return whether NaN in an array stands for unknown cells: in dense arrays and tensors."""
    place = place_of(array)
    if place == "torch":
        return is_dense_tensor(array)
    return place == "numpy" and not sp.issparse(array)


def read_unknown(
    array: Array, here: npt.NDArray[np.bool_] | None
) -> tuple[Array, tuple[float, float], npt.NDArray[np.bool_], float]:
    """Return an array without NaN in rows that lack the view, and what is known about the others.

    These are the smallest and the largest known entry, which rows have any, and the part of
    unknown cells among these rows.
    """
    xp = array_namespace(array)
    unknown = xp.isnan(array)
    counts = np.asarray(_on_host(xp.count_nonzero(unknown, axis=1)))
    there = counts < array.shape[1]
    if here is not None:
        there &= here
    share = float(counts[there].sum()) / max(int(there.sum()) * array.shape[1], 1)
    if not there.all():
        array = blank_rows(array, there, 0.0)
        unknown = xp.isnan(array)
    known = array[~unknown]
    bounds = (float(known.min()), float(known.max())) if known.shape[0] else (0.0, 0.0)
    return array, bounds, there, share


def warn_of_unknown(name: str, share: float) -> None:
    """Warn of a view with few known cells."""
    if share > _MANY:
        warn_user(f"{share:.0%} of the cells of view {name!r} are unknown (NaN)", ViewWarning)


def fill_unknown(views: Views, means: Sequence[npt.NDArray[Any]] | None = None) -> Views:
    """Return views with the mean of each feature in the place of its unknown cells.

    Parameters
    ----------
    views : Views
        Checked views.
    means : list of ndarray of shape (n_features,), optional
        Means of the features of each view; by default those of the known cells.

    Returns
    -------
    Views
        Finite views, whose ``known`` says which cells were.
    """
    if views.unknown is None or views.known is not None:
        return views
    arrays, masks = list(views.arrays), list[Array | None]()
    for v, array in enumerate(arrays):
        masks.append(None)
        if not views.unknown[v]:
            continue
        xp = array_namespace(array)
        masks[v] = known = ~xp.isnan(array)
        mean = _means(array, known, views, v) if means is None else _placed(means[v], array)
        arrays[v] = xp.where(known, array, xp.astype(mean, array.dtype))
    return replace(views, arrays=tuple(arrays), known=tuple(masks))


def _means(array: Array, known: Array, views: Views, v: int) -> Array:
    """Return the mean of each feature over its known cells, 0 where there are none."""
    xp = array_namespace(array)
    if views.present is not None:
        known = known & _placed(views.present[:, v, None], array)
    counts = xp.clip(xp.astype(xp.count_nonzero(known, axis=0), xp.float64), 1.0, None)
    # divided first, because the sum of huge entries may overflow
    parts = xp.where(known, array / counts, xp.zeros_like(counts))
    return xp.sum(parts, axis=0)


def _placed(values: npt.NDArray[Any], array: Array) -> Array:
    return array_namespace(array).asarray(values, device=device(array))


def _on_host(array: Array) -> Array:
    return array.cpu() if place_of(array) == "torch" else array
