"""Kernel tensor decomposition (KCTD): one symmetric factorisation of the kernels of all views.

The estimator comes first, then its two solvers. In the solvers B has one row per sample and A one
row per view, as in the objective ``sum_v |K_v - B diag(a_v) B'|^2``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.optimize
from sklearn.utils._param_validation import StrOptions

from manyview._typing import Matrix, Scaling
from manyview.baselines.common import AT_LEAST_ONE, Baseline, check_pairwise_memory, scaled_arrays
from manyview.baselines.graphs import rbf_kernel
from manyview.iterate import Iterated, iterate
from manyview.linalg.partition import cluster_rows
from manyview.memory import check_memory
from manyview.views import Views

__all__ = ["KCTD"]

_SPLIT_TOL = 1e-4  # relative difference of the two copies of B at convergence of ADMM
_ROUNDING = 1e-15  # misfits below it are rounding errors
_WINDOW = 10  # L-BFGS iterations judged together, because single ones may be short

Factors: TypeAlias = tuple[Matrix, Matrix]  # B and A


class KCTD(Baseline):
    """Kernel tensor decomposition: k-means on a factor shared by the kernels of all views.

    The RBF kernels K_v of the views are the slices of an N x N x V tensor. Its symmetric
    decomposition of rank R has one row b_i per sample and one row a_v per view::

        min over B (N x R), A (V x R) of  sum_v | K_v - B diag(a_v) B' |^2

    k-means on the rows of B gives the labels.

    This is a reconstruction and not a faithful copy of the authors' program. The decomposition is
    that of a method for incomplete data, without its missing entries and sparsity term, and the
    solver splits the symmetric factor as in other work of the same group.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    rank : int, optional
        Rank of the decomposition, R. By default `n_clusters`.
    solver : {"admm", "lbfgs"}, default="admm"
        ``"admm"`` splits B into two copies and alternates; it is not monotone. ``"lbfgs"``
        minimises over (B, A) jointly and monotonically, and usually reaches a slightly lower
        misfit. The labels can depend on the solver; see Notes.
    max_iter : int, default=200
        Maximum number of iterations. Both solvers commonly need 300 to 2000 to converge, and more
        with many clusters.
    tol : float, default=1e-6
        Stop when the misfit changes by less than this fraction, in one iteration of ``"admm"``
        after which the two copies of B agree to 1e-4, or in ten iterations of ``"lbfgs"``.
    unit_columns : bool, default=False
        Whether to scale the columns of B to unit length before k-means, and A accordingly. The
        misfit does not determine the scale of B relative to A, but k-means depends on it.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features, or neither.
    n_init : int, default=1
        Number of initialisations of k-means.
    random_state : int, RandomState instance or None, default=None
        Seed of the factors and of k-means.
    verbose : int, default=0
        1 shows a progress bar with the misfit.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, rank)
        Shared factor B.
    view_weights_ : ndarray of shape (n_views, rank)
        Weights A of the columns of B in each view.
    objective_ : ndarray of shape (n_iter_,)
        Misfit after every iteration, as a fraction of ``sum_v |K_v|^2``.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    The kernels take V N^2 numbers; a fit that would need more than half of the memory is rejected.
    An iteration takes O(V N^2 R). There is no `predict`: B has rows of fitted samples only.

    If one nearly constant direction holds almost all of every kernel, as on raw word counts, the
    directions that separate clusters have little influence on the misfit, and the labels depend
    on how far it is minimised. Results should state `solver`, `max_iter` and `unit_columns`.

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

    _monitored = "the misfit"
    _remedy = (
        "increase max_iter: both solvers commonly need 300 to 2000 iterations, and more with many "
        "clusters"
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "rank": [AT_LEAST_ONE, None],
        "solver": [StrOptions({"admm", "lbfgs"})],
        "unit_columns": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        rank: int | None = None,
        solver: Literal["admm", "lbfgs"] = "admm",
        max_iter: int = 200,
        tol: float = 1e-6,
        unit_columns: bool = False,
        normalize: Scaling | None = None,
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

    def _fit(self, views: Views) -> Iterated[Any]:
        n = views.n_samples
        rank = self.n_clusters if self.rank is None else int(self.rank)
        check_pairwise_memory(8 * (views.n_views + 2) * n**2, method="KCTD", n_samples=n)
        check_memory(
            32.0 * rank * rank,  # four Gram matrices at a time
            work=f"KCTD with rank={rank}",
            matrices="rank by rank",
            way_out="Use a smaller rank",
        )
        rng = self._generator()
        arrays = scaled_arrays(views, self.normalize)
        kernels = [rbf_kernel(X, name) for X, name in zip(arrays, views.names, strict=True)]
        solve = decompose_admm if self.solver == "admm" else decompose_lbfgs
        initial = 0.1 * rng.standard_normal((n, rank))
        with self._progress(self.max_iter, "misfit") as show:
            found = solve(kernels, initial, max_iter=self.max_iter, tol=self.tol, on_iteration=show)
        B, A = with_unit_columns(*found.state) if self.unit_columns else found.state
        self.labels_, _ = cluster_rows(B, self.n_clusters, rng, n_init=self.n_init)
        self.embedding_ = B
        self.view_weights_ = A
        return found


def with_unit_columns(B: Matrix, A: Matrix) -> Factors:
    """Return the same decomposition with columns of B of unit length; zero columns stay."""
    norms = np.linalg.norm(B, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    return B / norms, A * norms**2


class _Split(NamedTuple):
    """The iterate of ADMM: copies B and P with multiplier Y, A for both, and A for B alone."""

    B: Matrix
    P: Matrix
    Y: Matrix
    A: Matrix
    A_of_B: Matrix


def decompose_admm(
    kernels: Sequence[Matrix],
    initial: Matrix,
    *,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[int, float], None] = lambda done, misfit: None,
) -> Iterated[Factors]:
    """Decompose by ADMM with two copies B = P of the factor, initially equal; A is initially 1.

    The objective is the misfit of B as a fraction of ``sum_v |K_v|^2``.
    """
    energy = _energy(kernels)
    ones: Matrix = np.ones((len(kernels), initial.shape[1]))
    mu = max(float(np.mean(np.diag(_gram(initial, ones)))), np.finfo(np.float64).tiny)

    def best_copy(other: Matrix, A: Matrix, Y: Matrix) -> tuple[Matrix, list[Matrix]]:
        """Return the best copy of the factor for the other one, and the products with that."""
        products = [_product(K, other) for K in kernels]
        M = _weighted(products, A) + mu * other + Y
        G = _gram(other, A) + mu * np.eye(other.shape[1])
        return np.asarray(np.linalg.solve(G, M.T).T), products

    def update(state: _Split) -> tuple[_Split, float]:
        _, P, Y, A, _ = state
        B, _ = best_copy(P, A, Y)
        P, products = best_copy(B, A, -Y)
        Y = Y + mu * (P - B)
        A = _best_weights(_inner(products, P), B.T @ B, P.T @ P)
        # B and P still differ, so the misfit of B alone is that with A fitted to B
        gram, inner = B.T @ B, _inner(products, B)
        A_of_B = _best_weights(inner, gram, gram)
        misfit = max(_misfit(energy, inner, gram, A_of_B), 0.0)
        return _Split(B, P, Y, A, A_of_B), misfit

    def converged(state: _Split, misfits: Sequence[float]) -> bool:
        size = max(float(np.linalg.norm(state.B)), 1e-300)
        difference = float(np.linalg.norm(state.P - state.B)) / size
        return difference < _SPLIT_TOL and _converged(misfits, tol, 1)

    found = iterate(
        update,
        _Split(initial, initial, np.zeros_like(initial), ones, ones),
        max_iter=max_iter,
        settled=converged,
        on_iteration=on_iteration,
    )
    factors = found.state.B, found.state.A_of_B
    return Iterated(factors, found.objective, found.converged, found.interrupted)


def decompose_lbfgs(
    kernels: Sequence[Matrix],
    initial: Matrix,
    *,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[int, float], None] = lambda done, misfit: None,
) -> Iterated[Factors]:
    """Decompose by L-BFGS on (B, A); arguments and result are those of `decompose_admm`."""
    energy = _energy(kernels)
    best = np.concatenate([initial.ravel(), np.ones(len(kernels) * initial.shape[1])])
    misfits: list[float] = []

    def factors(point: Matrix) -> Factors:
        B, A = point[: initial.size], point[initial.size :]
        return B.reshape(initial.shape), A.reshape(len(kernels), -1)

    def misfit_and_gradient(point: Matrix) -> tuple[float, Matrix]:
        misfit, gradient_B, gradient_A = misfit_and_gradients(kernels, energy, *factors(point))
        return misfit, np.concatenate([gradient_B.ravel(), gradient_A.ravel()])

    def record(intermediate_result: Any) -> None:
        nonlocal best
        best = intermediate_result.x.copy()
        misfits.append(max(float(intermediate_result.fun), 0.0))
        on_iteration(len(misfits), misfits[-1])
        if _converged(misfits, tol, _WINDOW):
            raise StopIteration

    interrupted = False
    try:
        result = scipy.optimize.minimize(
            misfit_and_gradient,
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
    # a line search that finds no lower misfit is at a minimum up to rounding
    converged = len(misfits) < max_iter or _converged(misfits, tol, _WINDOW)
    return Iterated(factors(best), misfits, converged and not interrupted, interrupted)


def misfit_and_gradients(
    kernels: Sequence[Matrix], energy: float, B: Matrix, A: Matrix
) -> tuple[float, Matrix, Matrix]:
    """Return the misfit as a fraction of `energy`, and its gradients in B and in A."""
    gram = B.T @ B
    products = [_product(K, B) for K in kernels]
    inner = _inner(products, B)
    gradient_B = 4.0 * (B @ _gram(B, A) - _weighted(products, A))
    gradient_A = 2.0 * (A @ (gram * gram) - inner)
    return _misfit(energy, inner, gram, A), gradient_B / energy, gradient_A / energy


def _misfit(energy: float, inner: Matrix, gram: Matrix, A: Matrix) -> float:
    """Return the misfit as a fraction of `energy`, from ``b_r'K_v b_r`` and ``B'B`` alone."""
    return 1.0 + float(np.sum(A * (A @ (gram * gram) - 2.0 * inner))) / energy


def _energy(kernels: Sequence[Matrix]) -> float:
    return float(sum(np.vdot(K, K) for K in kernels))


def _product(K: Matrix, B: Matrix) -> Matrix:
    """Return ``K B`` for a symmetric K, in the faster order."""
    return np.asarray((B.T @ K).T)


def _inner(products: Sequence[Matrix], P: Matrix) -> Matrix:
    """Return ``b_r'K_v p_r`` for every view v and column r, from the products ``K_v B``."""
    return np.array([(product * P).sum(axis=0) for product in products])


def _best_weights(inner: Matrix, gram: Matrix, other: Matrix) -> Matrix:
    """Return the A of the best fit, from ``b_r'K_v p_r`` and the Gram matrices of B and P."""
    # least squares: collinear columns leave the weights undetermined
    return np.asarray(np.linalg.lstsq(gram * other, inner.T, rcond=None)[0].T)


def _weighted(products: Sequence[Matrix], A: Matrix) -> Matrix:
    """Return ``sum_v K_v B diag(a_v)``."""
    parts = [product * a for product, a in zip(products, A, strict=True)]
    return np.asarray(np.sum(parts, axis=0))


def _gram(B: Matrix, A: Matrix) -> Matrix:
    return np.asarray((B.T @ B) * (A.T @ A))


def _converged(misfits: Sequence[float], tol: float, window: int) -> bool:
    """Return whether the last `window` iterations changed the misfit by at most a part `tol`."""
    if len(misfits) <= window:
        return False
    before, after = misfits[-1 - window], misfits[-1]
    return abs(before - after) <= tol * max(before, _ROUNDING)
