"""Fits without an estimator, for tests of what they are made of."""

from contextlib import contextmanager

import numpy as np
import pytest

from manyview.mmc import solver as fit_module
from manyview.mmc import solver as sweep_module
from manyview.mmc.indicator import DiscreteIndicator, OrthogonalIndicator
from manyview.mmc.initial import start_factors
from manyview.mmc.objective import Frobenius, Moments, RowSparse, interaction, objective
from manyview.mmc.solver import Problem, begin, carry_on

INDICATORS = {"discrete": DiscreteIndicator, "orthogonal": OrthogonalIndicator}
PENALTIES = {"l21": RowSparse, "frobenius": Frobenius}


def run(
    c,
    *,
    gamma=0.01,
    penalty="l21",
    indicator="discrete",
    sweeps=8,
    cg_steps=4,
    tol=0.0,
    patience=None,
    trust=0.0,
    **kw,
):
    problem = Problem(
        PENALTIES[penalty](), gamma, INDICATORS[indicator](), sweeps, tol, patience, cg_steps
    )
    c.engine.scatter("labels", np.arange(c.engine.n_samples) % 3)
    problem.indicator.start(c.engine, 3)
    factors, moments = start_factors(c.engine, 3, 5, seed=0)
    first = begin(c.engine, problem, factors, moments, trust=trust)
    return problem, carry_on(c.engine, problem, first, **kw)


@contextmanager
def each_step(c, penalty, gamma):
    """Give the objective before and after every step and sweep, as it is before a look at it."""
    view_step, cluster_step = sweep_module.updated_view_factor, sweep_module.updated_cluster_factor
    sweep = fit_module.sweep
    steps = []

    def value(factors):
        return explicit_objective(c, factors, penalty, gamma)

    def watched_view_step(engine, factors, v, **options):
        improved = view_step(engine, factors, v, **options)
        steps.append((value(factors), value(factors.with_view(v, improved))))
        return improved

    def watched_cluster_step(factors, moments, **options):
        improved = cluster_step(factors, moments, **options)
        steps.append((value(factors), value(factors.with_clusters(improved))))
        return improved

    def watched_sweep(engine, problem, factors, moments, **options):
        before = value(factors)
        reached = sweep(engine, problem, factors, moments, **options)
        steps.append((before, value(reached[0])))
        return reached

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "updated_view_factor", watched_view_step)
        patch.setattr(sweep_module, "updated_cluster_factor", watched_cluster_step)
        patch.setattr(fit_module, "sweep", watched_sweep)
        yield steps


def explicit_objective(c, factors, penalty, gamma):
    """The objective of factors and of the indicator in the blocks, with nothing else of theirs."""
    F = c.engine.gather("indicator")
    P = interaction([Z @ W for Z, W in zip(c.Z, factors.views, strict=True)])
    return objective(factors, Moments(P.T @ P, P.T @ F), penalty, gamma)
