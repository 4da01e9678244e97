"""A place in the plane for every sample, by what the model predicts for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyview._typing import Floats

__all__ = ["places", "shares"]


_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


def shares(prediction: npt.ArrayLike, labels: npt.ArrayLike) -> Floats:
    """Return how far each sample belongs to each cluster, as shares that sum to 1.

    The prediction is written in the coordinates in which the centres of the clusters are the unit
    vectors, which serves an indicator with any orthonormal columns. Shares are the squares of the
    positive ones, so that a small prediction hardly moves a sample.

    Parameters
    ----------
    prediction : array-like of shape (n_samples, n_columns)
        As the estimator's ``transform`` returns.
    labels : array-like of int of shape (n_samples,)
        Clusters.

    Returns
    -------
    ndarray of shape (n_samples, n_clusters)
        By the clusters that occur, in their order.

    Examples
    --------
    >>> shares([[1.0, 0.0], [0.0, 2.0], [0.5, 1.0]], [0, 1, 1]).round(1)
    array([[1. , 0. ],
           [0. , 1. ],
           [0.2, 0.8]])
    """
    values = np.asarray(prediction, dtype=np.float64)
    _, at = np.unique(labels, return_inverse=True)
    members = np.eye(at.max() + 1)[at]
    centres = (members.T @ values) / members.sum(axis=0)[:, None]
    weights = np.maximum(values @ np.linalg.pinv(centres), 0) ** 2
    total = weights.sum(axis=1, keepdims=True)
    # a sample for which nothing is predicted stands with its cluster
    found: Floats = np.where(total > 1e-12, weights / np.maximum(total, 1e-12), members)
    return found


def places(prediction: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats, float]:
    """Return a place in the plane for every sample, that of every cluster, and its room.

    Clusters stand on a circle, those that share samples beside each other. A sample stands at the
    mean of these places by its shares; around it, the samples of a cluster are fanned out, the
    most certain in the middle, so that none hides another.

    Parameters
    ----------
    prediction : array-like of shape (n_samples, n_columns)
        As the estimator's ``transform`` returns.
    labels : array-like of int of shape (n_samples,)
        Clusters.

    Returns
    -------
    samples : ndarray of shape (n_samples, 2)
    clusters : ndarray of shape (n_clusters, 2)
        By the clusters that occur, in their order.
    room : float
        Radius within which the largest cluster is fanned out.
    """
    part = shares(prediction, labels)
    _, at, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    count = len(sizes)
    angle = np.empty(count)
    angle[_round(part, at)] = 2 * np.pi * np.arange(count) / count
    anchors = np.column_stack([np.sin(angle), np.cos(angle)])
    if count == 1:
        anchors[:] = 0
    room = 0.8 * float(np.sin(np.pi / max(count, 3)))  # of half the way to the next cluster
    samples = part @ anchors
    for cluster in range(count):
        members = np.flatnonzero(at == cluster)
        members = members[np.argsort(-part[members, cluster], kind="stable")]
        rank = np.arange(len(members))
        radius = room * np.sqrt(sizes[cluster] / sizes.max()) * np.sqrt(rank / len(members))
        turn = rank * _GOLDEN_ANGLE
        samples[members] += radius[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    return samples, anchors, room


def _round(part: Floats, at: npt.NDArray[np.intp]) -> list[int]:
    """Return the clusters in an order in which each follows the one it shares most with."""
    count = part.shape[1]
    common = np.zeros((count, count))
    np.add.at(common, at, part)
    common += common.T
    order, left = [0], set(range(1, count))
    while left:
        nearest = max(sorted(left), key=lambda cluster: common[order[-1], cluster])
        order.append(nearest)
        left.remove(nearest)
    return order
