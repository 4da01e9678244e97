"""Robust multi-view k-means: class RMKMC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Floats
from manyview.base import MultiViewClusterer
from manyview.baselines.common import scaled_arrays
from manyview.iterate import iterate, warn_if_early
from manyview.linalg.partition import Labels, without_empty
from manyview.views import Array

__all__ = ["RMKMC"]


_SMOOTHING = 1e-12  # of the square of a residual, as a part of the view's variance
_CONSTANT = 1e-26  # variance, as a part of the mean square, that is rounding


class RMKMC(MultiViewClusterer):
    """Robust multi-view k-means.

    One partition g and, in every view, one centre a cluster; views take part by weights alpha
    that are learnt. Distances are not squared, so that samples far off pull less::

        J = sum_v alpha_v^gamma sum_n | x_nv - f_g(n),v |,    alpha_v >= 0,  sum_v alpha_v = 1

    It is minimised by reweighting: with ``d_nv = 1 / (2 |x_nv - f_g(n),v|)`` from the last
    iteration, centres are means weighted by d, samples go to the centre of the smallest
    ``sum_v alpha_v^gamma d_nv |x_nv - f_kv|^2``, and alpha_v is proportional to
    ``h_v^(1 / (1 - gamma))``, where h_v is the sum of the distances in view v.

    It is not invariant to the scale of one view: the view of small norms gets the weight.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    exponent : float, default=10**0.5
        gamma, above 1. Near 1 all the weight goes to the view with the smallest distances; a
        large one makes the weights equal. The paper's grid is, as far as known, 10 to the power
        of 0.1, 0.3, ..., 1.9.
    init : {"random", "pp"}, default="random"
        Where the partition starts: random clusters, or the nearest of centres drawn by
        k-means++ on the views side by side.
    max_iter : int, default=100
        Most iterations.
    tol : float, default=1e-6
        Stop when an iteration lowers the objective by less than this part of it.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features, which makes
        sparse views dense, or neither.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.
    verbose : int, default=0
        1 shows a bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; no cluster is empty.
    cluster_centers_ : list of ndarray of shape (n_clusters, n_features_v)
        Centres in each view, scaled as `normalize` says.
    view_weights_ : ndarray of shape (n_views,)
        alpha. A view whose rows are all equal has weight 0.
    objective_ : ndarray of shape (n_iter_,)
        J after every iteration; it does not rise.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw: the number of views, and of each its number of features, its name and the
        names of its features, or None.

    Notes
    -----
    There is no `predict`: the assignment of a sample depends on its own weights d, which come
    from the iterations.

    The updates follow public implementations. Reconstructed, and so perhaps not as in the paper:
    the stopping rule, the default of `exponent`, and the care for degenerate data. A cluster
    that loses all its samples takes over the sample that fits worst, with that sample as its
    centre. The distance is smoothed to ``sqrt(|x - f|^2 + eps)``, with eps 1e-12 of the variance
    of the view, in J too.

    Memory is a float64 copy of each dense view, none of a sparse view in float64, and
    n_samples x n_clusters numbers a view; sparse views are not made dense. An iteration takes
    time in proportion to n_clusters times the stored entries.

    References
    ----------
    X. Cai, F. Nie, H. Huang. Multi-View K-Means Clustering on Big Data. IJCAI 2013.

    Examples
    --------
    >>> from manyview.baselines import RMKMC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = RMKMC(n_clusters=3, init="pp", random_state=0).fit(views)
    >>> model.labels_.shape, [centers.shape for centers in model.cluster_centers_]
    ((150,), [(3, 20), (3, 20)])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "exponent": [Interval(Real, 1, None, closed="neither")],
        "init": [StrOptions({"random", "pp"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        exponent: float = 10**0.5,
        init: str = "random",
        max_iter: int = 100,
        tol: float = 1e-6,
        normalize: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.exponent = exponent
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, views: Any, y: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            The views; see :func:`manyview.as_views`.
        y : ignored
            There for scikit-learn's sake; labels take no part.

        Returns
        -------
        RMKMC
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        rng = self._generator()
        arrays = scaled_arrays(checked, self.normalize)
        with np.errstate(over="ignore", invalid="ignore"):  # refused there, by name
            prepared = [
                _prepared(name, array) for name, array in zip(checked.names, arrays, strict=True)
            ]
        start = _seeded_start if self.init == "pp" else _random_start
        labels = start(prepared, self.n_clusters, rng)
        log_weights = _log_view_weights(_constant_as_infinite(prepared, 1.0), self.exponent)[0]
        first = _State(labels, [], [np.ones(labels.size) for _ in prepared], log_weights)

        def settled(state: _State, values: Sequence[float]) -> bool:
            # values are logarithms, equal also where both are that of zero
            return len(values) > 1 and (
                values[-1] == values[-2] or values[-2] - values[-1] < self.tol
            )

        with self._progress(self.max_iter) as show:
            found = iterate(
                lambda state: _stepped(prepared, state, self.n_clusters, self.exponent),
                first,
                max_iter=self.max_iter,
                settled=settled,
                on_iteration=lambda done, value: show(done, np.exp(value)),
            )
        self._record_views(checked)
        self.labels_ = found.state.labels
        self.cluster_centers_ = [
            centre + view.offset for view, centre in zip(prepared, found.state.centres, strict=True)
        ]
        self.view_weights_ = np.exp(found.state.log_weights)
        self.objective_ = np.exp(np.array(found.objective))
        self.n_iter_ = len(found.objective)
        warn_if_early(found, remedy=f"raise max_iter, or tol above {self.tol:g}")
        return self


class _State(NamedTuple):
    """Partition, centres a view, weights of the samples a view, logarithm of the views' weights."""

    labels: Labels
    centres: list[Floats]
    sample_weights: list[Floats]
    log_weights: Floats


@dataclass(frozen=True)
class _View:
    """A view as distances need it; dense rows are centred, so that little cancels in them."""

    rows: Array
    square_norms: Floats
    offset: Floats
    smoothing: float
    constant: bool


def _prepared(name: str, array: Array) -> _View:
    n_samples = array.shape[0]
    mean = np.asarray(array.mean(axis=0)).ravel()
    if sp.issparse(array):
        rows, square_norms = array, _square_norms(array)
        lacking = n_samples - np.bincount(rows.indices, minlength=mean.size)
        deviation = float(np.sum((rows.data - mean[rows.indices]) ** 2) + lacking @ mean**2)
        offset, mean_square = np.zeros_like(mean), float(square_norms.mean())
    else:
        rows = array - mean
        square_norms, offset = _square_norms(rows), mean
        deviation = float(square_norms.sum())
        mean_square = deviation / n_samples + float(mean @ mean)
    variance = deviation / n_samples
    if not np.isfinite(mean_square):
        raise ValueError(
            f"view {name!r} has entries of size {abs(array).max():.3g}: their squares leave the "
            "range of float64; rescale them"
        )
    constant = variance <= _CONSTANT * mean_square
    return _View(rows, square_norms, offset, 1.0 if constant else _SMOOTHING * variance, constant)


def _square_norms(rows: Array) -> Floats:
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("nd,nd->n", rows, rows))


def _stepped(
    views: Sequence[_View], state: _State, n_clusters: int, exponent: float
) -> tuple[_State, float]:
    """Renew centres, partition and weights; return them and the logarithm of the objective."""
    centres = [
        weighted_centres(view.rows, state.labels, weights, n_clusters)
        for view, weights in zip(views, state.sample_weights, strict=True)
    ]
    coefficients = np.exp(exponent * (state.log_weights - state.log_weights.max()))
    labels, squares = _assigned(views, centres, state.sample_weights, coefficients)
    lengths = [
        np.sqrt(square + view.smoothing) for view, square in zip(views, squares, strict=True)
    ]
    sums = _constant_as_infinite(views, [length.sum() for length in lengths])
    log_weights, value = _log_view_weights(sums, exponent)
    return _State(labels, centres, [0.5 / length for length in lengths], log_weights), value


def weighted_centres(rows: Array, labels: Labels, weights: Floats, n_clusters: int) -> Floats:
    """Return the mean of the rows of each cluster, weighted; no cluster may be empty."""
    # scaled to sum to 1 beforehand: weights span many orders of magnitude
    shares = weights / np.bincount(labels, weights=weights, minlength=n_clusters)[labels]
    membership = sp.csr_array(
        (shares, (labels, np.arange(labels.size))), shape=(n_clusters, labels.size)
    )
    centres = membership @ rows
    return np.asarray(centres.toarray() if sp.issparse(centres) else centres)


def distances_to_centres(rows: Array, square_norms: Floats, centres: Floats) -> Floats:
    """Return the squared distance of every row to every centre."""
    distances = np.asarray(rows @ centres.T)
    distances *= -2.0
    distances += square_norms[:, None]
    distances += _square_norms(centres)
    return np.asarray(np.maximum(distances, 0.0))


def _assigned(
    views: Sequence[_View],
    centres: list[Floats],
    sample_weights: list[Floats],
    coefficients: Floats,
) -> tuple[Labels, list[Floats]]:
    """Return the labels and each view's squared distances of samples to their centres.

    The centre of a cluster that nothing is nearest to is moved, in place, to the sample of the
    largest cost: the costs of all others are as before, so the objective cannot rise.
    """
    n_samples, n_clusters = views[0].square_norms.size, centres[0].shape[0]
    everyone = np.arange(n_samples)
    cost = np.zeros((n_samples, n_clusters))
    distances = []
    for view, centre, weights, coefficient in zip(
        views, centres, sample_weights, coefficients, strict=True
    ):
        distances.append(distances_to_centres(view.rows, view.square_norms, centre))
        cost += (coefficient * weights)[:, None] * distances[-1]
    labels = cost.argmin(axis=1)
    own_cost = cost[everyone, labels]
    squares = [distance[everyone, labels] for distance in distances]
    sizes = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(sizes == 0):
        worst = int(np.where(sizes[labels] > 1, own_cost, -1.0).argmax())
        sizes[labels[worst]] -= 1
        sizes[empty] = 1
        labels[worst] = empty
        for view, centre, square in zip(views, centres, squares, strict=True):
            centre[empty] = _dense_row(view.rows, worst)
            square[worst] = 0.0
    return labels, squares


def _log_view_weights(sums: Floats, exponent: float) -> tuple[Floats, float]:
    """Return log alpha for the views' sums of distances, and the logarithm of the objective.

    At this alpha the objective is ``(sum_v h_v^(1/(1-gamma)))^(1-gamma)``. An infinite sum gives
    weight 0; if all are, every weight is the same and the objective is zero.
    """
    if np.isinf(sums).all():
        return np.full(sums.size, -np.log(sums.size)), -np.inf
    powers = np.log(sums) / (1.0 - exponent)
    total = float(logsumexp(powers))
    return powers - total, (1.0 - exponent) * total


def _constant_as_infinite(views: Sequence[_View], sums: npt.ArrayLike) -> Floats:
    # without this a view that tells nothing would fit best and take all the weight
    return np.where([view.constant for view in views], np.inf, sums)


def _random_start(views: Sequence[_View], n_clusters: int, rng: np.random.Generator) -> Labels:
    labels = rng.integers(n_clusters, size=views[0].square_norms.size)
    return without_empty(labels.astype(np.intp), n_clusters)


def _seeded_start(views: Sequence[_View], n_clusters: int, rng: np.random.Generator) -> Labels:
    """Draw samples in proportion to the squared distance to those drawn before (k-means++)."""
    n_samples = views[0].square_norms.size
    labels = np.zeros(n_samples, dtype=np.intp)
    nearest = np.full(n_samples, np.inf)
    for k in range(n_clusters):
        total = nearest.sum()
        shares = nearest / total if 0.0 < total < np.inf else None
        drawn = int(rng.choice(n_samples, p=shares))
        distance = np.zeros(n_samples)
        for view in views:
            centre = _dense_row(view.rows, drawn)[None]
            distance += distances_to_centres(view.rows, view.square_norms, centre)[:, 0]
        distance[drawn] = 0.0
        labels[distance < nearest] = k
        nearest = np.minimum(nearest, distance)
    return without_empty(labels, n_clusters)


def _dense_row(rows: Array, n: int) -> Floats:
    row = rows[[n]]
    return np.asarray(row.toarray() if sp.issparse(row) else row, dtype=np.float64).ravel()
