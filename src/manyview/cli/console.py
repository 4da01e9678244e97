"""Errors and output streams of the command line."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

import typer
from rich.console import Console
from typer.core import TyperGroup

__all__ = ["Commands", "InterruptionError", "new_console", "noted_warnings", "print_bytes"]

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


@contextmanager
def noted_warnings(noted: list[str]) -> Iterator[None]:
    """Add the texts of warnings that are shown meanwhile to a list."""
    show = warnings.showwarning

    def note(message: Warning | str, *where: Any, **more: Any) -> None:
        noted.append(str(message))
        show(message, *where, **more)

    warnings.showwarning = note
    try:
        yield
    finally:
        warnings.showwarning = show


def _print_line(kind: str, message: str) -> None:
    print(f"manyview: {kind}: {' '.join(message.split())}", file=sys.stderr)


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
