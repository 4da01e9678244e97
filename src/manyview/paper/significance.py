"""Ranks of the methods over the paper's sets, and how far MMC lies above each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from functools import partial

from manyview.experiment import Difference, Row, Run, paired_differences, rank_methods
from manyview.paper.files import Files
from manyview.plotting import plot_critical_difference, plot_paired_differences

__all__ = ["write_significance"]


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
