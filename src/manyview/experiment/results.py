"""Runs, their outcomes, and the results file."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from manyview import __version__
from manyview.datasets import Dataset
from manyview.storage import file_place

__all__ = [
    "Key",
    "Outcome",
    "Protocol",
    "ResultsFile",
    "Run",
    "fingerprint",
    "read_runs",
    "session_here",
    "settings_key",
]

Protocol = Literal["default", "tuned", "selection"]
Outcome = Literal["done", "time_limit", "memory_limit", "machine", "failed"]
Key = tuple[str, str, Protocol, str, int]


@dataclass(frozen=True)
class Run:
    """One fit and its scores.

    Attributes
    ----------
    method, data : str
        Names.
    seed : int
        Random state of the fit.
    protocol : {"default", "tuned", "selection"}
        ``"default"``: no labels were used. ``"tuned"``: labels chose the parameters, on the runs
        of ``"selection"``, which have other seeds.
    params : mapping
        Parameters that differ from the estimator's own defaults.
    preprocessing : str
        Scaling of the views: ``"rows"``, ``"columns"`` or ``"none"``.
    scores : mapping of str to float
        Result of :func:`manyview.metrics.score_all`; empty if the fit failed.
    seconds, cpu_seconds : float
        Wall-clock and processor time. A fit shared by several seeds counts in each of them.
    peak_bytes : int
        Peak memory of the process during the fit, including data and libraries.
    n_iter : int or None
        Number of iterations.
    objective : tuple of float
        Objective after every iteration.
    error : str
        The reason why there are no scores.
    fingerprint : str
        Hash of the data.
    n_samples : int
        Number of samples; 0 if unknown.
    session : int
        Index of the session in the results file; -1 outside a file.
    outcome : {"done", "time_limit", "memory_limit", "machine", "failed"}
        ``"done"``: the fit returned labels. ``"time_limit"``, ``"memory_limit"``: it was stopped,
        or skipped because another seed was stopped. ``"machine"``: memory or a package was missing,
        or the process died; another machine may succeed. ``"failed"``: the method raised an error.
    limit : float or None
        The limit in seconds or bytes at which it was stopped.

    Examples
    --------
    >>> run = Run("MMC", "news", 0, "default", {"rank": 20}, scores={"acc": 0.9})
    >>> run.outcome, run.tuned
    ('done', False)
    >>> Run("SEC", "news", 0, "default", {}, error="view 'text' has a NaN").outcome
    'failed'
    """

    method: str
    data: str
    seed: int
    protocol: Protocol
    params: Mapping[str, Any]
    preprocessing: str = "none"
    scores: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    n_iter: int | None = None
    objective: tuple[float, ...] = ()
    error: str = ""
    fingerprint: str = ""
    n_samples: int = 0
    session: int = -1
    outcome: Outcome = "done"
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.error and self.outcome == "done":
            object.__setattr__(self, "outcome", "failed")

    @property
    def tuned(self) -> bool:
        """True if labels chose the parameters."""
        return self.protocol == "tuned"

    @property
    def key(self) -> Key:
        """Identity of the run: two runs with one key have the same result. The seed is last."""
        data = self.fingerprint or self.data
        return self.method, data, self.protocol, settings_key(self.params), self.seed

    def ended(self, outcome: Outcome, error: str, limit: float | None = None) -> Run:
        """Return the run with an outcome and the reason for it."""
        return replace(self, outcome=outcome, error=error, limit=limit)

    def stopped(self, outcome: Outcome, limit: float, note: str = "") -> Run:
        """Return the run as stopped at a limit in seconds or bytes."""
        shown = f"time limit of {limit:g} s"
        if outcome == "memory_limit":
            shown = f"memory limit of {limit / 1e9:g} GB"
        return self.ended(outcome, f"stopped at the {shown}{note}", limit)

    def skipped_after(self, other: Run) -> Run:
        """Return the run as skipped because another seed was stopped at a limit."""
        if other.limit is None:
            raise ValueError(f"the run with seed {other.seed} was not stopped at a limit")
        return self.stopped(other.outcome, other.limit, ", with another seed")

    def as_record(self) -> dict[str, Any]:
        """Return the run as a dictionary for JSON."""
        return {**asdict(self), "params": dict(self.params), "objective": list(self.objective)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Run:
        """Return the run of a dictionary that :meth:`as_record` made."""
        strange = sorted(set(record) - {known.name for known in fields(cls)})
        if strange:
            raise ValueError(f"a run has no field {strange[0]!r}")
        for name in ("params", "scores"):
            if not isinstance(record[name], Mapping):
                raise ValueError(f"{name}={record[name]!r}; expected an object")
        run = cls(**{**record, "objective": tuple(record["objective"])})
        if run.outcome not in get_args(Outcome):
            raise ValueError(f"outcome={run.outcome!r}; expected one of {get_args(Outcome)}")
        if run.outcome.endswith("_limit") != isinstance(run.limit, int | float):
            raise ValueError(f"limit={run.limit!r} does not fit outcome={run.outcome!r}")
        return run


def settings_key(params: Mapping[str, Any]) -> str:
    """Return parameters as text that does not depend on their order.

    >>> settings_key({"rank": 20, "gamma": 0.1})
    '{"gamma": 0.1, "rank": 20}'
    """
    return json.dumps(dict(params), sort_keys=True, default=str)


def fingerprint(dataset: Dataset) -> str:
    """Return sixteen hexadecimal digits that depend on every entry of the views and classes.

    >>> from manyview.datasets import make_views
    >>> data = make_views(50, 3, random_state=0)
    >>> fingerprint(data) == fingerprint(make_views(50, 3, random_state=0))
    True
    >>> fingerprint(data) == fingerprint(make_views(50, 3, random_state=1))
    False
    """
    digest = hashlib.sha256()
    for name, array in zip(dataset.views.names, dataset.views.arrays, strict=True):
        _add(digest, name)
        if sp.issparse(array):
            for part in (array.data, array.indices, array.indptr):
                _add(digest, part)
        _add(digest, array.shape if sp.issparse(array) else array)
    for extra in (dataset.views.present, dataset.y):
        _add(digest, extra)
    return digest.hexdigest()[:16]


def _add(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray) and not part.dtype.hasobject:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        for begin in range(0, part.shape[0], 4096):  # block by block, for memory-mapped arrays
            digest.update(np.ascontiguousarray(part[begin : begin + 4096]).tobytes())
    else:
        # The bytes of an object array are addresses, which differ between processes.
        content = part.tolist() if isinstance(part, np.ndarray) else part
        digest.update(repr(content).encode())


_FORMAT = "manyview results"
_BEGINNING = f'{{"format": "{_FORMAT}"'  # of every line that begins a session


class ResultsFile:
    """A file of runs in JSON lines. Entering it opens the file for appending, or creates it.

    Every opening adds a session: a line with versions and machine, to which the runs that follow
    refer. A line that was cut off, for example by a kill, is ignored.

    Parameters
    ----------
    path : path-like
        The file.

    Attributes
    ----------
    runs : list of Run
        Runs of this version of manyview.
    sessions : list of dict
        Versions and machine of every session.

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
    ...     with ResultsFile(path) as results:  # continues: only the third run is performed
    ...         runs = compare([REFERENCES["k-means"]], [data], repeats=3, results=results)
    ...     [run.session for run in read_runs(path)]
    [0, 0, 1]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.runs: list[Run] = []
        self.sessions: list[dict[str, Any]] = []
        self._file: IO[str] | None = None

    def __enter__(self) -> ResultsFile:
        file_place(self.path)  # rejects a named pipe, which would block when opened
        self._file = self.path.open("a", encoding="utf-8")
        try:
            _lock(self._file, self.path)
            text = self.path.read_text(encoding="utf-8", errors="replace")
            runs, sessions = _parsed(text, self.path)
            self.runs = [run for run in runs if sessions[run.session]["manyview"] == __version__]
            self.sessions = [*sessions, session_here()]
            if not sessions:
                self._file.truncate(0)  # at most a part of the first line is there
            elif not text.endswith("\n"):
                self._file.write("\n")
            self._write(self.sessions[-1])
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, run: Run) -> Run:
        """Write a run to the disk and return it with its session."""
        run = replace(run, session=len(self.sessions) - 1)
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
    """Return the runs of a results file, including those of other versions of manyview.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    list of Run
        In the order of the file. A run that was repeated is included once, with its last result.

    Raises
    ------
    ValueError
        If it is not a results file or one of its lines is damaged.

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
    path = Path(path)
    runs, _ = _parsed(path.read_text(encoding="utf-8", errors="replace"), path)
    return list({run.key: run for run in runs}.values())


def _parsed(text: str, path: Path) -> tuple[list[Run], list[dict[str, Any]]]:
    """Return the runs and sessions of a results file."""
    if not text.startswith(_BEGINNING) and not _BEGINNING.startswith(text):
        raise ValueError(f"{path} is not a results file of manyview")
    runs: list[Run] = []
    sessions: list[dict[str, Any]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if "format" in record:
                sessions.append({"manyview": "", **record})
                continue
            run = Run.from_record(record["run"])
            if not 0 <= run.session < len(sessions):
                raise ValueError(f"there is no session {run.session} before it")
            runs.append(run)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            # A kill cuts off the last line; later, a new session follows it.
            if number == len(lines) or lines[number].startswith(_BEGINNING):
                continue
            raise ValueError(f"{path}, line {number}: {error}") from error
    return runs, sessions


def session_here() -> dict[str, Any]:
    """Return versions and machine of this process, as a results file holds them."""
    return {
        "format": _FORMAT,
        "manyview": __version__,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "libraries": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cpus": os.cpu_count(),
        },
    }


def _lock(file: IO[str], path: Path) -> None:
    """Lock the file for this process; the system releases it when the process ends."""
    try:
        import fcntl
    except ImportError:  # not available on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ValueError(f"{path} is being written by another process") from error
