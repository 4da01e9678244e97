"""Labels of an embedding by the rotation that brings it nearest to a one-hot indicator."""

from __future__ import annotations

import numpy as np

from manyview._typing import Matrix
from manyview.linalg.embedding import unit_rows
from manyview.linalg.partition import Labels

__all__ = ["rotate_to_labels"]


def rotate_to_labels(
    embedding: Matrix, rng: np.random.Generator, *, n_init: int = 1, max_iter: int = 100
) -> tuple[Labels, Matrix]:
    """Return labels and the orthogonal R of ``min |Y - F R|^2`` over R and one-hot Y.

    Parameters
    ----------
    embedding : ndarray of shape (n, k)
        F before its rows are scaled to unit length; rows of zeros stay.
    rng : numpy.random.Generator
        Source of the first row that the start is built from.
    n_init : int
        Number of starts, of which the nearest is kept.
    max_iter : int
        Most steps of a start.

    Returns
    -------
    labels : ndarray of shape (n,)
        Place of the largest entry in each row of ``F R``; a cluster may be empty.
    rotation : ndarray of shape (k, k)
        R.

    Examples
    --------
    >>> import numpy as np
    >>> turned = np.repeat(np.eye(2), 2, axis=0) @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> labels, R = rotate_to_labels(turned, np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    rows = unit_rows(embedding)
    best = -np.inf
    for _ in range(n_init):
        rotation = _spread_rows(rows, rng)
        reached = -np.inf
        for _ in range(max_iter):
            labels = (rows @ rotation).argmax(axis=1)
            sums = np.zeros((rows.shape[1], rows.shape[1]))
            np.add.at(sums, labels, rows)
            left, values, right = np.linalg.svd(sums.T)
            rotation = left @ right
            if values.sum() <= reached * (1 + 1e-12):
                break
            reached = float(values.sum())
        if reached > best:
            best, chosen = reached, rotation
    return (rows @ chosen).argmax(axis=1), chosen


def _spread_rows(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Rows of the embedding as little alike as can be, as columns."""
    k = rows.shape[1]
    start = np.empty((k, k))
    start[:, 0] = rows[rng.integers(rows.shape[0])]
    alike = np.zeros(rows.shape[0])
    for column in range(1, k):
        alike += np.abs(rows @ start[:, column - 1])
        start[:, column] = rows[alike.argmin()]
    return start
