"""Fits without an estimator, for tests of the solver."""

import numpy as np

from manyview.mmc.indicator import DiscreteIndicator, LeaveOneOutIndicator, OrthogonalIndicator
from manyview.mmc.initial import initial_factors
from manyview.mmc.objective import Frobenius, Moments, RowSparse, interaction, objective
from manyview.mmc.solver import Problem, begin, carry_on

INDICATORS = {
    "discrete": DiscreteIndicator,
    "leave-one-out": LeaveOneOutIndicator,
    "orthogonal": OrthogonalIndicator,
}
PENALTIES = {"l21": RowSparse, "frobenius": Frobenius}


def problem_of(*, gamma=0.01, penalty="l21", indicator="discrete", max_iter=8, tol=0.0, **options):
    """Return a problem; penalty and indicator are names or objects."""
    if isinstance(penalty, str):
        penalty = PENALTIES[penalty]()
    if isinstance(indicator, str):
        indicator = INDICATORS[indicator]()
    return Problem(penalty, gamma, indicator, max_iter, tol, **{"cg_steps": 4, **options})


def begun(c, problem, *, labels=None):
    """Return a fit of a case before its first iteration."""
    n = c.engine.n_samples
    c.engine.scatter("labels", np.arange(n) % 3 if labels is None else labels)
    problem.indicator.start(c.engine, 3)
    factors, moments = initial_factors(c.engine, 3, 5, seed=0)
    return begin(c.engine, problem, factors, moments)


def run(c, *, on_iteration=lambda done, value: None, **options):
    """Return a problem and the fit of a case to its end."""
    problem = problem_of(**options)
    first = begun(c, problem)
    return problem, carry_on(c.engine, problem, first, on_iteration)


def explicit_objective(c, factors, penalty, gamma):
    """The objective of factors and of the indicator in the blocks, from the views themselves."""
    F = c.engine.gather("indicator")
    B = interaction([Z @ W for Z, W in zip(c.Z, factors.views, strict=True)])
    return objective(factors, Moments(B.T @ B, B.T @ F), penalty, gamma)
