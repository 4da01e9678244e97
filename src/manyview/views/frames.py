"""Numbers from data frames and object arrays."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_numbers", "first_non_number", "frame_values", "is_frame", "is_pandas"]

# NumPy converts these to numbers without an error
_NO_NUMBERS = (str, bytes, bytearray, np.datetime64, np.timedelta64, np.complexfloating)


def is_frame(item: Any) -> bool:
    """Return whether an object is a DataFrame of pandas or polars."""
    return is_pandas(item) or _is_polars(item)


def is_pandas(item: Any) -> bool:
    """Return whether an object is a DataFrame with an index, as those of pandas."""
    return hasattr(item, "iloc") and hasattr(item, "columns")


def _is_polars(item: Any) -> bool:
    kind = type(item)
    return kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "DataFrame"


def as_numbers(array: npt.NDArray[np.object_]) -> npt.NDArray[np.float64] | None:
    """Return an object array as floats, with NaN for None; None if it holds anything else."""
    if any(issubclass(kind, _NO_NUMBERS) for kind in set(map(type, array.flat))):
        return None
    try:
        return array.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        return None


def first_non_number(array: npt.NDArray[np.object_]) -> tuple[tuple[int, ...], str]:
    """Return the index of the first object that is no number, and the object for a message."""
    for at in np.ndindex(array.shape):
        alone = np.empty(1, dtype=np.object_)
        alone[0] = value = array[at]
        if as_numbers(alone) is None:
            break
    if isinstance(value, int):  # too large for a float, and perhaps for a message
        return at, f"an integer of {value.bit_length()} bits"
    return at, reprlib.repr(value)


def frame_values(name: str, frame: Any) -> Any:
    """Return the numbers of a DataFrame, as a sparse array if all of its columns are sparse."""
    if _is_polars(frame):
        kinds = frame.schema.items()
        _check_columns(name, [(key, str(kind)) for key, kind in kinds if not _is_number(kind)])
        return _plain(frame.to_numpy())
    dtypes = list(frame.dtypes)
    # by position: columns may share a name
    objects = {
        d: frame.iloc[:, d].to_numpy() for d, dtype in enumerate(dtypes) if dtype == np.object_
    }
    numbers = {d: as_numbers(column) for d, column in objects.items()}
    bad = [d for d, dtype in enumerate(dtypes) if numbers.get(d) is None and not _is_number(dtype)]
    _check_columns(name, [(frame.columns[d], _held(dtypes[d], objects.get(d))) for d in bad])
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
    return _plain(frame.to_numpy())


def _plain(values: Any) -> Any:
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _is_number(dtype: Any) -> bool:
    """Return whether a dtype of pandas or polars is one of real numbers."""
    if hasattr(dtype, "is_float"):
        return bool(dtype.is_float() or dtype.is_integer() or str(dtype) == "Boolean")
    # sparse dtypes hold numbers of their subtype; interval dtypes have a subtype but no numbers
    held = dtype.subtype if hasattr(dtype, "fill_value") else dtype
    return getattr(held, "kind", "O") in tuple("fiub")


def _held(dtype: Any, objects: npt.NDArray[np.object_] | None) -> str:
    """Return what a non-numeric column holds: its dtype, and the first object if it has objects."""
    if objects is None:
        return str(dtype)
    (row,), shown = first_non_number(objects)
    return f"{dtype}: {shown} at row {row}"


def _check_columns(name: str, bad: list[tuple[Any, str]], most: int = 5) -> None:
    """Raise if there are columns without numbers."""
    if bad:
        shown = ", ".join(f"{str(column)!r} ({kind})" for column, kind in bad[:most])
        raise ValueError(
            f"view {name!r} has {len(bad)} non-numeric column(s): {shown}"
            f"{', ...' if len(bad) > most else ''}; expected numbers only: drop or encode them"
        )
