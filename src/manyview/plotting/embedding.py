"""Samples where a fitted method sees them, in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer
from manyview.plotting.figure import given_or_new, legend_beside
from manyview.plotting.names import names_of, shown
from manyview.plotting.style import styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_embedding"]


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
        With `views`, what its ``transform`` makes of them: for MMC, its prediction of the
        indicator from products across views. Without, what it keeps of the samples of fit:
        ``embedding_``, ``consensus_`` or ``indicator_``.
    y : array-like of shape (n_samples,), optional
        What the colours tell, such as classes; by default the clusters.
    views : list, tuple or dict of array-likes, or Views; optional
        The views of fit, or others of the same kind. MMC's default indicator needs them: it puts
        all samples of a cluster on one point.
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
            "expected one label a sample"
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
            zorder=3 - len(chosen) / largest,  # small groups on top, in sight
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
            rest = "; leave out views to draw the samples of fit" if kept else ", nor an embedding"
            raise TypeError(f"{name} has no transform{rest}")
        return np.asarray(estimator.transform(views), dtype=float), "transform of the views"
    for place in _PLACES:
        if hasattr(estimator, place):
            embedding = np.asarray(getattr(estimator, place), dtype=float)
            if place == "indicator_" and np.all(np.count_nonzero(embedding, axis=1) <= 1):
                raise ValueError(
                    f"the indicator of {name} puts all samples of a cluster on one point; give "
                    "views=..., the views of fit, to draw what the model predicts from them"
                )
            return embedding, place.rstrip("_")
    raise TypeError(f"{name} keeps no embedding of samples: it has none of {', '.join(_PLACES)}")


def _principal(embedding: Matrix) -> tuple[Matrix, Matrix]:
    """Return two coordinates of each sample, and the part of the variance that each carries."""
    centred = embedding - embedding.mean(axis=0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(embedding), 2))
    width = min(2, s.size)
    points[:, :width] = U[:, :width] * s[:width]
    shares = np.zeros(2)
    shares[:width] = s[:width] ** 2 / max(float(np.sum(s**2)), np.finfo(float).tiny)
    return points, shares
