"""What keeps the factors small: the l2,1 norm of their rows, or their squared norm."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Frobenius", "Penalty", "RowSparse", "penalty_named"]

Matrix = npt.NDArray[np.floating[Any]]


class Penalty(Protocol):
    """A penalty on the rows of a factor, and the quadratic that lies above it.

    Attributes
    ----------
    degree : int
        d, where scaling the factor by c scales the penalty by ``c**d``.
    weight : float
        What it is multiplied by where clusters have one sample and rows unit length.
    """

    degree: int
    weight: float

    def value(self, factor: Matrix) -> float:
        """Return the penalty of a factor."""

    def weights(self, factor: Matrix) -> npt.NDArray[np.float64]:
        """Return p for which ``sum_i p_i |w_i|^2`` plus a constant touches the penalty here."""

    def vanished(self, factor: Matrix, previous: Matrix) -> npt.NDArray[np.bool_]:
        """Return which rows may be set to zero: they are tiny and on their way there."""


class RowSparse:
    """The l2,1 norm, ``sum_i |w_i|``, of MMC: whole rows, that is features, go to zero.

    Its weights are ``1 / (2 sqrt(|w_i|^2 + smoothing))``. The smoothing is that small so that
    the objective, which goes without it, still falls in every step but for rounding.
    """

    degree = 1
    weight = 0.005
    smoothing = 1e-20
    negligible = 1e-4

    def value(self, factor: Matrix) -> float:
        """Return the sum of the rows' norms."""
        return float(_row_norms(factor).sum())

    def weights(self, factor: Matrix) -> npt.NDArray[np.float64]:
        """Return ``1 / (2 |w_i|)``, bounded."""
        return 0.5 / np.sqrt(_row_norms(factor) ** 2 + self.smoothing)

    def vanished(self, factor: Matrix, previous: Matrix) -> npt.NDArray[np.bool_]:
        """Return the rows that shrink and are negligible beside the largest."""
        norms = _row_norms(factor)
        small = norms <= self.negligible * norms.max(initial=0.0)
        return np.asarray(small & (norms < _row_norms(previous)))


class Frobenius:
    """The squared norm, ``sum_i |w_i|^2``, of MMC-F: every feature stays."""

    degree = 2
    weight = 0.01

    def value(self, factor: Matrix) -> float:
        """Return the sum of squares."""
        return float((_row_norms(factor) ** 2).sum())

    def weights(self, factor: Matrix) -> npt.NDArray[np.float64]:
        """Return ones: the penalty is its own quadratic."""
        return np.ones(factor.shape[0])

    def vanished(self, factor: Matrix, previous: Matrix) -> npt.NDArray[np.bool_]:
        """Return that no row may go."""
        return np.zeros(factor.shape[0], dtype=bool)


def penalty_named(name: str) -> Penalty:
    """Return the penalty that the estimator's parameter names."""
    penalties: dict[str, type[Penalty]] = {"l21": RowSparse, "frobenius": Frobenius}
    return penalties[name]()


def _row_norms(factor: Matrix) -> npt.NDArray[np.float64]:
    norms: npt.NDArray[np.float64] = np.sqrt(
        np.einsum("ir,ir->i", factor, factor, dtype=np.float64)
    )
    return norms
