"""How time grows with the number of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from manyview.plotting.figure import given_or_new, legend_beside, tick_log_axis
from manyview.plotting.names import shown
from manyview.plotting.style import INK, QUIET, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_time_against_size"]

Vector = npt.NDArray[np.float64]

_LABEL_AT = 0.9  # how far along a guide its label stands


def plot_time_against_size(
    sizes: Sequence[int],
    seconds: Mapping[str, Sequence[float | None]],
    *,
    guides: Sequence[float] = (1.0, 2.0),
    xlabel: str = "samples",
    ylabel: str = "seconds",
    ax: Axes | None = None,
) -> Axes:
    """Draw seconds against sizes on logarithmic axes, where a power of the size is a line.

    The legend gives each method's exponent, fitted by least squares to all of its points.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of samples, or of whatever else was varied.
    seconds : mapping of str to sequence of float or None
        For each method the time at every size; None or NaN where it was not run.
    guides : sequence of float, default=(1, 2)
        Exponents of the grey lines.
    xlabel, ylabel : str
        Names of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A line for each method, slowest first, then the guides.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_time_against_size
    >>> times = {"MMC": [0.1, 0.2, 0.4], "AMGL": [0.1, 0.4, None]}
    >>> ax = plot_time_against_size([1000, 2000, 4000], times)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['AMGL, exponent 2.0', 'MMC, exponent 1.0']
    >>> plt.close(ax.figure)
    """
    n = np.asarray(sizes, dtype=float)
    if n.ndim != 1 or not n.size or not np.all(n > 0):
        raise ValueError(f"sizes={sizes!r}; expected positive numbers")
    times = {name: _checked(name, values, n) for name, values in seconds.items()}
    if not times:
        raise ValueError("seconds is empty: there is nothing to draw")
    ax = given_or_new(ax, (6.8, 4.4))
    styles = styles_of(times)
    for name in sorted(times, key=lambda name: _at_largest(n, times[name]), reverse=True):
        done = np.isfinite(times[name])
        colour, marker = styles[name]
        ax.plot(
            n[done],
            times[name][done],
            color=colour,
            marker=marker,
            markersize=6,
            markeredgecolor=INK,
            markeredgewidth=0.4,
            label=_label(name, n[done], times[name][done]),
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    legend_beside(ax, n_entries=len(times))
    _add_guides(ax, n, times, guides)
    return ax


def _checked(name: str, values: Sequence[float | None], n: Vector) -> Vector:
    array = np.array([np.nan if value is None else value for value in values], dtype=float)
    if array.shape != n.shape:
        raise ValueError(
            f"seconds of {name!r} has {len(array)} values, sizes has {len(n)}; "
            "expected one a size, None where there is none"
        )
    if not np.isfinite(array).any():
        raise ValueError(f"seconds of {name!r} has no value at any size")
    if np.any(array <= 0):
        raise ValueError(f"seconds of {name!r} has {np.nanmin(array)}; expected positive times")
    return array


def _at_largest(n: Vector, times: Vector) -> tuple[float, float]:
    done = np.isfinite(times)
    last = int(np.argmax(np.where(done, n, -np.inf)))
    # a method that stopped at a smaller size is the slower one of two
    return -float(n[last]), float(times[last])


def _label(name: str, n: Vector, times: Vector) -> str:
    if len(np.unique(n)) < 2:
        return shown(name)
    slope = np.polyfit(np.log(n), np.log(times), 1)[0]
    return f"{shown(name)}, exponent {slope:.1f}"


def _add_guides(ax: Axes, n: Vector, times: Mapping[str, Vector], guides: Sequence[float]) -> None:
    """Draw lines of given exponents from below the points at the smallest size, within limits."""
    (low, high), (left, right) = ax.get_ylim(), ax.get_xlim()
    start = float(min(np.nanmin(values) for values in times.values())) / 1.5
    low = min(low, start / 1.5)
    for exponent in guides:
        end = right
        if exponent > 0:
            end = min(right, float(n.min()) * (high / start) ** (1 / exponent))
        x = np.array([float(n.min()), end])
        y = start * (x / n.min()) ** exponent
        ax.plot(x, y, color=QUIET, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        at = _LABEL_AT
        ax.text(
            x[0] ** (1 - at) * x[1] ** at,
            y[0] ** (1 - at) * y[1] ** at,
            "$n$" if exponent == 1 else f"$n^{{{exponent:g}}}$",
            color=QUIET,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            zorder=1.1,
        )
    ax.set(xlim=(left, right), ylim=(low, high))
    tick_log_axis(ax.xaxis)
    tick_log_axis(ax.yaxis)
