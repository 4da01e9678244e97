"""Tables and figures of the paper, into a folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyview.datasets import Dataset
from manyview.experiment import (
    METHODS,
    Limits,
    Listener,
    ResultsFile,
    Row,
    Run,
    compare,
    summarise,
)
from manyview.experiment.significance import Difference, paired_differences, rank_methods
from manyview.experiment.tables import as_csv, as_markdown
from manyview.paper.convergence import converge
from manyview.paper.files import Files
from manyview.paper.growth import Growth, time_growth
from manyview.plotting import (
    plot_comparison,
    plot_critical_difference,
    plot_objective,
    plot_paired_differences,
    plot_time_against_size,
)
from manyview.plotting.names import shown

__all__ = ["Reproduced", "reproduce"]

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
        Where everything goes, ``runs.jsonl`` with the runs too: what it holds is not done again.
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
        _write_significance(files, runs, rows)
        curves = converge(
            datasets,
            n_jobs=n_jobs,
            n_threads=n_threads,
            limits=limits,
            results=results,
            listener=listener("convergence"),
        )
        files.text("convergence.csv", _convergence_csv(curves))
        for data in dict.fromkeys(data for data, _ in curves):
            files.figure(f"convergence-{data}.png", partial(_plot_convergence, data, curves))
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
    if growths:
        files.text("times.csv", _times_csv(growths))
    for growth in growths:
        if len(growth.sizes) > 1 and not np.isnan(list(growth.seconds.values())).all():
            files.figure(f"times-{growth.data}.png", partial(_plot_times, growth))
    return Reproduced(rows, files.written, slowest)


def _write_significance(files: Files, runs: Sequence[Run], rows: Sequence[Row]) -> None:
    """Write ranks and paired differences of the label-free runs, each method scaled its own way."""
    rows = [row for row in rows if not row.tuned and "normalize" not in row.params]
    runs = [run for run in runs if not run.tuned and "normalize" not in run.params]
    try:
        ranking = rank_methods(rows)
    except ValueError:
        return  # no data set in which any method ended with labels
    found = paired_differences(runs, "MMC") if "MMC" in ranking.ranks else []
    lines = list(ranking.ranks.items())
    files.text("ranks.csv", _csv(("method", "mean_rank_nmi"), lines))
    heads = [each.name for each in fields(Difference)]
    files.text("differences.csv", _csv(heads, [astuple(each) for each in found]))
    if len(ranking.ranks) > 2 and len(ranking.data) > 1:
        draw = partial(plot_critical_difference, ranking.ranks, ranking.critical_difference)
        files.figure("ranks.png", draw)
    if found:
        most = max(each.n_sets for each in found)
        intervals = {
            each.other if each.n_sets == most else f"{each.other} ({each.n_sets} of {most} sets)": (
                each.mean,
                each.low,
                each.high,
            )
            for each in found
        }
        draw = partial(
            plot_paired_differences, intervals, xlabel="NMI of MMC less that of the method"
        )
        files.figure("differences.png", draw)


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


def _plot_convergence(data: str, curves: Mapping[tuple[str, str], Sequence[float]]) -> Any:
    axes = plot_objective(
        {kind: list(values) for (name, kind), values in curves.items() if name == data}
    )
    axes.set_title(f"MMC on {shown(data)}")
    return axes


def _plot_times(growth: Growth) -> Any:
    timed = {name: values for name, values in growth.seconds.items() if not np.isnan(values).all()}
    axes = plot_time_against_size(growth.sizes, timed, ylabel="processor seconds")
    axes.set_title(f"growing parts of {shown(growth.data)}")
    return axes


def _convergence_csv(curves: Mapping[tuple[str, str], Sequence[float]]) -> str:
    lines = [
        (data, kind, sweep, value)
        for (data, kind), values in curves.items()
        for sweep, value in enumerate(values, start=1)
    ]
    return _csv(("data", "indicator", "sweep", "objective"), lines)


def _times_csv(growths: Sequence[Growth]) -> str:
    lines = [
        (growth.data, method, size, "" if value != value else value, growth.reasons.get(method, ""))
        for growth in growths
        for method, values in growth.seconds.items()
        for size, value in zip(growth.sizes, values, strict=True)
    ]
    return _csv(("data", "method", "samples", "cpu_seconds", "ended"), lines)


def _csv(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(lines)
    return text.getvalue()
