"""The paper's table and figures, written to a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

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

__all__ = ["Reproduced", "reproduce", "write_significance"]


def write_significance(files: Files, runs: Sequence[Run], rows: Sequence[Row]) -> None:
    """Write ranks and paired differences of the label-free runs, each method scaled its own way.

    Parameters
    ----------
    files : Files
        Where tables and figures go.
    runs : sequence of Run
    rows : sequence of Row
        The same, summarised.
    """
    rows = [row for row in rows if not row.tuned and "normalize" not in row.params]
    runs = [run for run in runs if not run.tuned and "normalize" not in run.params]
    try:
        ranking = rank_methods(rows)
    except ValueError:
        return  # no data set in which any method ended with labels
    found = paired_differences(runs, "MMC") if "MMC" in ranking.ranks else []
    files.csv("ranks.csv", ("method", "mean_rank_nmi"), list(ranking.ranks.items()))
    heads = [each.name for each in fields(Difference)]
    files.csv("differences.csv", heads, [astuple(each) for each in found])
    if len(ranking.ranks) > 2 and len(ranking.data) > 1:
        files.figure("ranks.png", partial(plot_critical_difference, ranking))
    if found:
        label = "NMI of MMC less that of the method"
        files.figure("differences.png", partial(plot_paired_differences, found, xlabel=label))


_NOTE = """
ACC and NMI (geometric normaliser) in per cent, mean and standard deviation over {repeats} seeds,
the published figure in brackets; the best of ours is bold, apart for each protocol. "Tuned with
labels": the setting of the method's grid with the best ACC on other seeds. The paper tunes its
baselines so, and does not state its normaliser, its preprocessing and its number of k-means
restarts.
"""


@dataclass(frozen=True)
class Reproduced:
    """What was made.

    Attributes
    ----------
    rows : list of Row
        Of the table.
    files : list of Path
        Tables and figures.
    slowest : str
        The method, data set and protocol that took most processor time, with it.
    """

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
    preprocessings: Sequence[str],
    n_jobs: int,
    n_threads: int,
    limits: Limits,
    growth_limits: Limits,
    listener: Callable[[str], Listener],
) -> Reproduced:
    """Make the paper's table, its figure of times and its figure of convergence.

    Parameters
    ----------
    folder : Path
        Where everything goes, made if it is not there; ``runs.jsonl`` with the runs too: what it
        holds is not done again.
    datasets : sequence of Dataset
        The sets of the table.
    timed : sequence of Dataset
        Those on whose growing parts the methods are timed.
    repeats : int
        Seeds.
    tune : bool
        Whether to add the rows that labels tune.
    preprocessings : sequence of str
        See :func:`manyview.experiment.compare`.
    n_jobs : int
        Runs of the table side by side; times are taken one at a time.
    n_threads : int
        Threads of linear algebra in a run.
    limits, growth_limits : Limits
        Of a run of the table or of the figure of convergence, and of one of the figure of times.
    listener : callable
        From the name of a part of the work to who is told of its progress.

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
        runs = compare(
            methods,
            datasets,
            repeats=repeats,
            tune=tune,
            preprocessings=preprocessings,
            n_jobs=n_jobs,
            n_threads=n_threads,
            limits=limits,
            results=results,
            listener=listener("table"),
        )
        slowest = _slowest([run for run in results.runs if run.data in names])
        rows = summarise(runs)
        files.text("table.md", as_markdown(rows) + _NOTE.format(repeats=repeats))
        files.text("table.csv", as_csv(rows))
        files.figure("table.png", partial(plot_comparison, rows))
        write_significance(files, runs, rows)
        curves = converge(
            datasets,
            n_jobs=n_jobs,
            n_threads=n_threads,
            limits=limits,
            results=results,
            listener=listener("convergence"),
        )
        write_convergence(files, curves)
        growths = [
            time_growth(
                dataset,
                methods,
                _sizes(dataset),
                n_threads=n_threads,
                limits=growth_limits,
                results=results,
                listener=listener(f"times on {dataset.name}"),
            )
            for dataset in timed
        ]
    write_growths(files, growths)
    return Reproduced(rows, files.written, slowest)


def _sizes(dataset: Dataset) -> list[int]:
    """Sizes that double, from 256 on, up to all samples; the last step may be smaller or larger."""
    n = dataset.views.n_samples
    return [*(256 * 2**step for step in range(20) if 1.4 * 256 * 2**step < n), n]


def _slowest(runs: Sequence[Run]) -> str:
    spent: dict[tuple[str, str, int], float] = {}
    for run in runs:
        if run.method not in METHODS:
            continue
        part = f"{run.method} on {run.data} ({run.protocol})"
        # a fit that serves many seeds counts in each of them, and was done once
        seed = -1 if METHODS[run.method].shares_fit else run.seed
        key = part, str(dict(run.params)), seed
        spent[key] = max(spent.get(key, 0.0), run.cpu_seconds)
    total: dict[str, float] = {}
    for (part, _, _), seconds in spent.items():
        total[part] = total.get(part, 0.0) + seconds
    if not total:
        return "nothing was run"
    most = max(total, key=lambda part: total[part])
    return f"{most}: {total[most] / 60:.1f} of {sum(total.values()) / 60:.1f} processor minutes"
