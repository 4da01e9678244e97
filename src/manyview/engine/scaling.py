"""How a view is scaled without touching its entries.

The scaled view is ``Z = [scale_n (x_n - centre) * width, 1]``, bias last. Products with it are
products with the raw rows between a fold of the factor before and an unfold of the sum after:
both are as small as the factor, so they are done once, not block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Folded", "Scaling"]

Matrix = npt.NDArray[np.floating[Any]]


class Folded(NamedTuple):
    """A view factor as raw rows meet it."""

    features: Matrix
    offset: Matrix | None
    bias: Matrix


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

    def restrict(self, active: npt.NDArray[np.intp] | None) -> Scaling:
        """Return the same scaling for blocks that hold the features `active` only."""
        return replace(self, active=active)

    def fold(self, factor: Matrix) -> Folded:
        """Bring a (n_features + 1) x R factor to the raw rows."""
        features, bias, offset = factor[:-1], factor[-1], None
        if self.width is not None and self.centre is not None:
            features = features * self.width[:, None]
            offset = -(self.centre @ features)
        if self.active is not None:
            features = features[self.active]
        return Folded(features, offset, bias)

    def unfold(self, pulled: Matrix) -> Matrix:
        """Bring a sum of :meth:`RowView.pull` to the shape of the factor.

        Rows of features that no longer take part are zero.
        """
        features, scaled_sum, plain_sum = pulled[:-2], pulled[-2], pulled[-1]
        full = np.zeros((self.n_features + 1, pulled.shape[1]), dtype=pulled.dtype)
        if self.active is None:
            full[:-1] = features
        else:
            full[self.active] = features
        if self.width is not None and self.centre is not None:
            full[:-1] -= self.centre[:, None] * scaled_sum
            full[:-1] *= self.width[:, None]
            if self.active is not None:
                left = np.ones(self.n_features, dtype=bool)
                left[self.active] = False
                full[:-1][left] = 0.0
        full[-1] = plain_sum
        return full
