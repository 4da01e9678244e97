"""A start carried through its sweeps, and which of several is the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from manyview.engine import Engine
from manyview.engine.arrays import Array, to_numpy
from manyview.linalg.partition import has_collapsed
from manyview.mmc.checkpoint_file import CheckpointFile
from manyview.mmc.fit import Fitted, carry_on
from manyview.mmc.kmeans import cluster_sizes
from manyview.mmc.model import Factors
from manyview.mmc.problem import Problem
from manyview.mmc.readout import Readout
from manyview.mmc.refit import refit
from manyview.progress import ProgressBar

__all__ = ["Candidate", "Setup", "best_of", "carried_through"]


@dataclass(frozen=True)
class Candidate:
    """A start carried through, and where it stands among others.

    Attributes
    ----------
    fitted : Fitted
    labels, indicator : array
        Of all samples, where these are.
    refitted : Factors
        The features that are left, fitted anew for other samples.
    readout : Readout
        How a prediction becomes a label.
    collapsed : bool
        Whether clusters or the model were lost on the way.
    """

    fitted: Fitted
    labels: Array
    indicator: Array
    refitted: Factors
    readout: Readout
    collapsed: bool

    def beats(self, other: Candidate, by: float) -> bool:
        """Whether it alone has not collapsed, or its objective is lower by the part `by`."""
        if self.collapsed != other.collapsed:
            return other.collapsed
        return self.fitted.objective[-1] < (1.0 - by) * other.fitted.objective[-1]


@dataclass(frozen=True)
class Setup:
    """What all starts of a fit share.

    Attributes
    ----------
    engine : Engine
        The samples, with the state of the start at hand.
    problem : Problem
        What is minimised.
    rng : numpy.random.Generator
        Source of all that is random.
    bar : ProgressBar
        Is told of every sweep.
    file : CheckpointFile or None
        Where the fit is written down.
    """

    engine: Engine
    problem: Problem
    rng: np.random.Generator
    bar: ProgressBar
    file: CheckpointFile | None

    def keep(self, fitted: Fitted) -> bool:
        """Write down where a fit stands, if a checkpoint is due, and return whether it was."""
        if self.file is None:
            return False
        return self.file.keep(self.engine, self.problem, fitted, self.rng)


def best_of(
    setup: Setup, first: Callable[[int], Fitted], starts: int, *, by: float
) -> tuple[Candidate, bool]:
    """Carry starts through, one after another, and return the best.

    An interrupt leaves out the starts that are to come. One before the first start has made a
    sweep, or while its result is read off, is passed on.

    Parameters
    ----------
    setup : Setup
        What the starts share.
    first : callable
        From the number of a start to the fit before its first sweep, with its state in the
        engine.
    starts : int
        How many, at least one.
    by : float
        Part of the objective by which a later start has to be lower.

    Returns
    -------
    tuple of Candidate and bool
        The best, and whether there was an interrupt.
    """

    def carried(start: int) -> Candidate:
        setup.engine.unrestrict()
        return carried_through(setup, first(start), start)

    best = latest = carried(0)
    try:
        for start in range(1, starts):
            if latest.fitted.interrupted:
                break
            latest = carried(start)
            if latest.beats(best, by):
                best = latest
    except KeyboardInterrupt:
        return best, True
    return best, latest.fitted.interrupted


def carried_through(setup: Setup, first: Fitted, start: int) -> Candidate:
    """Sweep from a start on, and read labels and a rule for other samples off the result.

    Parameters
    ----------
    setup : Setup
        What the starts share; its engine has the state of this one.
    first : Fitted
        The fit before its first sweep, or where it was written down.
    start : int
        The number of the start.

    Returns
    -------
    Candidate
    """
    engine, problem = setup.engine, setup.problem
    n_clusters = first.factors.clusters.shape[0]
    started_with = cluster_sizes(engine, n_clusters)
    before = start * problem.max_iter
    fitted = carry_on(
        engine,
        problem,
        first,
        on_sweep=lambda sweep, value: setup.bar.step(before + sweep, f"objective {value:.6g}"),
        keep=setup.keep,
    )
    refitted, moments = refit(engine, problem, fitted)
    on_host = Factors(tuple(map(to_numpy, refitted.views)), refitted.clusters)
    readout = problem.indicator.read(engine, refitted, moments, setup.rng)
    collapsed = has_collapsed(cluster_sizes(engine, n_clusters), started_with) or fitted.is_zero
    labels, indicator = engine.gather("labels"), engine.gather("indicator")
    return Candidate(fitted, labels, indicator, on_host, readout, collapsed)
