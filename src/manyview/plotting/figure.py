"""Where a figure is drawn: the caller's Axes, or those of a new figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["given_or_new", "legend_beside", "tick_log_axis"]


def given_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the Axes given, or those of a new figure of a size in inches.

    Raises
    ------
    ModuleNotFoundError
        Where matplotlib is not installed; names the line that installs it.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "figures need matplotlib, of the extra 'app': pip install 'manyview[app]'",
            name="matplotlib",
        ) from error
    # the constrained layout makes room for legends and labels outside of the Axes
    return plt.subplots(figsize=size, layout="constrained")[1]


def legend_beside(ax: Axes, *, title: str | None = None, n_entries: int = 0) -> None:
    """Put the legend to the right of the Axes, where it hides nothing, in two columns if long."""
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        title=title,
        ncols=2 if n_entries > 20 else 1,
    )


def tick_log_axis(axis: Axis) -> None:
    """Write 1, 2 and 5 of each decade where a logarithmic axis shows few, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high > 300 * low:
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())
