"""The objective against iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manyview.experiment.run import Run
from manyview.plotting.figure import given_or_new, legend_beside, tick_log_axis
from manyview.plotting.names import shown
from manyview.plotting.style import INK, VERMILLION, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_objective"]

_WIDE = 20.0  # ratio of largest to smallest value from which a logarithmic axis helps
_UNEQUAL = 8  # the same of numbers of iterations


def plot_objective(fits: Any, *, log: bool | None = None, ax: Axes | None = None) -> Axes:
    """Draw the objective after every iteration.

    Parameters
    ----------
    fits : estimator, Run or sequence of float; or mapping of str to these
        What holds the objective, or several with their names. Objectives of different methods
        are different quantities: compare their course, not their height.
    log : bool, optional
        Whether the objective's axis is logarithmic; by default where its largest value is more
        than 20 times its smallest. That of iterations is where some fits took many times as
        many as others.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        One line for each fit.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview import MMC
    >>> from manyview.datasets import make_views
    >>> from manyview.plotting import plot_objective
    >>> views, y = make_views(n_samples=60, n_clusters=3, random_state=0)
    >>> model = MMC(n_clusters=3, random_state=0).fit(views)
    >>> ax = plot_objective(model)
    >>> len(ax.lines[0].get_ydata()) == model.n_iter_
    True
    >>> plt.close(ax.figure)
    """
    curves = _curves(fits)
    ax = given_or_new(ax, (6.4, 4.0))
    from matplotlib.ticker import MaxNLocator

    if len(curves) > 1:
        styles = {name: tuple(style) for name, style in styles_of(curves).items()}
    else:
        styles = dict.fromkeys(curves, (VERMILLION, "o"))
    for name, values in curves.items():
        colour, marker = styles[name]
        ax.plot(
            np.arange(1, len(values) + 1),
            values,
            label=shown(name),
            color=colour,
            marker=marker,
            markersize=4.5,
            markevery=max(1, len(values) // 25),
            markeredgecolor=INK,
            markeredgewidth=0.4,
        )
    if _is_wide(curves) if log is None else log:
        ax.set_yscale("log")
    lengths = [len(values) for values in curves.values() if len(values) > 1] or [1]
    if max(lengths) > _UNEQUAL * min(lengths):
        ax.set_xscale("log")
        tick_log_axis(ax.xaxis)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="iteration", ylabel="objective")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1:
        legend_beside(ax, n_entries=len(curves))
    else:
        ax.set_title(shown(next(iter(curves))))
    return ax


def _curves(fits: Any) -> dict[str, npt.NDArray[np.float64]]:
    if isinstance(fits, Mapping):
        if not fits:
            raise ValueError("fits is empty: there is nothing to draw")
        return {str(name): _curve(str(name), fit) for name, fit in fits.items()}
    if isinstance(fits, Sequence) and any(isinstance(fit, BaseEstimator | Run) for fit in fits):
        raise TypeError("fits is a list of fits; expected a dict with their names, or one fit")
    if isinstance(fits, Run):
        return {fits.method: _curve(fits.method, fits)}
    name = type(fits).__name__ if isinstance(fits, BaseEstimator) else ""
    return {name: _curve(name or "fits", fits)}


def _curve(name: str, fit: Any) -> npt.NDArray[np.float64]:
    if isinstance(fit, BaseEstimator):
        check_is_fitted(fit)
        if not hasattr(fit, "objective_"):
            raise TypeError(f"{name} keeps no objective: {type(fit).__name__} has no objective_")
        values = fit.objective_
    else:
        values = fit.objective if isinstance(fit, Run) else fit
    curve = np.asarray(values, dtype=float)
    if curve.ndim != 1 or not curve.size:
        raise ValueError(
            f"the objective of {name} has shape {curve.shape}; expected one value an iteration"
        )
    return curve


def _is_wide(curves: Mapping[str, npt.NDArray[np.float64]]) -> bool:
    values = np.concatenate(list(curves.values()))
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() > 0 and values.max() > _WIDE * values.min())
