"""Iteration loops with convergence checks, interrupts and a progress bar."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import InterruptWarning, warn_user

__all__ = ["Iterated", "ProgressBar", "iterate", "warn_if_early"]


_WIDTH = 24


class ProgressBar:
    """Shows how many of a number of steps are done, with a word on the last one.

    On a terminal or in a notebook the line is rewritten; elsewhere, in a log, each step that
    reaches another tenth of the work is a line.

    Parameters
    ----------
    title : str
        What is being done.
    total : int
        Number of steps.
    shown : bool
        Whether to show anything.

    Examples
    --------
    >>> with ProgressBar("MMC", total=2, shown=False) as bar:
    ...     bar.step(1, "objective 3.2")
    """

    def __init__(self, title: str, *, total: int, shown: bool) -> None:
        self._title = title
        self._total = max(total, 1)
        self._shown = shown = shown and sys.stderr is not None  # which a process may lack
        self._rewrites = shown and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._done, self._tenth = 0, -1
        self._line = self._written = ""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._line:
            return
        early = ", ended" if kind is None and self._done < self._total else ""
        if self._rewrites:
            sys.stderr.write("\n")
        elif early or self._line != self._written:
            sys.stderr.write(f"{self._line}{early}\n")

    def step(self, done: int, word: str) -> None:
        """Show that `done` steps are done."""
        if not self._shown:
            return
        self._done = done
        tenth = 10 * done // self._total
        filled = _WIDTH * done // self._total
        bar = "#" * filled + "-" * (_WIDTH - filled)
        self._line = f"{self._title} [{bar}] {done}/{self._total} {word}"
        if self._rewrites:
            self._line = self._line[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r{self._line}\x1b[K")
            sys.stderr.flush()
        elif tenth > self._tenth:
            sys.stderr.write(f"{self._line}\n")
            self._written = self._line
        self._tenth = max(self._tenth, tenth)


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
