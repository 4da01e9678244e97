"""The paper's table and figures, written to a folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from manyview._typing import Preprocessing
from manyview.datasets import Dataset
from manyview.experiment import (
    METHODS,
    Difference,
    Limits,
    Listener,
    ResultsFile,
    Row,
    Run,
    compare,
    paired_differences,
    rank_methods,
    summarise,
)
from manyview.experiment.protocol import check_datasets, check_options
from manyview.experiment.summary import as_csv, as_markdown
from manyview.paper.figures import Files, converge, time_growth, write_convergence, write_growths
from manyview.plotting import plot_comparison, plot_critical_difference, plot_paired_differences


def write_significance(files: Files, runs: Sequence[Run], rows: Sequence[Row]) -> None:
    """Write ranks and paired differences of the label-free runs with default scaling."""
    rows = [row for row in rows if not row.tuned and "normalize" not in row.params]
    runs = [run for run in runs if not run.tuned and "normalize" not in run.params]
    try:
        ranking = rank_methods(rows)
    except ValueError:
        return  # all runs failed
    found = paired_differences(runs, "MMC") if "MMC" in ranking.ranks else []
    files.csv("ranks.csv", ("method", "mean_rank_nmi"), list(ranking.ranks.items()))
    heads = [each.name for each in fields(Difference)]
    files.csv("differences.csv", heads, [astuple(each) for each in found])
    if len(ranking.ranks) > 2 and len(ranking.data) > 1:
        files.figure("ranks.png", partial(plot_critical_difference, ranking))
    if found:
        label = "NMI of MMC minus NMI of the method"
        files.figure("differences.png", partial(plot_paired_differences, found, xlabel=label))


_NOTE = """
ACC and NMI (geometric normaliser) in per cent, mean and standard deviation over {repeats} seeds,
with published values in brackets. The best of our values is bold, separately for each protocol.
"Tuned with labels" is the setting of the method's grid with the best ACC on other seeds. The paper
tunes its baselines in this way. It does not state its NMI normaliser, its preprocessing or its
number of k-means restarts.
"""


@dataclass(frozen=True)
class Reproduced:
    """Rows of the table, files written, and the slowest method with its processor time."""

    rows: list[Row]
    files: list[Path]
    slowest: str


def reproduce(
    folder: Path,
    datasets: Sequence[Dataset],
    timed: Sequence[Dataset],
    *,
    repeats: int,
    tune: bool,
    preprocessings: Sequence[Preprocessing],
    n_jobs: int,
    n_threads: int,
    limits: Limits,
    growth_limits: Limits,
    listener: Callable[[str], Listener],
) -> Reproduced:
    """Reproduce the paper's table, run time figure and convergence figure.

    Parameters
    ----------
    folder : Path
        Output folder, created if needed. Runs recorded in its ``runs.jsonl`` are not repeated.
    datasets, timed : sequence of Dataset
        Data sets of the table, and those whose growing parts are timed.
    repeats : int
        Number of seeds.
    tune : bool
        Whether to add rows tuned with labels.
    preprocessings : sequence of {"default", "none", "rows", "columns"}
        See :func:`manyview.experiment.compare`.
    n_jobs, n_threads : int
        Parallel runs of the table, and threads of linear algebra per run. Times are measured one
        run at a time.
    limits, growth_limits : Limits
        Limits of a run of the table or convergence figure, and of the run time figure.
    listener : callable
        Returns the progress listener for the name of a part of the work.

    Returns
    -------
    Reproduced
    """
    check_datasets(datasets)
    check_options(repeats, preprocessings, n_jobs, limits)
    folder.mkdir(parents=True, exist_ok=True)
    methods = list(METHODS.values())
    names = {dataset.name for dataset in datasets}
    files = Files(folder)
    with ResultsFile(folder / "runs.jsonl") as results:
        options: dict[str, Any] = {"n_threads": n_threads, "results": results}
        parallel = {**options, "n_jobs": n_jobs, "limits": limits}
        runs = compare(
            methods,
            datasets,
            repeats=repeats,
            tune=tune,
            preprocessings=preprocessings,
            listener=listener("table"),
            **parallel,
        )
        slowest = _slowest([run for run in results.runs if run.data in names])
        rows = summarise(runs)
        files.text("table.md", as_markdown(rows) + _NOTE.format(repeats=repeats))
        files.text("table.csv", as_csv(rows))
        files.figure("table.png", partial(plot_comparison, rows))
        write_significance(files, runs, rows)
        write_convergence(files, converge(datasets, listener=listener("convergence"), **parallel))
        growths = [
            time_growth(
                dataset,
                methods,
                _sizes(dataset),
                limits=growth_limits,
                listener=listener(f"times on {dataset.name}"),
                **options,
            )
            for dataset in timed
        ]
    write_growths(files, growths)
    return Reproduced(rows, files.written, slowest)


def _sizes(dataset: Dataset) -> list[int]:
    """Return sizes that double from 256 up to all samples."""
    n = dataset.views.n_samples
    return [*(256 * 2**step for step in range(20) if 1.4 * 256 * 2**step < n), n]


def _slowest(runs: Sequence[Run]) -> str:
    """Return the method, data set and protocol that took the most processor time."""
    spent: dict[tuple[str, str, int], float] = {}
    for run in runs:
        if run.method in METHODS:
            part = f"{run.method} on {run.data} ({run.protocol})"
            # a fit shared by all seeds is recorded with each of them
            seed = -1 if METHODS[run.method].shares_fit else run.seed
            key = part, str(dict(run.params)), seed
            spent[key] = max(spent.get(key, 0.0), run.cpu_seconds)
    total: dict[str, float] = defaultdict(float)
    for (part, _, _), seconds in spent.items():
        total[part] += seconds
    if not total:
        return "nothing was run"
    most = max(total, key=lambda part: total[part])
    return f"{most}: {total[most] / 60:.1f} of {sum(total.values()) / 60:.1f} processor minutes"
