"""Iteration loops with convergence checks, interrupts and a progress bar."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

from sklearn.exceptions import ConvergenceWarning

from manyview.exceptions import InterruptWarning, warn_user

__all__ = ["Iterated", "ProgressBar", "iterate", "warn_if_early"]

State = TypeVar("State")

_LOGGER = logging.getLogger("manyview")


@dataclass
class Iterated(Generic[State]):
    """Result of :func:`iterate`: the state after the last complete iteration.

    `objective` has one value per iteration. The loop `converged`, was `interrupted`, or neither if
    it ran out of iterations.
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
    """Repeat a step until ``settled(state, objective)`` is true, `max_iter` times at most.

    `step` returns the next state and its objective, and leaves the given state unchanged. An
    interrupt ends the loop, but is raised again if no iteration is complete.

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
    """Warn if iterations ended before `what` converged; `remedy` is the advice to users."""
    done = len(found.objective)
    if found.interrupted:
        message = f"interrupted: the result is that of {done} whole iterations"
        warn_user(message, InterruptWarning)
    elif not found.converged:
        message = f"{what} had not converged after max_iter={done} iterations; {remedy}"
        warn_user(message, ConvergenceWarning)


class ProgressBar:
    """A progress bar on standard error, with a text on the last step or the present stage.

    On a terminal or in a notebook the line is rewritten. Elsewhere, as in a log, there is one line
    for every tenth of the work, and none for stages. Work that ends early, because iterations
    converge, ends with a full bar, unless it was `interrupted`.

    Examples
    --------
    >>> with ProgressBar("MMC", total=2, shown=False) as bar:
    ...     bar.step(1, "objective 3.2")
    """

    width = 24

    def __init__(self, title: str, *, total: int, shown: bool) -> None:
        self._title = title
        self._total = max(total, 1)
        self._shown = shown = shown and sys.stderr is not None  # absent in some processes
        self._rewrites = shown and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._done, self._tenth = 0, -1
        self._line = self._word = self._written = ""
        self.interrupted = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._done:
            self.clear()
            return
        complete = kind is None and not self.interrupted
        if complete and self._done < self._total:
            self._line = f"{self._title} [{'#' * self.width}] done, {self._word}"
        if self._rewrites:
            self._rewrite()
            sys.stderr.write("\n")
        elif self._line != self._written:
            sys.stderr.write(f"{self._line}\n")

    def stage(self, word: str) -> None:
        """Log and show what goes on before the next step."""
        _LOGGER.debug("%s: %s", self._title, word)
        if self._rewrites:
            self._line = self._drawn(word)
            self._rewrite()

    def clear(self) -> None:
        """Remove the line of a terminal, as before other output; the next step writes it again."""
        if self._rewrites and self._line:
            self._line = ""
            self._rewrite()

    def step(self, done: int, word: str) -> None:
        """Log that `done` steps are complete, and show it."""
        _LOGGER.debug("%s %d/%d %s", self._title, done, self._total, word)
        if not self._shown:
            return
        self._done, self._word = done, word
        tenth = 10 * done // self._total
        self._line = self._drawn(f"{done}/{self._total} {word}")
        if self._rewrites:
            self._rewrite()
        elif tenth > self._tenth:
            sys.stderr.write(f"{self._line}\n")
            self._written = self._line
        self._tenth = max(self._tenth, tenth)

    def _drawn(self, word: str) -> str:
        filled = self.width * self._done // self._total
        return f"{self._title} [{'#' * filled}{'-' * (self.width - filled)}] {word}"

    def _rewrite(self) -> None:
        shown = self._line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r{shown}\x1b[K")
        sys.stderr.flush()
