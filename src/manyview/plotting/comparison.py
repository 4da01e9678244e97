"""Scores of methods, data set by data set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manyview.experiment.run import Run
from manyview.experiment.summary import Row
from manyview.plotting.figure import given_or_new
from manyview.plotting.names import shown
from manyview.plotting.style import INK, QUIET, score_name, styles_of
from manyview.plotting.table import Series, check_score, published, reported_rows, series_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison"]

_GROUP = 0.86  # part of a data set's place that bars fill
_HATCH = "////"


def plot_comparison(
    rows: Sequence[Row] | Sequence[Run], score: str = "nmi_geometric", *, ax: Axes | None = None
) -> Axes:
    """Draw scores as bars, grouped by data set.

    Whiskers are standard deviations over seeds, diamonds the figures of the paper, and a cross
    stands where every run failed. Bars of methods tuned with labels are hatched. A star under a
    bar marks the best of its kind: one of those that saw no label, one of those tuned with them.

    Parameters
    ----------
    rows : sequence of Row or of Run
        As :func:`manyview.experiment.summarise` or :func:`manyview.experiment.compare` returns.
    score : str, default="nmi_geometric"
        Name of a score, as in :func:`manyview.metrics.score_all`.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure, as wide as its bars need.

    Returns
    -------
    matplotlib Axes
        One bar for each row that has the score.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.experiment import Run
    >>> from manyview.plotting import plot_comparison
    >>> runs = [
    ...     Run(method, "digits", seed, "default", {}, scores={"acc": acc + 0.02 * seed})
    ...     for method, acc in {"SEC": 0.6, "MMC": 0.8}.items()
    ...     for seed in range(2)
    ... ]
    >>> ax = plot_comparison(runs, score="acc")
    >>> [round(float(bar.get_height()), 2) for bar in ax.patches]
    [0.61, 0.81]
    >>> plt.close(ax.figure)
    """
    table = reported_rows(rows)
    check_score(table, score)
    series = series_of(table)
    sets = list(dict.fromkeys(row.data for row in table))
    ax = given_or_new(ax, (float(np.clip(1.2 + 0.15 * len(sets) * len(series), 6.4, 17)), 4.4))
    colours = {name: style.colour for name, style in styles_of(s.name for s in series).items()}
    width = _GROUP / len(series)
    for at, one in enumerate(series):
        places = np.arange(len(sets)) + (at + 0.5) * width - _GROUP / 2
        for row, x in ((row, places[sets.index(data)]) for data, row in one.rows.items()):
            if score not in row.mean:
                ax.plot(x, 0.0, "x", color=INK, markersize=4, clip_on=False, gid="failed")
                continue
            ax.bar(
                x,
                row.mean[score],
                width * 0.92,
                color=colours[one.name],
                edgecolor="white" if one.tuned else INK,
                hatch=_HATCH if one.tuned else None,
                linewidth=0.0 if one.tuned else 0.4,
                yerr=row.std[score],
                error_kw={"elinewidth": 0.8, "ecolor": INK, "capsize": min(2.0, 20 * width)},
                gid=f"{one.title} on {row.data}",
            )
    _add_published(ax, series, sets, score, width)
    _add_best(ax, series, sets, score, width)
    ax.set_xticks(range(len(sets)), list(map(shown, sets)))
    ax.set_xlim(-0.5, len(sets) - 0.5)
    _turn_if_close(ax)
    ax.tick_params(axis="x", length=0, pad=14)
    ax.set_ylabel(score_name(score))
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    for edge in np.arange(len(sets) - 1) + 0.5:
        ax.axvline(edge, color=QUIET, alpha=0.25, linewidth=0.8)
    _add_legend(ax, series, colours, score)
    return ax


def _turn_if_close(ax: Axes) -> None:
    """Turn the names of data sets where, side by side, they would run into each other."""
    ax.xaxis.get_tightbbox()  # before, ticks do not know where they are
    ends = [label.get_window_extent() for label in ax.get_xticklabels()]
    gap = ax.figure.dpi / 20
    if any(left.x1 + gap > right.x0 for left, right in pairwise(ends)):
        ax.tick_params(axis="x", labelrotation=35)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _add_published(
    ax: Axes, series: list[Series], sets: list[str], score: str, width: float
) -> None:
    """Put one diamond on each method's bars, in the middle of them."""
    for name in dict.fromkeys(one.name for one in series):
        own = [at for at, one in enumerate(series) if one.name == name]
        x = (np.mean(own) + 0.5) * width - _GROUP / 2
        for place, data in enumerate(sets):
            rows = [series[at].rows[data] for at in own if data in series[at].rows]
            value = published(rows[0], score) if rows else None
            if value is None:
                continue
            ax.plot(
                place + x,
                value,
                "D",
                markersize=4.5,
                markerfacecolor="white",
                markeredgecolor=INK,
                markeredgewidth=0.9,
                zorder=4,
                gid="published",
            )


def _add_best(ax: Axes, series: list[Series], sets: list[str], score: str, width: float) -> None:
    for place, data in enumerate(sets):
        for tuned in (False, True):
            means = {
                at: one.rows[data].mean[score]
                for at, one in enumerate(series)
                if one.tuned is tuned and data in one.rows and score in one.rows[data].mean
            }
            for at in (at for at, mean in means.items() if mean == max(means.values())):
                ax.annotate(
                    "★",
                    (place + (at + 0.5) * width - _GROUP / 2, 0.0),
                    xycoords=ax.get_xaxis_transform(),
                    xytext=(0, -2),
                    textcoords="offset points",
                    ha="center",
                    va="top",
                    fontsize=8,
                    color=INK,
                    annotation_clip=False,
                    gid="best",
                )


def _add_legend(ax: Axes, series: list[Series], colours: dict[str, str], score: str) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def marker(shape: str, label: str, face: str = INK) -> Line2D:
        return Line2D(
            [], [], linestyle="", marker=shape, markersize=5, mfc=face, mec=INK, label=label
        )

    handles: list[Patch | Line2D] = [
        Patch(facecolor=colour, edgecolor=INK, linewidth=0.4, label=shown(name))
        for name, colour in colours.items()
    ]
    if any(one.tuned for one in series):
        handles.append(
            Patch(facecolor=QUIET, edgecolor="white", hatch=_HATCH, label="tuned with labels")
        )
    drawn = {artist.get_gid() for artist in (*ax.lines, *ax.texts)}
    if "published" in drawn:
        unsaid = ", normaliser not stated" if score.startswith("nmi") else ""
        handles.append(marker("D", f"published{unsaid}", "white"))
    if "failed" in drawn:
        handles.append(marker("x", "failed"))
    handles.append(marker("*", "best"))
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.02),
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        ncols=max(2, int(ax.get_window_extent().width / ax.figure.dpi / 1.25)),
    )
