"""What the command says where something goes wrong, and the exit code that it leaves."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from manyview.cli.streams import readers_may_leave
from manyview.exceptions import InterruptWarning

__all__ = ["BAD_INPUT", "INTERRUPTED", "Commands", "InterruptionError"]

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
