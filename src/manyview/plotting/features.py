"""Which features of a view a fitted MMC uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manyview.base import MultiViewClusterer, feature_name, view_place
from manyview.plotting.figure import given_or_new
from manyview.plotting.names import shown
from manyview.plotting.style import BLUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_feature_weights"]


def plot_feature_weights(
    estimator: MultiViewClusterer,
    view: int | str = 0,
    *,
    top: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Draw the weights of the features that count most in a view.

    The weight of a feature is the norm of its row of the view factor. Weights compare features
    within a view: the scale of a factor against those of other views is not determined. They
    refer to features as the fit scaled them.

    Parameters
    ----------
    estimator : MMC
        A fitted one.
    view : int or str, default=0
        Place or name of the view.
    top : int, default=20
        Most features to show, the largest first.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A bar for each feature chosen; the title counts those kept and those dropped.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview import MMC
    >>> from manyview.datasets import make_views
    >>> from manyview.plotting import plot_feature_weights
    >>> views, y = make_views(n_samples=60, n_clusters=3, random_state=0)
    >>> model = MMC(n_clusters=3, random_state=0).fit(views)
    >>> ax = plot_feature_weights(model, 0, top=5)
    >>> len(ax.patches)
    5
    >>> plt.close(ax.figure)
    """
    check_is_fitted(estimator)
    if not hasattr(estimator, "view_factors_"):
        raise TypeError(
            f"{type(estimator).__name__} has no view factors, so no weights of features; "
            "expected a fitted MMC"
        )
    if top < 1:
        raise ValueError(f"top={top}; expected at least 1")
    at = view_place(estimator, view)
    weights = np.linalg.norm(estimator.view_factors_[at][:-1], axis=1)  # the last row is the bias
    kept = int(np.count_nonzero(weights))
    chosen = np.argsort(-weights, kind="stable")[: min(top, kept)]
    texts = [shown(feature_name(estimator, at, int(i))) for i in chosen]

    ax = given_or_new(ax, (6.0, 1.2 + 0.22 * max(len(chosen), 4)))
    ax.barh(range(len(chosen)), weights[chosen], color=BLUE, height=0.75)
    ax.set_yticks(range(len(chosen)), texts)
    ax.set_ylim(max(len(chosen), 1) - 0.5, -0.5)
    if not kept:
        ax.text(0.5, 0.5, "no feature takes part", transform=ax.transAxes, ha="center")
    ax.set_xlim(left=0.0, right=None if kept else 1.0)
    ax.tick_params(axis="y", length=0)
    largest = f"largest {len(chosen)} of " if len(chosen) < kept else ""
    ax.set(
        xlabel="weight (norm of the feature's row of the view factor)",
        title=f"view {shown(repr(estimator.view_names_[at]))}: {largest}{kept} features kept, "
        f"{len(weights) - kept} dropped",
    )
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
