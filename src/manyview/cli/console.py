"""Errors and output streams of the command line."""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

__all__ = [
    "Commands",
    "InterruptionError",
    "in_options",
    "new_console",
    "noted_warnings",
    "print_bytes",
    "status",
]

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
        _print_line("error", in_options(message))
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
    printed: set[str] = set()

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        shown.append(message)
        text = in_options(str(message))
        if text not in printed:
            _print_line("warning", text)
        printed.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield shown


@contextmanager
def noted_warnings(noted: list[str]) -> Iterator[None]:
    """Add the texts of warnings that are shown meanwhile to a list, each once."""
    show = warnings.showwarning

    def note(message: Warning | str, *where: Any, **more: Any) -> None:
        text = in_options(str(message))
        if text not in noted:
            noted.append(text)
        show(message, *where, **more)

    warnings.showwarning = note
    try:
        yield
    finally:
        warnings.showwarning = show


# parameters whose options have other names
_OPTIONS = {"n_clusters": "-k", "random_state": "--seed", "n_jobs": "--jobs"}
_GIVEN = re.compile(
    r"\b(checkpoint|gamma|indicator|init|max_iter|n_clusters|n_init|n_jobs|normalize|order|patience"
    r"|penalty|random_state|rank|tol)=(?:'([^']*)'|([\w.+-]*[\w+-]))"
)
_NAMED = (
    ("raise max_iter", "raise --max-iter"),
    ("or tol above", "or --tol above"),
    ("a smaller gamma", "a smaller --gamma"),
    ("choose_n_clusters(views)", "the command choose-k"),
)


def in_options(text: str) -> str:
    """Return a message of the library with its parameters as options of the command.

    Examples
    --------
    >>> in_options("use normalize='columns', or raise max_iter=100")
    'use --normalize columns, or raise --max-iter 100'
    """

    def option(found: re.Match[str]) -> str:
        name = found[1]
        return f"{_OPTIONS.get(name, '--' + name.replace('_', '-'))} {found[2] or found[3]}"

    text = _GIVEN.sub(option, text)
    for words, others in _NAMED:
        text = text.replace(words, others)
    return text


@contextmanager
def status(text: str, *, shown: bool = True) -> Iterator[None]:
    """Show on a terminal what goes on, and nothing elsewhere."""
    if not (shown and sys.stderr.isatty()):
        yield
        return
    with new_console(stderr=True).status(Text(text)):  # a string would be read as markup
        yield


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
