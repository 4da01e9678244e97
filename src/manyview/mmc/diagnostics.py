"""Warnings about a fit and its views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.mmc.solver import Fitted, Problem
from manyview.views import Views, has_equal_rows

__all__ = ["dominance_warning", "fit_warning"]


def fit_warning(
    fitted: Fitted, problem: Problem, views: Views, *, gamma: float | None, interrupted: bool
) -> str | None:
    """Return a warning about the result of a fit and its remedy, or None.

    `gamma` is what the user gave. A default gamma is not blamed.
    """
    if interrupted:
        done = len(fitted.objective)
        return f"interrupted: the result is the best so far, after {done} iterations"
    present = [None] * views.n_views if views.present is None else views.present.T
    if fitted.is_constant and all(map(has_equal_rows, views.arrays, present)):
        return "all samples are identical, so the labels are arbitrary"
    if fitted.is_zero:
        return (
            f"gamma={problem.gamma:.3g} is too large for these views: every factor became zero, "
            "and the labels are close to those of the initialisation. Use a smaller gamma"
        )
    if fitted.is_constant:
        remedy = (
            "The samples may differ little compared with their size, or a few large features "
            "such as row numbers may dominate: remove these, or use normalize='columns'"
            if gamma is None
            else f"gamma={gamma:.3g} may be too large for these views; use a smaller one, or "
            "normalize='columns' if the samples differ little compared with their size"
        )
        return (
            "the model explains little beyond the cluster sizes: the labels are close to those "
            f"of the initialisation, and predict and explain are unreliable. {remedy}"
        )
    if not fitted.converged:
        return (
            f"the objective was still falling after max_iter={problem.max_iter} iterations; raise "
            f"max_iter, or tol above {problem.tol:g}"
        )
    return None


def dominance_warning(squares: Sequence[npt.NDArray[np.floating[Any]]]) -> str | None:
    """Return a warning if one feature dominates the rows of every view, or None.

    `squares` are the mean squares of the features of each view, of rows of unit length, bias last.
    If one feature is nearly the whole row, all rows of unit length are nearly equal.
    """
    features = [of_view[:-1] for of_view in squares]
    if min(of_view.size for of_view in features) < 2:
        return None
    # rows that are zero or missing do not count: the sum is the share of the others
    tiny = np.finfo(np.float64).tiny
    part = min(float(of_view.max() / max(of_view.sum(), tiny)) for of_view in features)
    if part < 0.8:
        return None
    return (
        f"in every view one feature makes up at least {np.floor(100 * part):.0f} % of the squared "
        "length of the rows, as if features had different units. Rows of unit length are then "
        "nearly equal; normalize='columns' may help"
    )
