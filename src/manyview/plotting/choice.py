"""Figure of the stability of numbers of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyview.choice import ChoiceSettings, StableClusters
from manyview.plotting.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    QUIET,
    VERMILLION,
    given_or_new,
    legend_beside,
    trim,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_n_clusters(choice: StableClusters, *, ax: Axes | None = None) -> Axes:
    """Draw how stable numbers of clusters are.

    The line is the agreement of halves, with the standard deviation over the splits as a band. The
    recommended number and the runner-up are marked. Bars are the eigengaps. The dotted line is the
    agreement below which there are no clusters.

    Parameters
    ----------
    choice : StableClusters
        Result of :func:`manyview.choose_n_clusters`.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview import choose_n_clusters
    >>> from manyview.datasets import make_views
    >>> from manyview.plotting import plot_n_clusters
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> ax = plot_n_clusters(choose_n_clusters(views, range(2, 6), random_state=0))
    >>> ax.get_title()
    '3 clusters'
    >>> plt.close(ax.figure)
    """
    ax = given_or_new(ax, (7.0, 3.6))
    numbers = np.array([row.n_clusters for row in choice.table])
    agreement = np.array([row.agreement for row in choice.table])
    spread = np.array([row.spread for row in choice.table])
    gaps = [row.eigengap for row in choice.table]
    ax.bar(numbers, gaps, width=0.5, color=GREY, alpha=0.5, label="eigengap")
    ax.fill_between(numbers, agreement - spread, agreement + spread, color=BLUE, alpha=0.15)
    ax.plot(numbers, agreement, color=BLUE, marker="o", markersize=4, label="agreement of halves")
    least = ChoiceSettings().least_agreement
    ax.axhline(least, color=QUIET, linestyle=":", linewidth=1.0, label="needed by clusters")
    marks = (
        (choice.n_clusters, VERMILLION, "recommended"),
        (choice.runner_up, ORANGE, "runner-up"),
    )
    for number, colour, name in marks:
        if number is not None:
            at = int(np.flatnonzero(numbers == number)[0])
            ax.plot([number], [agreement[at]], "o", color=colour, markersize=9, label=name)
    found = "no clusters found" if choice.n_clusters is None else f"{choice.n_clusters} clusters"
    ax.set_title(found, fontsize="medium", color=INK)
    ax.set(
        xlabel="number of clusters",
        ylabel="adjusted Rand index",
        ylim=(min(0.0, *(agreement - spread)), 1.05),
    )
    ax.set_xticks(numbers if len(numbers) <= 25 else numbers[:: -(-len(numbers) // 25)])
    trim(ax, grid="y", hide=("top", "right"))
    legend_beside(ax)
    return ax
