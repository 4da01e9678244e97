"""Tasks side by side in processes of their own, each within limits of time and memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil
from threadpoolctl import threadpool_limits

from manyview.datasets import Dataset
from manyview.experiment.limits import Limits
from manyview.experiment.outcome import Ending
from manyview.experiment.run import Run
from manyview.experiment.signals import interrupts_held
from manyview.experiment.tasks import Task, perform

__all__ = ["Worker", "perform_all"]

_POLL_SECONDS = 0.1
_START_SECONDS = 60.0  # to import the library in a new process
_NO_START = (
    "a process of the comparison failed as it began, for the reason printed above; a script that "
    "asks for n_jobs has to call compare below `if __name__ == '__main__':`, as every such process "
    "imports the script"
)


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

    Raises
    ------
    RuntimeError
        If a process fails as it begins: so would all others.
    """
    waiting = deque(tasks)
    workers: list[Worker] = []
    try:
        for _ in range(min(n_jobs, len(waiting))):
            workers.append(Worker(datasets, n_threads))
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
class Worker:
    """A process that does tasks, and what it still owes.

    Attributes
    ----------
    datasets : mapping of str to Dataset
        By name.
    threads : int
        Of linear algebra in the process.
    left : deque of Run
        The runs of its task that have not ended yet.
    connection : Connection
        On which the process answers.
    """

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
            with interrupts_held():
                self._process.start()
        except BaseException:
            self.end()  # nobody else knows of it yet
            raise
        finally:
            theirs.close()
        self._has_data = self._warm = False

    def _send(self, message: Any) -> None:
        with suppress(ConnectionError):  # the process has ended: `received` tells of it
            self.connection.send(message)

    def give(self, task: Task) -> None:
        """Have a task begun."""
        self.left = deque(task.runs())
        self._since = time.monotonic()
        self._task = task
        if self._has_data:
            self._send(task)

    def received(self) -> Iterator[Run]:
        """Yield the run that has come, or what is left of the task where the process has ended."""
        try:
            run = self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            if code == 1 and not self._has_data:
                raise RuntimeError(_NO_START) from None
            yield from self._fail(Ending("machine", f"the process ended with code {code}"))
            return
        if run is None and not self._has_data:  # it listens; sending earlier would mean waiting
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
        """End the process where its run is beyond the limits; yield what is left of the task."""
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
        """End the process."""
        if self._process.pid is not None:  # it may never have been started
            self._process.kill()
            self._process.join()
        self.connection.close()


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
