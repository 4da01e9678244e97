"""The progress of a comparison on a terminal: what runs, what is done, what is left."""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from manyview.cli.tables import new_console
from manyview.experiment import Listener, Run, Task

__all__ = ["LOG_SECONDS", "shown_progress"]

LOG_SECONDS = 30.0  # after which a line is due at the next change


@contextmanager
def shown_progress(*, shown: bool, title: str = "compare") -> Iterator[Listener]:
    """Give a listener that shows a comparison: a bar on a terminal, lines in a log.

    A line is written at the start, at every tenth of the work, and where a task begins or ends
    after half a minute of silence.
    """
    if not shown:
        yield Listener()
    elif sys.stderr.isatty():
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[word]}", markup=False),
            console=new_console(stderr=True),
        ) as progress:
            yield _OnTerminal(progress, title)
    else:
        yield _InLog(title)


class _Shown(Listener):
    """Keeps count of what runs and what is done, and shows it at every change."""

    def __init__(self) -> None:
        self._done = 0
        self._running: dict[tuple[str, int], None] = {}

    def planned(self, total: int, known: int) -> None:
        self._done = known
        self._begin(total, f"{known} were in the results file already" if known else "")

    def started(self, task: Task) -> None:
        name = _named(task.method.name, task.data, task.protocol)
        self._running.update({(name, seed): None for seed in task.seeds})
        self._show(self._names())

    def finished(self, run: Run) -> None:
        # a run that is given up beforehand was never begun
        self._running.pop((_named(run.method, run.data, run.protocol), run.seed), None)
        self._done += 1
        self._show(self._names())

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(name for name, _ in self._running))

    @abstractmethod
    def _begin(self, total: int, word: str) -> None:
        """Show how much there is to do."""

    @abstractmethod
    def _show(self, running: str) -> None:
        """Show how much is done, and what runs."""


class _OnTerminal(_Shown):
    def __init__(self, progress: Progress, title: str) -> None:
        super().__init__()
        self._progress = progress
        self._bar = progress.add_task(title, total=None, word="")

    def _begin(self, total: int, word: str) -> None:
        self._progress.update(self._bar, total=total, completed=self._done, word=word)

    def _show(self, running: str) -> None:
        self._progress.update(self._bar, completed=self._done, word=running)


class _InLog(_Shown):
    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def _begin(self, total: int, word: str) -> None:
        self._total, self._tenth = total, 10 * self._done // max(total, 1)
        self._write(word)

    def _show(self, running: str) -> None:
        tenth = 10 * self._done // max(self._total, 1)
        if tenth > self._tenth or time.monotonic() >= self._written + LOG_SECONDS:
            self._tenth = tenth
            self._write(f"running {running}" if running else "")

    def _write(self, word: str) -> None:
        line = f"{self._title}: {self._done} of {self._total} done" + (f"; {word}" if word else "")
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._written = time.monotonic()


def _named(method: str, data: str, protocol: str) -> str:
    return f"{method} on {data}" + ("" if protocol == "default" else f" ({protocol})")
