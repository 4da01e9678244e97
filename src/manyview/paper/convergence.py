"""The paper's figure of the objective against the sweeps, for both indicators."""

from __future__ import annotations

from collections.abc import Sequence

from manyview import MMC
from manyview.datasets import Dataset
from manyview.experiment import Listener, Method, ResultsFile, compare

__all__ = ["converge"]


def converge(
    datasets: Sequence[Dataset],
    *,
    n_sweeps: int = 50,
    n_jobs: int | None = None,
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
    results : ResultsFile, optional
        Where runs are kept and taken from.
    listener : Listener, optional
        Is told of the progress.

    Returns
    -------
    dict of (str, str) to tuple of float
        By data set and indicator.
    """
    methods = [
        Method(f"MMC, {kind}", MMC, {"indicator": kind, "max_iter": n_sweeps, "tol": 0.0})
        for kind in ("orthogonal", "discrete")
    ]
    runs = compare(methods, datasets, repeats=1, n_jobs=n_jobs, results=results, listener=listener)
    return {
        (run.data, str(run.params["indicator"])): run.objective for run in runs if not run.error
    }
