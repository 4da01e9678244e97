"""What a run of a comparison may take."""

from __future__ import annotations

from dataclasses import dataclass

from manyview.experiment.outcome import Ending, stopped_at
from manyview.experiment.run import Run

__all__ = ["Limits"]

_ROUNDING = 1e-5  # limits that were read from a message have six digits


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
    >>> Limits(seconds=5).exceeded(seconds=6.0, held=0).error
    'stopped at the time limit of 5 s'
    """

    seconds: float | None = None
    bytes: float | None = None

    def exceeded(self, seconds: float, held: int) -> Ending | None:
        """Return how a run that took so much must end, or None where it may go on.

        Parameters
        ----------
        seconds : float
            Wall-clock time that it took.
        held : int
            Bytes of memory that it holds.

        Returns
        -------
        Ending or None
        """
        if self.seconds is not None and seconds > self.seconds:
            return stopped_at("time_limit", self.seconds)
        if self.bytes is not None and held > self.bytes:
            return stopped_at("memory_limit", self.bytes)
        return None

    def would_differ(self, run: Run) -> bool:
        """Whether a run might end otherwise if it were done within these limits, here.

        Parameters
        ----------
        run : Run
            That ended.

        Returns
        -------
        bool
        """
        if run.limit is None:
            # what failed on one machine may not on another, or once something is installed
            return run.outcome == "machine"
        limit = self.seconds if run.outcome == "time_limit" else self.bytes
        return limit is None or limit > run.limit * (1.0 + _ROUNDING)
