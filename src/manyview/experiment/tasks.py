"""A piece of a comparison that one process does, and doing it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manyview.datasets import Dataset
from manyview.exceptions import InterruptWarning
from manyview.experiment.methods import Method
from manyview.experiment.outcome import Ending
from manyview.experiment.run import Protocol, Run, json_params
from manyview.experiment.usage import Usage
from manyview.metrics import score_all

__all__ = ["Task", "perform"]

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
