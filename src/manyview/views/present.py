"""Which sample has which view."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from manyview.views.checks import check_indexes, position
from manyview.views.container import Views, listed
from manyview.views.frames import is_frame, is_pandas

__all__ = ["check_present", "check_shared_samples", "present_in_order"]


def present_in_order(present: Any, views: Views, index: Any) -> npt.NDArray[Any]:
    """Return which sample has which view, by the views' names where a frame has columns for them.

    Parameters
    ----------
    present : array-like of shape (n_samples, n_views)
        Of the caller.
    views : Views
        The views.
    index : Index or None
        Names of their samples, where they have any.
    """
    if sp.issparse(present):
        raise ValueError(
            f"present is a sparse {type(present).__name__}; expected a dense array: its toarray()"
        )
    if not is_frame(present):
        try:
            return np.asarray(present)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"present cannot be read as an array of shape (samples, views): {error}"
            ) from error
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


def check_present(present: npt.ArrayLike, views: Views) -> npt.NDArray[np.bool_] | None:
    """Return which sample has which view as a boolean array, None where every one has all."""
    mask = np.asarray(present)
    expected = (views.n_samples, len(views))
    if mask.shape != expected:
        raise ValueError(f"present has shape {mask.shape}; expected (samples, views) = {expected}")
    if mask.dtype.kind == "O":  # as of a frame whose columns could hold missing values
        try:
            mask = mask.astype(np.float64)
        except (OverflowError, TypeError, ValueError):
            mask = mask.astype(np.str_)
    wrong = ~np.isin(mask, (0, 1)) | (mask.dtype.kind not in "biuf")
    if wrong.any():
        n, v = np.argwhere(wrong)[0]
        raise ValueError(
            f"present holds {mask[n, v]} at {position((n, v))}; expected True and False (or 1 and "
            "0) only"
        )
    mask = mask.astype(bool)
    if not mask.any(axis=1).all():
        n = int(np.flatnonzero(~mask.any(axis=1))[0])
        raise ValueError(f"sample {n} is present in no view; leave such samples out")
    return None if mask.all() else mask


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
