"""The paper's figure of the objective against the sweeps, for both indicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from manyview import MMC
from manyview.datasets import Dataset
from manyview.experiment import Limits, Listener, Method, ResultsFile, compare
from manyview.paper.files import Files
from manyview.plotting import plot_objective
from manyview.plotting.names import shown

__all__ = ["converge", "plot_convergence", "write_convergence"]

Curves = Mapping[tuple[str, str], Sequence[float]]


def converge(
    datasets: Sequence[Dataset],
    *,
    n_sweeps: int = 50,
    n_jobs: int | None = None,
    n_threads: int = 1,
    limits: Limits | None = None,
    results: ResultsFile | None = None,
    listener: Listener | None = None,
) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return the objective of MMC after every sweep.

    Parameters
    ----------
    datasets : sequence of Dataset
    n_sweeps : int
        Sweeps, of which none is left out for settling early.
    n_jobs : int or None
        Fits side by side.
    n_threads : int
        Threads of linear algebra in each.
    limits : Limits, optional
        Of time and memory of a fit; one that goes beyond has no curve.
    results : ResultsFile, optional
        Where runs are kept and taken from.
    listener : Listener, optional
        Is told of the progress.

    Returns
    -------
    dict of (str, str) to tuple of float
        By data set and indicator.
    """
    all_of_them = {"max_iter": n_sweeps, "tol": 0.0, "patience": None}
    methods = [
        Method(f"MMC, {kind}", MMC, {"indicator": kind, **all_of_them})
        for kind in ("orthogonal", "discrete")
    ]
    runs = compare(
        methods,
        datasets,
        repeats=1,
        n_jobs=n_jobs,
        n_threads=n_threads,
        limits=limits,
        results=results,
        listener=listener,
    )
    return {
        (run.data, str(run.params["indicator"])): run.objective
        for run in runs
        if run.outcome == "done"
    }


def write_convergence(files: Files, curves: Curves) -> None:
    """Write the table of the objective, and a figure of each data set.

    Parameters
    ----------
    files : Files
        Where they go.
    curves : mapping
        As :func:`converge` returns.
    """
    lines = [
        (data, kind, sweep, value)
        for (data, kind), values in curves.items()
        for sweep, value in enumerate(values, start=1)
    ]
    files.csv("convergence.csv", ("data", "indicator", "sweep", "objective"), lines)
    for data in dict.fromkeys(data for data, _ in curves):
        files.figure(f"convergence-{data}.png", partial(plot_convergence, data, curves))


def plot_convergence(data: str, curves: Curves) -> Any:
    """Draw the objective on one data set against the sweeps, and return the axes."""
    axes = plot_objective(
        {kind: list(values) for (name, kind), values in curves.items() if name == data}
    )
    axes.set_title(f"MMC on {shown(data)}")
    return axes
