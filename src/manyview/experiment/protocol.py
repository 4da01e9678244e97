"""Methods x data sets x seeds, in two protocols that are never mixed in one row.

*Default*: one set of parameters, no label seen. *Tuned with labels*, as the papers do: the setting
of a grid with the best mean accuracy on some seeds, reported on others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manyview.datasets import Dataset
from manyview.experiment.methods import Method
from manyview.metrics import score_all

__all__ = ["Run", "compare"]

TUNING_SEED = 1000


@dataclass(frozen=True)
class Run:
    """One fit and what it scored.

    Attributes
    ----------
    method, data : str
    seed : int
    tuned : bool
        Whether labels chose the parameters.
    params : mapping
        Parameters beside the estimator's defaults.
    scores : mapping of str to float
        As :func:`manyview.metrics.score_all` returns; empty where the fit failed.
    seconds : float
    n_iter : int or None
    error : str
        Why there are no scores.
    """

    method: str
    data: str
    seed: int
    tuned: bool
    params: Mapping[str, Any]
    scores: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    n_iter: int | None = None
    error: str = ""


def compare(
    methods: Sequence[Method],
    datasets: Sequence[Dataset],
    *,
    repeats: int = 20,
    tune: bool = False,
    tuning_repeats: int = 3,
    on_run: Callable[[Run], None] = lambda run: None,
) -> list[Run]:
    """Fit every method to every data set, with seeds 0 to `repeats` - 1.

    Parameters
    ----------
    methods : sequence of Method
    datasets : sequence of Dataset
        With their classes.
    repeats : int
        Seeds of the reported runs.
    tune : bool
        Also report each method with the setting of its grid that labels choose.
    tuning_repeats : int
        Seeds, other than the reported ones, on which the setting is chosen.
    on_run : callable
        Called with every reported run as it is done.

    Returns
    -------
    list of Run
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats}; expected at least 1")
    for dataset in datasets:
        if dataset.y is None:
            raise ValueError(f"data set {dataset.name!r} has no classes to score against")
    runs = []
    for dataset in datasets:
        for method in methods:
            settings: list[tuple[bool, Mapping[str, Any]]] = [(False, {})]
            if tune and method.grid:
                settings.append((True, _tuned(method, dataset, tuning_repeats)))
            for tuned, params in settings:
                for seed in range(repeats):
                    run = _run(method, dataset, seed, tuned, params)
                    runs.append(run)
                    on_run(run)
    return runs


def _tuned(method: Method, dataset: Dataset, repeats: int) -> Mapping[str, Any]:
    def accuracy(params: Mapping[str, Any]) -> float:
        seeds = range(TUNING_SEED, TUNING_SEED + repeats)
        scores = [_run(method, dataset, seed, True, params).scores for seed in seeds]
        return float(np.mean([score.get("acc", 0.0) for score in scores]))

    return max(method.grid, key=accuracy)


def _run(
    method: Method, dataset: Dataset, seed: int, tuned: bool, params: Mapping[str, Any]
) -> Run:
    if dataset.y is None:
        raise AssertionError("checked by compare")
    n_clusters = np.unique(dataset.y).size
    settings = {**method.defaults, **params}
    estimator = method.make(n_clusters=n_clusters, random_state=seed, **settings)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            labels = estimator.fit(dataset.views).labels_
        except (ValueError, np.linalg.LinAlgError, MemoryError) as error:
            return Run(method.name, dataset.name, seed, tuned, settings, error=str(error))
    seconds = time.perf_counter() - begin
    n_iter = getattr(estimator, "n_iter_", None)
    scores = score_all(dataset.y, labels)
    return Run(method.name, dataset.name, seed, tuned, settings, scores, seconds, n_iter)
