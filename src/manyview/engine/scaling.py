"""How a view is scaled without touching its entries.

The scaled view is ``Z = [scale_n (x_n - centre) * width, 1]``, bias last. Products with it are
products with the raw rows between a fold of the factor before and an unfold of the sum after:
both are as small as the factor, so they are done once, not block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
import numpy.typing as npt

from manyview.engine.arrays import Array, namespace, placed_like

__all__ = ["Folded", "Pulled", "Scaling"]

Matrix = npt.NDArray[np.floating[Any]]


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
    """A view factor as raw rows meet it."""

    features: Array
    offset: Array | None
    bias: Array


@dataclass(frozen=True)
class Scaling:
    """Column scaling of one view, and which of its features still take part.

    Attributes
    ----------
    n_features : int
        Width of the view.
    centre, width : ndarray of shape (n_features,), or None
        Column means that are taken off and factors that follow; None for neither.
    active : ndarray of int, or None
        Features that the raw rows of the blocks still hold; None for all.
    """

    n_features: int
    centre: Matrix | None = None
    width: Matrix | None = None
    active: npt.NDArray[np.intp] | None = None

    @property
    def columns(self) -> tuple[Matrix, Matrix] | None:
        """Centre and width, or None where columns are left as they are."""
        if self.centre is None or self.width is None:
            return None
        return self.centre, self.width

    def restrict(self, active: npt.NDArray[np.intp] | None) -> Scaling:
        """Return the same scaling for blocks that hold the features `active` only."""
        return replace(self, active=active)

    def fold(self, factor: Array) -> Folded:
        """Bring a (n_features + 1) x R factor to the raw rows."""
        features, bias, offset = factor[:-1, ...], factor[-1, ...], None
        if self.columns is not None:
            centre, width = (placed_like(part, factor) for part in self.columns)
            features = features * width[:, None]
            offset = -(centre @ features)
        if self.active is not None:
            features = features[placed_like(self.active, factor)]
        return Folded(features, offset, bias)

    def unfold(self, pulled: Pulled) -> Array:
        """Bring a sum of :meth:`RowView.pull` to the shape of the factor.

        Rows of features that no longer take part are zero.
        """
        features = pulled.features
        xp, device = namespace(features), array_api_compat.device(features)
        shape = (self.n_features + 1, features.shape[1])
        full = xp.zeros(shape, dtype=features.dtype, device=device)
        if self.active is None:
            full[:-1, ...] = features
        else:
            full[placed_like(self.active, features)] = features
        if self.columns is not None:
            centre, width = (placed_like(part, features) for part in self.columns)
            full[:-1, ...] -= centre[:, None] * pulled.scaled_sum
            full[:-1, ...] *= width[:, None]
            if self.active is not None:
                left = np.ones(self.n_features, dtype=bool)
                left[self.active] = False
                full[:-1, ...] *= placed_like(~left, features)[:, None]
        full[-1, ...] = pulled.plain_sum
        return full
