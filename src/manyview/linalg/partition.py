"""Partitions: k-means on the rows of an embedding, labels without empty clusters."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.special import entr
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from manyview._typing import Matrix
from manyview.linalg.threads import limited_threads

__all__ = [
    "Labels",
    "cluster_rows",
    "effective_clusters",
    "has_collapsed",
    "matched_order",
    "without_empty",
]

Labels = npt.NDArray[np.intp]


def cluster_rows(
    rows: Matrix, n_clusters: int, rng: np.random.Generator, *, n_init: int = 10
) -> tuple[Labels, Matrix]:
    """Return labels, every cluster with a member, and the centres of k-means on `rows`."""
    kmeans = KMeans(n_clusters, n_init=n_init, random_state=int(rng.integers(2**31 - 1)))
    # one thread: on shared cores others would wait for each other in every iteration
    with warnings.catch_warnings(), limited_threads(1):
        # fewer distinct rows than clusters: mended below
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = kmeans.fit_predict(rows)
    return without_empty(labels.astype(np.intp), n_clusters), kmeans.cluster_centers_


def without_empty(labels: Labels, n_clusters: int) -> Labels:
    """Return `labels` with each empty cluster given the last member of the largest one."""
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(sizes == 0):
        largest = int(sizes.argmax())
        moved = int(np.flatnonzero(labels == largest)[-1])
        labels[moved] = empty
        sizes[largest] -= 1
        sizes[empty] = 1
    return labels


def effective_clusters(sizes: Matrix) -> float:
    """Return the exponential of the entropy of the cluster sizes: K when they are equal."""
    return float(np.exp(entr(sizes / sizes.sum()).sum()))


def has_collapsed(sizes: Matrix, before: Matrix) -> bool:
    """Return whether clusters were lost: of those beside the first, less than half is left.

    One cluster of nearly all samples beside some of one or two is no result, however well it can be
    explained. Clusters are counted by :func:`effective_clusters`.

    Examples
    --------
    >>> has_collapsed(np.array([98, 1, 1]), before=np.array([30, 30, 40]))
    True
    """
    return effective_clusters(sizes) - 1.0 < 0.5 * (effective_clusters(before) - 1.0)


def matched_order(counts: npt.NDArray[np.int64]) -> tuple[list[int], list[int], int]:
    """Return orders of classes and clusters in which those that belong together are side by side.

    The matching is that of the accuracy. A pair without a common sample does not count.
    What has no match comes last, the largest cluster first.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_clusters)
        Samples of a class in a cluster.

    Returns
    -------
    rows, columns : list of int
        The orders.
    n_matched : int
        How many at the start of both belong together.

    Examples
    --------
    >>> matched_order(np.array([[1, 3, 0], [2, 0, 0]]))
    ([0, 1], [1, 0, 2], 2)
    """
    first, second = linear_sum_assignment(counts, maximize=True)
    pairs = [(int(i), int(j)) for i, j in zip(first, second, strict=True) if counts[i, j]]
    rows, columns = [i for i, _ in pairs], [j for _, j in pairs]
    left = [row for row in range(counts.shape[0]) if row not in rows]
    over = [column for column in range(counts.shape[1]) if column not in columns]
    over.sort(key=lambda column: -int(counts[:, column].sum()))
    return rows + left, columns + over, len(pairs)
