"""KCTD: one symmetric factorisation of the kernels of all views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.optimize
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer
from manyview.baselines.common import refuse_beyond, scaled_arrays
from manyview.baselines.graphs import rbf_kernel
from manyview.iterate import Iterated, iterate, warn_if_early
from manyview.linalg.partition import cluster_rows
from manyview.memory import check_memory

__all__ = [
    "KCTD",
    "Factors",
    "decompose_admm",
    "decompose_lbfgs",
    "misfit_and_slope",
    "with_unit_columns",
]


_SPLIT_TOL = 1e-4  # the largest part of B by which its two copies may differ at the end
_ROUNDING = 1e-15  # misfits below it are differences of equal numbers
_WINDOW = 10  # steps of L-BFGS judged together: a single short one does not mean the end


class Factors(NamedTuple):
    """B, one row a sample, and A, one row a view."""

    shared: Matrix
    weights: Matrix


def decompose_admm(
    kernels: Sequence[Matrix],
    start: Matrix,
    *,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[int, float], None] = lambda done, misfit: None,
) -> Iterated[Factors]:
    """Decompose with B split into two copies, B and P, that a multiplier Y draws together.

    Parameters
    ----------
    kernels : sequence of ndarray of shape (n, n)
        Symmetric matrices K_v.
    start : ndarray of shape (n, rank)
        Both copies at the start; A starts at ones.
    max_iter : int
        Most iterations.
    tol : float
        Relative change of the misfit to stop at, once the copies agree.
    on_iteration : callable, optional
        Called with the number of iterations done and the misfit.

    Returns
    -------
    Iterated
        Factors, misfits as parts of ``sum_v |K_v|^2``, and whether the end was reached.
    """
    energy = _energy(kernels)
    ones: Matrix = np.ones((len(kernels), start.shape[1]))
    penalty = max(float(np.mean(np.diag(_gram(start, ones)))), np.finfo(np.float64).tiny)

    def step(state: _Copies) -> tuple[_Copies, float]:
        second, weights, multiplier = state.second, state.weights, state.multiplier
        products = [_product(kernel, second) for kernel in kernels]
        pulled = _weighted(products, weights) + penalty * second + multiplier
        first = _right_solve(_gram(second, weights), penalty, pulled)
        products = [_product(kernel, first) for kernel in kernels]
        pulled = _weighted(products, weights) + penalty * first - multiplier
        second = _right_solve(_gram(first, weights), penalty, pulled)
        multiplier = multiplier + penalty * (second - first)
        weights = _best_weights(_inner(products, second), first.T @ first, second.T @ second)
        # the copies are still apart: weights refitted to one of them make its own misfit
        gram, inner = first.T @ first, _inner(products, first)
        fitted = _best_weights(inner, gram, gram)
        misfit = max(_misfit(energy, inner, gram, fitted), 0.0)
        return _Copies(first, second, multiplier, weights, fitted), misfit

    def settled(state: _Copies, misfits: Sequence[float]) -> bool:
        size = max(float(np.linalg.norm(state.first)), 1e-300)
        apart = float(np.linalg.norm(state.second - state.first)) / size
        return apart < _SPLIT_TOL and _settled(misfits, tol, 1)

    found = iterate(
        step,
        _Copies(start, start, np.zeros_like(start), ones, ones),
        max_iter=max_iter,
        settled=settled,
        on_iteration=on_iteration,
    )
    factors = Factors(found.state.first, found.state.fitted)
    return Iterated(factors, found.objective, found.converged, found.interrupted)


class _Copies(NamedTuple):
    """Two copies of B and their multiplier, A as both copies see it, and as the first does."""

    first: Matrix
    second: Matrix
    multiplier: Matrix
    weights: Matrix
    fitted: Matrix


def decompose_lbfgs(
    kernels: Sequence[Matrix],
    start: Matrix,
    *,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[int, float], None] = lambda done, misfit: None,
) -> Iterated[Factors]:
    """Decompose by descent on B and A together; parameters as those of `decompose_admm`."""
    energy = _energy(kernels)
    n_entries = start.size
    best = np.concatenate([start.ravel(), np.ones(len(kernels) * start.shape[1])])
    misfits: list[float] = []

    def value_and_slope(point: Matrix) -> tuple[float, Matrix]:
        shared = point[:n_entries].reshape(start.shape)
        weights = point[n_entries:].reshape(len(kernels), -1)
        misfit, slope_shared, slope_weights = misfit_and_slope(kernels, energy, shared, weights)
        return misfit, np.concatenate([slope_shared.ravel(), slope_weights.ravel()])

    def record(intermediate_result: Any) -> None:
        nonlocal best
        best = intermediate_result.x.copy()
        misfits.append(max(float(intermediate_result.fun), 0.0))
        on_iteration(len(misfits), misfits[-1])
        if _settled(misfits, tol, _WINDOW):
            raise StopIteration

    interrupted = False
    try:
        result = scipy.optimize.minimize(
            value_and_slope,
            best,
            jac=True,
            method="L-BFGS-B",
            callback=record,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": 1e-12},
        )
    except KeyboardInterrupt:
        if not misfits:
            raise
        interrupted = True
    if not misfits:
        misfits.append(max(float(result.fun), 0.0))
    # a line search that finds nothing lower is at a minimum up to rounding
    converged = len(misfits) < max_iter or _settled(misfits, tol, _WINDOW)
    shared = best[:n_entries].reshape(start.shape)
    factors = Factors(shared, best[n_entries:].reshape(len(kernels), -1))
    return Iterated(factors, misfits, converged and not interrupted, interrupted)


def misfit_and_slope(
    kernels: Sequence[Matrix], energy: float, shared: Matrix, weights: Matrix
) -> tuple[float, Matrix, Matrix]:
    """Return the misfit as a part of `energy`, and its gradients in B and in A."""
    gram = shared.T @ shared
    products = [_product(kernel, shared) for kernel in kernels]
    inner = _inner(products, shared)
    slope_shared = 4.0 * (shared @ _gram(shared, weights) - _weighted(products, weights))
    slope_weights = 2.0 * (weights @ (gram * gram) - inner)
    misfit = _misfit(energy, inner, gram, weights)
    return misfit, slope_shared / energy, slope_weights / energy


def with_unit_columns(factors: Factors) -> Factors:
    """Return the same decomposition with columns of B of unit length, zero ones left alone."""
    norms = np.linalg.norm(factors.shared, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    return Factors(factors.shared / norms, factors.weights * norms**2)


def _energy(kernels: Sequence[Matrix]) -> float:
    return float(sum(np.vdot(kernel, kernel) for kernel in kernels))


def _misfit(energy: float, inner: Matrix, gram: Matrix, weights: Matrix) -> float:
    """Return the misfit as a part of `energy`, from b_r'K_v b_r and B'B alone."""
    return 1.0 + float(np.sum(weights * (weights @ (gram * gram) - 2.0 * inner))) / energy


def _product(kernel: Matrix, factor: Matrix) -> Matrix:
    """Return the product of a symmetric kernel with a narrow factor, in the faster order."""
    return np.asarray((factor.T @ kernel).T)


def _inner(products: Sequence[Matrix], factor: Matrix) -> Matrix:
    return np.array([(product * factor).sum(axis=0) for product in products])


def _best_weights(inner: Matrix, gram: Matrix, other: Matrix) -> Matrix:
    """Return the A that fits best, from b_r'K_v p_r and the Gram matrices of B and P."""
    # columns that run together leave the weights free: take the smallest
    return np.asarray(np.linalg.lstsq(gram * other, inner.T, rcond=None)[0].T)


def _weighted(products: Sequence[Matrix], weights: Matrix) -> Matrix:
    """Sum of the products K_v B with the columns weighted by each view."""
    total: Matrix = products[0] * weights[0]
    for product, row in zip(products[1:], weights[1:], strict=True):
        total += product * row
    return total


def _gram(factor: Matrix, weights: Matrix) -> Matrix:
    gram: Matrix = (factor.T @ factor) * (weights.T @ weights)
    return gram


def _right_solve(gram: Matrix, penalty: float, rows: Matrix) -> Matrix:
    """Return ``rows (gram + penalty I)^-1``."""
    shifted = gram + penalty * np.eye(gram.shape[0])
    return np.asarray(np.linalg.solve(shifted, rows.T).T)


def _settled(misfits: Sequence[float], tol: float, steps: int) -> bool:
    """Whether the last `steps` changed the misfit by less than a part `tol`, or it is nothing."""
    if len(misfits) <= steps:
        return False
    before, after = misfits[-1 - steps], misfits[-1]
    return abs(before - after) <= tol * max(before, _ROUNDING)


class KCTD(MultiViewClusterer):
    """Kernel tensor decomposition: k-means on a factor that the kernels of all views share.

    The RBF kernels K_v of the views are the slices of an N x N x V tensor. Its symmetric
    decomposition of rank R has one row b_i a sample and one row a_v a view::

        min over B (N x R), A (V x R) of  sum_v | K_v - B diag(a_v) B' |^2

    and the clusters are those of k-means on the rows of B.

    This is a reconstruction: the decomposition is that of a method for incomplete data, whose
    missing entries and sparsity term are left out, and the optimiser follows the same group's
    way of splitting a symmetric factor. It is no faithful copy of the authors' program.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    rank : int, optional
        Rank of the decomposition, R. By default `n_clusters`.
    solver : {"admm", "lbfgs"}, default="admm"
        ``"admm"`` splits B into two copies and alternates; it is not monotone. ``"lbfgs"``
        descends on (B, A) together, monotonically, and commonly ends at a slightly lower misfit.
        The clusters can depend on which: see Notes.
    max_iter : int, default=200
        Most iterations. Either solver commonly takes 300 to 2000 before the misfit settles, and
        more where there are many clusters.
    tol : float, default=1e-6
        Stop when an iteration of ``"admm"`` changes the misfit by less than this part of it and
        the two copies of B agree to 1e-4, or ten of ``"lbfgs"`` together change it by less.
    unit_columns : bool, default=False
        Scale the columns of B to unit length before k-means, and A against them. The scale of a
        column of B against that of A is not determined by the misfit, and k-means sees it.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features, or neither.
    n_init : int, default=1
        Number of starts of k-means.
    random_state : int, RandomState instance or None, default=None
        Seed of the factors and of k-means.
    verbose : int, default=0
        1 shows a bar with the misfit.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, rank)
        Shared factor B.
    view_weights_ : ndarray of shape (n_views, rank)
        Weights A of the columns of B in each view.
    objective_ : ndarray of shape (n_iter_,)
        Misfit after every iteration, as a part of ``sum_v |K_v|^2``.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw: the number of views, and of each its number of features, its name and the
        names of its features, or None.

    Notes
    -----
    One kernel a view is kept, V N^2 numbers; a fit that would need more than half of the
    machine's memory is refused. Only the products K_v B are formed, O(V N^2 R) an iteration.
    There is no `predict`: a sample that was not there has no row in B.

    Where one nearly constant direction holds almost all of every kernel, as it does on raw word
    counts, the directions that tell clusters apart weigh little in the misfit, and the clusters
    depend on how far it is lowered. Results should name `solver`, `max_iter` and `unit_columns`.

    References
    ----------
    L. He, C.-T. Lu, Y. Chen, J. Zhang, L. Shen, P. S. Yu, F. Wang. A Self-Organizing Tensor
    Architecture for Multi-View Clustering. ICDM 2018; KCTD is among the methods compared there.

    Examples
    --------
    >>> from manyview.baselines import KCTD
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=60, n_clusters=3, random_state=0)
    >>> model = KCTD(n_clusters=3, solver="lbfgs", max_iter=1000, random_state=0).fit(views)
    >>> model.embedding_.shape, model.view_weights_.shape
    ((60, 3), (2, 3))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"admm", "lbfgs"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "unit_columns": ["boolean"],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        rank: int | None = None,
        solver: str = "admm",
        max_iter: int = 200,
        tol: float = 1e-6,
        unit_columns: bool = False,
        normalize: str | None = None,
        n_init: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.rank = rank
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.unit_columns = unit_columns
        self.normalize = normalize
        self.n_init = n_init
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
        KCTD
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        n_samples, n_views = checked.n_samples, len(checked)
        rank = self.n_clusters if self.rank is None else int(self.rank)
        refuse_beyond(8 * (n_views + 2) * n_samples**2, method="KCTD", n_samples=n_samples)
        check_memory(
            32.0 * rank * rank,  # four Gram matrices at a time
            work=f"KCTD with rank={rank}",
            matrices="rank by rank",
            way_out="Use a smaller rank",
        )
        rng = self._generator()
        arrays = scaled_arrays(checked, self.normalize)
        kernels = [rbf_kernel(X, name) for X, name in zip(arrays, checked.names, strict=True)]
        solve = {"admm": decompose_admm, "lbfgs": decompose_lbfgs}[self.solver]
        with self._progress(self.max_iter, "misfit") as show:
            found = solve(
                kernels,
                0.1 * rng.standard_normal((n_samples, rank)),
                max_iter=self.max_iter,
                tol=self.tol,
                on_iteration=show,
            )
        factors = with_unit_columns(found.state) if self.unit_columns else found.state
        self.labels_, _ = cluster_rows(factors.shared, self.n_clusters, rng, n_init=self.n_init)
        self._record_views(checked)
        self.embedding_ = factors.shared
        self.view_weights_ = factors.weights
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        warn_if_early(
            found,
            what=f"the misfit of solver={self.solver!r}",
            remedy="raise max_iter: either solver commonly takes 300 to 2000, and more where there "
            "are many clusters",
        )
        return self
