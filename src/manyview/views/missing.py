"""Missing views: which sample has which view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from manyview.views.checks import check_indexes, check_rows, position
from manyview.views.container import Views, listed
from manyview.views.frames import as_numbers, first_of_others, is_frame, is_pandas

__all__ = ["check_present", "check_shared_samples", "present_in_order"]


def present_in_order(present: Any, views: Views, index: Any) -> npt.NDArray[Any]:
    """Return which sample has which view, by the views' names where the caller gave them.

    Parameters
    ----------
    present : array-like of shape (n_samples, n_views), or mapping of str to array-like
        Of the caller. The columns of a frame and the keys of a mapping name the views.
    views : Views
        The views.
    index : Index or None
        Names of their samples, where they have any.
    """
    if isinstance(present, Mapping):
        return _by_name(present, views, index)
    if not is_frame(present):
        return _as_array("present", present, "(samples, views)")
    columns = [str(column) for column in present.columns]
    if views.named and sorted(columns) != sorted(views.names):
        raise ValueError(
            f"present has columns {listed(columns)}; expected the names of the views, "
            f"{listed(views.names)}"
        )
    if index is not None and is_pandas(present):
        check_indexes([("views", index), ("present", present.index)], what="")
    mask = np.asarray(present)
    return mask[:, [columns.index(name) for name in views.names]] if views.named else mask


def _by_name(present: Mapping[Any, Any], views: Views, index: Any) -> npt.NDArray[Any]:
    given = [str(name) for name in present]
    keys = f"keys {listed(given)}" if given else "no keys"
    check_rows(views)
    if not views.named:
        expected = (views.n_samples, len(views))
        raise ValueError(
            f"present has {keys}, and the views have no names; expected an array of "
            f"shape (samples, views) = {expected}, or the views as a dict too"
        )
    if sorted(given) != sorted(views.names):
        raise ValueError(
            f"present has {keys}; expected the names of the views, {listed(views.names)}"
        )
    vectors = dict(zip(given, present.values(), strict=True))
    columns = []
    for name in views.names:
        column = _as_array(f"present[{name!r}]", vectors[name], "(samples,)")
        if column.shape != (views.n_samples,):
            raise ValueError(
                f"present[{name!r}] has shape {column.shape}; expected (samples,) = "
                f"{(views.n_samples,)}"
            )
        columns.append(column)
    indexes = [
        (f"present[{name!r}]", vectors[name].index)
        for name in views.names
        if hasattr(vectors[name], "iloc")
    ]
    check_indexes(indexes if index is None else [("views", index), *indexes], what="")
    if any(column.dtype.kind not in "biuf" for column in columns):
        # NumPy would write what is right in one view as text where another holds text
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
    """Return which sample has which view as a boolean array, None where every one has all."""
    mask = np.asarray(present)
    expected = (views.n_samples, len(views))
    if mask.shape != expected:
        raise ValueError(f"present has shape {mask.shape}; expected (samples, views) = {expected}")
    if mask.dtype.kind == "O":  # as of a frame whose columns could hold missing values
        numbers = as_numbers(mask)
        if numbers is None:
            raise _other_value(*first_of_others(mask), views)
        mask = numbers
    numeric = mask.dtype.kind in "biuf"
    wrong = ~np.isin(mask, (0, 1)) if numeric else np.ones(mask.shape, dtype=bool)
    if wrong.any():
        n, v = np.argwhere(wrong)[0]
        shown = str(mask[n, v]) if numeric else repr(mask[n, v].item())
        raise _other_value((n, v), shown, views)
    mask = mask.astype(bool)
    if not mask.any(axis=1).all():
        n = int(np.flatnonzero(~mask.any(axis=1))[0])
        raise ValueError(f"sample {n} is present in no view; leave such samples out")
    return None if mask.all() else mask


def _other_value(at: tuple[int, ...], shown: str, views: Views) -> ValueError:
    where = position(at, np.asarray(views.names) if views.named else None)
    return ValueError(
        f"present holds {shown} at {where}; expected True and False (or 1 and 0) only"
    )


def check_shared_samples(views: Views) -> None:
    """Raise where views fall into groups that no sample joins: they cannot be fitted together.

    A view that no sample has is in no group.
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
            f"no sample has views of more than one of {', '.join(named)}: nothing says which "
            "clusters of the one are which of the other; expected samples in common, or fit each "
            "by itself"
        )
