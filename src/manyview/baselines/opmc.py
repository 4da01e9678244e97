"""One-pass multi-view clustering (OPMC)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import row_norms

from manyview._typing import Floats, Matrix
from manyview.baselines.common import Baseline, scaled_arrays
from manyview.baselines.rmkmc import distances_to_centres, weighted_centres
from manyview.iterate import Iterated, iterate
from manyview.linalg.partition import Labels, without_empty
from manyview.views import Array, Views

__all__ = ["OPMC"]


class OPMC(Baseline):
    """One-pass multi-view clustering.

    OPMC factorises the views with one partition Y, a one-hot matrix, and without constraints of
    sign, so that no clustering follows the factorisation::

        min  sum_v | X_v - Y C_v W_v |^2,    W_v W_v' = I

    It has no parameter, and a linear time. Each iteration updates

    - W_v = U V' from the singular value decomposition ``U S V' = C_v' Y' X_v``;
    - C_v = M_v W_v', where M_v has the means of the clusters; and
    - Y: each sample is assigned to the cluster with the smallest ``sum_v | x_v - c_kv W_v |^2``.

    The iterations are repeated from several random partitions and C_v, and the result with the
    smallest objective is kept.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    n_init : int, default=10
        Number of initialisations.
    max_iter : int, default=100
        Maximum number of iterations of each.
    tol : float, default=1e-6
        Stop when an iteration decreases the objective by less than this fraction of it.
    normalize : {"zscore", "rows", "columns"} or None, default="zscore"
        Standardise each sample over the features of a view, as the authors do, scale it to unit
        length, standardise the features, or neither. ``"zscore"`` and ``"columns"`` make sparse
        views dense.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisations.
    verbose : int, default=0
        1 shows a progress bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; no cluster is empty.
    cluster_centers_ : list of ndarray of shape (n_clusters, n_features_v)
        ``C_v W_v``, on the scale set by `normalize`.
    objective_ : ndarray of shape (n_iter_,)
        The objective after every iteration; it does not increase.
    n_iter_ : int
        Number of iterations of the initialisation that is kept.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    W_v has K rows, or as many as the view has features if these are fewer. The rank of
    ``C_v W_v`` is then no constraint, so that the objective is that of k-means on the concatenated
    views, and the updates are another way to minimise it.

    The updates are those of the authors' program. An empty cluster takes over the sample with the
    worst fit; there it stays empty.

    Memory is a float64 copy of each dense view and n_samples x n_clusters numbers per view. The
    time of an iteration is proportional to n_clusters times the number of stored entries.

    References
    ----------
    J. Liu, X. Liu, Y. Yang, L. Liu, S. Wang, W. Liang, J. Shi. One-pass Multi-view Clustering for
    Large-scale Data. ICCV 2021.

    Examples
    --------
    >>> from manyview.baselines import OPMC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = OPMC(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, [centers.shape for centers in model.cluster_centers_]
    ((150,), [(3, 20), (3, 20)])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "normalize": [StrOptions({"zscore", "rows", "columns"}), None],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_init: int = 10,
        max_iter: int = 100,
        tol: float = 1e-6,
        normalize: Literal["zscore", "rows", "columns"] | None = "zscore",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        rng = self._generator()
        arrays = scaled_arrays(views, self.normalize)
        prepared = [View(X, row_norms(X, squared=True)) for X in arrays]

        def converged(state: State, values: Sequence[float]) -> bool:
            return len(values) > 1 and values[-2] - values[-1] <= self.tol * values[-2]

        runs: list[Iterated[State]] = []
        with self._progress(self.n_init * self.max_iter) as show:
            while len(runs) < self.n_init and not (runs and runs[-1].interrupted):
                found = iterate(
                    partial(iteration, prepared),
                    initial_state(prepared, self.n_clusters, rng),
                    max_iter=self.max_iter,
                    settled=converged,
                    on_iteration=partial(_shown, show, self.max_iter * len(runs)),
                )
                runs.append(found)
        best = min(runs, key=lambda run: run.objective[-1])
        best.interrupted = runs[-1].interrupted
        self.labels_ = best.state.labels
        self.cluster_centers_ = list(best.state.centres)
        return best


class View(NamedTuple):
    """The rows of a view and their squared lengths."""

    rows: Array
    square_norms: Floats


class State(NamedTuple):
    """The iterate: partition, and coefficients C and centres C W of each view."""

    labels: Labels
    coefficients: Sequence[Matrix]
    centres: Sequence[Matrix]


def initial_state(views: Sequence[View], n_clusters: int, rng: np.random.Generator) -> State:
    """Return a random partition and random coefficients."""
    n = views[0].square_norms.size
    labels = without_empty(rng.integers(n_clusters, size=n), n_clusters)
    coefficients = [rng.random((n_clusters, min(n_clusters, view.rows.shape[1]))) for view in views]
    return State(labels, coefficients, [])


def iteration(views: Sequence[View], state: State) -> tuple[State, float]:
    """Update the factors and the partition; return the objective too."""
    coefficients, bases = [], []
    for view, C in zip(views, state.coefficients, strict=True):
        C, W = updated_factors(view, state.labels, C)
        coefficients.append(C)
        bases.append(W)
    labels, value = _assign(views, coefficients, bases)
    centres = [C @ W for C, W in zip(coefficients, bases, strict=True)]
    return State(labels, coefficients, centres), value


def updated_factors(view: View, labels: Labels, C: Matrix) -> tuple[Matrix, Matrix]:
    """Return C and W of a view."""
    n_clusters = C.shape[0]
    means = weighted_centres(view.rows, labels, np.ones(labels.size), n_clusters)
    sizes = np.bincount(labels, minlength=n_clusters)
    left, _, right = np.linalg.svd(C.T @ (sizes[:, None] * means), full_matrices=False)
    W = left @ right
    return means @ W.T, W


def _assign(
    views: Sequence[View], coefficients: Sequence[Matrix], bases: Sequence[Matrix]
) -> tuple[Labels, float]:
    """Return the partition and the objective.

    An empty cluster takes over the sample with the largest cost. Its row of C becomes, in place,
    the one that fits the sample best, so that the objective cannot increase.
    """
    n_clusters = coefficients[0].shape[0]
    cost = np.zeros((views[0].square_norms.size, n_clusters))
    for view, C, W in zip(views, coefficients, bases, strict=True):
        cost += distances_to_centres(view.rows, view.square_norms, C @ W)
    labels = cost.argmin(axis=1)
    own_cost = cost[np.arange(labels.size), labels]
    sizes = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(sizes == 0):
        worst = int(np.where(sizes[labels] > 1, own_cost, -1.0).argmax())
        sizes[labels[worst]] -= 1
        sizes[empty] = 1
        labels[worst] = empty
        rest = 0.0
        for view, C, W in zip(views, coefficients, bases, strict=True):
            C[empty] = np.asarray(view.rows[[worst]] @ W.T).ravel()
            rest += max(float(view.square_norms[worst] - C[empty] @ C[empty]), 0.0)
        own_cost[worst] = min(own_cost[worst], rest)
    return labels, float(own_cost.sum())


def _shown(show: Callable[[int, float], None], before: int, done: int, value: float) -> None:
    show(before + done, value)
