"""Feature combinations that characterise a cluster.

The prediction is a sum over combinations: one feature from each of some views, and the bias of the
others. The weight of a combination for cluster k is ``sum_r A[k, r] prod_v W_v[i_v, r]``, where
W_v[i_v] is the row of its feature or of the bias. These weights are the entries of the weight
tensor, which is not formed: upper bounds on the weights prune the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import combinations
from numbers import Integral
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer, feature_name, view_place
from manyview.mmc.prediction import Predictor

__all__ = ["Combination", "combinations_of", "strongest"]

Indexes = npt.NDArray[np.intp]
Places = tuple[tuple[int, int], ...]


class Combination(NamedTuple):
    """Features of different views whose product characterises a cluster.

    Attributes
    ----------
    cluster : int
    weight : float
        What the product of the features, as fit scales them, adds to the cluster's column of
        `transform`, or, with the orthogonal indicator, to the inner product with its centre.
    features : tuple of (str, str)
        Names of view and feature, one pair or more.
    places : tuple of (int, int)
        Positions of view and feature.

    Examples
    --------
    >>> names = (("bbc", "health"), ("reuters", "patient"))
    >>> print(Combination(2, 0.0563, names, ((0, 17), (2, 4))))
    cluster 2: bbc 'health' x reuters 'patient' (0.0563)
    """

    cluster: int
    weight: float
    features: tuple[tuple[str, str], ...]
    places: Places

    def __str__(self) -> str:
        names = " x ".join(f"{view} {feature!r}" for view, feature in self.features)
        return f"cluster {self.cluster}: {names} ({self.weight:.3g})"


def combinations_of(
    predictor: Predictor, fitted: MultiViewClusterer, order: int | None, top: int, views: Any
) -> list[Combination]:
    """Return the combinations of a fitted model; see :meth:`manyview.MMC.explain`."""
    chosen_views = _checked_views(fitted, views)
    _check_integer("top", top)
    if order is not None:
        why = ", as a product has at most one feature of each view"
        _check_integer("order", order, len(chosen_views), why)
    if predictor.is_zero:
        return []
    weights = predictor.readout.factor_by_cluster(predictor.factors.clusters)

    def of_order(order: int) -> list[Combination]:
        return [
            Combination(
                cluster,
                weight,
                tuple((str(fitted.view_names_[v]), feature_name(fitted, v, i)) for v, i in places),
                places,
            )
            for cluster in range(len(weights))
            for weight, places in strongest(
                predictor.factors.views, weights[cluster], chosen_views, order, top
            )
        ]

    if order is not None:
        return of_order(order)
    pairs = of_order(2) if len(chosen_views) > 1 else []
    return pairs or of_order(1)


def _checked_views(fitted: MultiViewClusterer, views: Any) -> list[int]:
    """Return the positions of one or more views, given by name or position; all for None."""
    names = fitted.view_names_
    if views is None:
        return list(range(len(names)))
    if isinstance(views, str | Integral):
        views = [views]
    if not isinstance(views, Iterable):
        raise TypeError(f"views={views!r}; expected positions or names of {names}")
    positions = sorted({view_place(fitted, view) for view in views})
    if not positions:
        raise ValueError(f"views={views!r} is empty; expected some of {names}")
    return positions


def _check_integer(name: str, value: Any, most: int | None = None, why: str = "") -> None:
    expected = "of at least 1" if most is None else f"from 1 to {most}"
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or value < 1 or (most is not None and value > most):
        kind = ValueError if integer else TypeError
        raise kind(f"{name}={value!r}; expected an integer {expected}{why}")


def strongest(
    factors: Sequence[Matrix],
    weights: Matrix,
    views: Sequence[int],
    order: int,
    top: int,
    *,
    at_once: int = 1 << 21,
) -> list[tuple[float, Places]]:
    """Return the combinations with the largest positive weights for a cluster, largest first.

    `factors` are the view factors, `weights` the cluster's row of the cluster factor. `order` of
    the `views` contribute a feature. About `at_once` weights are in memory at a time.

    Examples
    --------
    >>> words = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> pixels = np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 1.0]])
    >>> strongest([words, pixels], np.array([1.0, 1.0]), (0, 1), order=2, top=2)
    [(6.0, ((0, 1), (1, 0))), (1.0, ((0, 0), (1, 1)))]
    """
    features = [np.flatnonzero(factor[:-1].any(axis=1)) for factor in factors]
    rows = [factor[kept] for factor, kept in zip(factors, features, strict=True)]
    biases = [factor[-1] for factor in factors]
    bounds = [abs(part).max(axis=0, initial=0.0) for part in rows]

    def bound(chosen: tuple[int, ...]) -> float:
        parts = (bounds[v] if v in chosen else abs(biases[v]) for v in range(len(factors)))
        return float(reduce(mul, parts, abs(weights)).sum())

    usable = [v for v in views if features[v].size]
    choices = sorted(combinations(usable, order), key=lambda chosen: -bound(chosen))
    best = _Best(top, order)
    for number, chosen in enumerate(choices):
        if bound(chosen) <= best.floor:
            break
        others = [biases[v] for v in range(len(factors)) if v not in chosen]
        product = reduce(mul, others, weights)
        _search(product[None], np.array([[number]]), [rows[v] for v in chosen], best, at_once)
    return [
        (
            float(weight),
            tuple((v, int(features[v][i])) for v, i in zip(choices[number], at, strict=True)),
        )
        for weight, (number, *at) in zip(best.weights, best.places, strict=True)
    ]


class _Best:
    """The largest weights so far, each with the number of its views and the rows of features."""

    def __init__(self, top: int, order: int) -> None:
        self.top = top
        self.weights = np.empty(0)
        self.places = np.empty((0, 1 + order), dtype=np.intp)

    @property
    def floor(self) -> float:
        """The weight that a combination must exceed."""
        return float(self.weights[-1]) if self.weights.size == self.top else 0.0

    def offer(self, weights: Matrix, before: Indexes) -> None:
        """Keep the largest of a matrix of weights; `before` has all places but the last."""
        flat = weights.ravel()
        large = np.flatnonzero(flat > self.floor)
        if large.size > self.top:
            large = large[np.argpartition(-flat[large], self.top - 1)[: self.top]]
        row, column = np.divmod(large, weights.shape[1])
        weight = np.concatenate([self.weights, flat[large]])
        places = np.vstack([self.places, np.column_stack([before[row], column])])
        first = np.argsort(-weight, kind="stable")[: self.top]
        self.weights, self.places = weight[first], places[first]


def _search(
    rows: Matrix, before: Indexes, factors: list[Matrix], best: _Best, at_once: int
) -> None:
    """Offer the entries of ``sum_r rows[n, r] prod_v factors[v][i_v, r]`` that may be the largest.

    `rows` are products of the factor rows chosen so far, and `before` their places. Rows of the
    next factor are visited in the order of an upper bound, until it falls below the best.
    """
    first, *others = factors
    if not others:
        best.offer(rows @ first.T, before)
        return
    bound = reduce(mul, (abs(other).max(axis=0) for other in others))
    step = max(at_once // len(others[0]), 1) if len(others) == 1 else 1
    for row, chosen in zip(rows, before, strict=True):
        products = first * row
        bounds = abs(products) @ bound
        in_turn = np.argsort(-bounds, kind="stable")
        for begin in range(0, in_turn.size, step):
            some = in_turn[begin : begin + step]
            if bounds[some[0]] <= best.floor:
                break
            so_far = np.column_stack([np.tile(chosen, (some.size, 1)), some])
            _search(products[some], so_far, others, best, at_once)
