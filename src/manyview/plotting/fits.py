"""Figures of a fit: embedding, contingency table, features, objective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Floats, Matrix
from manyview.base import MultiViewClusterer, feature_name, view_place
from manyview.experiment.results import Run
from manyview.linalg.partition import matched_order
from manyview.metrics import clustering_accuracy
from manyview.plotting.style import (
    BLUE,
    INK,
    VERMILLION,
    given_or_new,
    legend_beside,
    names_of,
    shown,
    styles_of,
    tick_log_axis,
    trim,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Counts = npt.NDArray[np.int64]

_MANY = 15  # classes or clusters; beyond, cells are smaller
_MOST_COUNTED = 40  # beyond, numbers would be unreadable and slow to draw
_MOST = 5000  # beyond, cells are far below a pixel and the table fills the memory


def plot_contingency(
    y: npt.ArrayLike,
    labels: npt.ArrayLike,
    class_names: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how many samples of each class are in each cluster.

    Clusters are ordered by the classes they are matched to, so that agreement lies on the
    diagonal; unmatched ones come last. The matching is that of the accuracy in the title. Colours
    show the share of the class. With more than 40 classes or clusters, a colour bar replaces the
    numbers and only some classes and clusters are labelled.

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
            f"y has {y.size} entries, labels has {labels.size}; expected the same samples"
        )
    accuracy = clustering_accuracy(y, labels)
    classes, clusters = np.unique(y), np.unique(labels)
    if max(len(classes), len(clusters)) > _MOST:
        raise ValueError(
            f"y has {len(classes)} classes, labels has {len(clusters)} clusters; expected at "
            f"most {_MOST}. Are they sample ids?"
        )
    names = list(names_of(y, class_names).values())
    counts = contingency_matrix(y, labels)
    rows, columns, matched = matched_order(counts)
    counts = counts[np.ix_(rows, columns)]

    cell = 0.5 if max(counts.shape) <= _MANY else 0.3
    across, down = (cell * min(size, _MOST_COUNTED) for size in (len(clusters), len(classes)))
    ax = given_or_new(ax, (2.2 + across, 1.3 + 0.85 * down))
    shares = counts / counts.sum(axis=1, keepdims=True)
    if max(counts.shape) <= _MOST_COUNTED:
        _draw_cells(ax, counts, shares)
        for at in range(matched):
            _enclose(ax, at, 1)
    else:
        _draw_picture(ax, shares)
        _enclose(ax, 0, matched)
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
    """Return the positions that get a tick label: all, or about `most` of a large table."""
    return range(0, count, 1 if count <= _MOST_COUNTED else math.ceil(count / most))


def _draw_cells(ax: Axes, counts: Counts, shares: Floats) -> None:
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    size = 9.0 if max(counts.shape) <= _MANY else 7.0
    for (row, column), count in np.ndenumerate(counts):
        dark = shares[row, column] > 0.55
        colour = "white" if dark else INK if count else "#bbbbbb"
        ax.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=size)


def _draw_picture(ax: Axes, shares: Floats) -> None:
    box = ax.get_window_extent()
    # avoid blur between cells larger than a pixel; smaller ones must be averaged
    crisp = "nearest" if shares.shape[1] <= box.width and shares.shape[0] <= box.height else None
    image = ax.imshow(shares, cmap="Blues", vmin=0.0, aspect="auto", interpolation=crisp)
    ax.figure.colorbar(image, ax=ax, label="share of the class", fraction=0.04, pad=0.02)


def _enclose(ax: Axes, start: int, size: int) -> None:
    from matplotlib.patches import Rectangle

    corner = start - 0.5, start - 0.5
    ax.add_patch(Rectangle(corner, size, size, fill=False, edgecolor=VERMILLION, linewidth=1.4))


_PLACES = ("embedding_", "consensus_", "indicator_")


def plot_embedding(
    estimator: MultiViewClusterer,
    y: npt.ArrayLike | None = None,
    *,
    views: Any = None,
    class_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the samples on the two principal components of a method's embedding.

    Parameters
    ----------
    estimator : fitted estimator
        With `views`, the result of its ``transform`` is drawn; without, its ``embedding_``,
        ``consensus_`` or ``indicator_``.
    y : array-like of shape (n_samples,), optional
        Colours of the samples, such as classes; by default the clusters.
    views : list, tuple or dict of array-likes, or Views; optional
        The views of fit, or other samples of the same views. MMC needs them, since its discrete
        indicator puts all samples of a cluster on one point.
    class_names : sequence of str, optional
        ``class_names[k]`` names the class ``k`` of `y`.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        One group of points for each class or cluster.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview import MMC
    >>> from manyview.datasets import make_views
    >>> from manyview.plotting import plot_embedding
    >>> views, y = make_views(n_samples=60, n_clusters=3, random_state=0)
    >>> model = MMC(n_clusters=3, random_state=0).fit(views)
    >>> ax = plot_embedding(model, y, views=views)
    >>> sum(len(group.get_offsets()) for group in ax.collections)
    60
    >>> plt.close(ax.figure)
    """
    check_is_fitted(estimator)
    embedding, source = _embedding(estimator, views)
    if y is None:
        y = estimator.labels_ if views is None else estimator.predict(views)
        kind = "cluster"
    else:
        kind = "class"
    colours = np.asarray(y)
    if colours.shape != (len(embedding),):
        raise ValueError(
            f"y has shape {colours.shape}, the embedding {len(embedding)} samples; "
            "expected one label per sample"
        )
    points, shares = _principal(embedding)
    names = names_of(colours, class_names)
    styles = styles_of(str(at) for at in range(len(names)))
    ax = given_or_new(ax, (6.2, 4.6))
    groups = [(points[colours == value], name) for value, name in names.items()]
    largest = max(len(chosen) for chosen, _ in groups)
    for (chosen, name), style in zip(groups, styles.values(), strict=True):
        ax.scatter(
            chosen[:, 0],
            chosen[:, 1],
            s=26,
            color=style.colour,
            marker=style.marker,
            alpha=0.7,
            zorder=3 - len(chosen) / largest,  # draw small groups on top
            edgecolors="white",
            linewidths=0.3,
            label=f"{shown(name)} ({len(chosen)})",
        )
    ax.set(
        xlabel=f"component 1 ({shares[0]:.0%} of variance)",
        ylabel=f"component 2 ({shares[1]:.0%} of variance)",
        title=f"{type(estimator).__name__}: {source}",
    )
    ax.spines[["top", "right"]].set_visible(False)
    legend_beside(ax, title=kind, n_entries=len(names))
    return ax


def _embedding(estimator: MultiViewClusterer, views: Any) -> tuple[Matrix, str]:
    name = type(estimator).__name__
    if views is not None:
        if not hasattr(estimator, "transform"):
            kept = any(hasattr(estimator, place) for place in _PLACES)
            rest = "; omit views to draw the samples of fit" if kept else " and no embedding"
            raise TypeError(f"{name} has no transform{rest}")
        return np.asarray(estimator.transform(views), dtype=float), "transform of the views"
    for place in _PLACES:
        if hasattr(estimator, place):
            embedding = np.asarray(getattr(estimator, place), dtype=float)
            if place == "indicator_" and np.all(np.count_nonzero(embedding, axis=1) <= 1):
                raise ValueError(
                    f"the indicator of {name} puts all samples of a cluster on one point; pass "
                    "views=... to draw the prediction of the model"
                )
            return embedding, place.rstrip("_")
    raise TypeError(f"{name} has no embedding of the samples; expected one of {', '.join(_PLACES)}")


def _principal(embedding: Matrix) -> tuple[Matrix, Matrix]:
    """Return the first two principal components and their shares of the variance."""
    U, s, _ = np.linalg.svd(embedding - embedding.mean(axis=0), full_matrices=False)
    # an embedding with one column gets a second one of zeros
    points, parts = np.pad(U * s, ((0, 0), (0, 1))), np.pad(s**2, (0, 1))
    return points[:, :2], parts[:2] / max(float(parts.sum()), np.finfo(float).tiny)


def plot_feature_weights(
    estimator: MultiViewClusterer,
    view: int | str = 0,
    *,
    top: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Draw the largest feature weights of a view.

    The weight of a feature is the norm of its row of the view factor, for features as scaled by
    the fit. Compare weights within a view only: the relative scale of view factors is arbitrary.

    Parameters
    ----------
    estimator : MMC
        A fitted model.
    view : int or str, default=0
        Position or name of the view.
    top : int, default=20
        Number of features to show, the largest first.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        One bar per feature; the title counts kept and dropped features.

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
        raise TypeError(f"{type(estimator).__name__} has no view factors; expected a fitted MMC")
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
        ax.text(0.5, 0.5, "all features were dropped", transform=ax.transAxes, ha="center")
    ax.set_xlim(left=0.0, right=None if kept else 1.0)
    ax.tick_params(axis="y", length=0)
    largest = f"largest {len(chosen)} of " if len(chosen) < kept else ""
    ax.set(
        xlabel="weight (norm of the feature's row of the view factor)",
        title=f"view {shown(repr(estimator.view_names_[at]))}: {largest}{kept} features kept, "
        f"{len(weights) - kept} dropped",
    )
    trim(ax, grid="x", hide=("top", "right", "left"))
    return ax


_WIDE = 20.0  # ratio of values beyond which the axis is logarithmic
_UNEQUAL = 8  # the same for numbers of iterations


def plot_objective(fits: Any, *, log: bool | None = None, ax: Axes | None = None) -> Axes:
    """Draw the objective after every iteration.

    Parameters
    ----------
    fits : estimator, Run or sequence of float; or mapping of str to these
        One fit, or several by name. Objectives of different methods are different quantities:
        compare their shape, not their values.
    log : bool, optional
        Whether the axis of the objective is logarithmic; by default if its largest value exceeds
        20 times its smallest.
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

    styles = styles_of(curves if len(curves) > 1 else ["MMC"])
    for (name, values), (colour, marker) in zip(curves.items(), styles.values(), strict=True):
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
    if log is None:
        values = np.concatenate(list(curves.values()))
        values = values[np.isfinite(values)]
        log = bool(values.size and values.min() > 0 and values.max() > _WIDE * values.min())
    if log:
        ax.set_yscale("log")
    lengths = [len(values) for values in curves.values() if len(values) > 1] or [1]
    if max(lengths) > _UNEQUAL * min(lengths):
        ax.set_xscale("log")
        tick_log_axis(ax.xaxis)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="iteration", ylabel="objective")
    trim(ax, hide=("top", "right"))
    if len(curves) > 1:
        legend_beside(ax, n_entries=len(curves))
    else:
        ax.set_title(shown(next(iter(curves))))
    return ax


def _curves(fits: Any) -> dict[str, Floats]:
    if isinstance(fits, Mapping):
        if not fits:
            raise ValueError("fits is empty; expected at least one fit")
        return {str(name): _curve(str(name), fit) for name, fit in fits.items()}
    if isinstance(fits, Sequence) and any(isinstance(fit, BaseEstimator | Run) for fit in fits):
        raise TypeError("fits is a list of fits; expected one fit or a dict of fits by name")
    if isinstance(fits, Run):
        return {fits.method: _curve(fits.method, fits)}
    name = type(fits).__name__ if isinstance(fits, BaseEstimator) else ""
    return {name: _curve(name or "fits", fits)}


def _curve(name: str, fit: Any) -> Floats:
    if isinstance(fit, BaseEstimator):
        check_is_fitted(fit)
        if not hasattr(fit, "objective_"):
            raise TypeError(f"{name} is a {type(fit).__name__}, which has no objective_")
        values = fit.objective_
    else:
        values = fit.objective if isinstance(fit, Run) else fit
    curve = np.asarray(values, dtype=float)
    if curve.ndim != 1 or not curve.size:
        raise ValueError(
            f"the objective of {name} has shape {curve.shape}; expected one value per iteration"
        )
    return curve


def plot_view_weights(estimator: MultiViewClusterer, *, ax: Axes | None = None) -> Axes:
    """Draw how much each view contributes to each cluster, and to all of them.

    The first columns show what each view adds: how much less of the labels can be predicted without
    it. Then come what each view predicts alone, and what all views predict. With more than 40
    clusters or columns, a colour bar replaces the numbers.

    Parameters
    ----------
    estimator : MMC
        A fitted model; see ``MMC.view_weights_``.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure that grows with the table.

    Returns
    -------
    matplotlib Axes
        The clusters are rows; all of them together are the last one.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview import MMC
    >>> from manyview.datasets import make_views
    >>> from manyview.plotting import plot_view_weights
    >>> views, y = make_views(n_samples=60, n_clusters=3, random_state=0)
    >>> ax = plot_view_weights(MMC(n_clusters=3, random_state=0).fit(views))
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['informative0', 'informative1', 'informative0', 'informative1', 'all views']
    >>> plt.close(ax.figure)
    """
    check_is_fitted(estimator)
    if not hasattr(type(estimator), "view_weights_"):  # of the model it would compute them
        raise TypeError(f"{type(estimator).__name__} has no view weights; expected a fitted MMC")
    weights = estimator.view_weights_
    n_rows, n_views = weights.added.shape
    gap = np.full((n_rows, 1), np.nan)
    parts = [weights.added, gap, weights.alone, gap, weights.explained[:, None]]
    values, beside = np.hstack(parts), n_views + 1
    across, down = (min(size, _MOST_COUNTED) for size in (values.shape[1], n_rows))
    ax = given_or_new(ax, (1.6 + 0.58 * across, 1.6 + 0.3 * down))
    image = ax.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    if max(n_rows - 1, 2 * n_views + 1) <= _MOST_COUNTED:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "white" if value > 0.55 else INK
                ax.text(column, row, f"{value:.0%}", ha="center", va="center", color=colour)
    else:
        ax.figure.colorbar(image, ax=ax, label="predicted part", fraction=0.04, pad=0.02)
    for start, head in ((0, "added by the view"), (beside, "by the view alone")):
        middle = start + (n_views - 1) / 2
        ax.text(middle, -0.6, head, ha="center", va="bottom", fontsize="small")
    box, inch = ax.get_window_extent(), ax.figure.dpi
    some = _thinned(n_views, box.width / (0.6 * inch))
    columns = [*some, *(beside + at for at in some), 2 * beside]
    names = [shown(weights.view_names[at]) for at in some]
    ax.set_xticks(columns, [*names, *names, "all views"], rotation=30, ha="right")
    named = _thinned(n_rows - 1, box.height / (0.25 * inch))
    ax.set_yticks([*named, n_rows - 1], [*map(str, named), "overall"])
    ax.axhline(n_rows - 1.5, color=INK, linewidth=0.8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="view", ylabel="cluster")
    return ax
