"""Warnings about a finished fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.mmc.solver import Fitted, Problem
from manyview.views import Views, has_equal_rows

__all__ = ["remark_on", "remark_on_rows"]


_NEARLY_ALL = 0.8  # of the squared length of rows
_TINY = np.finfo(np.float64).tiny


def remark_on(
    fitted: Fitted, problem: Problem, views: Views, *, gamma_given: bool, interrupted: bool
) -> str | None:
    """Return what the user has to know of a fit, and can do; None where all is well.

    Parameters
    ----------
    fitted : Fitted
        Where the sweeps have come to.
    problem : Problem
        What they minimised.
    views : Views
        What was fitted.
    gamma_given : bool
        Whether the user set gamma.
    interrupted : bool
        Whether the user ended the sweeps.
    """
    if interrupted:
        sweeps = len(fitted.objective)
        return f"interrupted: the result is the best so far, that of {sweeps} sweeps"
    here = [None] * len(views) if views.present is None else views.present.T
    if fitted.is_constant and all(map(has_equal_rows, views.arrays, here)):
        return "no view tells one sample from another: the labels say nothing"
    if fitted.is_zero:
        return (
            f"gamma={problem.gamma:.3g} is too large for these views: every factor went to "
            "zero, and the labels are what was left of the start. Use a smaller gamma"
        )
    if fitted.is_constant:
        way_out = _way_out(problem.gamma if gamma_given else None)
        return (
            "the model explains little beyond the cluster sizes: the labels are what was left of "
            f"the start, and predict and explain may mean little. {way_out}"
        )
    if not fitted.converged:
        return (
            f"the objective was still falling after max_iter={problem.max_iter} sweeps; raise "
            f"max_iter, or tol above {problem.tol:g}"
        )
    return None


def remark_on_rows(squares: Sequence[npt.NDArray[np.floating[Any]]]) -> str | None:
    """Return what the user has to know of features of very different size; None of others.

    Where one feature is nearly the whole row, rows of unit length are all but the same.

    Parameters
    ----------
    squares : sequence of ndarray
        The mean square of every feature of each view, of rows of unit length, and of the bias.
        Rows that lack the view count as zeros.
    """
    features = [of_view[:-1] for of_view in squares]
    if min(of_view.size for of_view in features) < 2:
        return None
    # the sum is the share of rows that have a length at all
    part = min(float(of_view.max() / max(of_view.sum(), _TINY)) for of_view in features)
    if part < _NEARLY_ALL:
        return None
    return (
        f"in every view one feature makes up at least {np.floor(100 * part):.0f} % of the squared "
        "length of rows, as if features were measured in different units: rows of unit length are "
        "all but the same there. normalize='columns' may tell more"
    )


def _way_out(gamma: float | None) -> str:
    """Return what may help; gamma is mentioned only if the caller set it, else it is None."""
    if gamma is None:
        return (
            "Samples may differ little beside their size, or a few large features decide it, such "
            'as numbers that count the samples: leave these out, or use normalize="columns"'
        )
    return (
        f"gamma={gamma:.3g} may be too large for these views; use a smaller one, or "
        'normalize="columns" if samples differ little beside their size'
    )
