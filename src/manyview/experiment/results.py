"""A file of runs, one JSON object per line, to which every finished run is added at once."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from manyview import __version__
from manyview.atomic import file_place
from manyview.experiment.run import Run

__all__ = ["ResultsFile", "read_runs", "session_here"]

_FORMAT = "manyview results"
_BEGINNING = f'{{"format": "{_FORMAT}"'
_LIBRARIES = ("numpy", "scipy", "scikit-learn")


class ResultsFile:
    """Runs on disk. Entering it opens the file to add to it, and makes it if it is not there.

    Each time that the file is opened, the first included, a line tells versions and machine; each
    run names the one that it belongs to. A line that was cut off, as by a kill, is left out.

    Parameters
    ----------
    path : path-like
        The file.

    Attributes
    ----------
    runs : list of Run
        What it holds of this version of manyview, as of its opening or last addition.
    sessions : list of dict
        Versions and machine, one for every time that it was opened.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyview.datasets import make_views
    >>> from manyview.experiment import REFERENCES, compare, read_runs
    >>> data = make_views(60, 3, (6, 5), random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "runs.jsonl"
    ...     with ResultsFile(path) as results:
    ...         runs = compare([REFERENCES["k-means"]], [data], repeats=2, results=results)
    ...     with ResultsFile(path) as results:  # as after an interrupt: two runs are there already
    ...         runs = compare([REFERENCES["k-means"]], [data], repeats=3, results=results)
    ...     [run.session for run in read_runs(path)]
    [0, 0, 1]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.runs: list[Run] = []
        self.sessions: list[dict[str, Any]] = []
        self._file: IO[str] | None = None
        self._session = -1

    def __enter__(self) -> ResultsFile:
        file_place(self.path)  # to open a named pipe is to wait for whoever reads it
        self._file = self.path.open("a", encoding="utf-8")
        try:
            _lock(self._file, self.path)
            content = _read(self.path)
            self.runs = content.runs_of_this_version()
            self.sessions = [*content.sessions, session_here()]
            self._session = len(content.sessions)
            if not content.whole and content.sessions:
                self._file.write("\n")
            elif not content.whole:
                self._file.truncate(0)
            self._write(self.sessions[-1])
        except BaseException:
            self._file.close()
            raise
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
        """Write a run, so that it is on the disk when this returns.

        Parameters
        ----------
        run : Run

        Returns
        -------
        Run
            As it was written: with its session.
        """
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
        In the order in which they were done; of one that was done again, the last.

    Raises
    ------
    ValueError
        If it is not a results file, or one line of it cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manyview.experiment import Run
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "runs.jsonl"
    ...     with ResultsFile(path) as results:
    ...         written = results.add(Run("MMC", "news", 0, "default", {}, scores={"acc": 0.9}))
    ...     read_runs(path) == [written]
    True
    """
    return list({run.key: run for run in _read(Path(path)).runs}.values())


@dataclass
class _Content:
    """What a file holds, and whether its last line is whole."""

    runs: list[Run]
    sessions: list[dict[str, Any]]
    whole: bool

    def runs_of_this_version(self) -> list[Run]:
        return [run for run in self.runs if self.sessions[run.session]["manyview"] == __version__]


def _read(path: Path) -> _Content:
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text:
        return _Content([], [], whole=True)
    lines = text.split("\n")
    content = _Content([], [], whole=lines[-1] == "")
    for number, (line, last) in enumerate(_marked(lines), start=1):
        try:
            record = json.loads(line)
            if number == 1 and record.get("format") != _FORMAT:
                raise ValueError("it does not begin as one")
            if "format" in record:
                content.sessions.append({"manyview": "", **record})
                continue
            run = Run.from_record(record["run"])
            if not 0 <= run.session < len(content.sessions):
                raise ValueError(f"there is no session {run.session} before it")
            content.runs.append(run)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if last and (_BEGINNING.startswith(line) or line.startswith(_BEGINNING)):
                continue  # cut off while the file was made: it holds nothing yet
            if number == 1:
                raise ValueError(f"{path} is not a results file of manyview: {error}") from error
            if last or _cut_off(line, lines, number):
                continue
            raise ValueError(f"{path}, line {number}: {error}") from error
    return content


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


def session_here() -> dict[str, Any]:
    """Return versions and machine of this process, as a results file holds them."""
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
        raise ValueError(f"{path} is being written by another process") from error
