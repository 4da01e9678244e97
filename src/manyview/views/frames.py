"""Views that are DataFrames, of pandas or polars: known by what they have, and not imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["frame_columns", "frame_values", "is_frame", "is_pandas"]

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
    of_polars = _is_polars(frame)
    kinds = list(frame.schema.items()) if of_polars else list(frame.dtypes.items())
    is_numeric = _is_numeric_in_polars if of_polars else _is_numeric
    bad = [f"{str(column)!r} ({dtype})" for column, dtype in kinds if not is_numeric(dtype)]
    if bad:
        raise ValueError(
            f"view {name!r} has {len(bad)} non-numeric column(s): {', '.join(bad[:_SHOWN])}"
            f"{', ...' if len(bad) > _SHOWN else ''}; expected numbers only: leave them out, or "
            "make numbers of them first"
        )
    if of_polars:
        values = frame.to_numpy()
        return values.astype(np.float64) if values.dtype.kind == "O" else values
    if kinds and all(getattr(dtype, "fill_value", None) == 0 for _, dtype in kinds):
        return frame.sparse.to_coo()
    if any(hasattr(dtype, "na_value") for _, dtype in kinds):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    values = frame.to_numpy()
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _is_numeric(dtype: Any) -> bool:
    # a sparse type holds numbers of its subtype; so does one of intervals, which are none
    held = dtype.subtype if hasattr(dtype, "fill_value") else dtype
    return getattr(held, "kind", "O") in tuple("fiub")


def _is_numeric_in_polars(dtype: Any) -> bool:
    return bool(dtype.is_float() or dtype.is_integer() or str(dtype) == "Boolean")
