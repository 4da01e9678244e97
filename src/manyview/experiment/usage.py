"""What a piece of work costs: wall-clock time, processor time, memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType

__all__ = ["PEAK_RESET", "Usage"]

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
