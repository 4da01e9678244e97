"""Worker processes with limits on time and memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import psutil
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from manyview.datasets import Dataset
from manyview.exceptions import InterruptWarning
from manyview.experiment.methods import Method
from manyview.experiment.results import Ending, Protocol, Run, Usage, json_params, stopped_at
from manyview.metrics import score_all

__all__ = [
    "Limits",
    "Listener",
    "Task",
    "Worker",
    "handlers_held",
    "interrupts_held",
    "perform",
    "perform_all",
]


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold interrupts back, here while a process starts, and in that process for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with handlers_held():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handlers_held() -> Iterator[None]:
    """Put off what signals do here: other threads let them through, and this one acts on them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # interrupts last, as they may come while the others are put back; a handler that was not set
    # from Python is None, and cannot be put back
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


_ROUNDING = 1e-5  # limits that were read from a message have six digits


@dataclass(frozen=True)
class Limits:
    """Limits of a run, beyond which it is stopped.

    Attributes
    ----------
    seconds : float or None
        Wall-clock time; None for any.
    bytes : float or None
        Memory of the process that does it; None for any.

    Examples
    --------
    >>> Limits(seconds=5).exceeded(seconds=6.0, held=0).error
    'stopped at the time limit of 5 s'
    """

    seconds: float | None = None
    bytes: float | None = None

    def exceeded(self, seconds: float, held: int) -> Ending | None:
        """Return how a run that took so much must end, or None where it may go on.

        Parameters
        ----------
        seconds : float
            Wall-clock time that it took.
        held : int
            Bytes of memory that it holds.

        Returns
        -------
        Ending or None
        """
        if self.seconds is not None and seconds > self.seconds:
            return stopped_at("time_limit", self.seconds)
        if self.bytes is not None and held > self.bytes:
            return stopped_at("memory_limit", self.bytes)
        return None

    def would_differ(self, run: Run) -> bool:
        """Whether a run might end otherwise if it were done within these limits, here.

        Parameters
        ----------
        run : Run
            That ended.

        Returns
        -------
        bool
        """
        if run.limit is None:
            # what failed on one machine may not on another, or once something is installed
            return run.outcome == "machine"
        limit = self.seconds if run.outcome == "time_limit" else self.bytes
        return limit is None or limit > run.limit * (1.0 + _ROUNDING)


class Listener:
    """Is told how a comparison goes on, and does nothing with it: a base for those that do.

    Examples
    --------
    >>> from manyview.datasets import make_views
    >>> from manyview.experiment import REFERENCES, compare
    >>> class Printer(Listener):
    ...     def finished(self, run):
    ...         print(f"{run.method}, seed {run.seed}: {run.outcome}")
    >>> data = make_views(60, 3, (6, 5), random_state=0)
    >>> runs = compare([REFERENCES["k-means"]], [data], repeats=2, listener=Printer())
    k-means, seed 0: done
    k-means, seed 1: done
    """

    def planned(self, total: int, known: int) -> None:
        """Hear how much there is to do.

        Parameters
        ----------
        total : int
            Number of runs.
        known : int
            How many of them a results file held already.
        """

    def started(self, task: Task) -> None:
        """Hear that a task is begun.

        Parameters
        ----------
        task : Task
            Its runs are told of as they end.
        """

    def finished(self, run: Run) -> None:
        """Hear of a run that ended.

        Parameters
        ----------
        run : Run
            With its result, or the reason why it has none.
        """


_COST = ("seconds", "cpu_seconds", "peak_bytes")
_TELLING = ValueError  # whose messages are written for users
_OF_THE_MACHINE = (MemoryError, ImportError)


@dataclass(frozen=True)
class Task:
    """A method on a data set with given parameters, for one seed or, sharing work, for several.

    Attributes
    ----------
    method : Method
    data : str
        Name of the data set.
    fingerprint : str
        Of the data set.
    n_samples : int
        Of the data set.
    protocol : {"default", "tuned", "selection"}
    params : mapping
        Parameters beside the estimator's own defaults.
    seeds : tuple of int

    Examples
    --------
    >>> from manyview.experiment import METHODS
    >>> task = Task(METHODS["MMC"], "news", "", 60, "default", {"rank": 20}, (0, 1))
    >>> [(run.method, run.seed, run.preprocessing) for run in task.runs()]
    [('MMC', 0, 'rows'), ('MMC', 1, 'rows')]
    """

    method: Method
    data: str
    fingerprint: str
    n_samples: int
    protocol: Protocol
    params: Mapping[str, Any]
    seeds: tuple[int, ...]

    def runs(self) -> list[Run]:
        """Return the runs of the task, without results."""
        given = self.params.get("normalize", self.method.default_preprocessing)
        return [
            Run(
                self.method.name,
                self.data,
                seed,
                self.protocol,
                json_params(self.params),
                given or "none",
                fingerprint=self.fingerprint,
                n_samples=self.n_samples,
            )
            for seed in self.seeds
        ]


def perform(task: Task, dataset: Dataset) -> Iterator[Run]:
    """Do the runs of a task, one after another; a fit that fails is a run with its reason.

    Where an estimator can be ``relabelled``, it is fitted once for all seeds.

    Parameters
    ----------
    task : Task
    dataset : Dataset
        That of the task, with its classes.

    Yields
    ------
    Run
    """
    fitted: Any = None
    first: Run | None = None
    for run in task.runs():
        done, estimator = _performed(run, task, dataset, fitted)
        yield done if first is None else _with_fit_of(first, done)
        if first is None and hasattr(estimator, "relabelled"):
            fitted, first = estimator, done


def _performed(run: Run, task: Task, dataset: Dataset, fitted: Any) -> tuple[Run, Any]:
    """Return a run with its result, and the estimator; one that is fitted gets new labels only."""
    if dataset.y is None:
        raise ValueError(f"data set {dataset.name!r} has no classes to score against")
    n_clusters = np.unique(dataset.y).size
    with warnings.catch_warnings(), Usage() as usage:
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", InterruptWarning)
        try:
            if fitted is None:
                estimator = task.method.make(
                    n_clusters=n_clusters, random_state=run.seed, **task.params
                )
                labels = estimator.fit(dataset.views).labels_
            else:
                estimator, labels = fitted, fitted.relabelled(run.seed)
            n_iter = getattr(estimator, "n_iter_", None)
            scored = replace(
                run,
                scores=score_all(dataset.y, labels),
                n_iter=None if n_iter is None else int(n_iter),
                objective=tuple(map(float, getattr(estimator, "objective_", ()))),
            )
        except InterruptWarning:  # what was reached is no result of the method
            raise KeyboardInterrupt from None
        except Exception as error:  # one run that fails does not stop the others
            return run.ended(_ending(error)), None
    cost = {name: getattr(usage, name) for name in _COST}
    return replace(scored, **cost), estimator


def _with_fit_of(first: Run, run: Run) -> Run:
    """Count the fit of the first run, which serves the others too, in another."""
    if run.outcome != "done":
        return run
    return replace(
        run,
        seconds=first.seconds + run.seconds,
        cpu_seconds=first.cpu_seconds + run.cpu_seconds,
        peak_bytes=max(first.peak_bytes, run.peak_bytes),
    )


def _ending(error: Exception) -> Ending:
    told = str(error)
    if not told or not isinstance(error, _TELLING):
        told = f"{type(error).__name__}: {told}" if told else type(error).__name__
    elsewhere = isinstance(error, _OF_THE_MACHINE)
    return Ending("machine" if elsewhere else "failed", told)


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
