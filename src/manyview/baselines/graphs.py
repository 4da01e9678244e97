"""Kernels, neighbour graphs and Laplacians: what spectral methods share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.baselines.distances import (
    ROUNDING,
    Nearest,
    distance_blocks,
    nearest_rows,
    squared_distances,
)
from manyview.views import Array

__all__ = [
    "adaptive_graph",
    "heat_graph",
    "knn_graph",
    "median_width",
    "nearest_neighbors",
    "normalized_laplacian",
    "pkn_graph",
    "rbf_kernel",
]


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
