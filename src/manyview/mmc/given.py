"""Starts that the caller gives, as labels or as an indicator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from manyview._typing import Matrix
from manyview.engine.arrays import to_numpy
from manyview.linalg.partition import Labels, without_empty
from manyview.linalg.polar import inverse_square_root
from manyview.views.checks import position

__all__ = ["Given"]


@dataclass(frozen=True, eq=False)
class Given:
    """A start that the caller gave.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        The cluster of each sample; every cluster has a member.
    indicator : ndarray of shape (n_samples, n_clusters) or None
        Of memberships, the nearest to them with orthonormal columns; None of labels, from which
        it follows.
    """

    labels: Labels
    indicator: Matrix | None

    @classmethod
    def of(cls, array: Any, n_samples: int, n_clusters: int) -> Self:
        """Read labels, or what each sample has to do with each cluster.

        Of the latter, the label of a sample is its largest entry, whatever the sign.

        Raises
        ------
        ValueError
            If the shape, the number of clusters or the rank does not fit, or entries are masked.

        Examples
        --------
        >>> Given.of([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], 3, 2).labels
        array([0, 1, 1])
        """
        if np.ma.is_masked(array):
            raise ValueError(
                "init is a masked array with masked entries; expected an entry for every sample"
            )
        array = np.asarray(to_numpy(array))
        if array.shape == (n_samples,):
            return cls(_as_numbers(array, n_clusters), None)
        if array.shape != (n_samples, n_clusters):
            raise ValueError(
                f"init has shape {array.shape}; expected labels of shape ({n_samples},) or an "
                f"indicator of shape ({n_samples}, {n_clusters})"
            )
        if array.dtype.kind not in "fiub":
            raise ValueError(f"init is of type {array.dtype}; expected real numbers")
        if not np.isfinite(array).all():
            n, k = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(
                f"init holds {array[n, k]} at {position((n, k))}; expected finite numbers"
            )
        largest = np.abs(array.astype(np.float64)).max()
        array = array.astype(np.float64) / max(float(largest), np.finfo(np.float64).tiny)
        root, null = inverse_square_root(array.T @ array)
        if null.shape[1]:
            raise ValueError(
                f"init has {n_clusters} columns but rank {n_clusters - null.shape[1]}: "
                "each cluster needs a column of its own"
            )
        # of the entries as they are: orthonormal columns are larger the smaller a cluster is
        labels = np.abs(array).argmax(axis=1).astype(np.intp)
        return cls(without_empty(labels, n_clusters), np.asarray(array @ root))


def _as_numbers(array: Any, n_clusters: int) -> Labels:
    """Return labels of any type as numbers from 0 on."""
    try:
        names, labels = np.unique(array, return_inverse=True)
    except TypeError:
        raise ValueError("init holds labels of types that cannot be compared") from None
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise ValueError("init holds labels that are NaN")
    if len(names) != n_clusters:
        raise ValueError(
            f"init holds {len(names)} different labels; expected n_clusters={n_clusters}"
        )
    return labels.astype(np.intp)
