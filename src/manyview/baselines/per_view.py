"""A parameter that is one number for all views, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["strength_per_view"]


def strength_per_view(name: str, value: Any, n_views: int) -> npt.NDArray[np.float64]:
    """Return a number of at least 0 for each view.

    Parameters
    ----------
    name : str
        What the parameter is called, for the error.
    value : float or array-like of shape (n_views,)
        One number for all, or one each.
    n_views : int
        Number of views.

    Returns
    -------
    ndarray of shape (n_views,)
        The numbers.

    Examples
    --------
    >>> strength_per_view("regularization", 0.5, 2)
    array([0.5, 0.5])
    """
    try:
        strengths = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r}; expected a number, or one for each view") from error
    if strengths.shape not in ((), (n_views,)):
        raise ValueError(
            f"{name} has shape {strengths.shape}; expected a number, or one for each of "
            f"{n_views} views"
        )
    if not (np.isfinite(strengths).all() and (strengths >= 0).all()):
        raise ValueError(f"{name}={value!r}; expected finite numbers of at least 0")
    return np.array(np.broadcast_to(strengths, (n_views,)))
