"""What the values that SciPy loads from a MATLAB file are: cell arrays, matrices, strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["cell_strings", "described", "is_cell", "is_matrix", "unpacked"]


def is_cell(value: Any) -> bool:
    """Whether ``value`` is a cell array."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def is_matrix(value: Any) -> bool:
    """Whether ``value`` is a matrix of numbers, dense or sparse."""
    if sp.issparse(value):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiubc"


def cell_strings(value: Any) -> npt.NDArray[np.str_] | None:
    """Return the strings of a cell array or a character matrix, None where it is neither.

    Examples
    --------
    >>> cell_strings(np.array(["cat ", "bird"]))
    array(['cat', 'bird'], dtype='<U4')
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        # MATLAB pads the rows of a character matrix with blanks
        return np.char.rstrip(value.ravel(), " ")
    if not is_cell(value) or not value.size:
        return None
    items = value.ravel().tolist()
    if not all(isinstance(item, np.ndarray) and item.dtype.kind == "U" for item in items):
        return None
    return np.asarray(["".join(item.ravel()) for item in items], dtype=np.str_)


def unpacked(value: Any) -> list[Any]:
    """Return the items of a cell array, out of cell arrays of one item; no items of others."""
    if not is_cell(value):
        return []
    while value.size == 1 and is_cell(value.item()):
        value = value.item()
    return [_bare(item) for item in value.ravel().tolist()]


def described(value: Any) -> str:
    """Return the shape and the type of a value, or of each one by name, for a message.

    Examples
    --------
    >>> described({"X": np.eye(2), "k": np.array([[3]])})
    "'X' (2 x 2 float64), 'k' (1 x 1 int64)"
    """
    if isinstance(value, Mapping):
        parts = [f"{name!r} {described(item)}" for name, item in value.items()]
        return ", ".join(parts) or "nothing"
    kind = "cell array" if is_cell(value) else str(getattr(value, "dtype", type(value).__name__))
    sides = " x ".join(str(side) for side in getattr(value, "shape", ()))
    return f"({sides} {kind})" if sides else f"({kind})"


def _bare(item: Any) -> Any:
    while is_cell(item) and item.size == 1:
        item = item.item()
    return item
