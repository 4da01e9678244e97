"""What a fit minimises, and how far."""

from __future__ import annotations

from dataclasses import dataclass

from manyview.mmc.indicator import Indicator
from manyview.mmc.model import Factors, Moments, objective
from manyview.mmc.penalty import Penalty

__all__ = ["Problem"]

_CG_STEPS = 30


@dataclass(frozen=True)
class Problem:
    """What is minimised, and how far.

    Attributes
    ----------
    penalty : Penalty
    gamma : float
        Weight of the penalty.
    indicator : Indicator
    max_iter : int
        Most sweeps.
    tol : float
        Stop when a sweep lowers the objective by less than this part of it. Conjugate gradients
        end with a step that lowers it by less than five times as much.
    patience : int or None
        Stop when the indicator has settled in this number of sweeps, one after another.
    cg_steps : int
        Most steps of conjugate gradients for each view factor in each sweep.
    """

    penalty: Penalty
    gamma: float
    indicator: Indicator
    max_iter: int
    tol: float
    patience: int | None = None
    cg_steps: int = _CG_STEPS

    def value(self, factors: Factors, moments: Moments) -> float:
        """Return the objective."""
        return objective(factors, moments, self.penalty, self.gamma)
