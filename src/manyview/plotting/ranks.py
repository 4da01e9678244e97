"""Average ranks, and which of them differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from manyview.experiment.significance import Ranking
from manyview.plotting.figure import given_or_new
from manyview.plotting.names import shown
from manyview.plotting.style import INK, QUIET, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_critical_difference"]

# heights of a joining bar, of a line of labels and of what shows the critical difference
_BAR, _ROW, _ABOVE = 0.28, 0.5, 1.1


def plot_critical_difference(
    average_ranks: Mapping[str, float] | Ranking,
    critical_difference: float | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw Demsar's diagram: methods on an axis of ranks, bars over those that do not differ.

    Parameters
    ----------
    average_ranks : Ranking, or mapping of str to float
        As :func:`manyview.experiment.rank_methods` returns, or the mean over data sets of each
        method's rank, 1 for the best.
    critical_difference : float, optional
        Ranks that differ by less are joined; by default that of the ranking.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A label for each method, best first, and a bar for each group.

    References
    ----------
    J. Demsar. Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 2006.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_critical_difference
    >>> ax = plot_critical_difference({"AMGL": 2.9, "MMC": 1.2, "SEC": 1.9}, 0.8)
    >>> [text.get_text() for text in ax.texts]
    ['CD = 0.80', 'MMC  1.20', 'SEC  1.90', '2.90  AMGL']
    >>> plt.close(ax.figure)
    """
    if isinstance(average_ranks, Ranking):
        if critical_difference is None:
            critical_difference = average_ranks.critical_difference
        average_ranks = average_ranks.ranks
    if not isinstance(average_ranks, Mapping):
        raise TypeError(
            f"average_ranks is a {type(average_ranks).__name__}; expected a Ranking, as "
            "rank_methods returns, or a mapping of method to rank"
        )
    if critical_difference is None:
        raise TypeError("average_ranks has no critical_difference with it; give one, or a Ranking")
    if len(average_ranks) < 2:
        raise ValueError(f"average_ranks has {len(average_ranks)} methods; expected at least 2")
    if not critical_difference > 0:
        raise ValueError(f"critical_difference={critical_difference}; expected a positive number")
    methods = sorted(average_ranks, key=lambda name: average_ranks[name])
    ranks = [float(average_ranks[name]) for name in methods]
    if not ranks[0] >= 1 or not np.isfinite(ranks[-1]):
        raise ValueError(f"average ranks go from {ranks[0]} to {ranks[-1]}; the least rank is 1")
    low = float(np.floor(ranks[0]))
    high = max(float(np.ceil(ranks[-1])), low + 1, low + critical_difference)
    groups = _groups(ranks, critical_difference)
    lines = (len(methods) + 1) // 2
    first_line = -_BAR * (len(groups) + 1) - 0.25
    bottom = first_line - _ROW * lines

    ax = given_or_new(ax, (7.0, 0.9 - 0.42 * bottom))
    _draw_axis(ax, low, high, critical_difference)
    for at, (start, end) in enumerate(groups):
        y = -_BAR * (at + 0.8)
        ends = [ranks[start] - 0.012 * (high - low), ranks[end] + 0.012 * (high - low)]
        ax.plot(ends, [y, y], color=VERMILLION, linewidth=3.5, solid_capstyle="butt", gid="group")
    margin = 0.03 * (high - low)
    for at, (name, rank) in enumerate(zip(methods, ranks, strict=True)):
        left = at < lines
        y = first_line - _ROW * (at if left else len(methods) - 1 - at)
        edge = low - margin if left else high + margin
        ax.plot([rank, rank, edge], [0, y, y], color=INK, linewidth=0.9, gid="method")
        ax.text(
            edge - margin / 3 if left else edge + margin / 3,
            y,
            f"{shown(name)}  {rank:.2f}" if left else f"{rank:.2f}  {shown(name)}",
            ha="right" if left else "left",
            va="center",
        )
    ax.set(xlim=(low - margin, high + margin), ylim=(bottom, _ABOVE + 0.3))
    ax.set_title("average rank, 1 is best", fontsize="medium")
    return ax


def _groups(ranks: Sequence[float], critical_difference: float) -> list[tuple[int, int]]:
    """Return the first and last places of every longest run of ranks that do not differ."""
    groups: list[tuple[int, int]] = []
    for start, rank in enumerate(ranks):
        end = max(at for at in range(start, len(ranks)) if ranks[at] - rank < critical_difference)
        if end > start and (not groups or end > groups[-1][1]):
            groups.append((start, end))
    return groups


def _draw_axis(ax: Axes, low: float, high: float, critical_difference: float) -> None:
    ax.spines[["left", "right", "bottom"]].set_visible(False)
    ax.spines["top"].set_position(("data", 0.0))
    ax.spines["top"].set_bounds(low, high)
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(low, np.floor(high) + 1, max(1, round((high - low) / 12))))
    ax.set_yticks([])
    ends = [low, low + critical_difference]
    ax.plot(ends, [_ABOVE, _ABOVE], color=QUIET, linewidth=1.2, marker="|", gid="critical")
    ax.annotate(
        f"CD = {critical_difference:.2f}",
        (ends[1], _ABOVE),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
    )
