"""What a run of a comparison may take."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Limits"]

_STOPPED = r"stopped at the (?P<what>time|memory) limit of (?P<limit>\S+) (s|GB)"
_ELSEWHERE = ", with another seed"
_ENDED = "the process"
# what failed on one machine may not on another, or once something is installed
_OF_THE_MACHINE = r".* GiB may be used\b.*|(Memory|Import|ModuleNotFound)Error\b.*"


@dataclass(frozen=True)
class Limits:
    """Limits of a run, beyond which it is stopped.

    Attributes
    ----------
    seconds : float or None
        Wall-clock time; None for any.
    bytes : float or None
        Memory of the process that does it; None for any.

    Examples
    --------
    >>> Limits(seconds=5).exceeded(seconds=6.0, held=0)
    'stopped at the time limit of 5 s'
    """

    seconds: float | None = None
    bytes: float | None = None

    def exceeded(self, seconds: float, held: int) -> str:
        """Return why a run must stop, or an empty string."""
        if self.seconds is not None and seconds > self.seconds:
            return f"stopped at the time limit of {self.seconds:g} s"
        if self.bytes is not None and held > self.bytes:
            return f"stopped at the memory limit of {self.bytes / 1e9:g} GB"
        return ""

    @staticmethod
    def for_other_seeds(error: str) -> str:
        """Return why runs that differ by their seed only are not tried, or an empty string.

        Examples
        --------
        >>> Limits.for_other_seeds("stopped at the time limit of 5 s")
        'stopped at the time limit of 5 s, with another seed'
        """
        stopped = error.removesuffix(_ELSEWHERE)
        return stopped + _ELSEWHERE if re.fullmatch(_STOPPED, stopped) else ""

    def would_differ(self, error: str) -> bool:
        """Whether a run that failed so might not, within these limits and on this machine."""
        found = re.fullmatch(_STOPPED, error.removesuffix(_ELSEWHERE))
        if found is None:
            return error.startswith(_ENDED) or bool(re.fullmatch(_OF_THE_MACHINE, error, re.DOTALL))
        limit = self.seconds if found["what"] == "time" else self.bytes
        scale = 1.0 if found["what"] == "time" else 1e9
        # the message has six digits of the limit
        return limit is None or limit > float(found["limit"]) * scale * (1.0 + 1e-5)
