"""Which features take part in a fitted MMC, and which of them speak for a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyview.base import feature_name
from manyview.mmc import MMC

__all__ = ["ClusterFeatures", "ViewFeatures", "cluster_features", "view_features"]


@dataclass(frozen=True)
class ViewFeatures:
    """The features of one view that a model kept.

    Attributes
    ----------
    view : str
    n_features, n_kept : int
        How many there are, and how many have a row other than zero in the view factor.
    top : list of (str, float)
        Those of the largest rows, with their norms over the largest one.
    """

    view: str
    n_features: int
    n_kept: int
    top: list[tuple[str, float]]


@dataclass(frozen=True)
class ClusterFeatures:
    """The features that speak most for one cluster.

    Attributes
    ----------
    alone : list of list of str
        Single features of each view.
    together : list of tuple of (str, str)
        Products of features of two views: the views and their features.
    """

    alone: list[list[str]]
    together: list[tuple[tuple[str, str], ...]]


def view_features(model: MMC, view: int, *, most: int = 12) -> ViewFeatures:
    """Return what a fitted model keeps of a view.

    Parameters
    ----------
    model : MMC
        Fitted.
    view : int
        Its position.
    most : int
        How many features of the largest rows are named.

    Returns
    -------
    ViewFeatures
    """
    norms = np.linalg.norm(model.view_factors_[view][:-1], axis=1)
    largest = [int(at) for at in np.argsort(-norms, kind="stable")[:most] if norms[at] > 0]
    return ViewFeatures(
        str(model.view_names_[view]),
        len(norms),
        int(np.count_nonzero(norms)),
        [(feature_name(model, view, at), float(norms[at] / norms[largest[0]])) for at in largest],
    )


def cluster_features(model: MMC, *, each: int = 5, pairs: int = 3) -> list[ClusterFeatures]:
    """Return what speaks for each cluster of a fitted model.

    Parameters
    ----------
    model : MMC
        Fitted.
    each : int
        How many single features of a view are named.
    pairs : int
        How many products are named.

    Returns
    -------
    list of ClusterFeatures
        One for each cluster.
    """
    found = [
        ClusterFeatures([[] for _ in range(model.n_views_)], []) for _ in model.cluster_factors_
    ]
    for view in range(model.n_views_):
        for entry in model.explain(1, top=each, views=view):
            [(_, feature)] = entry.features
            found[entry.cluster].alone[view].append(feature)
    if model.n_views_ > 1:
        for entry in model.explain(2, top=pairs):
            found[entry.cluster].together.append(entry.features)
    return found
