"""Classes against clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from manyview.linalg.partition import matched_order
from manyview.metrics import clustering_accuracy
from manyview.plotting.figure import given_or_new
from manyview.plotting.names import names_of, shown
from manyview.plotting.style import INK, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_contingency"]

Counts = npt.NDArray[np.int64]

_MANY = 15  # classes or clusters, from which cells are small


def plot_contingency(
    y: npt.ArrayLike,
    labels: npt.ArrayLike,
    class_names: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how many samples of each class are in each cluster.

    Clusters stand in the order of the classes that they are matched to, so that agreement lies
    on the diagonal; what has no match comes last. The matching is that of the accuracy, which is
    the title. Colours are parts of a class.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Classes: the rows.
    labels : array-like of shape (n_samples,)
        Clusters: the columns.
    class_names : sequence of str, optional
        ``class_names[k]`` names the class ``k`` of `y`.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure that grows with the table.

    Returns
    -------
    matplotlib Axes
        A text for each cell.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_contingency
    >>> ax = plot_contingency([0, 0, 1, 1], [7, 7, 7, 3], class_names=["cat", "dog"])
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['7', '3']
    >>> [text.get_text() for text in ax.texts]
    ['2', '0', '1', '1']
    >>> plt.close(ax.figure)
    """
    y, labels = np.asarray(y), np.asarray(labels)
    if y.size != labels.size:
        raise ValueError(
            f"y has {y.size} labels, labels has {labels.size}: both are of the same samples"
        )
    accuracy = clustering_accuracy(y, labels)
    classes, row_of = np.unique(y, return_inverse=True)
    clusters, column_of = np.unique(labels, return_inverse=True)
    names = list(names_of(y, class_names).values())
    counts = np.zeros((len(classes), len(clusters)), dtype=np.int64)
    np.add.at(counts, (row_of, column_of), 1)
    rows, columns, matched = matched_order(counts)
    counts = counts[np.ix_(rows, columns)]

    cell = 0.5 if max(counts.shape) <= _MANY else 0.3
    ax = given_or_new(ax, (2.2 + cell * len(clusters), 1.3 + 0.85 * cell * len(classes)))
    _draw_cells(ax, counts, matched)
    ax.set_xticks(range(len(clusters)), [shown(clusters[at]) for at in columns])
    ax.set_yticks(range(len(classes)), [shown(names[at]) for at in rows])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="cluster", ylabel="class", title=f"ACC {accuracy:.3f}")
    return ax


def _draw_cells(ax: Axes, counts: Counts, matched: int) -> None:
    from matplotlib.patches import Rectangle

    shares = counts / counts.sum(axis=1, keepdims=True)
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    size = 9.0 if max(counts.shape) <= _MANY else 7.0
    for (row, column), count in np.ndenumerate(counts):
        dark = shares[row, column] > 0.55
        colour = "white" if dark else INK if count else "#bbbbbb"
        ax.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=size)
    for at in range(matched):
        ax.add_patch(
            Rectangle((at - 0.5, at - 0.5), 1, 1, fill=False, edgecolor=VERMILLION, linewidth=1.4)
        )
