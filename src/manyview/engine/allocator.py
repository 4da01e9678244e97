"""What a process does with the memory that it has freed, on systems where that can be said."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

__all__ = ["keep_freed_memory"]

# of glibc's mallopt
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

_LARGEST = 4 << 20  # bytes of an array whose memory serves again
_MOST_FREE = 8 << 20  # bytes that a thread keeps


@cache
def keep_freed_memory() -> None:
    """Let a worker of Dask use the memory of temporaries again, some megabytes of it.

    Dask sets its workers up to give memory back to the system as soon as 64 KB of it are free. Each
    temporary of a kernel is then paid for page by page: measured, twice the time of a fit. Other
    processes, and other systems than glibc's, find by themselves what to keep and are left alone.
    """
    if not sys.platform.startswith("linux") or "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _MOST_FREE)
