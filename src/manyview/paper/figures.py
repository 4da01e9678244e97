"""The paper's figures: convergence and run time against samples."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from manyview import MMC
from manyview.datasets import Dataset
from manyview.experiment import Method, compare
from manyview.plotting import plot_objective, plot_time_against_size
from manyview.plotting.style import shown
from manyview.storage import whole_file


class Files:
    """Writer of tables and figures into a folder; each file is written atomically."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written: list[Path] = []

    def text(self, name: str, text: str) -> None:
        """Write a text file."""
        with whole_file(self._path(name)) as file:
            file.write(text.encode())

    def csv(self, name: str, heads: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
        """Write a table with column titles."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(lines)
        self.text(name, text.getvalue())

    def figure(self, name: str, draw: Callable[[], Any]) -> None:
        """Draw a figure and write it."""
        from matplotlib import pyplot

        figure = draw().figure
        with whole_file(self._path(name)) as file:
            figure.savefig(file, format="png", dpi=150, bbox_inches="tight")
        pyplot.close(figure)

    def _path(self, name: str) -> Path:
        """Return a new path for a name that may contain any character."""
        safe = Path(re.sub(r"[^\w.-]+", "_", name))
        numbers = chain([""], (f"-{number}" for number in count(2)))
        names = (f"{safe.stem[:80]}{number}{safe.suffix}" for number in numbers)
        path = next(path for path in map(self._folder.joinpath, names) if path not in self.written)
        self.written.append(path)
        return path


Curves = Mapping[tuple[str, str], Sequence[float]]


def converge(
    datasets: Sequence[Dataset],
    *,
    n_iter: int = 50,
    **options: Any,
) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return the objective of MMC after each of `n_iter` iterations, by data set and indicator.

    Early stopping is off. A fit that exceeds its limits has no curve. `options` are those of
    :func:`manyview.experiment.compare`.
    """
    no_stopping = {"max_iter": n_iter, "tol": 0.0, "patience": None}
    methods = [
        Method(f"MMC, {kind}", MMC, {"indicator": kind, **no_stopping})
        for kind in ("orthogonal", "discrete")
    ]
    return {
        (run.data, str(run.params["indicator"])): run.objective
        for run in compare(methods, datasets, repeats=1, **options)
        if run.outcome == "done"
    }


def write_convergence(files: Files, curves: Curves) -> None:
    """Write the curves of :func:`converge` as a table, and one figure per data set."""
    lines = [
        (data, kind, iteration, value)
        for (data, kind), values in curves.items()
        for iteration, value in enumerate(values, start=1)
    ]
    files.csv("convergence.csv", ("data", "indicator", "iteration", "objective"), lines)
    for data in dict.fromkeys(data for data, _ in curves):
        files.figure(f"convergence-{data}.png", partial(plot_convergence, data, curves))


def plot_convergence(data: str, curves: Curves) -> Any:
    """Draw the objective on one data set against the iterations."""
    axes = plot_objective(
        {kind: list(values) for (name, kind), values in curves.items() if name == data}
    )
    axes.set_title(f"MMC on {shown(data)}")
    return axes


@dataclass(frozen=True)
class Growth:
    """Processor seconds of methods on growing parts of a data set.

    `seconds` holds NaN where a method was stopped or rejected the data; `reasons` says why.
    """

    data: str
    sizes: tuple[int, ...]
    seconds: dict[str, list[float]]
    reasons: dict[str, str]


def subsets(dataset: Dataset, sizes: Sequence[int], seed: int = 0) -> list[Dataset]:
    """Return nested random subsets of a data set, one per size, named after set and size."""
    n = dataset.views.n_samples
    order = np.random.default_rng(seed).permutation(n)
    parts = []
    for size in sorted({min(int(size), n) for size in sizes}):
        drawn = np.sort(order[:size])
        y = None if dataset.y is None else dataset.y[drawn]
        parts.append(Dataset(dataset.views.take(drawn), y, name=f"{dataset.name}, {size} samples"))
    return parts


def time_growth(
    dataset: Dataset, methods: Sequence[Method], sizes: Sequence[int], **options: Any
) -> Growth:
    """Time methods on growing parts of a data set, one fit at a time.

    A method that fails or exceeds a limit is not run on larger parts. `options` are those of
    :func:`manyview.experiment.compare`.
    """
    parts = subsets(dataset, sizes)
    seconds = {method.name: [float("nan")] * len(parts) for method in methods}
    reasons: dict[str, str] = {}
    for position, part in enumerate(parts):
        left = [method for method in methods if method.name not in reasons]
        for run in compare(left, [part], repeats=1, n_jobs=1, **options):
            if run.outcome == "done":
                # the processor clock may not advance during a small fit
                seconds[run.method][position] = run.cpu_seconds or run.seconds
            else:
                reasons[run.method] = f"{part.name}: {run.error}"
    return Growth(dataset.name, tuple(part.views.n_samples for part in parts), seconds, reasons)


def write_growths(files: Files, growths: Sequence[Growth]) -> None:
    """Write the times as a table, and one figure per data set with several sizes."""
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
    """Draw time against size for the methods that completed a fit."""
    timed = {name: values for name, values in growth.seconds.items() if not np.isnan(values).all()}
    axes = plot_time_against_size(growth.sizes, timed, ylabel="processor seconds")
    axes.set_title(f"growing parts of {shown(growth.data)}")
    return axes
