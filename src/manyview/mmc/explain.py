"""Features, and combinations of them, that characterise a cluster.

The prediction is a sum over combinations: one feature from each of some views, and the bias of the
others. The weight of a combination for cluster k is ``sum_r A[k, r] prod_v W_v[i_v, r]``, where
W_v[i_v] is the row of its feature or of the bias. These weights are the entries of the weight
tensor, which is not formed: upper bounds on the weights prune the search. What the features are in
the cluster, and whether it is high or low values that characterise it, is read from the samples
(:mod:`manyview.mmc.statistics`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from html import escape
from itertools import combinations
from math import ceil, log10
from numbers import Integral
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer, feature_name, new_frame, view_place
from manyview.mmc.prediction import Predictor
from manyview.mmc.statistics import Difference, Places, Statistics

__all__ = [
    "Combination",
    "Combinations",
    "Profile",
    "combinations_of",
    "likely_pairs",
    "profile_of",
    "strongest",
]

Indexes = npt.NDArray[np.intp]


class Combination(NamedTuple):
    """Features of different views, or a single one, that characterise a cluster.

    Attributes
    ----------
    cluster : int
    weight : float
        What the product of the features, as fit scales them, adds to the cluster's column of
        `transform`, or, with the orthogonal indicator, to the inner product with its centre. It is
        negative where a low product characterises the cluster.
    features : tuple of (str, str)
        Names of view and feature, one pair or more.
    places : tuple of (int, int)
        Positions of view and feature.
    differences : tuple of Difference
        For each feature its direction, ``"high"``, ``"low"`` or ``""`` for neither, and its means
        in the units of the views. Empty for a model file of an earlier version.
    product : {"high", "low", ""}
        Of two features, whether their product is high or low in the cluster beyond what the single
        features explain: high if they are high together and low together.
    explains : float or None
        Part of the variance of membership in the cluster that the feature explains or, of two, that
        the product explains beyond the features. None if it is not known.

    Examples
    --------
    >>> names = (("bbc", "health"), ("reuters", "patient"))
    >>> print(Combination(2, 0.0563, names, ((0, 17), (2, 4))))
    cluster 2: bbc 'health' x reuters 'patient'; weight 0.0563
    """

    cluster: int
    weight: float
    features: tuple[tuple[str, str], ...]
    places: Places
    differences: tuple[Difference, ...] = ()
    product: str = ""
    explains: float | None = None

    @property
    def directions(self) -> tuple[str, ...]:
        """Whether each feature is high or low in the cluster; empty if that is not known."""
        return tuple(difference.direction for difference in self.differences)

    @property
    def text(self) -> str:
        """The features with their views, directions and means."""
        return self._text([f"{view} {feature!r}" for view, feature in self.features])

    @property
    def short_text(self) -> str:
        """The features with their directions and means."""
        return self._text([feature for _, feature in self.features])

    def _text(self, parts: list[str]) -> str:
        for at, difference in enumerate(self.differences):
            if difference.direction:
                values = " against ".join(_numbers(difference.mean, difference.others))
                parts[at] += f" {difference.direction} ({values})"
        together = ""
        if self.product and not all(self.directions):
            together = ", " + _PRODUCTS[self.product]
        return " x ".join(parts) + together

    def __str__(self) -> str:
        return f"cluster {self.cluster}: {self.text}; weight {self.weight:.3g}"


_PRODUCTS = {"high": "high together or low together", "low": "one high where the other is low"}


def _numbers(one: float, other: float) -> tuple[str, str]:
    """Return two numbers with as many decimals as show their difference.

    >>> _numbers(91.2, 168.9), _numbers(1.02, 4.98), _numbers(100.1, 100.43)
    (('91', '169'), ('1', '5'), ('100.1', '100.43'))
    """
    difference = abs(one - other)
    decimals = ceil(1 - log10(difference)) if difference > 0 else 0
    if not -12 <= decimals <= 5:
        return f"{one:.3g}", f"{other:.3g}"
    first, second = (_rounded(number, max(decimals, 0)) for number in (one, other))
    return first, second


def _rounded(number: float, decimals: int) -> str:
    shown = f"{number:.{decimals}f}"
    if decimals:
        shown = shown.rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


class Combinations(list[Combination]):
    """A list of combinations by cluster, which prints as text and as an HTML table."""

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each combination.

        Its columns are cluster, weight, product and explains and, numbered for each feature of a
        combination, view, feature, direction, mean, others, overall and effect.
        """
        order = max((len(entry.features) for entry in self), default=1)
        names = ("view", "feature", *Difference._fields)
        columns = [f"{name}_{at}" for at in range(1, order + 1) for name in names]
        return new_frame(
            [self._record(entry) for entry in self],
            [*self._first_columns, "product", "explains", *columns],
        )

    _first_columns: tuple[str, ...] = ("cluster", "weight")

    def _record(self, entry: Combination) -> dict[str, Any]:
        record = {name: getattr(entry, name) for name in ("cluster", "weight", "product")}
        record["explains"] = np.nan if entry.explains is None else entry.explains
        for at, (view, feature) in enumerate(entry.features):
            known = entry.differences[at]._asdict() if entry.differences else {}
            values = {"view": view, "feature": feature, **known}
            record |= {f"{name}_{at + 1}": value for name, value in values.items()}
        return record

    def __repr__(self) -> str:
        lines = []
        for cluster in self._clusters():
            lines.append(self._title(cluster))
            own = [entry for entry in self if entry.cluster == cluster]
            lines += [f"  {entry.text}; {self.value_text(entry)}" for entry in own]
            lines += [] if own else [f"  {_NOTHING}"]
        return "\n".join(lines) or "no combinations"

    def _repr_html_(self) -> str:
        rows = []
        for cluster in self._clusters():
            texts = [
                (entry.text, self.value_text(entry)) for entry in self if entry.cluster == cluster
            ] or [(_NOTHING, "")]
            title = f'<th rowspan="{len(texts)}">{escape(self._title(cluster))}</th>'
            for at, (text, value) in enumerate(texts):
                first = "" if at else title
                rows.append(f"<tr>{first}<td>{escape(text)}</td><td>{escape(value)}</td></tr>")
        return f"<table>{''.join(rows)}</table>" if rows else "<p>no combinations</p>"

    def _clusters(self) -> list[int]:
        return list(dict.fromkeys(entry.cluster for entry in self))

    def _title(self, cluster: int) -> str:
        return f"cluster {cluster}"

    def value_text(self, entry: Combination) -> str:
        """Return what an entry is ranked by, as text."""
        return f"weight {entry.weight:.3g}"


_NOTHING = "no feature distinguishes it"


class Profile(Combinations):
    """The clusters of a fit: their sizes, and what distinguishes each from the other samples.

    A list of :class:`Combination` by cluster: single features, and products of two features of
    different views. The one that explains most of the membership comes first.

    Attributes
    ----------
    sizes : list of int
        Samples in each cluster.
    """

    _first_columns = ("cluster", "size", "share", "weight")

    def __init__(self, entries: Iterable[Combination], sizes: Sequence[int]) -> None:
        super().__init__(entries)
        self.sizes = list(sizes)

    def __reduce__(self) -> Any:
        return Profile, (list(self), self.sizes)

    def _record(self, entry: Combination) -> dict[str, Any]:
        size = self.sizes[entry.cluster]
        return super()._record(entry) | {"size": size, "share": size / sum(self.sizes)}

    def _clusters(self) -> list[int]:
        return list(range(len(self.sizes)))

    def _title(self, cluster: int) -> str:
        size = self.sizes[cluster]
        plural = "" if size == 1 else "s"
        return f"cluster {cluster}: {size} sample{plural} ({size / sum(self.sizes):.1%})"

    def value_text(self, entry: Combination) -> str:
        """Return the part of membership that an entry explains, or adds, as text."""
        part = f"{entry.explains or 0.0:.0%}"
        if len(entry.features) == 1:
            return f"explains {part}"
        if not all(entry.directions):
            return f"adds {part}"
        same = entry.directions[0] == entry.directions[1]
        # the product of the deviations in these directions
        both = same == (entry.product == "high")
        return f"adds {part}, {'both together' if both else 'either is enough'}"


class _Describer:
    """What turns places of features and their weight into a combination."""

    def __init__(self, fitted: MultiViewClusterer, statistics: Statistics | None) -> None:
        self._fitted = fitted
        self._statistics = statistics
        if statistics is None:
            return
        views = range(len(statistics.means))
        self._others = [statistics.others(v) for v in views]
        self._overall = [statistics.overall(v) for v in views]
        self.effects = [statistics.effects(v) for v in views]
        self.explained = [statistics.explained(v) for v in views]
        self.differs = [statistics.differs(v) for v in views]
        self._gains = {
            ((v, i), (w, j)): gain
            for (v, i, w, j), gain in zip(
                statistics.pairs.tolist(), statistics.gains.tolist(), strict=True
            )
        }

    def gain(self, cluster: int, places: Places) -> float | None:
        """Return the signed gain of a pair; None if it is not known."""
        gains = self._gains.get((places[0], places[1])) if len(places) == 2 else None
        return None if gains is None else gains[cluster]

    def distinguishes(self, cluster: int, weight: float, places: Places) -> bool:
        """Return whether the samples confirm a combination.

        Each of its features differs, or has a product with another that does.
        """
        if self._statistics is None:
            return True
        confirmed = [bool(self.differs[v][cluster, i]) for v, i in places]
        if len(places) == 1:
            [(v, i)] = places
            return confirmed[0] and weight * float(self.effects[v][cluster, i]) > 0
        if all(confirmed):
            return True
        for (m, one), (n, other) in combinations(enumerate(places), 2):
            if self.gain(cluster, (one, other)):
                confirmed[m] = confirmed[n] = True
        return all(confirmed)

    def combination(self, cluster: int, weight: float, places: Places) -> Combination:
        """Return the combination of features at some places."""
        fitted = self._fitted
        names = tuple((str(fitted.view_names_[v]), feature_name(fitted, v, i)) for v, i in places)
        if self._statistics is None:
            return Combination(cluster, weight, names, places)
        differences = tuple(self._difference(cluster, v, i) for v, i in places)
        if len(places) == 1:
            [(v, i)] = places
            explains = float(self.explained[v][cluster, i])
            return Combination(cluster, weight, names, places, differences, "", explains)
        gain = self.gain(cluster, places)
        product = "" if not gain else "high" if gain > 0 else "low"
        explains_more = None if gain is None else abs(gain)
        return Combination(cluster, weight, names, places, differences, product, explains_more)

    def _difference(self, cluster: int, v: int, i: int) -> Difference:
        assert self._statistics is not None
        effect = float(self.effects[v][cluster, i])
        direction = ("high" if effect > 0 else "low") if self.differs[v][cluster, i] else ""
        mean = float(self._statistics.means[v][cluster, i])
        others = float(self._others[v][cluster, i])
        return Difference(direction, mean, others, float(self._overall[v][i]), effect)


def combinations_of(
    predictor: Predictor,
    fitted: MultiViewClusterer,
    statistics: Statistics | None,
    order: int | None,
    top: int,
    views: Any,
) -> Combinations:
    """Return the combinations of a fitted model; see :meth:`manyview.MMC.explain`."""
    chosen_views = _checked_views(fitted, views)
    _check_integer("top", top)
    if order is not None:
        why = ", as a product has at most one feature of each view"
        _check_integer("order", order, len(chosen_views), why)
    if predictor.is_zero:
        return Combinations()
    weights = predictor.readout.factor_by_cluster(predictor.factors.clusters)
    describer = _Describer(fitted, statistics)
    # some of the largest weights belong to combinations that the samples do not confirm
    candidates = top if statistics is None else 5 * top + 50

    def of_order(order: int, cluster: int) -> list[Combination]:
        found = strongest(
            predictor.factors.views, weights[cluster], chosen_views, order, candidates
        )
        confirmed = [entry for entry in found if describer.distinguishes(cluster, *entry)]
        return [describer.combination(cluster, *entry) for entry in confirmed[:top]]

    def of_cluster(cluster: int) -> list[Combination]:
        if order is not None:
            return of_order(order, cluster)
        pairs = of_order(2, cluster) if len(chosen_views) > 1 else []
        return pairs or of_order(1, cluster)

    return Combinations(entry for cluster in range(len(weights)) for entry in of_cluster(cluster))


def profile_of(
    predictor: Predictor, fitted: MultiViewClusterer, statistics: Statistics | None, top: int
) -> Profile:
    """Return the profile of a fitted model; see :meth:`manyview.MMC.profile`."""
    _check_integer("top", top)
    if statistics is None:
        raise ValueError(
            "the model file is of an earlier version and has no statistics of the samples; fit "
            "again to profile the clusters"
        )
    describer = _Describer(fitted, statistics)
    weights = predictor.readout.factor_by_cluster(predictor.factors.clusters)
    pairs = [((v, i), (w, j)) for v, i, w, j in statistics.pairs.tolist()]

    def found(cluster: int) -> list[Combination]:
        singles: list[tuple[float, Places]] = []
        for v, explained in enumerate(describer.explained):
            shown = np.where(describer.differs[v][cluster], explained[cluster], 0.0)
            first = np.argsort(-shown, kind="stable")[:top]
            singles += [(float(shown[i]), ((v, int(i)),)) for i in first if shown[i] > 0]
        gains = [(abs(describer.gain(cluster, pair) or 0.0), pair) for pair in pairs]
        products: list[tuple[float, Places]] = [(gain, pair) for gain, pair in gains if gain > 0]
        kept = [*_first(singles, top), *_first(products, top)]
        return [
            describer.combination(cluster, _weight(predictor, weights[cluster], places), places)
            for _, places in _first(kept, len(kept))
        ]

    entries = (entry for cluster in range(len(weights)) for entry in found(cluster))
    return Profile(entries, [int(size) for size in statistics.sizes])


def _first(entries: list[tuple[float, Places]], count: int) -> list[tuple[float, Places]]:
    return sorted(entries, key=lambda entry: -entry[0])[:count]


def _weight(predictor: Predictor, weights: Matrix, places: Places) -> float:
    """Return the weight of a combination."""
    if predictor.is_zero:
        return 0.0
    rows = [factor[-1] for factor in predictor.factors.views]
    for v, i in places:
        rows[v] = predictor.factors.views[v][i]
    return float(reduce(mul, rows, weights).sum())


def likely_pairs(predictor: Predictor, *, total: int = 300, rows: int = 200) -> list[Places]:
    """Return the pairs of features with the largest weights of each cluster.

    They are at most about `total` pairs, of the `rows` features with the largest rows of each view
    factor.
    """
    factors = []
    for factor in predictor.factors.views:
        norms = np.linalg.norm(factor[:-1], axis=1)
        few = factor.copy()
        few[np.argsort(-norms, kind="stable")[rows:]] = 0.0
        factors.append(few)
    if predictor.is_zero or len(factors) < 2:
        return []
    weights = predictor.readout.factor_by_cluster(predictor.factors.clusters)
    each = min(max(total // len(weights), 3), 20)
    views = range(len(factors))
    found = (strongest(factors, row, views, 2, each) for row in weights)
    return sorted({places for entries in found for _, places in entries})


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
    """Return the combinations with the largest absolute weights for a cluster, largest first.

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
        """The absolute weight that a combination must exceed."""
        return abs(float(self.weights[-1])) if self.weights.size == self.top else 0.0

    def offer(self, weights: Matrix, before: Indexes) -> None:
        """Keep the largest of a matrix of weights; `before` has all places but the last."""
        flat = weights.ravel()
        size = np.abs(flat)
        large = np.flatnonzero(size > self.floor)
        if large.size > self.top:
            large = large[np.argpartition(-size[large], self.top - 1)[: self.top]]
        row, column = np.divmod(large, weights.shape[1])
        weight = np.concatenate([self.weights, flat[large]])
        places = np.vstack([self.places, np.column_stack([before[row], column])])
        first = np.argsort(-np.abs(weight), kind="stable")[: self.top]
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
