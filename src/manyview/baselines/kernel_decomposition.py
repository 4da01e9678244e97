"""One symmetric factor for several kernels: ``K_v`` near ``B diag(a_v) B'``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from manyview._typing import Matrix
from manyview.iterate import Iterated, iterate

__all__ = [
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
