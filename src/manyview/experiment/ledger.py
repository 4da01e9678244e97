"""The runs that a comparison has: from a file, or performed and kept there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from manyview.datasets import Dataset
from manyview.experiment.limits import Limits
from manyview.experiment.listener import Listener
from manyview.experiment.results import ResultsFile
from manyview.experiment.run import Key, Run
from manyview.experiment.tasks import Task, perform

__all__ = ["Ledger"]


@dataclass
class Ledger:
    """The runs that there are, and how to perform those that are missing.

    Attributes
    ----------
    datasets : mapping of str to Dataset
        By name.
    results : ResultsFile or None
        Where runs are taken from and kept.
    listener : Listener
        Is told of every run.
    n_jobs : int or None
        Processes side by side; None for this one.
    n_threads : int
        Threads of linear algebra in each of the processes.
    limits : Limits
        Of a run. Runs of the file that might end otherwise within them count as missing.
    runs : dict of Key to Run
        Those that there are.
    """

    datasets: Mapping[str, Dataset]
    results: ResultsFile | None
    listener: Listener
    n_jobs: int | None
    n_threads: int
    limits: Limits
    runs: dict[Key, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for run in self.results.runs if self.results else ():
            if not self.limits.would_differ(run):
                self.runs[run.key] = run

    def found(self, tasks: Sequence[Task]) -> list[Run]:
        """Return the runs of tasks that were performed."""
        # a file may hold the same data under another name, and may not say how many they are
        return [
            replace(self.runs[run.key], data=run.data, n_samples=run.n_samples)
            for task in tasks
            for run in task.runs()
        ]

    def tell_of_known(self, tasks: Sequence[Task]) -> None:
        """Tell of runs that are there, but that nobody could know to be asked for."""
        for run in (run for task in tasks for run in task.runs() if run.key in self.runs):
            self.listener.finished(self.runs[run.key])

    def perform(self, tasks: Sequence[Task]) -> None:
        """Do what is missing, but for seeds other than one that a limit stopped."""
        taken: set[Key] = set()
        left = [part for task in tasks for part in self._left(task, taken)]
        stopped = {
            run.key.without_seed: ending
            for run in self.runs.values()
            if (ending := run.for_other_seeds) is not None
        }
        given_up = [task for task in left if task.runs()[0].key.without_seed in stopped]
        for run in (run for task in given_up for run in task.runs()):
            self._keep(run.ended(stopped[run.key.without_seed]))
        for run in self._done([task for task in left if task not in given_up]):
            self._keep(run)

    def _keep(self, run: Run) -> None:
        kept = run if self.results is None else self.results.add(run)
        self.runs[kept.key] = kept
        self.listener.finished(kept)

    def _left(self, task: Task, taken: set[Key]) -> list[Task]:
        """Return the part of a task that is neither there nor taken, and take it."""
        left = [run for run in task.runs() if run.key not in self.runs and run.key not in taken]
        taken.update(run.key for run in left)
        seeds = tuple(run.seed for run in left)
        return [replace(task, seeds=seeds)] if seeds else []

    def _done(self, tasks: Sequence[Task]) -> Iterator[Run]:
        if self.n_jobs is None:
            for task in tasks:
                self.listener.started(task)
                yield from perform(task, self.datasets[task.data])
            return
        try:
            from manyview.experiment.workers import perform_all
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"runs in processes need {error.name}: pip install 'manyview[app]'", name=error.name
            ) from error
        yield from perform_all(
            tasks,
            self.datasets,
            n_jobs=self.n_jobs,
            n_threads=self.n_threads,
            limits=self.limits,
            on_start=self.listener.started,
        )
