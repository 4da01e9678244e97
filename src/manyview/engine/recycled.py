"""Memory of large arrays that serves again once they are dropped.

A process asks the system for the memory of each large array, and gives it back with the array. The
system hands it over page by page, in zeros: for an array that is written once and read a few times
that can take as long as the work on it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import cache
from math import prod
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Recycled", "recycled_here"]

_LEAST = 1 << 20  # bytes below which the allocator finds memory by itself
_PART_OF_LIMIT = 16  # of the memory of a worker of Dask


class Recycled:
    """Arrays whose memory is kept for others of their size.

    Parameters
    ----------
    most : int
        Bytes that are kept; what is dropped beyond goes back to the system.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = 0
        self._free: dict[int, list[npt.NDArray[np.uint8]]] = defaultdict(list)
        # garbage may be collected, and memory come back, while this thread holds it
        self._lock = RLock()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array with entries that are not set."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if not _LEAST <= size <= self._most:
            return np.empty(shape, dtype)
        with self._lock:
            memory = self._free[size].pop() if self._free[size] else None
            self._kept -= 0 if memory is None else size
        lease = _Lease(self, np.empty(size, np.uint8) if memory is None else memory)
        return np.asarray(lease).view(dtype).reshape(shape)

    def take_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Keep the memory of an array that was dropped, if there is room for it."""
        with self._lock:
            if self._kept + memory.nbytes <= self._most:
                self._kept += memory.nbytes
                self._free[memory.nbytes].append(memory)


class _Lease:
    """What arrays that share memory refer to, as long as there are any."""

    def __init__(self, owner: Recycled, memory: npt.NDArray[np.uint8]) -> None:
        self._owner, self._memory = owner, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._owner.take_back(self._memory)


@cache
def recycled_here() -> Recycled:
    """Return the arrays of this process: a worker of Dask keeps a part of the memory it may use."""
    return Recycled(_memory_limit() // _PART_OF_LIMIT)


def _memory_limit() -> int:
    if "distributed" not in sys.modules:
        return 0
    from distributed import get_worker
    from distributed.system import MEMORY_LIMIT

    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:  # tasks that threads of this process run
        return 0
    # one without a limit may have others beside it
    return int(limit or MEMORY_LIMIT // 4)
