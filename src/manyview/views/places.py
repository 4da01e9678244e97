"""Where the rows of a view are: in this process, on the device of a tensor, in a Dask collection.

Nothing heavy is imported: an array of torch or Dask can only come from a caller who did.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.views.tensors import tensor_dtype, tensor_range

__all__ = ["Place", "dtype_of", "place_of", "value_range"]

Place: TypeAlias = Literal["numpy", "torch", "dask"]


def place_of(array: Any) -> Place:
    """Return where an array is, by the package that its type comes from."""
    roots = {base.__module__.partition(".")[0] for base in type(array).__mro__}
    if "torch" in roots and hasattr(array, "layout"):
        return "torch"
    if "dask" in roots and hasattr(array, "chunks"):
        return "dask"
    return "numpy"


def dtype_of(array: Any) -> np.dtype[Any]:
    """Return the type of an array's entries as NumPy names it."""
    if place_of(array) == "torch":
        return tensor_dtype(array)
    dtype: np.dtype[Any] = np.dtype(array.dtype)
    return dtype


def value_range(array: Any) -> tuple[float, float]:
    """Return the least and the largest entry, both NaN where one is; zeros of sparse ones count."""
    place = place_of(array)
    if place == "torch":
        return tensor_range(array)
    if place == "dask":
        return _collection_range(array)
    return _range(array)


def _range(array: Any) -> tuple[float, float]:
    if sp.issparse(array):
        low, high = _range(array.data)
        if array.nnz < array.shape[0] * array.shape[1]:
            low, high = min(low, 0.0), max(high, 0.0)
        return low, high
    if array.size == 0:
        return 0.0, 0.0
    if array.dtype == np.float16:
        return _half_range(array)
    # min and max propagate NaN, so that one pass tells finiteness and constancy
    return float(array.min()), float(array.max())


def _half_range(array: npt.NDArray[np.float16]) -> tuple[float, float]:
    """Return the least and the largest entry by their bits, which NumPy compares faster.

    As numbers with a sign, bits of positive entries are in order and above those of negative
    ones; as numbers without, bits of negative entries are in reverse order and above the others.
    """
    signed, unsigned = array.view(np.int16), array.view(np.uint16)
    any_negative, any_positive = signed.min() < 0, signed.max() >= 0
    low = (unsigned.max() if any_negative else unsigned.min()).view(np.float16)
    high = (signed.max() if any_positive else unsigned.min()).view(np.float16)
    if np.isnan(low) or np.isnan(high):
        return np.nan, np.nan
    return float(low), float(high)


def _collection_range(array: Any) -> tuple[float, float]:
    import dask

    ranges = dask.compute(*(dask.delayed(_range)(part) for part in array.to_delayed().ravel()))
    lows, highs = zip(*ranges, strict=True)
    return float(np.min(lows)), float(np.max(highs))
