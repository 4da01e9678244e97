"""Standard output and error that nobody may be reading."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

__all__ = ["print_bytes", "readers_may_leave"]


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Let the work go on where nobody reads what is printed, from the start or any more."""
    with redirect_stdout(_unfailing(sys.stdout)), redirect_stderr(_unfailing(sys.stderr)):
        try:
            yield
        finally:
            sys.stdout.flush()


def print_bytes(content: bytes) -> None:
    """Write text in UTF-8 to standard output as it is, whichever encoding that has."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # it takes text only, as that of a notebook
        sys.stdout.write(content.decode())
        sys.stdout.flush()
        return
    binary.write(content)
    binary.flush()


def _unfailing(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the caller, who wants to hear of nothing
        stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end
    return cast(TextIO, _Unfailing(stream))


class _Unfailing:
    """A stream that takes what is written also when its reader has left."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> _Unfailing:
        return _Unfailing(self._stream.buffer)

    def write(self, content: str | bytes) -> int:
        with self._to_nowhere_once_unread():
            self._stream.write(self._writable(content) if isinstance(content, str) else content)
        return len(content)

    def _writable(self, text: str) -> str:
        """Return text with what the stream's encoding lacks written out, as in error messages."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return text.encode(encoding, errors="backslashreplace").decode(encoding)

    def flush(self) -> None:
        with self._to_nowhere_once_unread():
            self._stream.flush()

    @contextmanager
    def _to_nowhere_once_unread(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # what is buffered is written once more, at the latest when the process ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
