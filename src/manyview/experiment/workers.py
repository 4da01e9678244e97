"""Tasks side by side in processes of their own, each within limits of time and memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil
from threadpoolctl import threadpool_limits

from manyview.datasets import Dataset
from manyview.experiment.limits import Limits
from manyview.experiment.outcome import Ending
from manyview.experiment.run import Run
from manyview.experiment.tasks import Task, perform

__all__ = ["perform_all"]

_POLL_SECONDS = 0.1
_START_SECONDS = 60.0  # to import the library in a new process


def perform_all(
    tasks: Sequence[Task],
    datasets: Mapping[str, Dataset],
    *,
    n_jobs: int,
    n_threads: int,
    limits: Limits,
    on_start: Callable[[Task], None] = lambda task: None,
) -> Iterator[Run]:
    """Do tasks, `n_jobs` at a time, and yield their runs as they are done.

    Where a run goes beyond the limits, those that differ by their seed only are not tried.

    Parameters
    ----------
    tasks : sequence of Task
    datasets : mapping of str to Dataset
        By name.
    n_jobs : int
        Processes side by side.
    n_threads : int
        Threads to which each of them holds its linear algebra.
    limits : Limits
        A run beyond them is stopped and is a run with that reason.
    on_start : callable
        Called with every task as it is begun.

    Yields
    ------
    Run
    """
    waiting = deque(tasks)
    workers: list[_Worker] = []
    try:
        for _ in range(min(n_jobs, len(waiting))):
            workers.append(_Worker(datasets, n_threads))
        while waiting or any(worker.left for worker in workers):
            for worker in workers:
                if not worker.left and waiting:
                    task = waiting.popleft()
                    on_start(task)
                    worker.give(task)
            wait([worker.connection for worker in workers if worker.left], _POLL_SECONDS)
            for worker in workers:
                # asked of each in its turn: what is here is in time, whatever held the others up
                if worker.left and worker.connection.poll():
                    yield from worker.received()
                if worker.left:
                    for run in worker.stopped_beyond(limits):
                        yield run
                        yield from _given_up(waiting, run)
    finally:
        for worker in workers:
            worker.end()


def _given_up(waiting: deque[Task], ended: Run) -> Iterator[Run]:
    """Take tasks off those that wait where a limit stopped a run that differs by its seed only."""
    ending = ended.for_other_seeds
    if ending is None:
        return
    for task in list(waiting):
        runs = task.runs()
        if runs[0].key.without_seed == ended.key.without_seed:
            waiting.remove(task)
            yield from (run.ended(ending) for run in runs)


@dataclass
class _Worker:
    """A process that does tasks, and what it still owes."""

    datasets: Mapping[str, Dataset]
    threads: int
    left: deque[Run] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # forked processes inherit thread pools in an unknown state
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.threads), daemon=True)
        try:
            with _interrupts_held():
                self._process.start()
        except BaseException:
            self.end()  # nobody else knows of it yet
            raise
        finally:
            theirs.close()
        self._has_data = self._warm = False

    def _send(self, message: Any) -> None:
        with suppress(ConnectionError):  # of a process that has ended: `received` tells of it
            self.connection.send(message)

    def give(self, task: Task) -> None:
        self.left = deque(task.runs())
        self._since = time.monotonic()
        self._task = task
        if self._has_data:
            self._send(task)

    def received(self) -> Iterator[Run]:
        try:
            run = self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            yield from self._fail(Ending("machine", f"the process ended with code {code}"))
            return
        if run is None and not self._has_data:  # it listens: to send earlier would be to wait
            self._has_data = True
            self._send(dict(self.datasets))
            self._send(self._task)
        elif run is None:  # warm, and about to begin
            self._warm = True
        else:
            self.left.popleft()
            yield run
        self._since = time.monotonic()

    def stopped_beyond(self, limits: Limits) -> Iterator[Run]:
        spent = time.monotonic() - self._since
        if not self._warm:
            if spent > _START_SECONDS + (limits.seconds or 0.0):
                yield from self._fail(Ending("machine", "the process did not start"))
            return
        ending = limits.exceeded(spent, self._memory() if limits.bytes is not None else 0)
        if ending is not None:
            yield from self._fail(ending)

    def _memory(self) -> int:
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def _fail(self, ending: Ending) -> Iterator[Run]:
        """Give up what is left of a task, and begin a new process for the next one."""
        failed, self.left = list(self.left), deque()
        self.end()
        self._start()
        for run in failed:
            yield run.ended(ending)

    def end(self) -> None:
        if self._process.pid is not None:  # it may not have been to be started
            self._process.kill()
            self._process.join()
        self.connection.close()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold interrupts back, here while a process starts, and in that process for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _handlers_held():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _handlers_held() -> Iterator[None]:
    """Put off what signals do here: other threads let them through, and this one acts on them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # interrupts last, as they may come while the others are put back; None is of no Python's
    held = [
        (number, handler)
        for number in (signal.SIGTERM, signal.SIGINT)
        if (handler := signal.getsignal(number)) is not None
    ]
    for number, _ in held:
        signal.signal(number, lambda came, frame: received.append(came))
    try:
        yield
    finally:
        for number, handler in held:
            signal.signal(number, handler)
        for came in received:
            signal.raise_signal(came)


def _serve(connection: Connection, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection.send(None)
    messages = _messages(connection)
    datasets: dict[str, Dataset] = next(messages, {})
    with threadpool_limits(threads):
        for task in messages:
            connection.send(None)
            for run in perform(task, datasets[task.data]):
                connection.send(run)


def _messages(connection: Connection) -> Iterator[Any]:
    """Yield what the other end sends until it ends, be it in the midst of a message."""
    with suppress(EOFError, OSError):
        while True:
            yield connection.recv()


def _end_with_parent() -> None:
    """End this process when its parent has, however that ended: nobody would take the result."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
