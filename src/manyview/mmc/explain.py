"""Which features, together, speak for a cluster.

The prediction is a sum over combinations: one feature of each of some views, and the bias of the
others. The weight of a combination for cluster k is ``sum_r A[k, r] prod_v W_v[i_v, r]`` with
W_v[i_v] the row of its feature, or of the bias. There are as many as entries in the weight tensor,
which is not formed: the search leaves out what bounds on the weights rule out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyview.base import feature_name, view_place
from manyview.mmc.model import Factors

if TYPE_CHECKING:
    from manyview.mmc.estimator import MMC

__all__ = ["Combination", "combinations_of", "strongest", "strongest_of_views"]

Matrix = npt.NDArray[np.floating[Any]]
Indexes = npt.NDArray[np.intp]
Places = tuple[int, ...]

_AT_ONCE = 1 << 21  # weights


class Combination(NamedTuple):
    """Features of different views whose product speaks for a cluster.

    Attributes
    ----------
    cluster : int
    weight : float
        What the product of the features, as fit scales them, is multiplied by in `transform`.
    features : tuple of (str, str)
        View and feature, one or more.

    Examples
    --------
    >>> print(Combination(2, 0.0563, (("bbc", "health"), ("reuters", "patient"))))
    cluster 2: bbc 'health' x reuters 'patient' (0.0563)
    """

    cluster: int
    weight: float
    features: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        names = " x ".join(f"{view} {feature!r}" for view, feature in self.features)
        return f"cluster {self.cluster}: {names} ({self.weight:.3g})"


def combinations_of(
    model: MMC, order: int | None, top: int, views: int | str | Sequence[int | str] | None
) -> list[Combination]:
    """Return what speaks for the clusters of a fitted model; see :meth:`MMC.explain`."""
    if views is None:
        views = range(model.n_views_)
    elif isinstance(views, str) or not isinstance(views, Sequence):
        views = [views]
    places = sorted({view_place(model, view) for view in views})
    if not places:
        raise ValueError(f"views={views!r} has no view; expected some of {model.view_names_}")
    order = min(2, len(places)) if order is None else order
    if not 1 <= order <= len(places):
        raise ValueError(
            f"order={order}; expected 1 to {len(places)}, as a product has at most one feature of "
            "each view"
        )
    if top < 1:
        raise ValueError(f"top={top}; expected at least 1")
    factors = model._predictor
    factors = factors.with_clusters(model._readout.speaking(factors.clusters))
    return [
        Combination(
            cluster,
            weight,
            tuple(
                (str(model.view_names_[view]), feature_name(model, view, place))
                for view, place in zip(chosen, features, strict=True)
            ),
        )
        for cluster in range(len(factors.clusters))
        for weight, chosen, features in strongest(factors, cluster, places, order, top)
    ]


def strongest(
    factors: Factors, cluster: int, views: Sequence[int], order: int, top: int
) -> list[tuple[float, Places, Places]]:
    """Return the combinations of some of the views that speak most for a cluster.

    Parameters
    ----------
    factors : Factors
        The model.
    cluster : int
        Row of its cluster factor.
    views : sequence of int
        Views that may take part.
    order : int
        How many of them give a feature.
    top : int
        Most combinations.

    Returns
    -------
    list of (float, tuple of int, tuple of int)
        Weight, views and their features, largest weight first; only weights above zero.
    """
    found = [
        (weight, chosen, places)
        for chosen in combinations(views, order)
        for weight, places in strongest_of_views(factors, cluster, chosen, top)
    ]
    return sorted(found, key=lambda entry: -entry[0])[:top]


def strongest_of_views(
    factors: Factors, cluster: int, views: Places, top: int
) -> list[tuple[float, Places]]:
    """Return the strongest combinations of a feature of each of the views, the others at the bias.

    Parameters
    ----------
    factors : Factors
        The model.
    cluster : int
        Row of its cluster factor.
    views : tuple of int
        Views that give a feature.
    top : int
        Most combinations.

    Returns
    -------
    list of (float, tuple of int)
        Weight and features, largest weight first; only weights above zero.

    Examples
    --------
    >>> words = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> pixels = np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 1.0]])
    >>> factors = Factors((words, pixels), np.array([[1.0, 1.0]]))
    >>> strongest_of_views(factors, 0, (0, 1), 2)
    [(6.0, (1, 0)), (1.0, (0, 1))]
    """
    all_rows = [np.asarray(factor, dtype=np.float64) for factor in factors.views]
    biases = [rows[-1] for at, rows in enumerate(all_rows) if at not in views]
    weights = reduce(mul, biases, factors.clusters[cluster].astype(np.float64))
    kept = [np.flatnonzero(all_rows[view][:-1].any(axis=1)) for view in views]
    chosen: list[Matrix] = [all_rows[view][rows] for view, rows in zip(views, kept, strict=True)]
    if not all(map(len, chosen)):
        return []
    best = _Best(top, len(views))
    _search(weights[None], np.empty((1, 0), dtype=np.intp), chosen, best)
    return [
        (float(weight), tuple(int(rows[place]) for rows, place in zip(kept, places, strict=True)))
        for weight, places in zip(best.weights, best.places, strict=True)
    ]


class _Best:
    """The largest weights so far, and the places of their features."""

    def __init__(self, top: int, order: int) -> None:
        self.top = top
        self.weights = np.empty(0)
        self.places = np.empty((0, order), dtype=np.intp)

    @property
    def floor(self) -> float:
        """What a weight has to exceed."""
        return float(self.weights[-1]) if self.weights.size == self.top else 0.0

    def offer(self, weights: Matrix, before: Indexes) -> None:
        """Take the largest of a matrix of weights; a row's features but the last are `before`."""
        flat = weights.ravel()
        large = np.flatnonzero(flat > self.floor)
        if large.size > self.top:
            large = large[np.argpartition(-flat[large], self.top - 1)[: self.top]]
        row, column = np.divmod(large, weights.shape[1])
        weight = np.concatenate([self.weights, flat[large]])
        places = np.vstack([self.places, np.column_stack([before[row], column])])
        first = np.argsort(-weight, kind="stable")[: self.top]
        self.weights, self.places = weight[first], places[first]


def _search(rows: Matrix, before: Indexes, factors: list[Matrix], best: _Best) -> None:
    """Offer all entries of ``sum_r rows[n, r] prod_v factors[v][i_v, r]`` that may be the largest.

    Parameters
    ----------
    rows : ndarray of shape (n, rank)
        Products of the rows of features that have been chosen in other views.
    before : ndarray of shape (n, n_chosen)
        Their places.
    factors : list of ndarray
        Rows to choose from, one view after the other.
    best : _Best
        What was found.
    """
    first, *others = factors
    if not others:
        best.offer(rows @ first.T, before)
        return
    most = reduce(mul, (abs(other).max(axis=0) for other in others))
    at_once = max(_AT_ONCE // len(others[0]), 1) if len(others) == 1 else 1
    for row, chosen in zip(rows, before, strict=True):
        products = first * row
        bounds = abs(products) @ most
        in_turn = np.argsort(-bounds, kind="stable")
        for begin in range(0, in_turn.size, at_once):
            some = in_turn[begin : begin + at_once]
            if bounds[some[0]] <= best.floor:
                break
            so_far = np.column_stack([np.tile(chosen, (some.size, 1)), some])
            _search(products[some], so_far, others, best)
