"""How many threads BLAS and OpenMP have while other threads do the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import threadpoolctl
from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads", "limited_blas", "limited_threads"]


class _Limit:
    """BLAS's limit in this process, which the first who asks sets and the last who leaves lifts.

    Each to set back what it found would leave the limit of another behind where calls overlap.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a process that was forked, whose parent's threads are not there."""
        self._lock = Lock()
        self._held: Any = None
        self._users = 0
        self._before = 1

    def enter(self, threads: int) -> None:
        with self._lock:
            if self._users == 0:
                found = _pools().select(user_api="blas")
                self._before = _most_of_blas(found)
                self._held = found.limit(limits=threads)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _disown()
                self._held.restore_original_limits()
                _disown()

    def without(self) -> int:
        """Return how many threads BLAS has where the limit is lifted."""
        with self._lock:
            return self._before if self._users else _most_of_blas(_pools())


_LIMIT = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.forget)


@contextmanager
def limited_blas(threads: int) -> Iterator[None]:
    """Hold BLAS to some threads; calls that overlap share the limit of the first."""
    _LIMIT.enter(threads)
    try:
        yield
    finally:
        _LIMIT.leave()


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Hold BLAS to some threads, and OpenMP as far as it is called from this thread."""
    openmp = _pools().select(user_api="openmp")
    with limited_blas(threads), openmp.limit(limits=threads):
        yield


def blas_threads() -> int:
    """Return how many threads BLAS would use, as the caller and the environment have it."""
    return _LIMIT.without()


def _pools() -> ThreadpoolController:
    """Return the pools of threads in this process; looking for them takes milliseconds."""
    return _pools_of(len(sys.modules))  # a library comes with a module


@lru_cache(maxsize=1)
def _pools_of(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def _most_of_blas(found: ThreadpoolController) -> int:
    pools = (pool for pool in found.info() if pool["user_api"] == "blas")
    return max((int(pool["num_threads"]) for pool in pools), default=1)


def _disown() -> None:
    """Let any thread set OpenBLAS: since 3.8 threadpoolctl heeds the one that did so first only."""
    blas = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(blas, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
