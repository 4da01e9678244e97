"""Samples with more copies than neighbours, which a graph of neighbours does not treat alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manyview.baselines.distances import Nearest
from manyview.warn import warn_user

__all__ = ["warn_of_copies"]


def warn_of_copies(nearest: Sequence[Nearest], n_neighbors: int, n_clusters: int) -> None:
    """Warn where a sample has more copies than neighbours in the graph of every view.

    All copies are then linked to the same few of them, which have a degree, and a place in the
    embedding, of their own.

    Parameters
    ----------
    nearest : sequence of Nearest
        At least `n_neighbors` nearest rows of each sample in each view.
    n_neighbors : int
        Neighbours of a sample in the graphs.
    n_clusters : int
        Number of clusters. Of a single one, and of more than there are distinct samples, which is
        told elsewhere, there is nothing to say.
    """
    crowded = np.logical_and.reduce([near.squares[:, -1] == 0 for near in nearest])
    if n_clusters == 1 or not crowded.any():
        return
    samples = np.flatnonzero(crowded)
    # of equally near rows the first are taken, so that all copies name the same one
    first = np.column_stack([np.minimum(samples, near.rows[samples, 0]) for near in nearest])
    _, counts = np.unique(first, axis=0, return_counts=True)
    copies = int(counts.max()) - 1
    if copies <= n_neighbors or (crowded.all() and counts.size < n_clusters):
        return
    most = max(int(np.bincount(column).max()) for column in first.T) - 1
    within = "" if most == copies else ", its copies within a view"
    warn_user(
        f"a sample has {copies} copies, more than n_neighbors={n_neighbors}: the graph links all "
        "copies to the same few, and samples that are the same can come into different clusters; "
        f"raise n_neighbors to {most}{within}, or leave copies out",
        ConvergenceWarning,
    )
