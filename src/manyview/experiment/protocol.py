"""Methods x data sets x seeds, in two protocols that are never mixed in one row.

*Default*: one set of parameters, no label seen. *Tuned with labels*, as the papers do: the setting
of a grid with the best mean accuracy on some seeds, reported on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manyview.datasets import Dataset
from manyview.experiment.fingerprint import fingerprint
from manyview.experiment.limits import Limits
from manyview.experiment.methods import Method
from manyview.experiment.outcome import Ending
from manyview.experiment.results import ResultsFile
from manyview.experiment.run import Key, Protocol, Run
from manyview.experiment.tasks import Task, perform

__all__ = ["PREPROCESSINGS", "TUNING_SEED", "Listener", "compare"]

TUNING_SEED = 1000
PREPROCESSINGS = ("default", "none", "rows", "columns")


class Listener:
    """Is told how a comparison goes on; does nothing with it."""

    def planned(self, total: int, known: int) -> None:
        """Hear how many runs there are, and how many of them a results file held already."""

    def started(self, task: Task) -> None:
        """Hear that a task is begun."""

    def finished(self, run: Run) -> None:
        """Hear of a run that is done."""


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
        Seeds of the reported runs.
    tune : bool
        Also report each method with the setting of its grid that labels choose.
    tuning_repeats : int
        Seeds, other than the reported ones, on which the setting is chosen.
    preprocessings : sequence of {"default", "none", "rows", "columns"}
        How views are scaled, each a row of its own: as the method does by itself, not at all, by
        samples of unit length, by standardised features.
    n_jobs : int or None
        Processes side by side; None does all in this one, where there can be no limits.
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
    """
    _check_data(datasets)
    _check(methods, repeats, tuning_repeats, preprocessings, n_jobs)
    if n_jobs is None and limits is not None and limits != Limits():
        raise ValueError(
            "limits with n_jobs=None: a run in this process cannot be stopped; use n_jobs=1"
        )
    prints = {dataset.name: fingerprint(dataset) for dataset in datasets}
    plan = _Plan(
        {dataset.name: dataset for dataset in datasets},
        results,
        listener or Listener(),
        n_jobs,
        n_threads,
        limits or Limits(),
    )
    cells = list(
        dict.fromkeys(
            _Cell(
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
    )
    tunable = [cell for cell in cells if tune and cell.method.grid]
    seeds = tuple(range(repeats))
    first_other = max(TUNING_SEED, repeats)
    other_seeds = tuple(range(first_other, first_other + tuning_repeats))
    first = [task for cell in cells for task in cell.tasks("default", {}, seeds)]
    for cell in tunable:
        for setting in cell.method.grid:
            first += cell.tasks("selection", setting, other_seeds)
    keys = {run.key for task in first for run in task.runs()}
    plan.listener.planned(len(keys) + repeats * len(tunable), len(keys & plan.runs.keys()))
    plan.perform(first)
    tuned = {
        cell: cell.tasks("tuned", best, seeds)
        for cell in tunable
        if (best := cell.chosen(plan.runs, other_seeds)) is not None
    }
    second = [task for tasks in tuned.values() for task in tasks]
    plan.tell_of_known(second)
    plan.perform(second)

    reported = []
    for cell in cells:
        reported += plan.found(cell.tasks("default", {}, seeds))
        if cell in tuned:
            reported += plan.found(tuned[cell])
        elif cell in tunable:
            reported += plan.untuned(cell, seeds, other_seeds)
    return reported


def _meant(method: Method, preprocessing: str) -> str:
    """Return ``"default"`` also where what is asked for is what the method does by itself."""
    own = method.default_preprocessing or "none"
    return "default" if preprocessing == own else preprocessing


@dataclass(frozen=True)
class _Cell:
    """A method, known by its name, on a data set with a preprocessing."""

    name: str
    method: Method = field(compare=False)
    data: str
    fingerprint: str
    n_samples: int
    preprocessing: str

    def tasks(
        self, protocol: Protocol, setting: Mapping[str, Any], seeds: tuple[int, ...]
    ) -> list[Task]:
        params = {**self.method.defaults, **setting}
        if self.preprocessing != "default":
            params["normalize"] = None if self.preprocessing == "none" else self.preprocessing
        groups = [seeds] if self.method.shares_fit else [(seed,) for seed in seeds]
        return [
            Task(self.method, self.data, self.fingerprint, self.n_samples, protocol, params, group)
            for group in groups
        ]

    def chosen(self, runs: Mapping[Key, Run], seeds: tuple[int, ...]) -> Mapping[str, Any] | None:
        """Return the setting of the grid with the best mean accuracy in the runs of selection.

        None where not one of them ended with labels: there is nothing to choose by.
        """

        def accuracy(setting: Mapping[str, Any]) -> float:
            found = self.selection(runs, setting, seeds)
            return float(np.mean([run.scores.get("acc", 0.0) for run in found]))

        ended = any(
            run.scores for each in self.method.grid for run in self.selection(runs, each, seeds)
        )
        return max(self.method.grid, key=accuracy) if ended else None

    def selection(
        self, runs: Mapping[Key, Run], setting: Mapping[str, Any], seeds: tuple[int, ...]
    ) -> list[Run]:
        """Return the runs by which a setting is judged."""
        tasks = self.tasks("selection", setting, seeds)
        return [runs[run.key] for task in tasks for run in task.runs()]


@dataclass
class _Plan:
    """Runs that are there, and how those that are not are come by."""

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

    def tell_of_known(self, tasks: Sequence[Task]) -> None:
        """Tell of runs that are there, but that nobody could know to be asked for."""
        for run in (run for task in tasks for run in task.runs() if run.key in self.runs):
            self.listener.finished(self.runs[run.key])

    def found(self, tasks: Sequence[Task]) -> list[Run]:
        """Return the runs of tasks that were performed."""
        # a file may hold the same data under another name, and may not say how many they are
        return [
            replace(self.runs[run.key], data=run.data, n_samples=run.n_samples)
            for task in tasks
            for run in task.runs()
        ]

    def untuned(
        self, cell: _Cell, seeds: tuple[int, ...], other_seeds: tuple[int, ...]
    ) -> list[Run]:
        """Return failed runs in place of tuned ones where no setting could be chosen.

        They are not kept: with other limits, or on another machine, there may be one.
        """
        (first, *_) = cell.selection(self.runs, cell.method.grid[0], other_seeds)
        reason = f"no setting of the grid ended with labels: {first.error}"
        ending = Ending(first.outcome, reason, first.limit)
        failed = [
            run.ended(ending) for task in cell.tasks("tuned", {}, seeds) for run in task.runs()
        ]
        for run in failed:
            self.listener.finished(run)
        return failed

    def perform(self, tasks: Sequence[Task]) -> None:
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
        if not seeds:
            return []
        return [replace(task, seeds=seeds)]

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


def _check(
    methods: Sequence[Method],
    repeats: int,
    tuning_repeats: int,
    preprocessings: Sequence[str],
    n_jobs: int | None,
) -> None:
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
    if n_jobs is not None and n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}; expected at least 1, or None")
    for preprocessing in preprocessings:
        if preprocessing not in PREPROCESSINGS:
            expected = ", ".join(PREPROCESSINGS)
            raise ValueError(f"no scaling {preprocessing!r}; expected some of {expected}")
    if repeats < 1:
        raise ValueError(f"repeats={repeats}; expected at least 1")
    if tuning_repeats < 1:
        raise ValueError(f"tuning_repeats={tuning_repeats}; expected at least 1")


def _check_data(datasets: Sequence[Dataset]) -> None:
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
