"""Data frames and object arrays as numbers."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.views.checks import position

__all__ = [
    "as_numbers",
    "first_of_others",
    "frame_columns",
    "frame_values",
    "is_frame",
    "is_pandas",
    "numbers_of",
]

_NO_NUMBERS = (str, bytes, bytearray, np.datetime64, np.timedelta64, np.complexfloating)


def numbers_of(name: str, array: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    """Return the numbers in an array of objects; None becomes NaN.

    Raises
    ------
    ValueError
        Where it holds anything else, such as text and dates, or an integer out of range.
    """
    numbers = as_numbers(array)
    if numbers is not None:
        return numbers
    at, shown = first_of_others(array)
    raise ValueError(f"view {name!r} holds {shown} at {position(at)}; expected real numbers")


def first_of_others(array: npt.NDArray[np.object_]) -> tuple[tuple[int, ...], str]:
    """Return the place of the first object that is no number, and what it is, for a message."""
    at = next(at for at in np.ndindex(array.shape) if as_numbers(_alone(array[at])) is None)
    return at, _shown(array[at])


def as_numbers(array: npt.NDArray[np.object_]) -> npt.NDArray[np.float64] | None:
    """Return the numbers in an array of objects, None becoming NaN; None where it holds others."""
    if any(issubclass(kind, _NO_NUMBERS) for kind in set(map(type, array.flat))):
        return None
    try:
        return array.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        return None


def _alone(value: Any) -> npt.NDArray[np.object_]:
    array = np.empty(1, dtype=np.object_)
    array[0] = value
    return array


def _shown(value: Any) -> str:
    if isinstance(value, int):  # too large for a float, and perhaps to be printed
        return f"an integer of {value.bit_length()} bits"
    return reprlib.repr(value)


_SHOWN = 5


def is_frame(item: Any) -> bool:
    """Return whether a view is a DataFrame of pandas or polars."""
    return is_pandas(item) or _is_polars(item)


def is_pandas(item: Any) -> bool:
    """Return whether a view is a DataFrame with an index, as those of pandas."""
    return hasattr(item, "iloc") and hasattr(item, "columns")


def _is_polars(item: Any) -> bool:
    kind = type(item)
    return kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "DataFrame"


def frame_columns(frame: Any) -> npt.NDArray[np.str_]:
    """Return the names of the columns."""
    return np.asarray([str(column) for column in frame.columns], dtype=np.str_)


def frame_values(name: str, frame: Any) -> Any:
    """Return the numbers of a DataFrame, as a sparse array where all of its columns are sparse.

    Raises
    ------
    ValueError
        If there are columns that do not hold numbers.
    """
    return _values_of_polars(name, frame) if _is_polars(frame) else _values_of_pandas(name, frame)


def _values_of_polars(name: str, frame: Any) -> Any:
    kinds = frame.schema.items()
    bad = [(column, str(dtype)) for column, dtype in kinds if not _is_numeric_in_polars(dtype)]
    if bad:
        raise _non_numeric(name, len(bad), bad[:_SHOWN])
    values = frame.to_numpy()
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _values_of_pandas(name: str, frame: Any) -> Any:
    dtypes = list(frame.dtypes)
    # by their places: columns may have the same name
    objects = {
        d: frame.iloc[:, d].to_numpy()
        for d, dtype in enumerate(dtypes)
        if dtype == np.dtype(np.object_)
    }
    numbers = {d: as_numbers(column) for d, column in objects.items()}
    bad = [d for d, dtype in enumerate(dtypes) if numbers.get(d) is None and not _is_numeric(dtype)]
    if bad:
        shown = [(frame.columns[d], _kind(dtypes[d], objects.get(d))) for d in bad[:_SHOWN]]
        raise _non_numeric(name, len(bad), shown)
    if numbers:
        values = np.empty(frame.shape, dtype=np.float64)
        others = [d for d in range(len(dtypes)) if d not in numbers]
        values[:, others] = frame.iloc[:, others].to_numpy(dtype=np.float64, na_value=np.nan)
        for d, column in numbers.items():
            values[:, d] = column
        return values
    if dtypes and all(getattr(dtype, "fill_value", None) == 0 for dtype in dtypes):
        return frame.sparse.to_coo()
    if any(hasattr(dtype, "na_value") for dtype in dtypes):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    values = frame.to_numpy()
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _kind(dtype: Any, objects: npt.NDArray[np.object_] | None) -> str:
    """Return what a column holds that is not numeric; of one of objects, the first that is none."""
    if objects is None:
        return str(dtype)
    (row,), shown = first_of_others(objects)
    return f"{dtype}: {shown} at row {row}"


def _non_numeric(name: str, count: int, shown: list[tuple[Any, str]]) -> ValueError:
    columns = ", ".join(f"{str(column)!r} ({kind})" for column, kind in shown)
    return ValueError(
        f"view {name!r} has {count} non-numeric column(s): {columns}"
        f"{', ...' if count > len(shown) else ''}; expected numbers only: leave them out, or "
        "make numbers of them first"
    )


def _is_numeric(dtype: Any) -> bool:
    # a sparse type holds numbers of its subtype; so does one of intervals, which are none
    held = dtype.subtype if hasattr(dtype, "fill_value") else dtype
    return getattr(held, "kind", "O") in tuple("fiub")


def _is_numeric_in_polars(dtype: Any) -> bool:
    return bool(dtype.is_float() or dtype.is_integer() or str(dtype) == "Boolean")
