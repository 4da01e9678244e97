"""Differences between methods, with what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from manyview.experiment.significance import Difference
from manyview.plotting.figure import given_or_new
from manyview.plotting.names import shown
from manyview.plotting.style import BLUE, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_paired_differences"]

Interval: TypeAlias = tuple[float, float, float]


def plot_paired_differences(
    differences: Mapping[str, Interval] | Sequence[Difference],
    *,
    xlabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw differences as dots with their intervals, about a line at zero.

    A dot is full where its interval leaves out zero.

    Parameters
    ----------
    differences : sequence of Difference, or mapping of str to tuple of float
        As :func:`manyview.experiment.paired_differences` returns, or for each name the difference
        and the two ends of its interval, as of a bootstrap.
    xlabel : str, optional
        What is subtracted from what, such as ``"ACC of MMC less that of the other"``.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A dot for each name, the first on top.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_paired_differences
    >>> ax = plot_paired_differences({"SEC": (0.21, 0.12, 0.30), "AMGL": (0.02, -0.05, 0.08)})
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['SEC', 'AMGL']
    >>> plt.close(ax.figure)
    """
    if not differences:
        raise ValueError("differences is empty: there is nothing to draw")
    if not isinstance(differences, Mapping):
        _check_one_method(differences)
        xlabel = xlabel or f"{shown(differences[0].method)} less the other"
        differences = _intervals(differences)
    for name, values in differences.items():
        if len(values) != 3 or not np.all(np.isfinite(values)) or values[1] > values[2]:
            raise ValueError(
                f"differences[{name!r}] is {tuple(values)}; "
                "expected a difference and the lower and upper end of its interval"
            )
    ax = given_or_new(ax, (6.0, 1.1 + 0.32 * len(differences)))
    ax.axvline(0.0, color=QUIET, linewidth=1.0, gid="zero")
    for at, (value, low, high) in enumerate(differences.values()):
        told_apart = low > 0 or high < 0
        colour = BLUE if told_apart else QUIET
        ax.plot([low, high], [at, at], color=colour, linewidth=1.8, gid="interval")
        ax.plot(
            value,
            at,
            "o",
            markersize=7,
            markeredgecolor=colour,
            markerfacecolor=colour if told_apart else "white",
            gid="difference",
        )
    ax.set_yticks(range(len(differences)), list(map(shown, differences)))
    ax.set_ylim(len(differences) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(xlabel or "difference", color=INK)
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax


def _intervals(differences: Sequence[Difference]) -> dict[str, Interval]:
    """Name each difference by the other method, with how many sets where those are fewer."""
    most = max(each.n_sets for each in differences)
    return {
        each.other if each.n_sets == most else f"{each.other} ({each.n_sets} of {most} sets)": (
            each.mean,
            each.low,
            each.high,
        )
        for each in differences
    }


def _check_one_method(differences: Sequence[Difference]) -> None:
    strange = [item for item in differences if not isinstance(item, Difference)]
    if strange:
        raise TypeError(
            f"differences holds a {type(strange[0]).__name__}; expected Difference, as "
            "paired_differences returns, or a mapping of name to interval"
        )
    methods = dict.fromkeys(each.method for each in differences)
    if len(methods) > 1 or len({each.other for each in differences}) < len(differences):
        raise ValueError(
            f"differences has {len(differences)} of {', '.join(methods)}; expected those of one "
            "method with each other once"
        )
