"""Which features, together, speak for a cluster.

The prediction is a sum over combinations: one feature of each of some views, and the bias of the
others. The weight of a combination for cluster k is ``sum_r A[k, r] prod_v W_v[i_v, r]`` with
W_v[i_v] the row of its feature, or of the bias. There are as many as entries in the weight tensor,
which is not formed: the search leaves out what bounds on the weights rule out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from numbers import Integral
from operator import mul
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer, feature_name, view_place
from manyview.mmc.prediction import Predictor

__all__ = ["Combination", "Kept", "combinations_of", "strongest"]

Indexes = npt.NDArray[np.intp]
Places = tuple[int, ...]

_MOST_AT_ONCE = 1 << 21  # weights in memory


class Combination(NamedTuple):
    """Features of different views whose product speaks for a cluster.

    Attributes
    ----------
    cluster : int
    weight : float
        What the product of the features, as fit scales them, adds to the cluster's column of
        `transform`, or, with the orthogonal indicator, to the inner product with its centre.
    features : tuple of (str, str)
        View and feature by name, one or more.
    places : tuple of (int, int)
        The same by their places.

    Examples
    --------
    >>> names = (("bbc", "health"), ("reuters", "patient"))
    >>> print(Combination(2, 0.0563, names, ((0, 17), (2, 4))))
    cluster 2: bbc 'health' x reuters 'patient' (0.0563)
    """

    cluster: int
    weight: float
    features: tuple[tuple[str, str], ...]
    places: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        names = " x ".join(f"{view} {feature!r}" for view, feature in self.features)
        return f"cluster {self.cluster}: {names} ({self.weight:.3g})"


@dataclass(frozen=True)
class Kept:
    """The rows of a view factor that take part.

    Attributes
    ----------
    features : ndarray of shape (n_kept,)
        Places of the features whose rows are not zero.
    rows : ndarray of shape (n_kept, rank)
    bias : ndarray of shape (rank,)
    """

    features: Indexes
    rows: Matrix
    bias: Matrix

    @classmethod
    def of(cls, factor: Matrix) -> Self:
        """Leave out the rows of zeros of a view factor, bias last."""
        features = np.flatnonzero(factor[:-1].any(axis=1))
        return cls(features, factor[features], factor[-1])


def combinations_of(
    predictor: Predictor, fitted: MultiViewClusterer, order: int | None, top: int, views: Any
) -> list[Combination]:
    """Return what speaks for the clusters of a model; see :meth:`manyview.MMC.explain`.

    Parameters
    ----------
    predictor : Predictor
        The model.
    fitted : MultiViewClusterer
        The estimator that fitted it, which has the names of views and features.
    order, top, views
        As the user gave them.

    Returns
    -------
    list of Combination
        By cluster, largest weight first; none where the model went to zero.
    """
    places = _places(fitted, views)
    _check_whole("top", top)
    if order is not None:
        why = ": a product has at most one feature of each view"
        _check_whole("order", order, len(places), why)
    if predictor.is_zero:
        return []
    kept = [Kept.of(factor) for factor in predictor.factors.views]
    weights = predictor.readout.factor_by_cluster(predictor.factors.clusters)

    def of_order(order: int) -> list[Combination]:
        return [
            Combination(
                cluster,
                weight,
                tuple((str(fitted.view_names_[v]), feature_name(fitted, v, i)) for v, i in chosen),
                chosen,
            )
            for cluster in range(len(weights))
            for weight, chosen in strongest(kept, weights[cluster], places, order, top)
        ]

    if order is not None:
        return of_order(order)
    pairs = of_order(2) if len(places) > 1 else []
    return pairs or of_order(1)


def strongest(
    kept: Sequence[Kept], weights: Matrix, views: Sequence[int], order: int, top: int
) -> list[tuple[float, tuple[tuple[int, int], ...]]]:
    """Return the combinations of some of the views that speak most for a cluster.

    Parameters
    ----------
    kept : sequence of Kept
        The view factors.
    weights : ndarray of shape (rank,)
        The cluster's row of the cluster factor.
    views : sequence of int
        Views that may take part.
    order : int
        How many of them give a feature.
    top : int
        Most combinations.

    Returns
    -------
    list of (float, tuple of (int, int))
        Weight, and views with their features; largest weight first, and only weights above zero.

    Examples
    --------
    >>> words = Kept.of(np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))
    >>> pixels = Kept.of(np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 1.0]]))
    >>> strongest([words, pixels], np.array([1.0, 1.0]), (0, 1), order=2, top=2)
    [(6.0, ((0, 1), (1, 0))), (1.0, ((0, 0), (1, 1)))]
    """
    found: list[tuple[float, tuple[tuple[int, int], ...]]] = []
    floor = 0.0
    for bound, chosen in _by_bound(kept, weights, views, order):
        if bound <= floor:
            break
        found += [
            (weight, tuple(zip(chosen, places, strict=True)))
            for weight, places in _strongest_of_views(kept, weights, chosen, top, floor)
        ]
        found = sorted(found, key=lambda entry: -entry[0])[:top]
        floor = found[-1][0] if len(found) == top else 0.0
    return found


def _by_bound(
    kept: Sequence[Kept], weights: Matrix, views: Sequence[int], order: int
) -> list[tuple[float, Places]]:
    """Return choices of views that have features, by bounds of their weights, largest first."""
    able = [view for view in views if kept[view].features.size]
    largest = [abs(part.rows).max(axis=0, initial=0.0) for part in kept]
    biases = [abs(part.bias) for part in kept]

    def bound(chosen: Places) -> float:
        parts = (largest[at] if at in chosen else biases[at] for at in range(len(kept)))
        return float(reduce(mul, parts, abs(weights)).sum())

    found = [(bound(chosen), chosen) for chosen in combinations(able, order)]
    return sorted(found, key=lambda entry: -entry[0])


def _strongest_of_views(
    kept: Sequence[Kept], weights: Matrix, views: Places, top: int, floor: float
) -> list[tuple[float, Places]]:
    """Return weights and features where each of the views gives one, the others their bias.

    Weights up to `floor` are left out.
    """
    chosen = [kept[view] for view in views]
    biases = [part.bias for at, part in enumerate(kept) if at not in views]
    best = _Best(top, len(views), floor)
    start = np.empty((1, 0), dtype=np.intp)
    _search(reduce(mul, biases, weights)[None], start, [part.rows for part in chosen], best)
    return [
        (float(weight), tuple(int(part.features[at]) for part, at in zip(chosen, row, strict=True)))
        for weight, row in zip(best.weights, best.places, strict=True)
    ]


def _places(fitted: MultiViewClusterer, views: Any) -> list[int]:
    """Return the places of views given by name or place, one or more; of all for None."""
    names = fitted.view_names_
    if views is None:
        return list(range(len(names)))
    if isinstance(views, str | Integral):
        views = [views]
    if not isinstance(views, Iterable):
        raise TypeError(f"views={views!r}; expected places or names of {names}")
    places = sorted({view_place(fitted, view) for view in views})
    if not places:
        raise ValueError(f"views={views!r} has no view; expected some of {names}")
    return places


def _check_whole(name: str, value: Any, most: int | None = None, why: str = "") -> None:
    expected = "of at least 1" if most is None else f"from 1 to {most}"
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        kind = ValueError if whole else TypeError
        raise kind(f"{name}={value!r}; expected a whole number {expected}{why}")


class _Best:
    """The largest weights so far, and the places of their features."""

    def __init__(self, top: int, order: int, least: float) -> None:
        self.top = top
        self.least = least
        self.weights = np.empty(0)
        self.places = np.empty((0, order), dtype=np.intp)

    @property
    def floor(self) -> float:
        """What a weight has to exceed."""
        return float(self.weights[-1]) if self.weights.size == self.top else self.least

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
    at_once = max(_MOST_AT_ONCE // len(others[0]), 1) if len(others) == 1 else 1
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
