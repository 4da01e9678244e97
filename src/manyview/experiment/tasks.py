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
from manyview.experiment.run import Protocol, Run, plain
from manyview.experiment.usage import Usage
from manyview.metrics import score_all

__all__ = ["Task", "perform"]

_TELLING = ValueError  # whose messages are written for users


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
                plain(self.params),
                given or "none",
                fingerprint=self.fingerprint,
                n_samples=self.n_samples,
            )
            for seed in self.seeds
        ]


def perform(task: Task, dataset: Dataset) -> Iterator[Run]:
    """Do the runs of a task, one after another; a fit that fails is a run with its reason.

    Where an estimator can be ``relabelled``, it is fitted once for all seeds.
    """
    if dataset.y is None:
        raise ValueError(f"data set {dataset.name!r} has no classes to score against")
    n_clusters = np.unique(dataset.y).size
    fitted: Any = None
    shared: Usage | None = None
    for run in task.runs():
        reason = ""
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
                    labels = fitted.relabelled(run.seed)
                scores = score_all(dataset.y, labels)
                n_iter = getattr(estimator, "n_iter_", None)
                objective = tuple(map(float, getattr(estimator, "objective_", ())))
            except InterruptWarning:  # what was reached is no result of the method
                raise KeyboardInterrupt from None
            except Exception as error:  # one run that fails does not stop the others
                reason = _reason(error)
        # outside of the filters above, which are not the caller's
        if reason:
            yield replace(run, error=reason)
            continue
        if shared is not None:
            usage.seconds += shared.seconds
            usage.cpu_seconds += shared.cpu_seconds
            usage.peak_bytes = max(usage.peak_bytes, shared.peak_bytes)
        yield replace(
            run,
            scores=scores,
            seconds=usage.seconds,
            cpu_seconds=usage.cpu_seconds,
            peak_bytes=usage.peak_bytes,
            n_iter=None if n_iter is None else int(n_iter),
            objective=objective,
        )
        if fitted is None and hasattr(estimator, "relabelled"):
            fitted, shared = estimator, usage


def _reason(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, _TELLING):
        return str(error) or name
    return f"{name}: {error}" if str(error) else name
