"""Distances and inner products of rows, dense or sparse, whole or block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.views import Array

__all__ = [
    "ROUNDING",
    "Nearest",
    "distance_blocks",
    "gram_matrix",
    "nearest_rows",
    "squared_distances",
]


ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Part of the rows' squared lengths below which a squared distance is rounding only."""

_BLOCK_BYTES = 1 << 25
_CACHED_BYTES = 1 << 18
_TIED = 1e-9  # part by which distances differ that count as equal
_WELL_FILLED = 0.25  # columns fuller than this are multiplied faster when dense


def squared_distances(X: Array) -> Matrix:
    """Return squared Euclidean distances between rows, none negative.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows; sparse ones are not densified.

    Returns
    -------
    ndarray of shape (n, n)
        Squared distances, of a row to itself exactly 0. Those below the rounding of the rows' own
        lengths are 0, so that duplicates are.
    """
    groups = _column_groups(X)
    lengths = _squared_lengths(groups)
    squares = _distances(groups, groups, lengths, lengths)
    np.fill_diagonal(squares, 0.0)
    return squares


def gram_matrix(X: Array) -> Matrix:
    """Return ``X_c X_c'`` with the columns of X centred, without centring sparse ones.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows.

    Returns
    -------
    ndarray of shape (n, n)
        Inner products of the centred rows.
    """
    groups = _column_groups(X)
    gram = _product(groups, groups)
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    symmetric: Matrix = 0.5 * (gram + gram.T)
    return symmetric


class Nearest(NamedTuple):
    """The nearest other rows of each row and squared distances, nearest first."""

    rows: npt.NDArray[np.intp]
    squares: Matrix


def nearest_rows(X: Array, count: int) -> Nearest:
    """Return the `count` nearest other rows of each row; of equally near ones the first."""
    n = X.shape[0]
    neighbors = np.empty((n, count), dtype=np.intp)
    squares = np.empty((n, count))
    for begin, distances in distance_blocks(X):
        rows = slice(begin, begin + distances.shape[0])
        distances[np.arange(distances.shape[0]), np.arange(n)[rows]] = np.inf
        near, found = _smallest(distances, count)
        order = np.argsort(found, axis=1, kind="stable")
        neighbors[rows] = np.take_along_axis(near, order, axis=1)
        squares[rows] = np.take_along_axis(found, order, axis=1)
    return Nearest(neighbors, squares)


def _smallest(distances: Matrix, count: int) -> tuple[npt.NDArray[np.intp], Matrix]:
    """Places and values of the smallest entries of each row, the first ones of those that tie.

    Counts are full of ties, among which rounding would choose otherwise for dense rows than for
    sparse ones, and for views in another order.
    """
    cut = np.partition(distances, count - 1, axis=1)[:, count - 1 : count]
    nearer = distances < cut * (1.0 - _TIED)
    tied = (distances <= cut * (1.0 + _TIED)) & ~nearer
    room = count - nearer.sum(axis=1, keepdims=True)
    chosen = nearer | (tied & (np.cumsum(tied, axis=1) <= room))
    near = np.nonzero(chosen)[1].reshape(-1, count)
    found = np.take_along_axis(distances, near, axis=1)
    return near, np.where(np.take_along_axis(tied, near, axis=1), cut, found)


def distance_blocks(X: Array) -> Iterator[tuple[int, Matrix]]:
    """Yield where a block of rows begins and its squared distances to all rows."""
    n = X.shape[0]
    groups = _column_groups(X)
    lengths = _squared_lengths(groups)
    step = max(1, _BLOCK_BYTES // (8 * n))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        block = [group[rows] for group in groups]
        yield begin, _distances(block, groups, lengths[rows], lengths)


def _column_groups(X: Array) -> list[Array]:
    """Columns of X in groups whose products add up: well filled ones dense, the rest sparse.

    A dense group is centred, which no distance notices: a common offset would cost it digits. By
    the median, since a single row far off would move a mean away from all others.
    """
    if not sp.issparse(X):
        return [X - np.median(X, axis=0)]
    filled = np.bincount(X.indices, minlength=X.shape[1]) > _WELL_FILLED * X.shape[0]
    if not filled.any():
        return [X]
    dense = X[:, np.flatnonzero(filled)].toarray()
    dense -= np.median(dense, axis=0)
    return [dense, X[:, np.flatnonzero(~filled)]]


def _product(left: list[Array], right: list[Array]) -> Matrix:
    total: Matrix | None = None
    for ours, theirs in zip(left, right, strict=True):
        product = ours @ theirs.T
        product = product.toarray() if sp.issparse(product) else np.asarray(product)
        total = product if total is None else np.add(total, product, out=total)
    if total is None:
        raise AssertionError("there is at least one group of columns")
    return total


def _distances(left: list[Array], right: list[Array], x: Matrix, y: Matrix) -> Matrix:
    squares = _product(left, right)
    step = max(1, _CACHED_BYTES // (8 * y.size))
    for begin in range(0, x.size, step):  # a few rows at a time stay near the processor
        block = squares[begin : begin + step]
        lengths = x[begin : begin + step, None] + y
        block *= -2.0
        block += lengths
        lengths *= ROUNDING
        np.copyto(block, 0.0, where=block <= lengths)
    return squares


def _squared_lengths(groups: list[Array]) -> Matrix:
    lengths = [np.asarray((group * group).sum(axis=1)).ravel() for group in groups]
    return np.asarray(np.sum(lengths, axis=0), dtype=np.float64)
