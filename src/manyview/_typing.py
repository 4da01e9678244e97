"""Type aliases of arrays and of parameters with a fixed choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "ArrayLike",
    "Floats",
    "Matrix",
    "NormalizeViews",
    "Preprocessing",
    "Scaling",
    "Strings",
    "SupportsArray",
]

Matrix = npt.NDArray[np.floating[Any]]
Floats = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]


class SupportsArray(Protocol):
    """What NumPy converts to an array, such as a Series or a tensor."""

    def __array__(self) -> npt.NDArray[Any]: ...


ArrayLike: TypeAlias = SupportsArray | list[Any] | tuple[Any, ...]
"""An array-like that is no string: ``Literal["a"] | npt.ArrayLike`` would accept any string."""

Scaling: TypeAlias = Literal["rows", "columns"]
"""Unit rows or standardised columns."""

Preprocessing: TypeAlias = Literal["default", "none", "rows", "columns"]
"""Scaling of the views in a comparison: that of the method, none, or the same for all."""

_Scaling: TypeAlias = Literal["auto", "rows", "columns", "log"] | None
NormalizeViews: TypeAlias = _Scaling | Sequence[_Scaling] | Mapping[str, _Scaling]
"""Scaling of all views, or of each: a list, or a dict by view name."""
