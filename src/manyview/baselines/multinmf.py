"""Multi-view clustering by joint nonnegative matrix factorisation (MultiNMF)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import StrOptions

from manyview._typing import ArrayLike, Floats, Scaling
from manyview.baselines.common import AT_LEAST_ONE, Baseline, scaled_arrays, strength_per_view
from manyview.iterate import Iterated, iterate
from manyview.linalg.partition import Labels, cluster_rows, unit_rows, without_empty
from manyview.views import Array, Views

__all__ = ["MultiNMF"]

_SMALLEST = 1e-200  # of a denominator; denominators shrink with the size of the data
_LARGEST_SUM = 1e150  # of a view; its square is finite

Factors: TypeAlias = tuple[Floats, Floats]
"""Coefficients V (n_samples x K) and basis U (n_features x K) of a view."""


class MultiNMF(Baseline):
    """Multi-view clustering by joint nonnegative matrix factorisation.

    Every view, divided by the sum of its entries, is factorised, and the coefficients of all
    views are pulled towards a consensus C::

        J = sum_v | X_v - V_v U_v' |^2 + sum_v lambda_v | V_v Q_v - C |^2,   U_v, V_v, C >= 0

    with V_v the coefficients (n_samples x K), U_v the basis (n_features_v x K) and Q_v the
    diagonal matrix of the column sums of U_v. Multiplicative updates of V_v and U_v, after each
    of which the columns of U_v are scaled to sum to 1, alternate with ``C = sum_v lambda_v V_v /
    sum_v lambda_v``. k-means on the rows of C gives the labels.

    Parameters
    ----------
    n_clusters : int
        Number of clusters and of components, K.
    regularization : float or array-like of shape (n_views,), default=0.01
        lambda_v, one for all views or one per view. The value of the paper is 0.01; a usual grid
        is 0.001, 0.01, 0.1. With 0 the views are factorised independently, and C is their mean.
    n_rounds : int, default=10
        Number of updates of the consensus. The authors' code has 30 rounds of 200 updates. More
        of either gives a better fit and takes longer.
    n_inner : int, default=30
        Number of updates of each view per round, and in each factorisation of the initialisation.
    n_passes : int, default=1
        Number of passes of the initialisation over the views. Each view is factorised from the
        coefficients of the previous one.
    n_restarts : int, default=3
        Number of random initialisations, of which the one with the lowest objective is used.
    negative : {"raise", "shift", "clip"}, default="raise"
        How to treat a view with negative entries: raise ValueError, subtract its smallest entry
        from all entries, or set negative entries to zero.
    labels : {"kmeans", "unit", "argmax"}, default="kmeans"
        How labels are derived from the consensus: k-means on its rows, k-means on its rows scaled
        to unit length, or the largest entry of each row. The results depend strongly on it. The
        authors use k-means.
    n_init : int, default=1
        Number of initialisations of k-means.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features (which makes
        sparse views dense and entries negative), or neither.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation and of k-means.
    verbose : int, default=0
        1 shows a progress bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; no cluster is empty.
    consensus_ : ndarray of shape (n_samples, n_clusters)
        C, nonnegative.
    view_coefficients_ : list of ndarray of shape (n_samples, n_clusters)
        V_v, nonnegative.
    view_bases_ : list of ndarray of shape (n_features_v, n_clusters)
        U_v, nonnegative, with columns that sum to 1.
    objective_ : ndarray of shape (n_iter_,)
        J after every round; it does not increase.
    n_iter_ : int
        Number of rounds.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    There is no `predict`, because coefficients result from the factorisation of all samples.

    The updates follow the authors' code. The initialisation is reconstructed: it has fewer passes
    and restarts, restarts all views together, and uses the average as consensus from the first
    round on, so that the objective never increases.

    Memory is the views in float64 and a few times (n_samples + n_features) x n_clusters numbers
    per view. Sparse views are not made dense, not even by ``negative="shift"``. The time of an
    update is proportional to n_clusters times the number of stored entries.

    References
    ----------
    J. Liu, C. Wang, J. Gao, J. Han. Multi-View Clustering via Joint Nonnegative Matrix
    Factorization. SDM 2013.

    Examples
    --------
    >>> from manyview.baselines import MultiNMF
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = MultiNMF(n_clusters=3, negative="shift", random_state=0).fit(views)
    >>> model.labels_.shape, model.consensus_.shape
    ((150,), (150, 3))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "n_rounds": [AT_LEAST_ONE],
        "n_inner": [AT_LEAST_ONE],
        "n_passes": [AT_LEAST_ONE],
        "n_restarts": [AT_LEAST_ONE],
        "negative": [StrOptions({"raise", "shift", "clip"})],
        "labels": [StrOptions({"kmeans", "unit", "argmax"})],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        regularization: float | ArrayLike = 0.01,
        n_rounds: int = 10,
        n_inner: int = 30,
        n_passes: int = 1,
        n_restarts: int = 3,
        negative: Literal["raise", "shift", "clip"] = "raise",
        labels: Literal["kmeans", "unit", "argmax"] = "kmeans",
        n_init: int = 1,
        normalize: Scaling | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.regularization = regularization
        self.n_rounds = n_rounds
        self.n_inner = n_inner
        self.n_passes = n_passes
        self.n_restarts = n_restarts
        self.negative = negative
        self.labels = labels
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        strengths = strength_per_view("regularization", self.regularization, views.n_views)
        rng = self._generator()
        arrays = scaled_arrays(views, self.normalize)
        shares = [
            share_of(name, X, self.negative) for name, X in zip(views.names, arrays, strict=True)
        ]

        def one_round(fits: list[Factors]) -> tuple[list[Factors], float]:
            consensus = _consensus(fits, strengths)
            fits = [
                _update(share, fit, strength, consensus, self.n_inner)
                for share, fit, strength in zip(shares, fits, strengths, strict=True)
            ]
            return fits, _objective(shares, fits, strengths)

        with self._progress(self.n_rounds) as show:
            found = iterate(
                one_round,
                self._initialize(shares, strengths, rng),
                max_iter=self.n_rounds,
                settled=lambda fits, values: len(values) == self.n_rounds,
                on_iteration=show,
            )
        consensus = _consensus(found.state, strengths)
        self.labels_ = self._cluster(consensus, rng)
        self.consensus_ = consensus
        self.view_coefficients_ = [V for V, _ in found.state]
        self.view_bases_ = [U for _, U in found.state]
        return found

    def _initialize(
        self, shares: Sequence[Share], strengths: Floats, rng: np.random.Generator
    ) -> list[Factors]:
        """Factorise each view from the coefficients of the previous one; keep the best restart."""
        best: list[Factors] = []
        lowest = np.inf
        for _ in range(self.n_restarts):
            V = rng.random((shares[0].array.shape[0], self.n_clusters))
            for _ in range(self.n_passes):
                fits: list[Factors] = []
                for share in shares:
                    U = rng.random((share.array.shape[1], self.n_clusters))
                    fits.append(_update(share, _balanced(V, U), 0.0, V, self.n_inner))
                    V = fits[-1][0]
            value = _objective(shares, fits, strengths)
            if not best or value < lowest:
                best, lowest = fits, value
        return best

    def _cluster(self, consensus: Floats, rng: np.random.Generator) -> Labels:
        if self.labels == "argmax":
            return without_empty(consensus.argmax(axis=1), self.n_clusters)
        rows = unit_rows(consensus) if self.labels == "unit" else consensus
        return cluster_rows(rows, self.n_clusters, rng, n_init=self.n_init)[0]


@dataclass(frozen=True)
class Share:
    """A nonnegative view divided by its sum, ``(array + shift) / total``, which is not formed."""

    array: Array
    shift: float
    total: float
    square_norm: float

    def times(self, U: Floats) -> Floats:
        """Return X U."""
        return self._finished(self.array @ U, U)

    def pull(self, V: Floats) -> Floats:
        """Return X' V."""
        if sp.issparse(self.array):
            return self._finished(self.array.T @ V, V)
        # reads the rows in the order in which they are stored
        return self._finished((V.T @ self.array).T, V)

    def _finished(self, product: Floats, factor: Floats) -> Floats:
        if self.shift:
            # rounding may leave values below zero
            product = np.maximum(product + self.shift * factor.sum(axis=0), 0.0)
        return np.asarray(product / self.total)


def share_of(name: str, array: Array, negative: str) -> Share:
    """Return a view divided by its sum, with negative entries treated as `negative` says."""
    entries = array.data if sp.issparse(array) else array
    lowest = float(entries.min(initial=0.0))
    if lowest < 0.0 and negative == "raise":
        raise ValueError(
            f"view {name!r} has negative entries, down to {lowest:.6g}; expected nonnegative ones. "
            "Use negative='shift' or negative='clip'"
        )
    shift = -lowest if negative == "shift" else 0.0
    if lowest < 0.0 and negative == "clip":
        array = array.maximum(0.0) if sp.issparse(array) else np.maximum(array, 0.0)
        entries = array.data if sp.issparse(array) else array
    size = float(array.shape[0]) * float(array.shape[1])
    with np.errstate(over="ignore"):
        plain = float(entries.sum())
        total = plain + shift * size
    if not 1 / _LARGEST_SUM < total < _LARGEST_SUM:
        raise ValueError(
            f"view {name!r} has entries that sum to {total:g}; expected a positive sum between "
            f"{1 / _LARGEST_SUM:g} and {_LARGEST_SUM:g}"
        )
    square_norm = (float(np.linalg.norm(entries)) / total) ** 2
    square_norm += (shift / total) * (2.0 * plain / total + shift * size / total)
    return Share(array, shift, total, square_norm)


def _update(
    share: Share, fit: Factors, strength: float, consensus: Floats, n_updates: int
) -> Factors:
    """Return the factors of a view after some multiplicative updates.

    The columns of U must sum to 1, and do so afterwards.
    """
    V, U = fit
    for _ in range(n_updates):
        V = V * _ratio(share.times(U) + strength * consensus, V @ (U.T @ U) + strength * V)
        U = U * _ratio(
            share.pull(V) + strength * np.einsum("nk,nk->k", V, consensus),
            U @ (V.T @ V) + strength * np.einsum("nk,nk->k", V, V) * U.sum(axis=0),
        )
        V, U = _balanced(V, U)
    return V, U


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return numerator / np.maximum(denominator, _SMALLEST)


def _balanced(V: Floats, U: Floats) -> Factors:
    """Return factors with the same product in which the columns of U sum to 1.

    A component with a zero basis gets zero coefficients and a uniform basis.
    """
    sums = U.sum(axis=0)
    basis = np.where(sums > _SMALLEST, U, 1.0)
    return V * np.where(sums > _SMALLEST, sums, 0.0), basis / basis.sum(axis=0)


def _consensus(fits: Sequence[Factors], strengths: Floats) -> Floats:
    weights = strengths if strengths.any() else None
    return np.asarray(np.average([V for V, _ in fits], axis=0, weights=weights))


def _objective(shares: Sequence[Share], fits: Sequence[Factors], strengths: Floats) -> float:
    consensus = _consensus(fits, strengths)
    parts = zip(shares, fits, strengths, strict=True)
    return sum(_view_objective(share, fit, strength, consensus) for share, fit, strength in parts)


def _view_objective(share: Share, fit: Factors, strength: float, consensus: Floats) -> float:
    """Return the part of J of a view; the columns of U must sum to 1."""
    V, U = fit
    misfit = share.square_norm - 2.0 * np.vdot(share.times(U), V) + np.vdot(U.T @ U, V.T @ V)
    return float(misfit + strength * np.sum((V - consensus) ** 2))
