"""Alignment of samples by row and of features by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.views.container import Array

__all__ = ["placed_rows"]


def placed_rows(array: Any, at: npt.NDArray[np.integer[Any]], n_samples: int) -> Array:
    """Put the rows of a view where their samples are; those of other samples are zero.

    Parameters
    ----------
    array : ndarray or sparse array of shape (len(at), n_features)
        The view.
    at : ndarray of int
        Place of each row.
    n_samples : int
        Number of all samples.

    Examples
    --------
    >>> placed_rows(np.array([[7], [5]]), np.array([2, 0]), 3).tolist()
    [[5], [0], [7]]
    """
    if len(at) == n_samples and (at == np.arange(n_samples)).all():
        return sp.csr_array(array) if sp.issparse(array) else array
    if sp.issparse(array):
        # one more row, an empty one, for the samples that are not here
        longer = sp.vstack([array, sp.csr_array((1, array.shape[1]), dtype=array.dtype)], "csr")
        source = np.full(n_samples, array.shape[0])
        source[at] = np.arange(len(at))
        return longer[source]
    placed = np.zeros((n_samples, array.shape[1]), dtype=array.dtype)
    placed[at] = array
    return placed
