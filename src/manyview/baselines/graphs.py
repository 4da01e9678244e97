"""Distances, kernels and neighbour graphs of single views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.views import Array

__all__ = [
    "ROUNDING",
    "Nearest",
    "adaptive_graph",
    "distance_blocks",
    "gram_matrix",
    "heat_graph",
    "knn_graph",
    "median_width",
    "nearest_neighbors",
    "nearest_rows",
    "normalized_laplacian",
    "pkn_graph",
    "rbf_kernel",
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


_WIDTH_SAMPLES = 10_000  # beyond, the median distance is that among this many samples


def median_width(X: Array, name: str | None = None) -> float:
    """Return the median of all n^2 distances between rows, those of rows to themselves included.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows. Of more than 10,000, as many drawn with a fixed seed stand for all.
    name : str, optional
        What to call `X` in the error.

    Returns
    -------
    float
        The median, or that of the positive distances where it is 0.

    Raises
    ------
    ValueError
        If all rows are equal.

    Examples
    --------
    >>> import numpy as np
    >>> median_width(np.array([[0.0], [3.0]]))
    1.5
    """
    if X.shape[0] > _WIDTH_SAMPLES:
        drawn = np.random.default_rng(0).choice(X.shape[0], _WIDTH_SAMPLES, replace=False)
        X = X[np.sort(drawn)]
    return _median_width(distance_blocks(X), X.shape[0], name)


def _median_width(blocks: Iterable[tuple[int, Matrix]], n: int, name: str | None) -> float:
    """Return the median width from the squared distances, block of rows by block of rows."""
    pairs = np.empty(n * (n - 1) // 2)  # each stands for two of the n^2
    filled = 0
    for begin, squares in blocks:
        for row, distances in enumerate(squares, start=begin):
            pairs[filled : filled + n - 1 - row] = distances[row + 1 :]
            filled += n - 1 - row
    # of all n^2 in order, the zeros of the diagonal come first and every pair twice after them
    middle = [(place - n) // 2 for place in ((n * n - 1) // 2, n * n // 2)]
    pairs.partition([max(place, 0) for place in middle])
    width = float(np.mean([np.sqrt(pairs[place]) if place >= 0 else 0.0 for place in middle]))
    if width > 0:
        return width
    positive = pairs[pairs > 0]
    if positive.size == 0:
        which = "" if name is None else f" of view {name!r}"
        raise ValueError(
            f"all rows{which} are equal: there is no distance to measure a kernel's width by; "
            "leave the view out"
        )
    return float(np.median(np.sqrt(positive)))


def rbf_kernel(X: Array, name: str | None = None) -> Matrix:
    """Return ``exp(-|x_i - x_j|^2 / (2 s^2))`` with s the :func:`median_width` of the rows.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows.
    name : str, optional
        What to call `X` in the error that all its rows are equal.

    Returns
    -------
    ndarray of shape (n, n)
        Kernel, 1 on the diagonal.
    """
    kernel = squared_distances(X)
    few = X.shape[0] <= _WIDTH_SAMPLES
    width = _median_width([(0, kernel)], X.shape[0], name) if few else median_width(X, name)
    kernel *= -0.5 / width**2
    return np.exp(kernel, out=kernel)


def knn_graph(X: Array, n_neighbors: int = 10) -> sp.csr_array:
    """Return the graph of nearest neighbours with heat weights.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows.
    n_neighbors : int
        Neighbours of each row, itself not counted, fewer than n.

    Returns
    -------
    csr_array of shape (n, n)
        ``exp(-|x_i - x_j|^2 / (2 s^2))`` where i is among the neighbours of j or the other way
        round, s the :func:`median_width`.
    """
    return heat_graph(X, nearest_neighbors(X, n_neighbors))


def heat_graph(X: Array, nearest: Nearest) -> sp.csr_array:
    """Return the graph of :func:`knn_graph` for neighbours that are known."""
    squares = nearest.squares
    if squares.any():
        squares = squares / (2.0 * median_width(X) ** 2)
    graph = _graph(nearest.rows, np.exp(-squares))
    return sp.csr_array(graph.maximum(graph.T))


def pkn_graph(X: Array, n_neighbors: int = 10) -> sp.csr_array:
    """Return the graph of adaptive neighbours.

    With ``d_1 <= ... <= d_(k+1)`` the squared distances of a row to the nearest others, the
    weight of its j-th neighbour is ``(d_(k+1) - d_j) / (k d_(k+1) - d_1 - ... - d_k)``, or 1/k
    where all these distances are equal. The graph is the mean of these weights and their
    transpose.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows.
    n_neighbors : int
        Neighbours k of each row, itself not counted, at most n - 2.

    Returns
    -------
    csr_array of shape (n, n)
        Weights.
    """
    return adaptive_graph(nearest_neighbors(X, n_neighbors, beyond=1))


def adaptive_graph(nearest: Nearest) -> sp.csr_array:
    """Return the graph of :func:`pkn_graph` for neighbours that are known, and one beyond them."""
    neighbors, squares = nearest
    n_neighbors = neighbors.shape[1] - 1
    last = squares[:, -1:]
    weights = last - squares[:, :-1]
    total = weights.sum(axis=1, keepdims=True)
    differ = total > ROUNDING * n_neighbors * last
    weights = np.where(differ, weights / np.where(differ, total, 1.0), 1.0 / n_neighbors)
    graph = _graph(neighbors[:, :-1], weights)
    return sp.csr_array((graph + graph.T) * 0.5)


def nearest_neighbors(X: Array, n_neighbors: int, *, beyond: int = 0) -> Nearest:
    """Return the neighbours of each row, nearest first, or raise where there are too few rows.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows.
    n_neighbors : int
        Neighbours of each row, itself not counted.
    beyond : int
        Nearest rows wanted after these.

    Returns
    -------
    Nearest
        ``n_neighbors + beyond`` rows and squared distances for each row.
    """
    _check_neighbors(n_neighbors, X.shape[0], beyond + 1)
    return nearest_rows(X, n_neighbors + beyond)


def normalized_laplacian(W: Array) -> Array:
    """Return ``I - D^(-1/2) W D^(-1/2)`` of a symmetric graph, 1 on the diagonal for no degree.

    Parameters
    ----------
    W : ndarray or sparse array of shape (n, n)
        Weights, none negative.

    Returns
    -------
    ndarray or csr_array of shape (n, n)
        Symmetric, of the kind of `W`.
    """
    degree = np.asarray(W.sum(axis=1)).ravel()
    inverse = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    if sp.issparse(W):
        scale = sp.diags_array(inverse)
        laplacian = sp.eye_array(W.shape[0]) - scale @ W @ scale
        return sp.csr_array((laplacian + laplacian.T) * 0.5)
    laplacian = -(inverse[:, None] * W * inverse)
    laplacian[np.diag_indices_from(laplacian)] += 1.0
    return (laplacian + laplacian.T) * 0.5


def _graph(neighbors: npt.NDArray[np.intp], weights: Matrix) -> sp.csr_array:
    n, count = neighbors.shape
    begins = np.arange(0, n * count + 1, count)
    graph = sp.csr_array((weights.ravel(), neighbors.ravel(), begins), shape=(n, n))
    graph.eliminate_zeros()  # a weight that underflows is no edge
    return graph


def _check_neighbors(n_neighbors: int, n_samples: int, fewer: int) -> None:
    if isinstance(n_neighbors, bool):  # an integer to Python, and to scikit-learn's own check
        raise ValueError(f"n_neighbors={n_neighbors}; expected a whole number of at least 1")
    if n_samples <= fewer:
        raise ValueError(
            f"received {n_samples} samples; a graph of neighbours needs at least {fewer + 1}"
        )
    if not 1 <= n_neighbors <= n_samples - fewer:
        raise ValueError(
            f"n_neighbors={n_neighbors} with {n_samples} samples; expected 1 to {n_samples - fewer}"
        )
