"""How many threads BLAS has while other threads do the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from threadpoolctl import ThreadpoolController

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
                found = ThreadpoolController()
                self.before = _most_of_blas(found)
                self._held.enter_context(found.limit(limits=threads, user_api="blas"))
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
    """Hold BLAS to some threads; calls that overlap share the limit of the first.

    Parameters
    ----------
    threads : int
        Number of threads.
    """
    _LIMIT.enter(threads)
    try:
        yield
    finally:
        _LIMIT.leave()


def blas_threads() -> int:
    """Return how many threads BLAS would use, as the caller and the environment have it."""
    return _LIMIT.before or _most_of_blas(ThreadpoolController())


def _most_of_blas(found: ThreadpoolController) -> int:
    pools = (pool for pool in found.info() if pool["user_api"] == "blas")
    return max((int(pool["num_threads"]) for pool in pools), default=1)
