"""Errors, progress and output streams of the command line."""

from __future__ import annotations

import signal
import sys
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from manyview.cli.outputs import new_console, readers_may_leave
from manyview.exceptions import InterruptWarning
from manyview.experiment import Listener, Run, Task

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "LOG_SECONDS",
    "Commands",
    "InterruptionError",
    "shown_progress",
]


BAD_INPUT = 2
INTERRUPTED = 130


class InterruptionError(Exception):
    """An interrupt after which there is something to say of what was done before it."""


class Commands(TyperGroup):
    """A group of commands whose errors and warnings are one line each on standard error."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command and exit."""
        if not (sys.argv[1:] if args is None else args):
            args = ["--help"]
        options["standalone_mode"] = False
        signal.signal(signal.SIGTERM, _interrupt)
        run = super().main
        with readers_may_leave(), _warnings_as_lines() as said:
            code = _exit_code(lambda: run(args, *rest, **options))
        if any(isinstance(message, InterruptWarning) for message in said):
            code = code or INTERRUPTED  # what is written is not what was asked for
        sys.exit(code)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt  # a polite end is one like Ctrl-C: what is done is kept, and told


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        result = run()
    # an interrupt is an exception in some versions of typer and a result in others
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except InterruptionError as interrupt:
        _say("interrupted", str(interrupt))
        return INTERRUPTED
    except (OSError, ValueError, ImportError) as error:  # a missing extra says what to install
        _say("error", _told(error))
        return BAD_INPUT
    except Exception as error:
        # the class of usage errors is click's in some versions of typer and its own in others
        if not hasattr(error, "format_message"):
            raise
        _say("error", _told_of_usage(error))
        return BAD_INPUT
    if result == INTERRUPTED:
        _say("interrupted", "nothing was written")
    return result if isinstance(result, int) else 0


@contextmanager
def _warnings_as_lines() -> Iterator[list[Warning | str]]:
    said: list[Warning | str] = []

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        said.append(message)
        _say("warning", str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield said


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _told_of_usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see '{context.command_path} --help')" if context else ""
    # the kind of error is named by newer versions of typer, as their checks know it
    message = str(error.format_message()).replace(": Value error, ", ": ", 1)
    return message.rstrip(".") + _received(error) + hint


def _received(error: Any) -> str:
    # the checks of newer versions of typer leave the value out of what they say
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    values = [repr(one.get("input")) for one in found[:1]]
    return "".join(f"; received {value}" for value in values if value not in str(error))


def _say(kind: str, message: str) -> None:
    print(f"manyview: {kind}: {' '.join(message.split())}", file=sys.stderr)


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
