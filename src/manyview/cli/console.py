"""Errors, progress and output streams of the command line."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer
from rich.console import Console
from typer.core import TyperGroup

if TYPE_CHECKING:
    from manyview.experiment import Listener, Run, Task

__all__ = ["Commands", "InterruptionError", "new_console", "print_bytes", "shown_progress"]

BAD_INPUT = 2
INTERRUPTED = 130


class InterruptionError(Exception):
    """An interrupt, with a message about the work that was done before it."""


class Commands(TyperGroup):
    """A group of commands that print errors and warnings as one line each on standard error."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command and exit."""
        if not (sys.argv[1:] if args is None else args):
            args = ["--help"]
        options["standalone_mode"] = False
        signal.signal(signal.SIGTERM, _interrupt)
        run = super().main
        with _safe_streams(), _warnings_as_lines() as shown:
            code = _exit_code(lambda: run(args, *rest, **options))
        if shown:
            from manyview.exceptions import InterruptWarning

            if any(isinstance(message, InterruptWarning) for message in shown):
                code = code or INTERRUPTED  # the output is that of an unfinished fit
        sys.exit(code)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt  # SIGTERM is handled as Ctrl-C


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        result = run()
    # Some versions of typer raise on an interrupt, others return its exit code.
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except InterruptionError as interrupt:
        _print_line("interrupted", str(interrupt))
        return INTERRUPTED
    except (OSError, ValueError, ImportError) as error:  # ImportError names a missing extra
        message = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.strerror:
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        _print_line("error", message)
        return BAD_INPUT
    except Exception as error:
        # Usage errors are click's in some versions of typer and its own in others.
        if not hasattr(error, "format_message"):
            raise
        _print_line("error", _usage_message(error))
        return BAD_INPUT
    if result == INTERRUPTED:
        _print_line("interrupted", "nothing was written")
    return result if isinstance(result, int) else 0


def _usage_message(error: Any) -> str:
    # Newer versions of typer prefix the kind of error and omit the value received.
    message = str(error.format_message()).replace(": Value error, ", ": ", 1).rstrip(".")
    for detail in getattr(error.__cause__, "errors", list)()[:1]:
        value = repr(detail.get("input"))
        if value not in str(error):
            message += f"; received {value}"
    context = getattr(error, "ctx", None)
    return message + (f" (see '{context.command_path} --help')" if context else "")


@contextmanager
def _warnings_as_lines() -> Iterator[list[Warning | str]]:
    shown: list[Warning | str] = []

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        shown.append(message)
        _print_line("warning", str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield shown


def _print_line(kind: str, message: str) -> None:
    print(f"manyview: {kind}: {' '.join(message.split())}", file=sys.stderr)


@contextmanager
def shown_progress(
    *, shown: bool, title: str = "compare", log_seconds: float = 30.0
) -> Iterator[Listener]:
    """Return a listener that shows a comparison: a bar on a terminal, lines in a log.

    A log has a line at the start, at every tenth of the runs, and at the first change after
    `log_seconds` without a line.
    """
    from manyview.experiment import Listener

    if not shown:
        yield Listener()
    elif sys.stderr.isatty():
        from rich import progress as rich

        columns = (
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(bar_width=24),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TextColumn("{task.fields[note]}", markup=False),
        )
        with rich.Progress(*columns, console=new_console(stderr=True)) as progress:
            bar = progress.add_task(title, total=None, note="")

            def show(done: int, total: int, note: str) -> None:
                progress.update(bar, completed=done, total=total, note=note)

            yield cast("Listener", _Progress(show))
    else:
        yield cast("Listener", _Progress(_Log(title, log_seconds)))


class _Progress:
    """A manyview.experiment.Listener, which the command fit does not import.

    It calls `show` with the number of finished runs, that of all runs, and a note.
    """

    def __init__(self, show: Callable[[int, int, str], None]) -> None:
        self._show = show
        self._done = self._total = 0
        self._running: dict[tuple[str, int], None] = {}

    def planned(self, total: int, known: int) -> None:
        self._done, self._total = known, total
        note = f"{known} were in the results file already" if known else ""
        self._show(known, total, note)

    def started(self, task: Task) -> None:
        name = _named(task.method.name, task.data, task.protocol)
        self._running.update({(name, seed): None for seed in task.seeds})
        self._update()

    def finished(self, run: Run) -> None:
        # a skipped run was never started
        self._running.pop((_named(run.method, run.data, run.protocol), run.seed), None)
        self._done += 1
        self._update()

    def _update(self) -> None:
        running = ", ".join(dict.fromkeys(name for name, _ in self._running))
        self._show(self._done, self._total, f"running {running}" if running else "")


def _named(method: str, data: str, protocol: str) -> str:
    return f"{method} on {data}" + ("" if protocol == "default" else f" ({protocol})")


class _Log:
    """Progress as lines on standard error."""

    def __init__(self, title: str, seconds: float) -> None:
        self._title, self._seconds = title, seconds
        self._tenth, self._written = -1, 0.0

    def __call__(self, done: int, total: int, note: str) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth == self._tenth and time.monotonic() < self._written + self._seconds:
            return
        line = f"{self._title}: {done} of {total} done" + (f"; {note}" if note else "")
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._tenth, self._written = tenth, time.monotonic()


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that prints names from files unchanged, without markup."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_bytes(content: bytes) -> None:
    """Write UTF-8 bytes to standard output, whatever its encoding."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # a notebook's output accepts text only
        sys.stdout.write(content.decode())
        sys.stdout.flush()
        return
    binary.write(content)
    binary.flush()


@contextmanager
def _safe_streams() -> Iterator[None]:
    """Let the work go on if standard output or standard error is closed or no longer read."""
    with redirect_stdout(_safe(sys.stdout)), redirect_stderr(_safe(sys.stderr)):
        try:
            yield
        finally:
            sys.stdout.flush()


def _safe(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the caller
        stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    return cast(TextIO, _SafeStream(stream))


class _SafeStream:
    """A stream that accepts output after its reader has left, and any character."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> _SafeStream:
        return _SafeStream(self._stream.buffer)

    def write(self, content: str | bytes) -> int:
        with self._discarding_if_unread():
            if isinstance(content, str):
                encoding = getattr(self._stream, "encoding", None) or "utf-8"
                text = content.encode(encoding, errors="backslashreplace").decode(encoding)
                self._stream.write(text)
            else:
                self._stream.write(content)
        return len(content)

    def flush(self) -> None:
        with self._discarding_if_unread():
            self._stream.flush()

    @contextmanager
    def _discarding_if_unread(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # The buffer is written again later, at the latest when the process ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
