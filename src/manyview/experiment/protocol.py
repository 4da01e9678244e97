"""Comparison of methods over data sets and seeds.

There are two protocols. *Default* fits each method with one set of parameters and uses no labels.
*Tuned* is the protocol of the papers: labels choose the setting of a grid that has the best mean
accuracy on some seeds, and other seeds are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from numbers import Integral
from typing import Any, get_args

import numpy as np

from manyview._typing import Preprocessing
from manyview.datasets import Dataset
from manyview.experiment.methods import Method
from manyview.experiment.results import Key, Protocol, ResultsFile, Run, fingerprint
from manyview.experiment.workers import Limits, Listener, Task, perform, perform_all

__all__ = ["check_datasets", "check_options", "compare"]

_TUNING_SEED = 1000  # the first seed on which settings are chosen
_SCALINGS = get_args(Preprocessing)


def compare(
    methods: Sequence[Method],
    datasets: Sequence[Dataset],
    *,
    repeats: int = 20,
    tune: bool = False,
    tuning_repeats: int = 3,
    preprocessings: Sequence[Preprocessing] = ("default",),
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
        Data sets with classes and distinct names.
    repeats : int
        Number of reported seeds.
    tune : bool
        Also report each method with the setting of its grid that labels choose.
    tuning_repeats : int
        Number of seeds on which the setting is chosen. They are not among the reported ones.
    preprocessings : sequence of {"default", "none", "rows", "columns"}
        Scalings of the views: that of the method, none, samples of unit length, or standardised
        features. Each scaling has its own runs.
    n_jobs : int or None
        Number of worker processes. None runs everything in this process, without limits. Worker
        processes import the calling script, so it has to call this function below
        ``if __name__ == "__main__":``.
    n_threads : int
        Linear algebra threads of each worker process. With one, the times of runs do not depend on
        other runs.
    limits : Limits, optional
        Time and memory of a run.
    results : ResultsFile, optional
        An open results file. Runs that it holds are not repeated, and new runs are added to it.
    listener : Listener, optional
        Receives the progress.

    Returns
    -------
    list of Run
        The reported runs, ordered by data set, method, preprocessing and protocol.

    Raises
    ------
    TypeError, ValueError
        For anything that is not a method or data set, duplicate names, data without classes, or
        options out of range.
    RuntimeError
        If worker processes cannot be started.

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
    _check_methods(methods)
    check_options(repeats, preprocessings, n_jobs, limits, tuning_repeats=tuning_repeats)
    by_name = {dataset.name: dataset for dataset in datasets}
    ledger = _Ledger(by_name, results, listener, n_jobs, n_threads, limits)

    seeds = tuple(range(repeats))
    first_tuning_seed = max(_TUNING_SEED, repeats)
    tuning_seeds = tuple(range(first_tuning_seed, first_tuning_seed + tuning_repeats))
    cells = _cells(methods, datasets, preprocessings)
    default = [_tasks(cell, "default", {}, seeds) for cell in cells]
    selection = [  # for each cell, the tasks of every setting of its grid
        [_tasks(cell, "selection", setting, tuning_seeds) for setting in cell.method.grid]
        if tune
        else []
        for cell in cells
    ]
    n_tuned = sum(map(bool, selection))
    planned = [*chain(*default), *chain(*chain(*selection))]
    keys = {run.key for task in planned for run in task.runs()}
    listener.planned(len(keys) + repeats * n_tuned, len(keys & ledger.runs.keys()))
    ledger.perform(planned)

    tuned: list[list[Task]] = []
    for cell, settings in zip(cells, selection, strict=True):
        best = _best_setting([ledger.found(tasks) for tasks in settings])
        chosen = None if best is None else cell.method.grid[best]
        tuned.append([] if chosen is None else _tasks(cell, "tuned", chosen, seeds))
    # `planned` could not count tuned runs of the results file as known
    for task in chain(*tuned):
        for run in task.runs():
            if run.key in ledger.runs:
                listener.finished(ledger.runs[run.key])
    ledger.perform([*chain(*tuned)])

    reported: list[Run] = []
    for cell, default_tasks, settings, tasks in zip(cells, default, selection, tuned, strict=True):
        reported += ledger.found([*default_tasks, *tasks])
        if settings and not tasks:
            (why, *_) = ledger.found(settings[0])
            reason = f"no setting of the grid ended with labels: {why.error}"
            for run in chain(*(task.runs() for task in _tasks(cell, "tuned", {}, seeds))):
                # not added to the file: other limits or another machine may yield a setting
                failed = run.ended(why.outcome, reason, why.limit)
                listener.finished(failed)
                reported.append(failed)
    return reported


def _check_methods(methods: Sequence[Method]) -> None:
    """Raise unless all are methods, with distinct names."""
    names: set[str] = set()
    for method in methods:
        if not isinstance(method, Method):
            raise TypeError(
                f"{method!r} is not a Method; expected one of METHODS, such as METHODS['MMC'], of "
                "OTHER_METHODS or REFERENCES, or your own Method"
            )
        if method.name in names:
            raise ValueError(f"two methods are called {method.name!r}")
        names.add(method.name)


def check_datasets(datasets: Sequence[Dataset]) -> None:
    """Raise unless all are data sets with classes, with distinct names."""
    if isinstance(datasets, Dataset):
        raise TypeError("datasets is one Dataset; expected a list of Dataset")
    names: set[str] = set()
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"datasets holds a {type(dataset).__name__}; expected a list of Dataset"
            )
        if dataset.y is None:
            raise ValueError(f"data set {dataset.name!r} has no classes to score against")
        if dataset.name in names:
            raise ValueError(f"two data sets are called {dataset.name!r}; rename one of them")
        names.add(dataset.name)


def check_options(
    repeats: int,
    preprocessings: Sequence[Preprocessing],
    n_jobs: int | None,
    limits: Limits,
    *,
    tuning_repeats: int = 1,
) -> None:
    """Raise unless the options of a comparison are valid."""
    if n_jobs is not None and n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}; expected at least 1, or None")
    for preprocessing in preprocessings:
        if preprocessing not in _SCALINGS:
            expected = ", ".join(_SCALINGS)
            raise ValueError(f"no scaling {preprocessing!r}; expected some of {expected}")
    for name, value in (("repeats", repeats), ("tuning_repeats", tuning_repeats)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r}; expected an integer of at least 1")
    if n_jobs is None and limits != Limits():
        raise ValueError("limits need worker processes, and n_jobs is None; expected n_jobs=1")
    if limits.bytes is not None and find_spec("psutil") is None:
        raise ModuleNotFoundError(
            "memory limits need psutil: pip install 'manyview[app]'", name="psutil"
        )


def _cells(
    methods: Sequence[Method], datasets: Sequence[Dataset], preprocessings: Sequence[Preprocessing]
) -> list[Task]:
    """Return every method on every data set with every scaling, as tasks without seeds."""
    cells = []
    for dataset in datasets:
        content = fingerprint(dataset)
        for method in methods:
            own = method.default_preprocessing or "none"
            # the method's own scaling is the default, under either name
            for scaling in dict.fromkeys("default" if p == own else p for p in preprocessings):
                normalize = None if scaling == "none" else scaling
                params = {} if scaling == "default" else {"normalize": normalize}
                n_samples = dataset.views.n_samples
                cells.append(Task(method, dataset.name, content, n_samples, "default", params, ()))
    return cells


def _tasks(
    cell: Task, protocol: Protocol, setting: Mapping[str, Any], seeds: tuple[int, ...]
) -> list[Task]:
    """Return the fits of a cell with a setting: one per seed, or one that all seeds share."""
    params = {**cell.method.defaults, **setting, **cell.params}
    groups = [seeds] if cell.method.shares_fit else [(seed,) for seed in seeds]
    return [replace(cell, protocol=protocol, params=params, seeds=group) for group in groups]


def _best_setting(judged: Sequence[Sequence[Run]]) -> int | None:
    """Return the index of the best mean accuracy; None if no run ended with labels."""
    if not any(run.scores for runs in judged for run in runs):
        return None
    return int(np.argmax([np.mean([r.scores.get("acc", 0.0) for r in runs]) for runs in judged]))


@dataclass
class _Ledger:
    """The finished runs by their keys, and the means to perform the missing ones."""

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
        """Return the finished runs of tasks."""
        # the run may have been done on the same data under another name
        return [
            replace(self.runs[run.key], data=run.data, n_samples=run.n_samples)
            for task in tasks
            for run in task.runs()
        ]

    def perform(self, tasks: Sequence[Task]) -> None:
        """Perform the runs of tasks that are missing."""
        taken = set(self.runs)
        left = []
        for task in tasks:
            runs = [run for run in task.runs() if run.key not in taken]
            taken.update(run.key for run in runs)
            if runs:
                left.append(replace(task, seeds=tuple(run.seed for run in runs)))
        for run in self._performed(left):
            kept = run if self.results is None else self.results.add(run)
            self.runs[kept.key] = kept
            self.listener.finished(kept)

    def _performed(self, tasks: Sequence[Task]) -> Iterator[Run]:
        if self.n_jobs is not None:
            yield from perform_all(
                tasks,
                self.datasets,
                n_jobs=self.n_jobs,
                n_threads=self.n_threads,
                limits=self.limits,
                on_start=self.listener.started,
                known=list(self.runs.values()),
            )
            return
        for task in tasks:
            self.listener.started(task)
            yield from perform(task, self.datasets[task.data])
