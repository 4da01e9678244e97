import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import replace

import psutil
import pytest

from manyview import KCTD, RMKMC, SEC
from manyview.datasets import Dataset, make_views, write_views
from manyview.experiment import (
    Limits,
    Listener,
    Method,
    ResultsFile,
    Run,
    Task,
    compare,
    summarise,
    workers,
)
from manyview.experiment.workers import handlers_held, interrupts_held

EASY = make_views(60, 3, (6, 5), random_state=0)
DATA = Dataset(EASY.views, EASY.y, name="easy")
LARGE = make_views(4000, 3, (300, 300), random_state=0)
LARGE_DATA = Dataset(LARGE.views, LARGE.y, name="large")
# does not end before it is stopped
SLOW = Method("slow", KCTD, {"max_iter": 100_000, "tol": 0.0})


def unchanging(runs):
    return [(run.key, run.scores, run.n_iter, run.objective, run.error) for run in runs]


def test_worker_processes_return_the_same_runs():
    broken = Method("broken", RMKMC, {"no_such_parameter": 1})
    methods = [Method("RMKMC", RMKMC), Method("SEC", SEC), broken]
    here = compare(methods, [DATA], repeats=3)
    there = compare(methods, [DATA], repeats=3, n_jobs=2)
    assert unchanging(here) == unchanging(there)
    assert all(run.peak_bytes > 0 for run in there[:6])
    assert "no_such_parameter" in there[-1].error


@pytest.mark.slow
def test_a_run_beyond_its_time_is_stopped_and_the_others_go_on():
    methods = [SLOW, Method("RMKMC", RMKMC)]
    slow, fast = summarise(
        compare(methods, [LARGE_DATA], repeats=1, n_jobs=1, limits=Limits(seconds=3.0))
    )
    assert slow.errors == ("stopped at the time limit of 3 s",)
    assert fast.n_runs == 1


@pytest.mark.slow
def test_after_a_stopped_run_its_other_seeds_are_skipped():
    methods = [SLOW, Method("RMKMC", RMKMC)]
    begun = []

    class Heard(Listener):
        def started(self, task):
            begun.append(task.method.name)

    limits = Limits(seconds=2.0)
    runs = compare(methods, [LARGE_DATA], repeats=3, n_jobs=1, limits=limits, listener=Heard())
    slow = [run for run in runs if run.method == "slow"]
    assert ["another seed" in run.error for run in slow] == [False, True, True]
    assert {(run.outcome, run.limit) for run in slow} == {("time_limit", 2.0)}
    assert begun == ["slow"] + 3 * ["RMKMC"]
    assert all(run.scores for run in runs if run.method == "RMKMC")


def test_seeds_of_a_run_that_was_stopped_before_are_skipped():
    tasks = [Task(SLOW, "easy", "", 60, "default", {}, (seed,)) for seed in (1, 2)]
    before = replace(*tasks[0].runs(), seed=0).stopped("time_limit", 2.0)
    options = {"n_jobs": 1, "n_threads": 1, "limits": Limits(seconds=2.0)}
    runs = list(workers.perform_all(tasks, {"easy": DATA}, **options, known=[before]))
    assert [(run.seed, run.outcome, run.limit) for run in runs] == [
        (1, "time_limit", 2.0),
        (2, "time_limit", 2.0),
    ]


@pytest.mark.slow
def test_other_seeds_are_skipped_later_too_with_the_same_file(tmp_path):
    limits = Limits(seconds=1.0)
    begun = []

    class Heard(Listener):
        def started(self, task):
            begun.append(task.seeds)

    for repeats in (1, 3):
        with ResultsFile(tmp_path / "runs.jsonl") as results:
            options = {"n_jobs": 1, "limits": limits, "results": results, "listener": Heard()}
            runs = compare([SLOW], [LARGE_DATA], repeats=repeats, **options)
    assert begun == [(0,)]
    assert len(runs) == 3
    assert all(run.error.startswith("stopped at the time limit of 1 s") for run in runs)


@pytest.mark.slow
def test_a_run_beyond_its_memory_is_stopped_and_the_others_go_on():
    methods = [Method("SEC", SEC), Method("RMKMC", RMKMC)]
    data = [LARGE_DATA, DATA]
    runs = compare(methods, data, repeats=1, n_jobs=1, limits=Limits(bytes=1e6))
    assert {run.error for run in runs} == {"stopped at the memory limit of 0.001 GB"}
    assert len(runs) == 4


@pytest.mark.slow
def test_a_killed_process_is_a_failed_run_and_the_others_go_on():
    def kill():
        for child in multiprocessing.active_children():
            child.kill()

    class Killer(Listener):
        def started(self, task):
            if task.method.name == "slow":
                threading.Timer(4.0, kill).start()

    methods = [SLOW, Method("RMKMC", RMKMC)]
    killed, fine = compare(methods, [LARGE_DATA], repeats=1, n_jobs=1, listener=Killer())
    assert (killed.outcome, killed.error) == ("machine", "the process ended with code -9")
    assert fine.outcome == "done"


@pytest.mark.slow
def test_a_script_without_main_guard_gets_one_clear_error(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from manyview.datasets import make_views\n"
        "from manyview.experiment import METHODS, compare\n"
        "compare([METHODS['MMC']], [make_views(60, 3, (6, 5))], repeats=3, n_jobs=1)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: a worker process failed")
    assert "if __name__ == '__main__':" in last


@pytest.mark.slow
def test_processes_end_with_their_parent(tmp_path):
    path = tmp_path / "large.npz"
    write_views(path, LARGE.views, LARGE.y)
    command = [sys.executable, "-m", "manyview", "compare", str(path), "--methods", "KCTD", "-j1"]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = []
    while not any("spawn_main" in " ".join(child.cmdline()) for child in children):
        time.sleep(0.2)
        children = psutil.Process(parent.pid).children()
    time.sleep(2.0)
    parent.kill()
    parent.wait()
    assert psutil.wait_procs(children, timeout=20)[1] == []


def test_a_result_that_arrived_in_time_counts_even_if_it_is_received_late(monkeypatch):
    class Punctual:
        """A worker that ends every run of seed n after n / 10 seconds."""

        def __init__(self, datasets, threads):
            self.left = deque()
            self.connection, self.theirs = multiprocessing.Pipe()

        def give(self, task):
            self.left, self.since = deque(task.runs()), time.monotonic()
            threading.Timer(task.seeds[0] / 10, self.theirs.send, task.runs()).start()

        def received(self):
            self.left.popleft()
            yield replace(self.connection.recv(), scores={"acc": 1.0})

        def stopped_beyond(self, limits):
            if time.monotonic() - self.since > limits.seconds:
                yield replace(self.left.popleft(), error="stopped")

        def end(self):
            self.connection.close()

    monkeypatch.setattr(workers, "Worker", Punctual)
    tasks = [Task(SLOW, "easy", "", 60, "default", {}, (seed,)) for seed in (0, 1)]
    found = []
    for run in workers.perform_all(
        tasks, {"easy": DATA}, n_jobs=2, n_threads=1, limits=Limits(seconds=0.2)
    ):
        found.append(run)
        time.sleep(0.4)
    assert [(run.seed, run.error) for run in found] == [(0, ""), (1, "")]


@pytest.mark.slow
def test_no_process_is_left_if_another_cannot_be_started(monkeypatch):
    launched = []
    start = multiprocessing.context.SpawnProcess.start

    def starting(process):
        launched.append(process)
        if len(launched) > 2:
            raise OSError("no more of them")
        start(process)

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "start", starting)
    with pytest.raises(OSError, match="no more of them"):
        compare([SLOW], [LARGE_DATA], repeats=2, n_jobs=2, limits=Limits(seconds=0.5))
    assert not multiprocessing.active_children()


RUN = Run("MMC", "easy", 0, "default", {})


def test_limits_that_are_exceeded_are_named():
    assert Limits().exceeded(1e9, 10**15) is None
    assert Limits(2.0, 1e9).exceeded(1.0, 10**8) is None
    assert Limits(seconds=2.0).exceeded(3.0, 0) == ("time_limit", 2.0)
    assert Limits(bytes=2e9).exceeded(3.0, 3 * 10**9) == ("memory_limit", 2e9)


LATE, LARGER = RUN.stopped("time_limit", 2.0), RUN.stopped("memory_limit", 2e9)


@pytest.mark.parametrize(
    ("limits", "run", "again"),
    [
        (Limits(5), LATE, True),
        (Limits(2), LATE, False),
        (Limits(5), RUN.skipped_after(LATE), True),
        (Limits(2), RUN.skipped_after(LATE), False),
        (Limits(1), LATE, False),
        (Limits(bytes=1e9), LATE, True),
        (Limits(), LARGER, True),
        (Limits(bytes=2e9), LARGER, False),
        (Limits(), RUN.ended("machine", "the process ended with code -9"), True),
        (Limits(), RUN.ended("failed", "view 'a' has negative entries"), False),
        (Limits(), RUN, False),
    ],
)
def test_a_run_is_tried_again_if_it_may_end_otherwise(limits, run, again):
    assert limits.would_differ(run) is again


def test_waiting_takes_time_but_no_processor():
    class Waiting(RMKMC):
        def fit(self, views, y=None):
            time.sleep(0.2)
            return super().fit(views)

    (run,) = compare([Method("waiting", Waiting)], [DATA], repeats=1)
    assert run.seconds >= 0.2
    assert run.cpu_seconds < run.seconds - 0.15


@pytest.mark.slow
def test_the_peak_memory_is_that_of_the_run():
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system cannot reset the peak memory of a process")
    script = (
        "import numpy as np\n"
        "from manyview.experiment.workers import _measured\n"
        "with _measured() as large:\n"
        "    del (block := [np.ones(50_000_000)])[:]\n"
        "with _measured() as small:\n"
        "    pass\n"
        "print(large['peak_bytes'] - small['peak_bytes'])\n"
    )
    # in a new process, which has no freed memory to reuse
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(found.stdout) > 350_000_000


def test_an_interrupt_while_a_process_starts_is_delayed():
    order = []
    # interrupts are ignored in processes that a shell started in the background
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - what follows it is what counts
            with interrupts_held():
                # the mask of this thread does not hold for other threads
                thread = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT))
                thread.start()
                thread.join()
                order.append("started")
            order.append("never")
        assert order == ["started"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGTERM])
def test_an_ignored_signal_does_not_hide_another(ignored):
    came = []
    other = {signal.SIGINT: signal.SIGTERM, signal.SIGTERM: signal.SIGINT}[ignored]
    before = {
        ignored: signal.signal(ignored, signal.SIG_IGN),
        other: signal.signal(other, lambda number, frame: came.append(number)),
    }
    try:
        with handlers_held():
            signal.raise_signal(ignored)
            signal.raise_signal(other)
            assert not came
        assert came == [other]
        assert signal.getsignal(ignored) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
