"""A file of runs, one JSON object a line, to which every finished run is added at once."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from manyview import __version__
from manyview.experiment.run import Run

__all__ = ["ResultsFile", "read_runs"]

_FORMAT = "manyview results"
_LIBRARIES = ("numpy", "scipy", "scikit-learn")


class ResultsFile:
    """Runs on disk. Entering it opens the file to add to it, and makes it if it is not there.

    The first line and one for every time that the file is opened tell versions and machine; each
    run names the one that it belongs to. A line that was cut off, as by a kill, is left out.

    Parameters
    ----------
    path : path-like
        The file.

    Attributes
    ----------
    runs : list of Run
        What it holds of this version of manyview, as of its opening or last addition.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.runs: list[Run] = []
        self._file: IO[str] | None = None
        self._session = -1

    def __enter__(self) -> ResultsFile:
        known, sessions, whole = _read(self.path) if self.path.exists() else ([], 0, True)
        self.runs = [run for run in known if run is not None]
        self._session = sessions
        self._file = self.path.open("a", encoding="utf-8")
        _lock(self._file, self.path)
        if not whole:
            self._file.write("\n")
        self._write(_session())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, run: Run) -> Run:
        """Write a run, so that it is on the disk when this returns; return it as written."""
        run = replace(run, session=self._session)
        self._write({"run": run.as_record()})
        self.runs.append(run)
        return run

    def _write(self, record: dict[str, Any]) -> None:
        if self._file is None:
            raise ValueError(f"{self.path} is not open")
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_runs(path: str | os.PathLike[str]) -> list[Run]:
    """Return the runs of a results file, those of other versions of manyview too.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    list of Run
        In the order in which they were done.

    Raises
    ------
    ValueError
        If it is not a results file, or one line of it cannot be read.
    """
    return [run for run in _read(Path(path), every_version=True)[0] if run is not None]


def _read(path: Path, *, every_version: bool = False) -> tuple[list[Run | None], int, bool]:
    """Return the runs, how many sessions there are, and whether the last line is whole."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text:
        return [], 0, True
    lines = text.split("\n")
    whole = lines[-1] == ""
    runs: list[Run | None] = []
    sessions: list[str] = []
    for number, (line, last) in enumerate(_marked(lines), start=1):
        try:
            record = json.loads(line)
            if number == 1 and record.get("format") != _FORMAT:
                raise ValueError("it does not begin as one")
            if "format" in record:
                sessions.append(str(record["manyview"]))
                continue
            run = Run.from_record(record["run"])
            if every_version or sessions[run.session] == __version__:
                runs.append(run)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            if number == 1:
                raise ValueError(f"{path} is not a results file of manyview: {error}") from error
            if last or _cut_off(line, lines, number):
                continue
            raise ValueError(f"{path}, line {number}: {error}") from error
    return runs, len(sessions), whole


def _marked(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the lines but for the empty end, and whether each is the last one, not ended."""
    for at, line in enumerate(lines):
        if at == len(lines) - 1:
            if line:
                yield line, True
        else:
            yield line, False


def _cut_off(line: str, lines: Sequence[str], number: int) -> bool:
    """Whether a line is one that a kill cut off: a new session begins right after it."""
    follower = lines[number] if number < len(lines) else ""
    return not line or (line.startswith("{") and follower.startswith('{"format"'))


def _session() -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "manyview": __version__,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "libraries": {name: version(name) for name in _LIBRARIES},
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cpus": os.cpu_count(),
        },
    }


def _lock(file: IO[str], path: Path) -> None:
    """Hold the file for this process alone; the system lets go of it when the process ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ValueError(f"{path} is being written by another process") from error
