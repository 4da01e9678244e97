"""What a score costs in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from manyview.experiment.run import Run
from manyview.experiment.summary import Row
from manyview.plotting.figure import given_or_new, tick_log_axis
from manyview.plotting.names import shown
from manyview.plotting.placement import label_points
from manyview.plotting.style import INK, score_name, styles_of
from manyview.plotting.table import Series, check_score, reported_rows, series_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_time_against_quality"]


def plot_time_against_quality(
    rows: Sequence[Row] | Sequence[Run],
    score: str = "nmi_geometric",
    *,
    data: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the score of each method against the seconds of a fit.

    Over several data sets, the score is the mean and the time the geometric mean; a method that
    has no score on some of them says on how many it has. Methods tuned with labels are hollow,
    and the time of their tuning is not in the figure.

    Parameters
    ----------
    rows : sequence of Row or of Run
        As :func:`manyview.experiment.summarise` or :func:`manyview.experiment.compare` returns.
    score : str, default="nmi_geometric"
        Name of a score, as in :func:`manyview.metrics.score_all`.
    data : str, optional
        Name of one data set; by default all.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        One marker and one label for each method.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.experiment import Run
    >>> from manyview.plotting import plot_time_against_quality
    >>> runs = [
    ...     Run("SEC", "digits", 0, "default", {}, scores={"acc": 0.6}, seconds=0.2),
    ...     Run("MMC", "digits", 0, "default", {}, scores={"acc": 0.8}, seconds=1.5),
    ... ]
    >>> ax = plot_time_against_quality(runs, score="acc")
    >>> ax.get_xscale(), [text.get_text() for text in ax.texts]
    ('log', ['SEC', 'MMC'])
    >>> plt.close(ax.figure)
    """
    table = reported_rows(rows)
    sets = list(dict.fromkeys(row.data for row in table))
    if data is not None:
        if data not in sets:
            raise ValueError(f"data={data!r}; the rows have {', '.join(sets)}")
        table, sets = [row for row in table if row.data == data], [data]
    check_score(table, score)
    series = [one for one in series_of(table) if _scored(one, score)]
    ax = given_or_new(ax, (6.4, 4.4))
    styles = styles_of(one.name for one in series)
    points, labels = [], []
    for one in series:
        scored = _scored(one, score)
        point = (
            float(np.exp(np.mean([np.log(_seconds(row)) for row in scored]))),
            float(np.mean([row.mean[score] for row in scored])),
        )
        colour, marker = styles[one.name]
        ax.plot(
            *point,
            linestyle="",
            marker=marker,
            markersize=7.5,
            markerfacecolor="none" if one.tuned else colour,
            markeredgecolor=colour if one.tuned else INK,
            markeredgewidth=1.6 if one.tuned else 0.6,
            label=shown(one.title),
        )
        part = f" ({len(scored)} of {len(sets)} sets)" if len(scored) < len(sets) else ""
        points.append(point)
        labels.append(f"{one.name}{', tuned' if one.tuned else ''}{part}")
    ax.set_xscale("log")
    ax.margins(0.12)
    tick_log_axis(ax.xaxis)
    ax.set(
        xlabel="seconds a fit",
        ylabel=score_name(score),
        title=shown(sets[0]) if len(sets) == 1 else f"mean of {len(sets)} data sets",
    )
    ax.grid(alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    label_points(ax, points, labels)
    return ax


def _scored(series: Series, score: str) -> list[Row]:
    return [row for row in series.rows.values() if score in row.mean]


def _seconds(row: Row) -> float:
    if not row.seconds > 0:
        raise ValueError(
            f"{row.method} on {row.data!r} has seconds={row.seconds}; expected a positive time"
        )
    return row.seconds
