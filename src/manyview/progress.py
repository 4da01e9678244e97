"""A bar on standard error for long work: no dependency, nothing shown unless asked for."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType

__all__ = ["ProgressBar"]

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
