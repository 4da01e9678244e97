"""The paper's figure of processor time against the number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manyview.datasets import Dataset
from manyview.experiment import Limits, Listener, Method, ResultsFile, Run, compare
from manyview.paper.files import Files
from manyview.plotting import plot_time_against_size
from manyview.plotting.names import shown

__all__ = ["Growth", "plot_growth", "subsets", "time_growth", "write_growths"]


@dataclass(frozen=True)
class Growth:
    """Processor seconds of methods on growing parts of a data set.

    Attributes
    ----------
    data : str
        Name of the set.
    sizes : tuple of int
        Numbers of samples.
    seconds : dict of str to list of float
        For each method, at each size; NaN from where it was stopped or refused.
    reasons : dict of str to str
        Why a method has no figure from some size on.
    """

    data: str
    sizes: tuple[int, ...]
    seconds: dict[str, list[float]]
    reasons: dict[str, str]


def subsets(dataset: Dataset, sizes: Sequence[int], seed: int = 0) -> list[Dataset]:
    """Return growing parts of a data set, each within the next, drawn at random.

    Parameters
    ----------
    dataset : Dataset
    sizes : sequence of int
        Numbers of samples; larger ones than there are stand for all.
    seed : int
        Of the order in which samples are drawn.

    Returns
    -------
    list of Dataset
        Named after the set and their size; every class that a part lacks is lacking in its `y`.
    """
    n = dataset.views.n_samples
    order = np.random.default_rng(seed).permutation(n)
    parts = []
    for size in sorted({min(int(size), n) for size in sizes}):
        drawn = np.sort(order[:size])
        y = None if dataset.y is None else dataset.y[drawn]
        parts.append(Dataset(dataset.views.take(drawn), y, name=f"{dataset.name}, {size} samples"))
    return parts


def time_growth(
    dataset: Dataset,
    methods: Sequence[Method],
    sizes: Sequence[int],
    *,
    n_threads: int = 1,
    limits: Limits,
    results: ResultsFile | None = None,
    listener: Listener | None = None,
) -> Growth:
    """Fit methods to growing parts of a data set, one at a time.

    A method that was refused, or stopped at a limit, is not tried on larger parts.

    Parameters
    ----------
    dataset : Dataset
    methods : sequence of Method
    sizes : sequence of int
        Numbers of samples.
    n_threads : int
        Threads of linear algebra in a fit.
    limits : Limits
        Of each fit.
    results : ResultsFile, optional
        Where runs are kept and taken from.
    listener : Listener, optional
        Is told of the progress.

    Returns
    -------
    Growth
    """
    parts = subsets(dataset, sizes)
    seconds = {method.name: [float("nan")] * len(parts) for method in methods}
    reasons: dict[str, str] = {}
    for place, part in enumerate(parts):
        left = [method for method in methods if method.name not in reasons]
        for run in compare(
            left,
            [part],
            repeats=1,
            n_jobs=1,
            n_threads=n_threads,
            limits=limits,
            results=results,
            listener=listener,
        ):
            if run.outcome == "done":
                seconds[run.method][place] = _seconds(run)
            else:
                reasons[run.method] = f"{part.name}: {run.error}"
    return Growth(dataset.name, tuple(part.views.n_samples for part in parts), seconds, reasons)


def _seconds(run: Run) -> float:
    # the clock of the processor ticks in steps that a small fit can fall between
    return run.cpu_seconds or run.seconds


def write_growths(files: Files, growths: Sequence[Growth]) -> None:
    """Write the table of times, and a figure of each data set that has several sizes.

    Parameters
    ----------
    files : Files
        Where they go.
    growths : sequence of Growth
        None of them writes nothing.
    """
    if not growths:
        return
    lines = [
        (growth.data, method, size, "" if value != value else value, growth.reasons.get(method, ""))
        for growth in growths
        for method, values in growth.seconds.items()
        for size, value in zip(growth.sizes, values, strict=True)
    ]
    files.csv("times.csv", ("data", "method", "samples", "cpu_seconds", "ended"), lines)
    for growth in growths:
        if len(growth.sizes) > 1 and not np.isnan(list(growth.seconds.values())).all():
            files.figure(f"times-{growth.data}.png", partial(plot_growth, growth))


def plot_growth(growth: Growth) -> Any:
    """Draw the times of the methods that have any against the sizes, and return the axes."""
    timed = {name: values for name, values in growth.seconds.items() if not np.isnan(values).all()}
    axes = plot_time_against_size(growth.sizes, timed, ylabel="processor seconds")
    axes.set_title(f"growing parts of {shown(growth.data)}")
    return axes
