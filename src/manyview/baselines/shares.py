"""A view as shares of its sum: nonnegative entries that add up to 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manyview._typing import Floats
from manyview.views import Array

__all__ = ["Share", "share_of"]


_LARGEST = 1e150  # sum of a view whose square can be written down


@dataclass(frozen=True)
class Share:
    """A view plus a number, over the sum of its entries: neither is applied to the array."""

    array: Array
    shift: float
    total: float
    square_norm: float

    def times(self, basis: Floats) -> Floats:
        """Return X U."""
        return self._finished(self.array @ basis, basis)

    def pull(self, coefficients: Floats) -> Floats:
        """Return X' V."""
        if sp.issparse(self.array):
            return self._finished(self.array.T @ coefficients, coefficients)
        # the same, in the order in which rows lie in memory
        return self._finished((coefficients.T @ self.array).T, coefficients)

    def _finished(self, product: Floats, factor: Floats) -> Floats:
        if self.shift:
            # what cancels can leave rounding below zero
            product = np.maximum(product + self.shift * factor.sum(axis=0), 0.0)
        return np.asarray(product / self.total)


def share_of(name: str, array: Array, negative: str) -> Share:
    """Return a view over the sum of its entries, none of them negative.

    Parameters
    ----------
    name : str
        What the view is called, for the errors.
    array : ndarray or csr_array of shape (n, d)
        The view, in float64.
    negative : {"raise", "shift", "clip"}
        What to do with negative entries: refuse them, subtract the smallest from all entries, or
        set them to zero.

    Returns
    -------
    Share
        The view; sparse ones stay sparse.
    """
    entries = array.data if sp.issparse(array) else array
    lowest = float(entries.min(initial=0.0))
    shift = 0.0
    if lowest < 0.0:
        if negative == "raise":
            raise ValueError(
                f"view {name!r} has negative entries, down to {lowest:.6g}: its factors are "
                "nonnegative; use negative='shift' or negative='clip'"
            )
        if negative == "shift":
            shift = -lowest
        else:
            array = array.maximum(0.0) if sp.issparse(array) else np.maximum(array, 0.0)
            entries = array.data if sp.issparse(array) else array
    size = float(array.shape[0]) * float(array.shape[1])
    with np.errstate(over="ignore"):
        plain = float(entries.sum())
        total = plain + shift * size
    if not 1 / _LARGEST < total < _LARGEST:
        raise ValueError(
            f"view {name!r} has entries that sum to {total:g}; expected a sum above 0, between "
            f"{1 / _LARGEST:g} and {_LARGEST:g}"
        )
    square_norm = (float(np.linalg.norm(entries)) / total) ** 2
    square_norm += (shift / total) * (2.0 * plain / total + shift * size / total)
    return Share(array, shift, total, square_norm)
