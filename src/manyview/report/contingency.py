"""Classes against clusters, each cluster beside the class that it is matched to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyview.linalg.partition import matched_order

__all__ = ["Contingency", "contingency"]


@dataclass(frozen=True)
class Contingency:
    """A contingency table in matched order.

    Attributes
    ----------
    classes, clusters : list of int
        Of the rows and the columns; the first ``n_matched`` of each belong together.
    counts : ndarray of shape (n_classes, n_clusters)
        Samples of a class in a cluster.
    n_matched : int
    """

    classes: list[int]
    clusters: list[int]
    counts: npt.NDArray[np.int64]
    n_matched: int


def contingency(y: npt.ArrayLike, labels: npt.ArrayLike) -> Contingency:
    """Count the samples of each class in each cluster, under the matching that accuracy uses.

    Matched classes come in their own order, then those that no cluster is matched to; clusters
    follow them. A cluster is not matched to a class of which it has no sample.

    Parameters
    ----------
    y, labels : array-like of int of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    Contingency

    Examples
    --------
    >>> table = contingency([0, 0, 1, 1], [5, 5, 2, 5])
    >>> table.classes, table.clusters, table.counts.tolist()
    ([0, 1], [5, 2], [[2, 0], [1, 1]])
    """
    classes, rows = np.unique(y, return_inverse=True)
    clusters, columns = np.unique(labels, return_inverse=True)
    counts = np.zeros((len(classes), len(clusters)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    row_order, column_order, n_matched = matched_order(counts)
    return Contingency(
        [int(value) for value in classes[row_order]],
        [int(value) for value in clusters[column_order]],
        counts[np.ix_(row_order, column_order)],
        n_matched,
    )
