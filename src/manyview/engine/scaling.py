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

__all__ = ["Folded", "Pulled", "Scaling"]

Matrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Pulled:
    """A sum over rows of products with the raw view; such sums can be added.

    Attributes
    ----------
    features : ndarray of shape (n_features, rank)
        X' (scale * M).
    scaled_sum, plain_sum : ndarray of shape (rank,)
        Column sums of scale * M and of M.
    """

    features: Matrix
    scaled_sum: Matrix
    plain_sum: Matrix

    def __add__(self, other: Pulled) -> Pulled:
        return Pulled(
            self.features + other.features,
            self.scaled_sum + other.scaled_sum,
            self.plain_sum + other.plain_sum,
        )

    def __iadd__(self, other: Pulled) -> Pulled:
        np.add(self.features, other.features, out=self.features)
        np.add(self.scaled_sum, other.scaled_sum, out=self.scaled_sum)
        np.add(self.plain_sum, other.plain_sum, out=self.plain_sum)
        return self


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

    @property
    def columns(self) -> tuple[Matrix, Matrix] | None:
        """Centre and width, or None where columns are left as they are."""
        if self.centre is None or self.width is None:
            return None
        return self.centre, self.width

    def restrict(self, active: npt.NDArray[np.intp] | None) -> Scaling:
        """Return the same scaling for blocks that hold the features `active` only."""
        return replace(self, active=active)

    def fold(self, factor: Matrix) -> Folded:
        """Bring a (n_features + 1) x R factor to the raw rows."""
        features, bias, offset = factor[:-1], factor[-1], None
        if self.columns is not None:
            centre, width = self.columns
            features = features * width[:, None]
            offset = -(centre @ features)
        if self.active is not None:
            features = features[self.active]
        return Folded(features, offset, bias)

    def unfold(self, pulled: Pulled) -> Matrix:
        """Bring a sum of :meth:`RowView.pull` to the shape of the factor.

        Rows of features that no longer take part are zero.
        """
        features = pulled.features
        full = np.zeros((self.n_features + 1, features.shape[1]), dtype=features.dtype)
        full[slice(self.n_features) if self.active is None else self.active] = features
        if self.columns is not None:
            centre, width = self.columns
            full[:-1] -= centre[:, None] * pulled.scaled_sum
            full[:-1] *= width[:, None]
            if self.active is not None:
                left = np.ones(self.n_features, dtype=bool)
                left[self.active] = False
                full[:-1][left] = 0.0
        full[-1] = pulled.plain_sum
        return full
