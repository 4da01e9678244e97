"""Limits on the threads of BLAS and OpenMP while other threads do the work."""

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
    """The limit of BLAS in this process: the first user sets it and the last one lifts it.

    If every user restored what it found, overlapping calls would leave a limit behind.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all users, as in a forked process, which does not have its parent's threads."""
        self._lock = Lock()
        self._held: Any = None
        self._users = 0
        self._before = 1

    def enter(self, threads: int) -> None:
        with self._lock:
            if self._users == 0:
                pools = _pools().select(user_api="blas")
                self._before = _most_threads(pools)
                self._held = pools.limit(limits=threads)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _release_openblas()
                self._held.restore_original_limits()
                _release_openblas()

    def threads_without(self) -> int:
        with self._lock:
            return self._before if self._users else _most_threads(_pools())


_LIMIT = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.reset)


@contextmanager
def limited_blas(threads: int) -> Iterator[None]:
    """Limit the threads of BLAS; overlapping calls share the limit of the first."""
    _LIMIT.enter(threads)
    try:
        yield
    finally:
        _LIMIT.leave()


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Limit the threads of BLAS, and those of OpenMP for calls from this thread."""
    openmp = _pools().select(user_api="openmp")
    with limited_blas(threads), openmp.limit(limits=threads):
        yield


def blas_threads() -> int:
    """Return the number of BLAS threads that the caller and the environment allow."""
    return _LIMIT.threads_without()


def _pools() -> ThreadpoolController:
    """Return the thread pools of this process. Finding them takes milliseconds."""
    return _pools_of(len(sys.modules))  # a new library comes with a new module


@lru_cache(maxsize=1)
def _pools_of(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def _most_threads(pools: ThreadpoolController) -> int:
    blas = (pool for pool in pools.info() if pool["user_api"] == "blas")
    return max((int(pool["num_threads"]) for pool in blas), default=1)


def _release_openblas() -> None:
    """Let any thread set OpenBLAS: since 3.8 threadpoolctl only obeys the first thread that did."""
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(controller, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
