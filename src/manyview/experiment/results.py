"""Runs, their outcomes, and the results file."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp

from manyview import __version__
from manyview.datasets import Dataset
from manyview.storage import file_place

__all__ = [
    "OUTCOMES",
    "PEAK_RESET",
    "Ending",
    "Key",
    "Outcome",
    "Protocol",
    "ResultsFile",
    "Run",
    "Usage",
    "ending_told",
    "fingerprint",
    "json_params",
    "read_runs",
    "session_here",
    "settings_key",
    "stopped_at",
]


def fingerprint(dataset: Dataset) -> str:
    """Return sixteen hexadecimal digits that follow from the views and the classes.

    Parameters
    ----------
    dataset : Dataset

    Returns
    -------
    str

    Examples
    --------
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
        for begin in range(0, part.shape[0], 4096):  # a memory-mapped array is not read at once
            digest.update(np.ascontiguousarray(part[begin : begin + 4096]).tobytes())
    else:
        # the bytes of an array of objects say where they lie in memory
        content = part.tolist() if isinstance(part, np.ndarray) else part
        digest.update(repr(content).encode())


_STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")


class Usage:
    """Measures the work done while it is entered.

    Attributes
    ----------
    seconds, cpu_seconds : float
        Wall-clock time, and processor time over all threads of this process.
    peak_bytes : int
        Most memory that the process held. Where the system does not let the mark be set back, that
        since the process began; 0 where it is not known.

    Examples
    --------
    >>> with Usage() as usage:
    ...     total = sum(range(1000))
    >>> usage.seconds >= 0 and usage.cpu_seconds >= 0
    True
    """

    def __enter__(self) -> Usage:
        _reset_peak()
        self.seconds = self.cpu_seconds = 0.0
        self.peak_bytes = 0
        self._begin = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._begin[0]
        self.cpu_seconds = time.process_time() - self._begin[1]
        self.peak_bytes = _peak()


def _reset_peak() -> None:
    try:
        PEAK_RESET.write_text("5")
    except OSError:
        return  # the mark stays that of the whole process


def _peak() -> int:
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


Outcome = Literal["done", "time_limit", "memory_limit", "machine", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Ending(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    outcome : {"done", "time_limit", "memory_limit", "machine", "failed"}
        With labels; stopped at a limit of time or memory; by what another machine may have, as
        memory, a package, or a process that lives on; or by an error of the method.
    error : str
        The same for people, empty where there are labels.
    limit : float or None
        Seconds or bytes at which it was stopped.
    """

    outcome: Outcome = "done"
    error: str = ""
    limit: float | None = None


def stopped_at(outcome: Outcome, limit: float) -> Ending:
    """Return the ending of a run that a limit stopped.

    Parameters
    ----------
    outcome : {"time_limit", "memory_limit"}
    limit : float
        In seconds or bytes.

    Returns
    -------
    Ending

    Examples
    --------
    >>> stopped_at("time_limit", 5.0).error
    'stopped at the time limit of 5 s'
    """
    if outcome == "time_limit":
        return Ending(outcome, f"stopped at the time limit of {limit:g} s", limit)
    return Ending(outcome, f"stopped at the memory limit of {limit / 1e9:g} GB", limit)


_STOPPED = r"stopped at the (time|memory) limit of (\S+) (?:s|GB)(?:, with another seed)?"
_OF_THE_MACHINE = (
    r"the process (ended with code|did not start)\b.*"
    r"|.* GiB may be used\b.*"
    r"|(Memory|Import|ModuleNotFound)Error\b.*"
)


def ending_told(error: str) -> Ending:
    """Return the ending that a message tells of, where nothing else does.

    Results files of older versions hold the message alone.

    Parameters
    ----------
    error : str
        Empty where there are labels.

    Returns
    -------
    Ending
        Its limit has the six digits of the message.

    Examples
    --------
    >>> ending_told("stopped at the memory limit of 2 GB, with another seed")[::2]
    ('memory_limit', 2000000000.0)
    >>> ending_told("the process ended with code -9").outcome
    'machine'
    """
    if not error:
        return Ending()
    if found := re.fullmatch(_STOPPED, error):
        kind, limit = found.groups()
        if kind == "time":
            return Ending("time_limit", error, float(limit))
        return Ending("memory_limit", error, float(limit) * 1e9)
    if re.fullmatch(_OF_THE_MACHINE, error, re.DOTALL):
        return Ending("machine", error)
    return Ending("failed", error)


Protocol = Literal["default", "tuned", "selection"]


class Key(NamedTuple):
    """What tells a run from others.

    Attributes
    ----------
    method : str
        Its name.
    data : str
        Fingerprint of the data set, or its name where there is none.
    protocol : {"default", "tuned", "selection"}
    settings : str
        Of the parameters, as :func:`settings_key` returns.
    seed : int
    """

    method: str
    data: str
    protocol: Protocol
    settings: str
    seed: int

    @property
    def without_seed(self) -> tuple[str, str, Protocol, str]:
        """What runs have in common that differ by their seed only."""
        return self.method, self.data, self.protocol, self.settings


@dataclass(frozen=True)
class Run:
    """One fit and what it scored.

    Attributes
    ----------
    method, data : str
        Names.
    seed : int
        Seed of the fit.
    protocol : {"default", "tuned", "selection"}
        ``"default"``: no label was seen. ``"tuned"``: labels chose the parameters, on the runs of
        ``"selection"``, whose seeds are others.
    params : mapping
        Parameters beside the estimator's own defaults.
    preprocessing : str
        How the views were scaled: ``"rows"``, ``"columns"`` or ``"none"``.
    scores : mapping of str to float
        As :func:`manyview.metrics.score_all` returns; empty where the fit failed.
    seconds, cpu_seconds : float
        Wall-clock and processor time. An embedding that all seeds share counts in each.
    peak_bytes : int
        Most memory that the process held during the fit, data and libraries included.
    n_iter : int or None
        Iterations.
    objective : tuple of float
        After every iteration.
    error : str
        Why there are no scores, for people.
    fingerprint : str
        Of the data: a change of any entry changes it.
    n_samples : int
        Of the data; 0 where that is not known.
    session : int
        Which entry of the results file tells machine and versions; -1 outside a file.
    outcome : {"done", "time_limit", "memory_limit", "machine", "failed"}
        How it ended: with labels; stopped at a limit, or not tried as another seed was stopped
        there; by what another machine may have, as memory, a package, or a process that lives on;
        by an error of the method, which is also what an `error` stands for that is given alone.
    limit : float or None
        Seconds or bytes at which it was stopped.

    Examples
    --------
    >>> run = Run("MMC", "news", 0, "default", {"rank": 20}, scores={"acc": 0.9})
    >>> run.outcome, run.key.settings
    ('done', '{"rank": 20}')
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
        """Whether labels chose the parameters."""
        return self.protocol == "tuned"

    @property
    def key(self) -> Key:
        """What tells this run from others: two runs of one key have the same result."""
        settings = settings_key(self.params)
        return Key(self.method, self.fingerprint or self.data, self.protocol, settings, self.seed)

    @property
    def for_other_seeds(self) -> Ending | None:
        """How runs end that differ by their seed only, untried; None where they are to be tried."""
        if self.limit is None:
            return None
        ending = stopped_at(self.outcome, self.limit)
        return ending._replace(error=f"{ending.error}, with another seed")

    def ended(self, ending: Ending) -> Run:
        """Return the run as one that ended so."""
        return replace(self, outcome=ending.outcome, error=ending.error, limit=ending.limit)

    def as_record(self) -> dict[str, Any]:
        """Return the run as JSON can hold it."""
        return {**asdict(self), "params": dict(self.params), "objective": list(self.objective)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Run:
        """Return the run that a record holds; fields it does not know are an error."""
        known = {known.name for known in fields(cls)}
        strange = sorted(set(record) - known)
        if strange:
            raise ValueError(f"a run has no field {strange[0]!r}")
        for name in ("params", "scores"):
            if not isinstance(record.get(name, {}), Mapping):
                raise ValueError(f"{name} of a run are {record[name]!r}")
        run = cls(**{**record, "objective": tuple(record.get("objective", ()))})
        if "outcome" not in record:  # of an older version
            return run.ended(ending_told(run.error))
        if run.outcome not in OUTCOMES:
            raise ValueError(f"the outcome of a run is {run.outcome!r}; expected one of {OUTCOMES}")
        limited = run.outcome in ("time_limit", "memory_limit")
        if limited != isinstance(run.limit, int | float):
            raise ValueError(f"the limit of a run is {run.limit!r}, its outcome {run.outcome!r}")
        return run


def json_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON holds them: NumPy's numbers and arrays as Python's.

    Examples
    --------
    >>> import numpy as np
    >>> json_params({"rank": np.int64(20), "weights": np.ones(2)})
    {'rank': 20, 'weights': [1.0, 1.0]}
    """
    held: dict[str, Any] = json.loads(json.dumps(dict(params), default=_as_python))
    return held


def _as_python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def settings_key(params: Mapping[str, Any]) -> str:
    """Return what tells parameters from others, in whatever order they are.

    Examples
    --------
    >>> settings_key({"rank": 20, "gamma": 0.1})
    '{"gamma": 0.1, "rank": 20}'
    """
    return json.dumps(dict(params), sort_keys=True, default=str)


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
