"""Views that are arrays of Python objects."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.views.checks import position

__all__ = ["as_numbers", "first_of_others", "numbers_of"]

# which NumPy would make numbers of
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
