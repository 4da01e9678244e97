"""How many threads BLAS has while other threads do the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from threadpoolctl import threadpool_info, threadpool_limits

__all__ = ["blas_threads", "limited_blas"]


class _Limit:
    """The limit of this process, which the first who asks sets and the last who leaves lifts.

    Each to set back what it found would leave the limit of another behind where calls overlap.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = ExitStack()
        self._users = 0
        self.before: int | None = None

    def enter(self, threads: int) -> None:
        with self._lock:
            if self._users == 0:
                self.before = _blas_threads()
                self._held.enter_context(threadpool_limits(threads, user_api="blas"))
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._held.close()
                self.before = None


_LIMIT = _Limit()


@contextmanager
def limited_blas(threads: int) -> Iterator[None]:
    """Hold BLAS to some threads, and OpenMP in this thread; calls that overlap share a limit.

    Parameters
    ----------
    threads : int
        Number of threads.
    """
    _LIMIT.enter(threads)
    try:
        with threadpool_limits(threads, user_api="openmp"):  # of which each thread has its own
            yield
    finally:
        _LIMIT.leave()


def blas_threads() -> int:
    """Return how many threads BLAS would use, as the caller and the environment have it."""
    return _LIMIT.before or _blas_threads()


def _blas_threads() -> int:
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max((int(pool["num_threads"]) for pool in pools), default=1)
