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
# without a tolerance it ends when it is stopped
SLOW = Method("slow", KCTD, {"max_iter": 100_000, "tol": 0.0})


def unchanging(runs):
    return [(run.key, run.scores, run.n_iter, run.objective) for run in runs]


def test_processes_give_what_this_one_does():
    methods = [Method("RMKMC", RMKMC), Method("SEC", SEC)]
    here = compare(methods, [DATA], repeats=3)
    there = compare(methods, [DATA], repeats=3, n_jobs=2)
    assert unchanging(here) == unchanging(there)
    assert all(run.peak_bytes > 0 for run in there)


def test_a_run_beyond_its_time_is_a_row_and_the_others_go_on():
    methods = [SLOW, Method("RMKMC", RMKMC)]
    slow, fast = summarise(
        compare(methods, [LARGE_DATA], repeats=1, n_jobs=1, limits=Limits(seconds=3.0))
    )
    assert slow.errors == ("stopped at the time limit of 3 s",)
    assert fast.n_runs == 1


def test_what_one_seed_does_not_finish_is_not_tried_with_others():
    methods = [SLOW, Method("RMKMC", RMKMC)]
    begun = []

    class Heard(Listener):
        def started(self, task):
            begun.append(task.method.name)

    limits = Limits(seconds=2.0)
    runs = compare(methods, [LARGE_DATA], repeats=3, n_jobs=1, limits=limits, listener=Heard())
    slow = [run for run in runs if run.method == "slow"]
    stopped = "stopped at the time limit of 2 s"
    assert [run.error for run in slow] == [stopped, *[f"{stopped}, with another seed"] * 2]
    assert {(run.outcome, run.limit) for run in slow} == {("time_limit", 2.0)}
    assert begun == ["slow"] + 3 * ["RMKMC"]
    assert all(run.scores for run in runs if run.method == "RMKMC")


def test_nor_later_with_the_same_file(tmp_path):
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


def test_a_run_beyond_its_memory_is_a_row_and_the_others_go_on():
    methods = [Method("SEC", SEC), Method("RMKMC", RMKMC)]
    data = [LARGE_DATA, DATA]
    runs = compare(methods, data, repeats=1, n_jobs=1, limits=Limits(bytes=1e6))
    assert {run.error for run in runs} == {"stopped at the memory limit of 0.001 GB"}
    assert len(runs) == 4


def test_a_process_that_is_killed_is_a_row_and_the_others_go_on():
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


def test_an_error_of_any_kind_is_a_row():
    broken = Method("broken", RMKMC, {"no_such_parameter": 1})
    (row,) = summarise(compare([broken], [DATA], repeats=1, n_jobs=1))
    assert "TypeError: " in row.errors[0]
    assert "no_such_parameter" in row.errors[0]


def test_a_script_that_is_not_safe_to_import_is_told_so_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from manyview.datasets import make_views\n"
        "from manyview.experiment import METHODS, compare\n"
        "compare([METHODS['MMC']], [make_views(60, 3, (6, 5))], repeats=3, n_jobs=1)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: a process of the comparison failed as it began")
    assert "if __name__ == '__main__':" in last


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


def test_a_run_that_ended_in_time_counts_though_nobody_listened(monkeypatch):
    class Punctual:
        """A process that ends every run of seed n after n / 4 seconds."""

        def __init__(self, datasets, threads):
            self.left = deque()
            self.connection, self.theirs = multiprocessing.Pipe()

        def give(self, task):
            self.left, self.since = deque(task.runs()), time.monotonic()
            threading.Timer(task.seeds[0] / 4, self.theirs.send, task.runs()).start()

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
        tasks, {"easy": DATA}, n_jobs=2, n_threads=1, limits=Limits(seconds=0.5)
    ):
        found.append(run)
        time.sleep(1.0)
    assert [(run.seed, run.error) for run in found] == [(0, ""), (1, "")]


def test_processes_that_cannot_be_started_again_leave_none_behind(monkeypatch):
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
FAILED = replace(RUN, error="view 'a' has negative entries")
KILLED = replace(RUN, outcome="machine", error="the process ended with code -9")


def stopped(**limits):
    """Return a run that the limit stopped."""
    return RUN.ended(Limits(**limits).exceeded(1e9, 10**15))


def seed_after(run):
    """Return a run that was not tried, since another seed was stopped."""
    return replace(RUN, seed=1).ended(run.for_other_seeds)


def test_within():
    assert Limits().exceeded(1e9, 10**15) is None
    assert Limits(2.0, 1e9).exceeded(1.0, 10**8) is None


def test_beyond():
    late = Limits(seconds=2.0).exceeded(3.0, 0)
    assert late == ("time_limit", "stopped at the time limit of 2 s", 2.0)
    large = Limits(bytes=2e9).exceeded(3.0, 3 * 10**9)
    assert large == ("memory_limit", "stopped at the memory limit of 2 GB", 2e9)


@pytest.mark.parametrize(
    ("limits", "run", "again"),
    [
        (Limits(5), stopped(seconds=2), True),
        (Limits(2), stopped(seconds=2), False),
        (Limits(5), seed_after(stopped(seconds=2)), True),
        (Limits(2), seed_after(stopped(seconds=2)), False),
        (Limits(1), stopped(seconds=2), False),
        (Limits(bytes=1e9), stopped(seconds=2), True),
        (Limits(), stopped(bytes=2e9), True),
        (Limits(bytes=2e9), stopped(bytes=2e9), False),
        (Limits(), KILLED, True),
        (Limits(), FAILED, False),
        (Limits(), RUN, False),
    ],
)
def test_a_failure_is_tried_again_where_it_might_end_otherwise(limits, run, again):
    assert limits.would_differ(run) is again


@pytest.mark.parametrize("limits", [{"seconds": 4 / 3}, {"bytes": 8 * 2**30}])
def test_a_limit_of_many_digits_does_not_differ_from_itself(limits):
    run = stopped(**limits)
    assert not Limits(**limits).would_differ(run)
    older = {
        key: run.as_record()[key] for key in run.as_record() if key not in ("outcome", "limit")
    }
    assert not Limits(**limits).would_differ(Run.from_record(older))


def test_an_interrupt_while_a_process_starts_comes_once_it_has():
    order = []
    # whoever runs the tests in the background may have set interrupts aside
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - what follows it is what counts
            with interrupts_held():
                # to another thread, as one that shows progress, where it is not held back
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
def test_a_signal_that_is_ignored_hides_no_other(ignored):
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
