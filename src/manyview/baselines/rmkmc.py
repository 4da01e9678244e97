"""Robust multi-view k-means (RMKMC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms

from manyview._typing import Floats, Scaling
from manyview.baselines.common import Baseline, column_moments, scaled_arrays
from manyview.iterate import Iterated, iterate
from manyview.linalg.partition import Labels, without_empty
from manyview.views import Array, Views

__all__ = ["RMKMC"]

_SMOOTHING = 1e-12  # added to a squared distance, as a fraction of the variance of the view
_CONSTANT = 1e-26  # variance of a constant view, as a fraction of the mean square


class RMKMC(Baseline):
    """Robust multi-view k-means.

    RMKMC finds one partition g for all views, the centres of its clusters in every view, and
    weights alpha of the views. Distances are not squared, so that outliers have less influence::

        J = sum_v alpha_v^gamma sum_n | x_nv - f_g(n),v |,    alpha_v >= 0,  sum_v alpha_v = 1

    J is minimised by iterative reweighting. With ``d_nv = 1 / (2 |x_nv - f_g(n),v|)`` from the
    previous iteration, centres are means weighted by d, samples are assigned to the cluster with
    the smallest ``sum_v alpha_v^gamma d_nv |x_nv - f_kv|^2``, and alpha_v is proportional to
    ``h_v^(1 / (1 - gamma))``, where h_v is the sum of the distances in view v.

    The result depends on the scale of each view: a view of small norms gets a large weight.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    exponent : float, default=10**0.5
        gamma, above 1. Near 1 the view with the smallest distances gets all the weight; a large
        value makes the weights equal. The grid of the paper is, as far as known, 10 to the power
        of 0.1, 0.3, ..., 1.9.
    init : {"random", "pp"}, default="random"
        Initial partition: random clusters, or the nearest of centres drawn by k-means++ on the
        concatenated views.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-6
        Stop when an iteration decreases the objective by less than this fraction of it.
    normalize : {"rows", "columns"} or None, default=None
        Scale samples to unit length, standardise features (sparse views become dense), or neither.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation.
    verbose : int, default=0
        1 shows a progress bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; no cluster is empty.
    cluster_centers_ : list of ndarray of shape (n_clusters, n_features_v)
        Centres in each view, on the scale set by `normalize`.
    view_weights_ : ndarray of shape (n_views,)
        alpha. The weight of a view with equal rows is 0.
    objective_ : ndarray of shape (n_iter_,)
        J after every iteration; it does not increase.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    There is no `predict`: the assignment of a sample depends on its weights d from the iterations.

    The updates follow public implementations. The stopping rule, the default of `exponent` and
    the treatment of degenerate data are reconstructed and may differ from the paper. An empty
    cluster takes over the sample with the worst fit, which becomes its centre. The distance is
    smoothed to ``sqrt(|x - f|^2 + eps)``, with eps 1e-12 of the variance of the view, in J too.

    Memory is a float64 copy of each dense view and n_samples x n_clusters numbers per view. Sparse
    views stay sparse. The time of an iteration is proportional to n_clusters times the number of
    stored entries.

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
        **Baseline._parameter_constraints,
        "exponent": [Interval(Real, 1, None, closed="neither")],
        "init": [StrOptions({"random", "pp"})],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        exponent: float = 10**0.5,
        init: Literal["random", "pp"] = "random",
        max_iter: int = 100,
        tol: float = 1e-6,
        normalize: Scaling | None = None,
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

    def _fit(self, views: Views) -> Iterated[Any]:
        rng = self._generator()
        prepared = [_prepared(array) for array in scaled_arrays(views, self.normalize)]
        if self.init == "pp":
            labels = _kmeans_plus_plus(prepared, self.n_clusters, rng)
        else:
            labels = rng.integers(self.n_clusters, size=views.n_samples)
        labels = without_empty(labels, self.n_clusters)
        log_weights, _ = _log_view_weights(_without_constant(prepared, 1.0), self.exponent)
        initial = _State(labels, [], [np.ones(labels.size) for _ in prepared], log_weights)

        def converged(state: _State, values: Sequence[float]) -> bool:
            # values are logarithms, and equal if both are that of zero
            return len(values) > 1 and (
                values[-1] == values[-2] or values[-2] - values[-1] < self.tol
            )

        with self._progress(self.max_iter) as show:
            found = iterate(
                lambda state: _update(prepared, state, self.n_clusters, self.exponent),
                initial,
                max_iter=self.max_iter,
                settled=converged,
                on_iteration=lambda done, value: show(done, np.exp(value)),
            )
        self.labels_ = found.state.labels
        self.cluster_centers_ = [
            F + view.offset for view, F in zip(prepared, found.state.centres, strict=True)
        ]
        self.view_weights_ = np.exp(found.state.log_weights)
        found.objective = np.exp(found.objective).tolist()
        return found


class _State(NamedTuple):
    """Partition g, centres f of each view, sample weights d of each view, and log alpha."""

    labels: Labels
    centres: list[Floats]
    sample_weights: list[Floats]
    log_weights: Floats


@dataclass(frozen=True)
class _View:
    """A view prepared for distances; dense rows are centred, which loses fewer digits."""

    rows: Array
    square_norms: Floats
    offset: Floats
    smoothing: float
    constant: bool


def _prepared(array: Array) -> _View:
    mean, variances = column_moments(array)
    variance = float(variances.sum())
    constant = variance <= _CONSTANT * (variance + float(mean @ mean))
    smoothing = 1.0 if constant else _SMOOTHING * variance
    offset = np.zeros_like(mean) if sp.issparse(array) else mean
    rows = array if sp.issparse(array) else array - mean
    return _View(rows, row_norms(rows, squared=True), offset, smoothing, constant)


def _update(
    views: Sequence[_View], state: _State, n_clusters: int, exponent: float
) -> tuple[_State, float]:
    """Update centres, partition and weights; return them and the logarithm of the objective."""
    centres = [
        weighted_centres(view.rows, state.labels, weights, n_clusters)
        for view, weights in zip(views, state.sample_weights, strict=True)
    ]
    coefficients = np.exp(exponent * (state.log_weights - state.log_weights.max()))
    labels, squares = _assign(views, centres, state.sample_weights, coefficients)
    lengths = [
        np.sqrt(square + view.smoothing) for view, square in zip(views, squares, strict=True)
    ]
    sums = _without_constant(views, [length.sum() for length in lengths])
    log_weights, value = _log_view_weights(sums, exponent)
    return _State(labels, centres, [0.5 / length for length in lengths], log_weights), value


def weighted_centres(rows: Array, labels: Labels, weights: Floats, n_clusters: int) -> Floats:
    """Return the weighted mean of the rows of each cluster; no cluster may be empty."""
    # the weights are normalised first because they span many orders of magnitude
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
    distances += row_norms(centres, squared=True)
    return np.asarray(np.maximum(distances, 0.0))


def _assign(
    views: Sequence[_View],
    centres: list[Floats],
    sample_weights: list[Floats],
    coefficients: Floats,
) -> tuple[Labels, list[Floats]]:
    """Return the labels and each view's squared distances of samples to their centres.

    The centre of an empty cluster is moved, in place, to the sample with the largest cost. The
    costs of the other samples stay, so the objective cannot increase.
    """
    n_samples, n_clusters = views[0].square_norms.size, centres[0].shape[0]
    everyone = np.arange(n_samples)
    cost = np.zeros((n_samples, n_clusters))
    distances = []
    for view, F, weights, coefficient in zip(
        views, centres, sample_weights, coefficients, strict=True
    ):
        distances.append(distances_to_centres(view.rows, view.square_norms, F))
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
        for view, F, square in zip(views, centres, squares, strict=True):
            F[empty] = _dense_row(view.rows, worst)
            square[worst] = 0.0
    return labels, squares


def _log_view_weights(sums: Floats, exponent: float) -> tuple[Floats, float]:
    """Return log alpha for the sums h of the views, and the logarithm of the objective.

    At this alpha the objective is ``(sum_v h_v^(1/(1-gamma)))^(1-gamma)``. An infinite sum gives
    weight 0. If all sums are infinite the weights are equal and the objective is zero.
    """
    if np.isinf(sums).all():
        return np.full(sums.size, -np.log(sums.size)), -np.inf
    powers = np.log(sums) / (1.0 - exponent)
    total = float(logsumexp(powers))
    return powers - total, (1.0 - exponent) * total


def _without_constant(views: Sequence[_View], sums: npt.ArrayLike) -> Floats:
    """Make the sums of constant views infinite; they would fit best and get all the weight."""
    return np.where([view.constant for view in views], np.inf, sums)


def _kmeans_plus_plus(views: Sequence[_View], n_clusters: int, rng: np.random.Generator) -> Labels:
    """Draw samples with probabilities proportional to the squared distance to those before."""
    n_samples = views[0].square_norms.size
    labels = np.zeros(n_samples, dtype=np.intp)
    nearest = np.full(n_samples, np.inf)
    for k in range(n_clusters):
        total = nearest.sum()
        probabilities = nearest / total if 0.0 < total < np.inf else None
        drawn = int(rng.choice(n_samples, p=probabilities))
        distance = np.zeros(n_samples)
        for view in views:
            centre = _dense_row(view.rows, drawn)[None]
            distance += distances_to_centres(view.rows, view.square_norms, centre)[:, 0]
        distance[drawn] = 0.0
        labels[distance < nearest] = k
        nearest = np.minimum(nearest, distance)
    return labels


def _dense_row(rows: Array, n: int) -> Floats:
    row = rows[[n]]
    return np.asarray(row.toarray() if sp.issparse(row) else row, dtype=np.float64).ravel()
