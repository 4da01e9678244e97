"""The paper's figure of the objective against the sweeps, for both indicators."""

from __future__ import annotations

from collections.abc import Sequence

from manyview import MMC
from manyview.datasets import Dataset
from manyview.experiment import Limits, Listener, Method, ResultsFile, compare

__all__ = ["converge"]


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
