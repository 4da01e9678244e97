"""What there is to say of a fit that has not come to its end, or to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyview.mmc.fit import Fitted
from manyview.views import Views, has_equal_rows

if TYPE_CHECKING:
    from manyview.mmc.estimator import MMC

__all__ = ["remark_on"]


def remark_on(model: MMC, fitted: Fitted, views: Views, *, interrupted: bool) -> str | None:
    """Return what the user has to know of a fit, and can do; None where all is well.

    Parameters
    ----------
    model : MMC
        The model, fitted.
    fitted : Fitted
        Where its sweeps have come to.
    views : Views
        What it was fitted to.
    interrupted : bool
        Whether the user ended them.
    """
    if interrupted:
        return f"interrupted: the result is the best so far, that of {model.n_iter_} sweeps"
    if fitted.is_constant and all(map(has_equal_rows, views.arrays)):
        return "no view tells one sample from another: the labels say nothing"
    if fitted.is_zero:
        return (
            f"gamma={model.gamma_:.3g} is too large for these views: every factor went to "
            "zero, and the labels are what was left of the start. Use a smaller gamma"
        )
    if fitted.is_constant:
        return (
            "the factors say next to nothing of single samples: the labels are what was left "
            f"of the start, and predict and explain may mean little. {_way_out(model)}"
        )
    if not fitted.converged:
        return (
            f"the objective was still falling after max_iter={model.max_iter} sweeps; raise "
            f"max_iter, or tol above {model.tol:g}"
        )
    return None


def _way_out(model: MMC) -> str:
    """Return what helps where a model says next to nothing: not of a gamma that nobody set."""
    if model.gamma is None:
        return (
            "Samples may differ little beside their size, or a few large features decide it, such "
            'as numbers that count the samples: leave these out, or use normalize="columns"'
        )
    return (
        f"gamma={model.gamma_:.3g} may be too large for these views; use a smaller one, or "
        'normalize="columns" if samples differ little beside their size'
    )
