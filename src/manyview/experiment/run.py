"""One fit of one method, with what it scored and what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from manyview.experiment.outcome import OUTCOMES, Ending, Outcome, ending_told, stopped_at

__all__ = ["Key", "Protocol", "Run", "json_params", "settings_key"]

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
