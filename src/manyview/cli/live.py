"""The progress of a comparison on a terminal: what runs, what is done, what is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from manyview.cli.tables import new_console
from manyview.experiment import Listener, Run
from manyview.experiment.tasks import Task
from manyview.progress import ProgressBar

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(*, shown: bool, title: str = "compare") -> Iterator[Listener]:
    """Give a listener that shows a comparison: lines on a terminal, tenths of the work in a log."""
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


class _OnTerminal(Listener):
    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._bar = progress.add_task(title, total=None, word="")
        self._done = 0
        self._running: dict[str, int] = {}

    def planned(self, total: int, known: int) -> None:
        self._done = known
        word = f"{known} were there already" if known else ""
        self._progress.update(self._bar, total=total, completed=known, word=word)

    def started(self, task: Task) -> None:
        name = _named(task.method.name, task.data, task.protocol)
        self._running[name] = self._running.get(name, 0) + len(task.seeds)
        self._show()

    def finished(self, run: Run) -> None:
        name = _named(run.method, run.data, run.protocol)
        self._running[name] -= 1
        if not self._running[name]:
            del self._running[name]
        self._done += 1
        self._show()

    def _show(self) -> None:
        self._progress.update(self._bar, completed=self._done, word=", ".join(self._running))


def _named(method: str, data: str, protocol: str) -> str:
    return f"{method} on {data}" + ("" if protocol == "default" else f" ({protocol})")


class _InLog(Listener):
    def __init__(self, title: str) -> None:
        self._title = title
        self._done = 0

    def planned(self, total: int, known: int) -> None:
        self._done = known
        self._bar = ProgressBar(self._title, total=total, shown=True)
        if known:
            self._bar.step(known, "runs were there already")

    def finished(self, run: Run) -> None:
        self._done += 1
        self._bar.step(self._done, f"{run.method} on {run.data}, seed {run.seed}")
