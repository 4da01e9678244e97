"""Multi-view clustering by joint nonnegative matrix factorisation: class MultiNMF."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Floats
from manyview.base import MultiViewClusterer
from manyview.baselines.common import Share, scaled_arrays, share_of, strength_per_view
from manyview.iterate import iterate, warn_if_early
from manyview.linalg.partition import Labels, cluster_rows, unit_rows, without_empty

__all__ = ["MultiNMF"]


_LEAST = 1e-200  # of a denominator: they shrink with the numbers of samples and of features


class MultiNMF(MultiViewClusterer):
    """Multi-view clustering by joint nonnegative matrix factorisation.

    Every view, divided by the sum of its entries, is factorised, and the coefficients of all
    views are drawn to a consensus C::

        J = sum_v | X_v - V_v U_v' |^2 + sum_v lambda_v | V_v Q_v - C |^2,   U_v, V_v, C >= 0

    with V_v the coefficients (n_samples x K), U_v the basis (n_features_v x K) and Q_v the
    diagonal matrix of the column sums of U_v. Multiplicative steps on V_v and U_v, after each of
    which the columns of U_v are scaled to sum to 1, alternate with ``C = sum_v lambda_v V_v /
    sum_v lambda_v``. The clusters are those of k-means on the rows of C.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, and of components, K.
    regularization : float or array-like of shape (n_views,), default=0.01
        lambda_v, one for all views or one each. The paper's value is 0.01; a usual grid is
        0.001, 0.01, 0.1. With 0 the views are factorised each on its own, and C is their mean.
    n_rounds : int, default=10
        Number of updates of the consensus. The authors' code does 30, of 200 steps each: more
        of either fits better, and takes longer.
    n_inner : int, default=30
        Number of steps on each view in a round, and in each factorisation of the start.
    n_passes : int, default=1
        Number of times that the start goes through the views, factorising each from the
        coefficients of the one before.
    n_restarts : int, default=3
        Number of random starts; the one of the lowest objective is carried through.
    negative : {"raise", "shift", "clip"}, default="raise"
        What to do with a view that has negative entries: refuse it, subtract its smallest entry
        from all, or set the negative ones to zero.
    labels : {"kmeans", "unit", "argmax"}, default="kmeans"
        How clusters are read from the consensus: k-means on its rows, on its rows scaled to unit
        length, or the largest entry of each row. It matters much; k-means is the authors' way.
    n_init : int, default=1
        Number of starts of k-means.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features, which makes
        sparse views dense and entries negative, or neither.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts and of k-means.
    verbose : int, default=0
        1 shows a bar with the objective.

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
        J after every round; it does not rise.
    n_iter_ : int
        Number of rounds.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw: the number of views, and of each its number of features, its name and the
        names of its features, or None.

    Notes
    -----
    There is no `predict`: a sample gets its coefficients from the factorisation of all.

    The steps follow the authors' code. Its budget does not, see above, nor does the start, which
    is reconstructed: fewer passes and restarts, restarts of all views together, and a consensus
    that is the average from the first round on, so that the objective never rises.

    Memory is the views in float64, not copied if they are, and a few times (n_samples +
    n_features) x n_clusters numbers a view. Sparse views are not made dense, also not by
    ``negative="shift"``; ``"clip"`` copies a view that has negative entries. A step takes time in
    proportion to n_clusters times the stored entries.

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
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "regularization": [Interval(Real, 0, None, closed="left"), "array-like"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_inner": [Interval(Integral, 1, None, closed="left")],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "negative": [StrOptions({"raise", "shift", "clip"})],
        "labels": [StrOptions({"kmeans", "unit", "argmax"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        regularization: Any = 0.01,
        n_rounds: int = 10,
        n_inner: int = 30,
        n_passes: int = 1,
        n_restarts: int = 3,
        negative: str = "raise",
        labels: str = "kmeans",
        n_init: int = 1,
        normalize: str | None = None,
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
        MultiNMF
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        strengths = strength_per_view("regularization", self.regularization, len(checked))
        rng = self._generator()
        arrays = scaled_arrays(checked, self.normalize)
        shares = [
            share_of(name, array, self.negative)
            for name, array in zip(checked.names, arrays, strict=True)
        ]

        def rounded(fits: list[_Factors]) -> tuple[list[_Factors], float]:
            consensus = _consensus(fits, strengths)
            fits = [
                _stepped(share, fit, strength, consensus, self.n_inner)
                for share, fit, strength in zip(shares, fits, strengths, strict=True)
            ]
            return fits, _objective(shares, fits, strengths, _consensus(fits, strengths))

        with self._progress(self.n_rounds) as show:
            found = iterate(
                rounded,
                self._start(shares, strengths, rng),
                max_iter=self.n_rounds,
                settled=lambda fits, values: len(values) == self.n_rounds,
                on_iteration=show,
            )
        consensus = _consensus(found.state, strengths)
        labels = self._read(consensus, rng)
        self._record_views(checked)
        self.labels_ = labels
        self.consensus_ = consensus
        self.view_coefficients_ = [fit.coefficients for fit in found.state]
        self.view_bases_ = [fit.basis for fit in found.state]
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        warn_if_early(found, remedy="raise n_rounds")
        return self

    def _start(
        self, shares: Sequence[Share], strengths: Floats, rng: np.random.Generator
    ) -> list[_Factors]:
        """Factorise each view from the coefficients of the one before; keep the best of some."""
        best: tuple[float, list[_Factors]] | None = None
        for _ in range(self.n_restarts):
            fits: list[_Factors] = []
            coefficients = rng.random((shares[0].array.shape[0], self.n_clusters))
            for _ in range(self.n_passes):
                fits = []
                for share in shares:
                    basis = rng.random((share.array.shape[1], self.n_clusters))
                    start = _balanced(_Factors(coefficients, basis))
                    fits.append(_stepped(share, start, 0.0, coefficients, self.n_inner))
                    coefficients = fits[-1].coefficients
            value = _objective(shares, fits, strengths, _consensus(fits, strengths))
            if best is None or value < best[0]:
                best = value, fits
        if best is None:
            raise AssertionError("a fit has at least one start")
        return best[1]

    def _read(self, consensus: Floats, rng: np.random.Generator) -> Labels:
        if self.labels == "argmax":
            return without_empty(consensus.argmax(axis=1), self.n_clusters)
        rows = unit_rows(consensus) if self.labels == "unit" else consensus
        return cluster_rows(rows, self.n_clusters, rng, n_init=self.n_init)[0]


class _Factors(NamedTuple):
    """Coefficients V and basis U of a view."""

    coefficients: Floats
    basis: Floats


def _stepped(
    share: Share, fit: _Factors, strength: float, consensus: Floats, n_steps: int
) -> _Factors:
    """Return the factors after some steps towards the view and the consensus.

    The columns of the basis must sum to 1, as they do afterwards.
    """
    for _ in range(n_steps):
        V, U = fit
        V = V * _ratio(
            share.times(U) + strength * consensus,
            V @ (U.T @ U) + strength * V,
        )
        U = U * _ratio(
            share.pull(V) + strength * np.einsum("nk,nk->k", V, consensus),
            U @ (V.T @ V) + strength * np.einsum("nk,nk->k", V, V) * U.sum(axis=0),
        )
        fit = _balanced(_Factors(V, U))
    return fit


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return numerator / np.maximum(denominator, _LEAST)


def _balanced(fit: _Factors) -> _Factors:
    """Return the same product with the columns of the basis scaled to sum to 1."""
    sums = fit.basis.sum(axis=0)
    # a column that died out takes no part, whatever its basis
    basis = np.where(sums > _LEAST, fit.basis, 1.0)
    return _Factors(
        fit.coefficients * np.where(sums > _LEAST, sums, 0.0), basis / basis.sum(axis=0)
    )


def _consensus(fits: Sequence[_Factors], strengths: Floats) -> Floats:
    weights = strengths if strengths.any() else None
    return np.asarray(np.average([fit.coefficients for fit in fits], axis=0, weights=weights))


def _view_objective(share: Share, fit: _Factors, strength: float, consensus: Floats) -> float:
    """Return the view's part of J for a basis with columns that sum to 1."""
    V, U = fit
    misfit = share.square_norm - 2.0 * np.vdot(share.times(U), V) + np.vdot(U.T @ U, V.T @ V)
    return float(misfit + strength * np.sum((V - consensus) ** 2))


def _objective(
    shares: Sequence[Share], fits: Sequence[_Factors], strengths: Floats, consensus: Floats
) -> float:
    parts = zip(shares, fits, strengths, strict=True)
    return sum(_view_objective(share, fit, strength, consensus) for share, fit, strength in parts)
