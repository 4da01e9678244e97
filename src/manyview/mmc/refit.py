"""Factors for samples that were not there: the features that are left, weighted anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyview.engine import Engine
from manyview.engine.arrays import to_numpy
from manyview.mmc.defaults import default_gamma
from manyview.mmc.fit import Fitted
from manyview.mmc.model import Factors, Moments
from manyview.mmc.penalty import Frobenius
from manyview.mmc.problem import Problem
from manyview.mmc.sweep import STATE, balanced, cluster_step, factor_steps, go_back

__all__ = ["refit"]

_PENALTY_STRENGTH = 30.0  # of all penalties together, in units of the default gamma
_FEW_SAMPLES = 500  # up to which the penalty is whole, however few the features
_MOST_REFITS = 8  # each with a tenth of the penalty before


def refit(engine: Engine, problem: Problem, fitted: Fitted) -> tuple[Factors, Moments]:
    """Return factors for samples that were not there: the same features, weighted anew.

    A row-sparse penalty finds the features; of those that say the same it keeps few, and with them
    fits the samples at hand closer than others. So the features that are left are fitted to the
    indicator once more, in one sweep with the squared norm as the penalty. The cluster factor is
    fitted first, as it costs nothing. With more samples than features, and than ``_FEW_SAMPLES``,
    the penalty is weaker: there is the less to guard against.

    The result has to explain half of what the model explains; where the model is constant, three
    quarters of the indicator. If it does not, the penalty is too strong for these features, and a
    tenth of it is tried, up to ``_MOST_REFITS`` times in all. After these, or by an interrupt, the
    factors stay as they are.
    """
    if not problem.penalty.drops_features:
        return fitted.factors, fitted.moments
    whole = engine.snapshot(*STATE)
    ridge = Frobenius()
    gamma = default_gamma(engine, ridge, fitted.factors.clusters.shape[0])
    gamma *= _PENALTY_STRENGTH / (len(fitted.factors.views) + 1)
    gamma *= min(1.0, max(_n_features(fitted.factors), _FEW_SAMPLES) / engine.n_samples)
    asked = 0.75 if fitted.is_constant else 0.5 * fitted.explained
    try:
        for weakened in range(_MOST_REFITS):
            weaker = replace(problem, penalty=ridge, gamma=gamma / 10.0**weakened)
            factors, moments = _fitted_anew(engine, weaker, fitted.factors, fitted.moments)
            if moments.explained(factors.clusters) >= asked:
                return factors, moments
            go_back(engine, fitted.factors, whole)
    except KeyboardInterrupt:
        fitted.interrupted = True
        go_back(engine, fitted.factors, whole)
    return fitted.factors, fitted.moments


def _n_features(factors: Factors) -> int:
    """Return how many features are left, in all views."""
    return sum(int(np.any(to_numpy(factor)[:-1], axis=1).sum()) for factor in factors.views)


def _fitted_anew(
    engine: Engine, problem: Problem, factors: Factors, moments: Moments
) -> tuple[Factors, Moments]:
    """Return factors after one sweep without the indicator, the cluster factor first."""
    factors, moments = balanced(engine, problem, factors, moments)
    factors = cluster_step(problem, factors, moments)
    factors, moments = balanced(engine, problem, factors, moments)
    return factor_steps(engine, problem, factors, moments)
