"""What keeps the factors small: the l2,1 norm of their rows, or their squared norm."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from manyview.engine.arrays import Array, as_dtype, namespace

__all__ = ["Frobenius", "Penalty", "RowSparse", "penalty_named"]


class Penalty(Protocol):
    """A penalty on the rows of a factor, and the quadratic that lies above it.

    Attributes
    ----------
    degree : int
        d, where scaling the factor by c scales the penalty by ``c**d``.
    unit_gamma : float
        The default of gamma where clusters have one sample and rows unit length
        (:func:`manyview.mmc.defaults.default_gamma`).
    drops_features : bool
        Whether whole rows go to zero.
    """

    degree: int
    unit_gamma: float
    drops_features: bool

    def value(self, factor: Array) -> float:
        """Return the penalty of a factor."""

    def weights(self, factor: Array) -> Array:
        """Return p for which ``sum_i p_i |w_i|^2`` plus a constant touches the penalty here."""

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return which rows may be set to zero: they are tiny and on their way there."""


class RowSparse:
    """The l2,1 norm, ``sum_i |w_i|``, of MMC: whole rows, that is features, go to zero.

    Its weights are ``1 / (2 sqrt(|w_i|^2 + smoothing))``. The smoothing is so small that the
    objective, which is without it, still falls in every step but for rounding.
    """

    degree = 1
    unit_gamma = 0.005
    drops_features = True
    smoothing = 1e-20
    negligible = 1e-4

    def value(self, factor: Array) -> float:
        """Return the sum of the rows' norms."""
        norms = _row_norms(factor)
        return float(namespace(norms).sum(norms))

    def weights(self, factor: Array) -> Array:
        """Return ``1 / (2 |w_i|)``, bounded."""
        norms = _row_norms(factor)
        return 0.5 / namespace(norms).sqrt(norms**2 + self.smoothing)

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return the rows that shrink and are negligible beside the largest."""
        norms = _row_norms(factor)
        small = norms <= self.negligible * namespace(norms).max(norms)
        return small & (norms < _row_norms(previous))


class Frobenius:
    """The squared norm, ``sum_i |w_i|^2``, of MMC-F: every feature stays."""

    degree = 2
    unit_gamma = 0.01
    drops_features = False

    def value(self, factor: Array) -> float:
        """Return the sum of squares."""
        norms = _row_norms(factor)
        return float(namespace(norms).sum(norms**2))

    def weights(self, factor: Array) -> Array:
        """Return ones: the penalty is its own quadratic."""
        norms = _row_norms(factor)
        return namespace(norms).ones_like(norms)

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return that no row may go."""
        norms = _row_norms(factor)
        return namespace(norms).zeros_like(norms) > 0.0


def penalty_named(name: str) -> Penalty:
    """Return the penalty that the estimator's parameter names."""
    penalties: dict[str, type[Penalty]] = {"l21": RowSparse, "frobenius": Frobenius}
    return penalties[name]()


def _row_norms(factor: Array) -> Array:
    exact = as_dtype(factor, np.float64)
    xp = namespace(exact)
    return xp.sqrt(xp.sum(exact * exact, axis=1))
