"""Iterations to convergence, which an interrupt ends with what the last whole one reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import InterruptWarning
from manyview.warn import warn_user

__all__ = ["Iterated", "iterate", "warn_if_early"]

State = TypeVar("State")


@dataclass
class Iterated(Generic[State]):
    """Where iterations ended, and why.

    Attributes
    ----------
    state : object
        What the last whole iteration left.
    objective : list of float
        Its value after every iteration.
    converged, interrupted : bool
        Whether they ended by themselves, or by an interrupt; neither where they ran out.
    """

    state: State
    objective: list[float] = field(default_factory=list)
    converged: bool = False
    interrupted: bool = False


def iterate(
    step: Callable[[State], tuple[State, float]],
    state: State,
    *,
    max_iter: int,
    settled: Callable[[State, Sequence[float]], bool],
    on_iteration: Callable[[int, float], None] = lambda done, value: None,
) -> Iterated[State]:
    """Repeat a step until it settles.

    Parameters
    ----------
    step : callable
        From a state to the next one and the objective there; it leaves the state it is given
        as it was.
    state : object
        Where to start.
    max_iter : int
        Most iterations.
    settled : callable
        From a state and the objective so far to whether to stop.
    on_iteration : callable
        Called with the number of iterations done and the objective.

    Returns
    -------
    Iterated
        Where it ended. An interrupt before the first iteration is done is passed on.

    Examples
    --------
    >>> found = iterate(
    ...     lambda x: (x / 2, x / 2), 1.0, max_iter=50, settled=lambda x, values: x < 0.1
    ... )
    >>> found.state, len(found.objective), found.converged
    (0.0625, 4, True)
    """
    found = Iterated(state)
    try:
        while len(found.objective) < max_iter and not found.converged:
            reached, value = step(found.state)
            found.state, found.objective = reached, [*found.objective, value]
            on_iteration(len(found.objective), value)
            found.converged = settled(reached, found.objective)
    except KeyboardInterrupt:
        if not found.objective:
            raise
        found.interrupted = True
    return found


def warn_if_early(found: Iterated[State], *, remedy: str, what: str = "the objective") -> None:
    """Warn that iterations ended before they had settled.

    Parameters
    ----------
    found : Iterated
        The iterations.
    remedy : str
        What to do where they ran out.
    what : str
        What was still moving.
    """
    done = len(found.objective)
    if found.interrupted:
        message = f"interrupted: the result is that of {done} whole iterations"
        warn_user(message, InterruptWarning)
    elif not found.converged:
        message = f"{what} was still moving after max_iter={done} iterations; {remedy}"
        warn_user(message, ConvergenceWarning)
