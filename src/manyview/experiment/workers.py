"""Tasks, and the worker processes that perform them within limits on time and memory."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from manyview.datasets import Dataset
from manyview.exceptions import InterruptWarning
from manyview.experiment.methods import Method
from manyview.experiment.results import Outcome, Protocol, Run
from manyview.metrics import score_all

__all__ = ["Limits", "Listener", "Task", "perform", "perform_all"]


@dataclass(frozen=True)
class Task:
    """A method on a data set with given parameters, for one seed or for several that share a fit.

    Attributes
    ----------
    method : Method
    data : str
        Name of the data set.
    fingerprint : str
        Hash of the data set.
    n_samples : int
        Number of samples.
    protocol : {"default", "tuned", "selection"}
    params : mapping
        Parameters that differ from the estimator's own defaults.
    seeds : tuple of int

    Examples
    --------
    >>> from manyview.experiment import METHODS
    >>> task = Task(METHODS["MMC"], "news", "", 60, "default", {"rank": 20}, (0, 1))
    >>> [(run.method, run.seed, run.preprocessing) for run in task.runs()]
    [('MMC', 0, 'auto'), ('MMC', 1, 'auto')]
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
        scaling = self.params.get("normalize", self.method.default_preprocessing)
        # as they are read back from a results file: NumPy's numbers become Python's
        params = json.loads(json.dumps(dict(self.params), default=_as_python))
        return [
            Run(
                self.method.name,
                self.data,
                seed,
                self.protocol,
                params,
                scaling or "none",
                fingerprint=self.fingerprint,
                n_samples=self.n_samples,
            )
            for seed in self.seeds
        ]


def _as_python(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@dataclass(frozen=True)
class Limits:
    """Limits on the time and memory of one run.

    Attributes
    ----------
    seconds : float or None
        Wall-clock time; None for no limit.
    bytes : float or None
        Memory of the process; None for no limit.

    Examples
    --------
    >>> Limits(seconds=5).exceeded(seconds=6.0, held=0)
    ('time_limit', 5)
    """

    seconds: float | None = None
    bytes: float | None = None

    def exceeded(self, seconds: float, held: int) -> tuple[Outcome, float] | None:
        """Return the limit that a run of so many seconds and bytes exceeds, or None."""
        if self.seconds is not None and seconds > self.seconds:
            return "time_limit", self.seconds
        if self.bytes is not None and held > self.bytes:
            return "memory_limit", self.bytes
        return None

    def would_differ(self, run: Run) -> bool:
        """Return True if a finished run may end otherwise within these limits on this machine."""
        if run.limit is None:
            return run.outcome == "machine"
        limit = self.seconds if run.outcome == "time_limit" else self.bytes
        return limit is None or limit > run.limit


class Listener:
    """A base class for objects that follow a comparison. It does nothing itself.

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
        """Receive the number of runs, and how many of them the results file already holds."""

    def started(self, task: Task) -> None:
        """Receive a task that begins."""

    def finished(self, run: Run) -> None:
        """Receive a run that ended, with its scores or the reason why it has none."""


def perform(task: Task, dataset: Dataset) -> Iterator[Run]:
    """Yield the runs of a task. A fit that fails yields a run with the reason.

    An estimator that can be ``relabelled`` is fitted once, and the fit counts in the cost of every
    seed.
    """
    fitted: Any = None
    first: Run | None = None
    for run in task.runs():
        done, estimator = _fit_and_score(run, task, dataset, fitted)
        if first is not None and done.outcome == "done":
            done = replace(
                done,
                seconds=first.seconds + done.seconds,
                cpu_seconds=first.cpu_seconds + done.cpu_seconds,
                peak_bytes=max(first.peak_bytes, done.peak_bytes),
            )
        yield done
        if first is None and hasattr(estimator, "relabelled"):
            fitted, first = estimator, done


def _fit_and_score(run: Run, task: Task, dataset: Dataset, fitted: Any) -> tuple[Run, Any]:
    """Return a run with its result, and the estimator. A fitted one is only relabelled."""
    if dataset.y is None:
        raise ValueError(f"data set {dataset.name!r} has no classes to score against")
    n_clusters = np.unique(dataset.y).size
    with warnings.catch_warnings(), _measured() as cost:
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
        except InterruptWarning:  # the labels of an interrupted fit are no result of the method
            raise KeyboardInterrupt from None
        except Exception as error:  # the other runs go on
            message = str(error)
            if not message or not isinstance(error, ValueError):
                message = f"{type(error).__name__}: {message}".removesuffix(": ")
            elsewhere = isinstance(error, MemoryError | ImportError)
            return run.ended("machine" if elsewhere else "failed", message), None
    return replace(scored, **cost), estimator


@contextmanager
def _measured() -> Iterator[dict[str, Any]]:
    """Measure a block: seconds, processor seconds of all threads, and peak memory in bytes."""
    with suppress(OSError):  # if Linux cannot reset the peak, it is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")
    began, cpu_began = time.perf_counter(), time.process_time()
    cost: dict[str, Any] = {}
    yield cost
    cost["seconds"] = time.perf_counter() - began
    cost["cpu_seconds"] = time.process_time() - cpu_began
    cost["peak_bytes"] = _peak_bytes()


def _peak_bytes() -> int:
    """Return the peak memory of this process; 0 if the system does not report it."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


_POLL_SECONDS = 0.1
_START_SECONDS = 60.0  # allowed for importing the library in a new process
_NO_START = (
    "a worker process failed while starting, for the reason printed above; a script that passes "
    "n_jobs has to call compare below `if __name__ == '__main__':`, because every worker process "
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
    known: Sequence[Run] = (),
) -> Iterator[Run]:
    """Perform tasks in `n_jobs` processes of `n_threads` threads, and yield their runs.

    A run that exceeds a limit is stopped, and runs that differ only in their seed are then
    skipped. The same holds for runs stopped earlier, which `known` may contain.
    """
    waiting = deque(tasks)
    yield from _skipped(waiting, known)
    workers: list[Worker] = []
    try:
        for _ in range(min(n_jobs, len(waiting))):
            workers.append(Worker(datasets, n_threads))
        while waiting or any(worker.left for worker in workers):
            for worker in workers:
                if waiting and not worker.left:
                    task = waiting.popleft()
                    on_start(task)
                    worker.give(task)
            wait([worker.connection for worker in workers if worker.left], _POLL_SECONDS)
            for worker in workers:
                # Receive before checking limits: a result that has arrived was in time.
                if worker.left and worker.connection.poll():
                    yield from worker.received()
                if worker.left:
                    stopped = list(worker.stopped_beyond(limits))
                    yield from stopped
                    yield from _skipped(waiting, stopped)
    finally:
        for worker in workers:
            worker.end()


def _skipped(waiting: deque[Task], ended: Sequence[Run]) -> Iterator[Run]:
    """Remove tasks of which another seed was stopped at a limit, and yield their runs."""
    stopped = {run.key[:-1]: run for run in ended if run.limit is not None}
    for task in list(waiting) if stopped else ():
        runs = task.runs()
        if (other := stopped.get(runs[0].key[:-1])) is not None:
            waiting.remove(task)
            yield from (run.skipped_after(other) for run in runs)


class Worker:
    """A process that performs tasks, one at a time.

    `left` holds the runs of its task that have not ended, and `connection` receives its answers.
    """

    def __init__(self, datasets: Mapping[str, Dataset], threads: int) -> None:
        self.left: deque[Run] = deque()
        self._datasets, self._threads = datasets, threads
        self._start()

    def _start(self) -> None:
        # A forked process would inherit thread pools in an unknown state.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._threads), daemon=True)
        try:
            with interrupts_held():
                self._process.start()
        except BaseException:
            self.end()
            raise
        finally:
            theirs.close()
        self._has_data = self._warm = False

    def give(self, task: Task) -> None:
        """Begin a task."""
        self.left = deque(task.runs())
        self._since = time.monotonic()
        self._task = task
        if self._has_data:
            self._send(task)

    def _send(self, message: Any) -> None:
        with suppress(ConnectionError):  # `received` handles a process that has ended
            self.connection.send(message)

    def received(self) -> Iterator[Run]:
        """Yield the run that arrived, or the rest of the task if the process has ended."""
        try:
            run = self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            if code == 1 and not self._has_data:
                raise RuntimeError(_NO_START) from None
            for run in self._restart():
                yield run.ended("machine", f"the process ended with code {code}")
            return
        if run is None and not self._has_data:  # ready; sending the data earlier would block
            self._has_data = True
            self._send(dict(self._datasets))
            self._send(self._task)
        elif run is None:  # about to begin the task
            self._warm = True
        else:
            self.left.popleft()
            yield run
        self._since = time.monotonic()

    def stopped_beyond(self, limits: Limits) -> Iterator[Run]:
        """Stop the process if its run exceeds the limits, and yield the rest of the task."""
        spent = time.monotonic() - self._since
        if not self._warm:
            if spent > _START_SECONDS + (limits.seconds or 0.0):
                for run in self._restart():
                    yield run.ended("machine", "the process did not start")
            return
        exceeded = limits.exceeded(spent, 0 if limits.bytes is None else self._resident_bytes())
        if exceeded is not None:
            for run in self._restart():
                yield run.stopped(*exceeded)

    def _resident_bytes(self) -> int:
        import psutil  # needed for memory limits only

        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def _restart(self) -> list[Run]:
        """Replace the process by a new one, and return the runs that were left."""
        left, self.left = list(self.left), deque()
        self.end()
        self._start()
        return left

    def end(self) -> None:
        """End the process."""
        if self._process.pid is not None:  # None if its start failed
            self._process.kill()
            self._process.join()
        self.connection.close()


def _serve(connection: Connection, threads: int) -> None:
    """Perform tasks in a worker process. The first message is the data sets."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError), threadpool_limits(threads):
        connection.send(None)
        datasets: dict[str, Dataset] = connection.recv()
        while True:
            task: Task = connection.recv()
            connection.send(None)
            for run in perform(task, datasets[task.data]):
                connection.send(run)


def _end_with_parent() -> None:
    """End this process as soon as its parent ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay interrupts while a process starts, and block them in that process."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock interrupts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with handlers_held():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handlers_held() -> Iterator[None]:
    """Delay signal handlers. The mask is not enough, as other threads may receive the signal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # SIGINT is restored last, as it may arrive while SIGTERM is restored. A handler that was not
    # set from Python is None and cannot be restored.
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
