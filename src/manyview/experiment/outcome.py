"""How a run ended, as data: from it follows what is tried again, and what is not."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

__all__ = ["OUTCOMES", "Ending", "Outcome", "ending_told", "stopped_at"]

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
