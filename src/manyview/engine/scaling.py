"""Column scaling of views without a change of their entries.

The scaled view is ``Z = [scale_n (x_n - centre) * width, 1]`` with the bias last. A product with
it is a product with the raw rows, between a fold of the factor and an unfold of the sum. Both are
as small as the factor and are done once, not for each block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.engine.arrays import Array, as_dtype_of, namespace, placed_like, with_rows_at

__all__ = ["Folded", "Pulled", "Scaling"]


@dataclass(frozen=True)
class Pulled:
    """A sum over rows of products with the raw view; such sums can be added.

    Attributes
    ----------
    features : array of shape (n_features, rank)
        X' (scale * M).
    scaled_sum, plain_sum : array of shape (rank,)
        Column sums of scale * M and of M.
    """

    features: Array
    scaled_sum: Array
    plain_sum: Array

    def __add__(self, other: Pulled) -> Pulled:
        return Pulled(
            self.features + other.features,
            self.scaled_sum + other.scaled_sum,
            self.plain_sum + other.plain_sum,
        )

    def __iadd__(self, other: Pulled) -> Pulled:
        features, scaled_sum, plain_sum = self.features, self.scaled_sum, self.plain_sum
        features += other.features
        scaled_sum += other.scaled_sum
        plain_sum += other.plain_sum
        return self


class Folded(NamedTuple):
    """A view factor in the form that is multiplied with raw rows."""

    features: Array
    offset: Array | None
    bias: Array


@dataclass(frozen=True)
class Scaling:
    """Column scaling of one view, and which of its features the blocks hold.

    Attributes
    ----------
    n_features : int
        Width of the view.
    centre, width : ndarray of shape (n_features,), or None
        Column means to subtract and factors to multiply by; None for neither.
    active : ndarray of int, or None
        Features that the raw rows of the blocks hold; None for all.
    """

    n_features: int
    centre: Matrix | None = None
    width: Matrix | None = None
    active: npt.NDArray[np.intp] | None = None
    _on_device: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def columns(self) -> tuple[Matrix, Matrix] | None:
        """Centre and width, or None where columns are not scaled."""
        if self.centre is None or self.width is None:
            return None
        return self.centre, self.width

    def restrict(self, active: npt.NDArray[np.intp] | None) -> Scaling:
        """Return the same scaling for blocks that hold the features `active` only."""
        return replace(self, active=active)

    def fold(self, factor: Array) -> Folded:
        """Bring an (n_features + 1) x R factor to the raw rows."""
        features, bias, offset = factor[:-1, ...], factor[-1, ...], None
        if self.columns is not None:
            centre, width = self._columns_like(factor)
            features = features * width[:, None]
            offset = -(centre @ features)
        if self.active is not None:
            index = self._placed("active", factor)
            features = namespace(factor).take(features, index, axis=0)
        return Folded(features, offset, bias)

    def unfold(self, pulled: Pulled) -> Array:
        """Bring a sum of :meth:`RowView.pull` to the shape of the factor.

        Rows of features that the blocks do not hold are zero.
        """
        features = pulled.features
        xp, device = namespace(features), array_api_compat.device(features)
        index = None if self.active is None else self._placed("active", features)
        if self.columns is not None:
            centre, width = self._columns_like(features)
            if index is not None:
                centre, width = xp.take(centre, index), xp.take(width, index)
            features = (features - centre[:, None] * pulled.scaled_sum) * width[:, None]
        if index is not None:
            full = with_rows_at(index, features, self.n_features + 1)
        else:
            shape = (self.n_features + 1, features.shape[1])
            full = xp.zeros(shape, dtype=features.dtype, device=device)
            full[:-1, ...] = features
        full[-1, ...] = pulled.plain_sum
        return full

    def _columns_like(self, array: Array) -> tuple[Array, Array]:
        centre, width = self._placed("centre", array), self._placed("width", array)
        if isinstance(array, np.ndarray):
            return centre, width
        return as_dtype_of(centre, array), as_dtype_of(width, array)

    def _placed(self, name: str, array: Array) -> Array:
        """Return an attribute on the device of an array, copied there once and kept."""
        values = getattr(self, name)
        if isinstance(array, np.ndarray):
            return values
        key = (name, str(array_api_compat.device(array)))
        if key not in self._on_device:
            self._on_device[key] = placed_like(values, array)
        return self._on_device[key]
