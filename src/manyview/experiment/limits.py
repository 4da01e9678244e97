"""What a run of a comparison may take."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]

_STOPPED = "stopped at the"
_ENDED = "the process"


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
            return self._time_reason()
        if self.bytes is not None and held > self.bytes:
            return self._memory_reason()
        return ""

    def would_differ(self, error: str) -> bool:
        """Whether a run that failed so might not, within these limits."""
        if error.startswith(_STOPPED):
            return error not in (self._time_reason(), self._memory_reason())
        return error.startswith(_ENDED)

    def _time_reason(self) -> str:
        return f"{_STOPPED} time limit of {self.seconds:g} s" if self.seconds else ""

    def _memory_reason(self) -> str:
        return f"{_STOPPED} memory limit of {self.bytes / 1e9:g} GB" if self.bytes else ""
