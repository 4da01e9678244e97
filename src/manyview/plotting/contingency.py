"""Classes against clusters."""

from __future__ import annotations

import math
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
_MOST_COUNTED = 40  # beyond, numbers could not be read and would take minutes to draw
_MOST = 5000  # beyond, a cell is a small part of a pixel and the table fills the memory


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
    the title. Colours are parts of a class. Of more than 40 classes or clusters the cells hold no
    numbers, a bar tells the colours, and not all are named; a line encloses those that are matched.

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
        A text for each cell, up to 40 classes and clusters.

    Raises
    ------
    ValueError
        If the labels are not as many, class names are missing, or there are more classes or
        clusters than a figure can show.

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
    if max(len(classes), len(clusters)) > _MOST:
        raise ValueError(
            f"y has {len(classes)} classes, labels {len(clusters)} clusters: a figure shows at "
            f"most {_MOST}; are they ids of the samples?"
        )
    names = list(names_of(y, class_names).values())
    counts = np.zeros((len(classes), len(clusters)), dtype=np.int64)
    np.add.at(counts, (row_of, column_of), 1)
    rows, columns, matched = matched_order(counts)
    counts = counts[np.ix_(rows, columns)]

    cell = 0.5 if max(counts.shape) <= _MANY else 0.3
    across, down = (cell * min(size, _MOST_COUNTED) for size in (len(clusters), len(classes)))
    ax = given_or_new(ax, (2.2 + across, 1.3 + 0.85 * down))
    if max(counts.shape) <= _MOST_COUNTED:
        _draw_cells(ax, counts, matched)
    else:
        _draw_picture(ax, counts, matched)
    box, inch = ax.get_window_extent(), ax.figure.dpi
    named = _thinned(len(clusters), box.width / (0.6 * inch))
    ax.set_xticks(named, [shown(clusters[columns[at]]) for at in named])
    named = _thinned(len(classes), box.height / (0.25 * inch))
    ax.set_yticks(named, [shown(names[rows[at]]) for at in named])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="cluster", ylabel="class", title=f"ACC {accuracy:.3f}")
    return ax


def _thinned(count: int, most: float) -> range:
    """Return the places that are named: all up to where cells have numbers, then `most` or so."""
    return range(0, count, 1 if count <= _MOST_COUNTED else math.ceil(count / most))


def _draw_picture(ax: Axes, counts: Counts, matched: int) -> None:
    shares = counts / counts.sum(axis=1, keepdims=True)
    box = ax.get_window_extent()
    # matplotlib would blur tall cells that are narrow; those below a pixel have to be averaged
    crisp = "nearest" if counts.shape[1] <= box.width and counts.shape[0] <= box.height else None
    image = ax.imshow(shares, cmap="Blues", vmin=0.0, aspect="auto", interpolation=crisp)
    ax.figure.colorbar(image, ax=ax, label="part of the class", fraction=0.04, pad=0.02)
    _enclose(ax, 0, matched)


def _draw_cells(ax: Axes, counts: Counts, matched: int) -> None:
    shares = counts / counts.sum(axis=1, keepdims=True)
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    size = 9.0 if max(counts.shape) <= _MANY else 7.0
    for (row, column), count in np.ndenumerate(counts):
        dark = shares[row, column] > 0.55
        colour = "white" if dark else INK if count else "#bbbbbb"
        ax.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=size)
    for at in range(matched):
        _enclose(ax, at, 1)


def _enclose(ax: Axes, start: int, size: int) -> None:
    from matplotlib.patches import Rectangle

    corner = start - 0.5, start - 0.5
    ax.add_patch(Rectangle(corner, size, size, fill=False, edgecolor=VERMILLION, linewidth=1.4))
