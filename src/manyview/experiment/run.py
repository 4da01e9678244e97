"""One fit of one method, with what it scored and what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

__all__ = ["Key", "Protocol", "Run", "plain", "settings_key"]

Protocol = Literal["default", "tuned", "selection"]
Key = tuple[str, str, str, str, int]


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
        Why there are no scores.
    fingerprint : str
        Of the data: a change of any entry changes it.
    n_samples : int
        Of the data; 0 where that is not known.
    session : int
        Which entry of the results file tells machine and versions; -1 outside a file.
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

    @property
    def tuned(self) -> bool:
        """Whether labels chose the parameters."""
        return self.protocol == "tuned"

    @property
    def key(self) -> Key:
        """What tells this run from others: two runs of one key have the same result."""
        settings = settings_key(self.params)
        return self.method, self.fingerprint or self.data, self.protocol, settings, self.seed

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
        return cls(**{**record, "objective": tuple(record.get("objective", ()))})


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON holds them: NumPy's numbers and arrays as Python's.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"rank": np.int64(20), "weights": np.ones(2)})
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
