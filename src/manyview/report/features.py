"""Which features take part in a fitted MMC, and which of them speak for a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from manyview.mmc import MMC

__all__ = ["ViewFeatures", "cluster_weights", "view_features"]


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
    by_cluster : list of list of str
        For each cluster, those that raise its prediction most.
    """

    view: str
    n_features: int
    n_kept: int
    top: list[tuple[str, float]]
    by_cluster: list[list[str]]


def cluster_weights(model: MMC, view: int) -> npt.NDArray[np.float64]:
    """Return the weight of each single feature of a view in the prediction of each cluster.

    The weight of feature ``i`` for cluster ``k`` is ``sum_r A[k, r] W_v[i, r] prod_u b_u[r]`` over
    the other views ``u``, each represented by its bias row.

    Parameters
    ----------
    model : MMC
        Fitted.
    view : int
        Its position.

    Returns
    -------
    ndarray of shape (n_features, n_clusters)
    """
    factors = [np.asarray(factor, dtype=np.float64) for factor in model.view_factors_]
    bias = prod((factor[-1] for at, factor in enumerate(factors) if at != view), start=1.0)
    weights: npt.NDArray[np.float64] = factors[view][:-1] @ (model.cluster_factors_ * bias).T
    return weights


def view_features(model: MMC, view: int, *, most: int = 12, each: int = 5) -> ViewFeatures:
    """Return what a fitted model keeps of a view.

    Parameters
    ----------
    model : MMC
        Fitted.
    view : int
        Its position.
    most : int
        How many features of the largest rows are named.
    each : int
        How many are named for each cluster; 0 leaves clusters out.

    Returns
    -------
    ViewFeatures
    """
    norms = np.linalg.norm(model.view_factors_[view][:-1], axis=1)
    names = model.feature_names_in_[view]

    def name(at: int) -> str:
        return f"feature {at}" if names is None else str(names[at])

    largest = [int(at) for at in np.argsort(-norms, kind="stable")[:most] if norms[at] > 0]
    return ViewFeatures(
        str(model.view_names_[view]),
        len(norms),
        int(np.count_nonzero(norms)),
        [(name(at), float(norms[at] / norms[largest[0]])) for at in largest],
        [
            [name(int(at)) for at in np.argsort(-weights, kind="stable")[:each] if weights[at] > 0]
            for weights in (cluster_weights(model, view).T if each else ())
        ],
    )
