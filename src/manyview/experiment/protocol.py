"""Comparison of methods over data sets and seeds.

Methods x data sets x seeds, in two protocols that are never mixed in one row.

*Default*: one set of parameters, no label seen. *Tuned with labels*, as the papers do: the setting
of a grid with the best mean accuracy on some seeds, reported on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from manyview.datasets import Dataset
from manyview.experiment.methods import Method
from manyview.experiment.results import Ending, Key, Protocol, ResultsFile, Run, fingerprint
from manyview.experiment.workers import Limits, Listener, Task, perform

__all__ = [
    "PREPROCESSINGS",
    "TUNING_SEED",
    "Cell",
    "Ledger",
    "Plan",
    "cells_of",
    "check_datasets",
    "check_methods",
    "check_options",
    "compare",
]


def check_methods(methods: Sequence[Method]) -> None:
    """Raise unless all are methods, of different names."""
    for method in methods:
        if not isinstance(method, Method):
            raise TypeError(
                f"{method!r} is no method; expected those of METHODS, such as METHODS['MMC'], of "
                "REFERENCES, or a Method"
            )
    called = [method.name for method in methods]
    for name in called:
        if called.count(name) > 1:
            raise ValueError(f"two methods are called {name!r}")


def check_datasets(datasets: Sequence[Dataset]) -> None:
    """Raise unless all are data sets with their classes, of different names."""
    if isinstance(datasets, Dataset):
        raise TypeError("datasets is one Dataset; expected a list of them")
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"received {type(dataset).__name__}; expected a list of Dataset")
    names = [dataset.name for dataset in datasets]
    for dataset in datasets:
        if dataset.y is None:
            raise ValueError(f"data set {dataset.name!r} has no classes to score against")
        if names.count(dataset.name) > 1:
            raise ValueError(f"two data sets are called {dataset.name!r}: rename a file, or a set")


def check_options(
    repeats: int,
    preprocessings: Sequence[str],
    n_jobs: int | None,
    limits: Limits,
    *,
    tuning_repeats: int = 1,
) -> None:
    """Raise unless there are runs to do, in ways that are known and can be kept to."""
    if n_jobs is not None and n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}; expected at least 1, or None")
    for preprocessing in preprocessings:
        if preprocessing not in PREPROCESSINGS:
            expected = ", ".join(PREPROCESSINGS)
            raise ValueError(f"no scaling {preprocessing!r}; expected some of {expected}")
    for name, value in (("repeats", repeats), ("tuning_repeats", tuning_repeats)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r}; expected a whole number of at least 1")
    if n_jobs is None and limits != Limits():
        raise ValueError(
            "limits with n_jobs=None: a run in this process cannot be stopped; use n_jobs=1"
        )


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


TUNING_SEED = 1000
PREPROCESSINGS = ("default", "none", "rows", "columns")


@dataclass(frozen=True)
class Cell:
    """A method, known by its name, on a data set with a preprocessing.

    Attributes
    ----------
    name : str
        Of the method.
    method : Method
    data, fingerprint : str
        Name of the data set, and what stands for its content.
    n_samples : int
        Of the data set.
    preprocessing : {"default", "none", "rows", "columns"}
    """

    name: str
    method: Method = field(compare=False)
    data: str
    fingerprint: str
    n_samples: int
    preprocessing: str

    def tasks(
        self, protocol: Protocol, setting: Mapping[str, Any], seeds: tuple[int, ...]
    ) -> list[Task]:
        """Return the fits of the method with a setting: one per seed, or one that all share."""
        params = {**self.method.defaults, **setting}
        if self.preprocessing != "default":
            params["normalize"] = None if self.preprocessing == "none" else self.preprocessing
        groups = [seeds] if self.method.shares_fit else [(seed,) for seed in seeds]
        return [
            Task(self.method, self.data, self.fingerprint, self.n_samples, protocol, params, group)
            for group in groups
        ]


def cells_of(
    methods: Sequence[Method], datasets: Sequence[Dataset], preprocessings: Sequence[str]
) -> tuple[Cell, ...]:
    """Return every method on every data set with every preprocessing, none of them twice."""
    prints = {dataset.name: fingerprint(dataset) for dataset in datasets}
    cells = (
        Cell(
            method.name,
            method,
            dataset.name,
            prints[dataset.name],
            dataset.views.n_samples,
            _meant(method, preprocessing),
        )
        for dataset in datasets
        for method in methods
        for preprocessing in preprocessings
    )
    return tuple(dict.fromkeys(cells))


def _meant(method: Method, preprocessing: str) -> str:
    """Return ``"default"`` also where what is asked for is what the method does by itself."""
    own = method.default_preprocessing or "none"
    return "default" if preprocessing == own else preprocessing


@dataclass(frozen=True)
class Plan:
    """The runs of cells with the seeds that are reported, and with those by which they are tuned.

    Attributes
    ----------
    cells : tuple of Cell
    repeats : int
        Number of seeds that are reported.
    tuning_repeats : int
        Number of seeds on which labels choose a setting of the grid; 0 where they choose none.
    """

    cells: tuple[Cell, ...]
    repeats: int
    tuning_repeats: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that are reported."""
        return tuple(range(self.repeats))

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """The seeds on which settings are chosen, none of which is reported."""
        first = max(TUNING_SEED, self.repeats)
        return tuple(range(first, first + self.tuning_repeats))

    @property
    def tunable(self) -> list[Cell]:
        """The cells that also have tuned runs."""
        return [cell for cell in self.cells if self.tuning_repeats and cell.method.grid]

    def default(self, cell: Cell) -> list[Task]:
        """Return the runs of a cell that see no label."""
        return cell.tasks("default", {}, self.seeds)

    def selection(self, cell: Cell, setting: Mapping[str, Any]) -> list[Task]:
        """Return the runs by which a setting is judged."""
        return cell.tasks("selection", setting, self.tuning_seeds)

    def tuned(self, cell: Cell, setting: Mapping[str, Any]) -> list[Task]:
        """Return the runs of a cell with the setting that labels chose."""
        return cell.tasks("tuned", setting, self.seeds)

    def tasks(self) -> list[Task]:
        """Return all that can be told beforehand: what is tuned hangs on the selection."""
        tasks = [task for cell in self.cells for task in self.default(cell)]
        for cell in self.tunable:
            for setting in cell.method.grid:
                tasks += self.selection(cell, setting)
        return tasks

    def chosen(self, cell: Cell, runs: Mapping[Key, Run]) -> Mapping[str, Any] | None:
        """Return the setting of the grid with the best mean accuracy in the runs of selection.

        None where not one of them ended with labels: there is nothing to choose by.
        """
        grid = cell.method.grid
        judged = [
            [runs[run.key] for task in self.selection(cell, setting) for run in task.runs()]
            for setting in grid
        ]
        if not any(run.scores for found in judged for run in found):
            return None
        accuracy = [np.mean([run.scores.get("acc", 0.0) for run in found]) for found in judged]
        return grid[int(np.argmax(accuracy))]


def compare(
    methods: Sequence[Method],
    datasets: Sequence[Dataset],
    *,
    repeats: int = 20,
    tune: bool = False,
    tuning_repeats: int = 3,
    preprocessings: Sequence[str] = ("default",),
    n_jobs: int | None = None,
    n_threads: int = 1,
    limits: Limits | None = None,
    results: ResultsFile | None = None,
    listener: Listener | None = None,
) -> list[Run]:
    """Fit every method to every data set, with seeds 0 to `repeats` - 1.

    Parameters
    ----------
    methods : sequence of Method
    datasets : sequence of Dataset
        With their classes, and names that differ.
    repeats : int
        Number of seeds of the reported runs.
    tune : bool
        Also report each method with the setting of its grid that labels choose.
    tuning_repeats : int
        Number of seeds, other than the reported ones, on which the setting is chosen.
    preprocessings : sequence of {"default", "none", "rows", "columns"}
        How views are scaled: as the method does by itself, not at all, samples to unit length,
        features standardised. Each gives runs, and so a row, of its own.
    n_jobs : int or None
        Processes side by side; None does all in this one, where there can be no limits. Each
        imports the calling script, which has to make the call below
        ``if __name__ == "__main__":``.
    n_threads : int
        Threads of linear algebra in each of the processes: one by default, so that times of runs
        do not depend on what runs beside them.
    limits : Limits, optional
        Of time and memory of a run.
    results : ResultsFile, optional
        An open file: runs that it holds are not done again, others are added as they are done.
    listener : Listener, optional
        Is told of the progress.

    Returns
    -------
    list of Run
        The reported runs, by data set, method, preprocessing and protocol.

    Raises
    ------
    TypeError, ValueError
        For what is no method or data set, names that are there twice, data without classes, or
        options out of their range.
    RuntimeError
        If processes cannot be started.

    See Also
    --------
    summarise : Means and standard deviations over seeds.

    Examples
    --------
    >>> from manyview.datasets import make_views
    >>> from manyview.experiment import METHODS, REFERENCES, summarise
    >>> data = make_views(60, 3, (6, 5), random_state=0)
    >>> runs = compare([METHODS["MMC"], REFERENCES["k-means"]], [data], repeats=2)
    >>> [(run.method, run.seed, run.outcome) for run in runs]
    [('MMC', 0, 'done'), ('MMC', 1, 'done'), ('k-means', 0, 'done'), ('k-means', 1, 'done')]
    >>> [(row.method, row.mean["acc"]) for row in summarise(runs)]
    [('MMC', 1.0), ('k-means', 1.0)]
    """
    limits, listener = limits or Limits(), listener or Listener()
    check_datasets(datasets)
    check_methods(methods)
    check_options(repeats, preprocessings, n_jobs, limits, tuning_repeats=tuning_repeats)
    cells = cells_of(methods, datasets, preprocessings)
    plan = Plan(cells, repeats, tuning_repeats if tune else 0)
    by_name = {dataset.name: dataset for dataset in datasets}
    ledger = Ledger(by_name, results, listener, n_jobs, n_threads, limits)
    first = plan.tasks()
    keys = {run.key for task in first for run in task.runs()}
    total = len(keys) + repeats * len(plan.tunable)
    listener.planned(total, len(keys & ledger.runs.keys()))
    ledger.perform(first)
    tuned = {
        cell: plan.tuned(cell, setting)
        for cell in plan.tunable
        if (setting := plan.chosen(cell, ledger.runs)) is not None
    }
    second = [task for tasks in tuned.values() for task in tasks]
    ledger.tell_of_known(second)
    ledger.perform(second)

    reported = []
    for cell in cells:
        reported += ledger.found(plan.default(cell))
        if cell in tuned:
            reported += ledger.found(tuned[cell])
        elif cell in plan.tunable:
            reported += _untuned(cell, plan, ledger)
    return reported


def _untuned(cell: Cell, plan: Plan, ledger: Ledger) -> list[Run]:
    """Return failed runs in place of tuned ones where no setting could be chosen.

    They are not kept: with other limits, or on another machine, there may be one.
    """
    (first, *_) = ledger.found(plan.selection(cell, cell.method.grid[0]))
    reason = f"no setting of the grid ended with labels: {first.error}"
    ending = Ending(first.outcome, reason, first.limit)
    failed = [run.ended(ending) for task in plan.tuned(cell, {}) for run in task.runs()]
    for run in failed:
        ledger.listener.finished(run)
    return failed
