"""Memory of large arrays that serves again once they are dropped.

A process asks the system for the memory of each large array, and gives it back with the array. The
system hands it over page by page, in zeros: for an array that is written once and read a few times
that can take as long as the work on it. See benchmarks/cluster.py.
"""

from __future__ import annotations

import sys
from math import prod
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

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
        Bytes that are kept; beyond, what was dropped first goes back to the system.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[npt.NDArray[np.uint8]] = []
        # garbage may be collected, and memory come back, while this thread holds it
        self._lock = RLock()

    @property
    def kept(self) -> int:
        """Bytes that wait for an array."""
        return sum(memory.nbytes for memory in tuple(self._free))

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array with entries that are not set."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if not _LEAST <= size <= self._most:
            return np.empty(shape, dtype)
        # all views of an array refer to what it was made from, here to the lease
        return np.asarray(_Lease(self, self._memory(size))).view(dtype).reshape(shape)

    def take_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Keep the memory of an array that was dropped."""
        # a thread that was stopped at the end of the process would never let the lock go
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._free.append(memory)
            while self.kept > self._most:
                del self._free[0]
        finally:
            self._lock.release()

    def _memory(self, size: int) -> npt.NDArray[np.uint8]:
        with self._lock:
            for n, memory in enumerate(self._free):
                if memory.nbytes == size:
                    return self._free.pop(n)
        return np.empty(size, np.uint8)


class _Lease:
    """What all arrays that share memory refer to, as long as there are any."""

    def __init__(self, owner: Recycled, memory: npt.NDArray[np.uint8]) -> None:
        self._owner, self._memory = owner, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._owner.take_back(self._memory)


_NOTHING = Recycled(0)
_BY_WORKER: WeakKeyDictionary[Any, Recycled] = WeakKeyDictionary()


def recycled_here() -> Recycled:
    """Return the arrays of the worker of Dask that runs this task; elsewhere nothing is kept.

    A worker keeps a part of the memory that it may use.
    """
    if "distributed" not in sys.modules:
        return _NOTHING
    from distributed import get_worker
    from distributed.system import MEMORY_LIMIT

    try:
        worker = get_worker()
    except ValueError:  # threads of this process
        return _NOTHING
    if worker not in _BY_WORKER:
        # one without a limit may have others beside it
        limit = int(worker.memory_manager.memory_limit or MEMORY_LIMIT // 4)
        _BY_WORKER.setdefault(worker, Recycled(limit // _PART_OF_LIMIT))
    return _BY_WORKER[worker]
