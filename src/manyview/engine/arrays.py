"""Arrays of any namespace: NumPy's in this process, torch's on a device."""

from __future__ import annotations

from typing import Any, TypeAlias

import array_api_compat
import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "as_dtype",
    "largest",
    "namespace",
    "picked",
    "placed_like",
    "scattered",
    "to_numpy",
]

Array: TypeAlias = Any


def namespace(*arrays: Array) -> Any:
    """Return the array namespace that arrays share."""
    return array_api_compat.array_namespace(*arrays)


def as_dtype(array: Array, dtype: np.dtype[Any] | type[np.generic]) -> Array:
    """Return an array in a type that NumPy names, itself where it has that type already."""
    xp = namespace(array)
    return xp.astype(array, getattr(xp, np.dtype(dtype).name), copy=False)


def placed_like(values: npt.NDArray[Any], array: Array) -> Array:
    """Return NumPy values as an array of the namespace, and on the device, of another."""
    if isinstance(array, np.ndarray):
        return values
    return namespace(array).asarray(values, device=array_api_compat.device(array))


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Return an array of any namespace as one of NumPy, copied from its device if need be."""
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    return np.asarray(array)


def largest(rows: Array, count: int) -> Array:
    """Return where the largest entries of each row stand, the largest first."""
    if isinstance(rows, np.ndarray):
        top = np.argpartition(rows, rows.shape[1] - count, axis=1)[:, -count:]
        ranks = np.argsort(-np.take_along_axis(rows, top, axis=1), axis=1, kind="stable")
        return np.take_along_axis(top, ranks, axis=1).astype(np.int32)
    if array_api_compat.is_torch_array(rows):
        return rows.topk(count, dim=1).indices
    return namespace(rows).argsort(rows, axis=1, descending=True)[:, :count]


def picked(rows: Array, columns: Array) -> Array:
    """Return the entry of each row that stands in a column of its own."""
    return namespace(rows).take_along_axis(rows, columns[:, None], axis=1)[:, 0]


def scattered(columns: Array, values: Array, width: int) -> Array:
    """Return rows of zeros, `width` wide, with the same values in columns of each row's own."""
    if array_api_compat.is_torch_array(columns):
        rows = values.new_zeros((columns.shape[0], width))
        return rows.scatter_(1, columns, values.expand(columns.shape[0], -1))
    xp = namespace(columns)
    there = columns[:, :, None] == placed_like(np.arange(width), columns)
    return xp.sum(xp.where(there, values[:, None], xp.zeros_like(values)[:, None]), axis=1)
