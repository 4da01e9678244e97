"""Distances, kernels and neighbour graphs of a single view.

Rows are samples, dense or in CSR form. Sparse rows are never made dense as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import iadd
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import row_norms

from manyview._typing import Matrix
from manyview.exceptions import warn_user
from manyview.views import Array

__all__ = [
    "adaptive_graph",
    "gram_matrix",
    "heat_graph",
    "knn_graph",
    "local_affinity_blocks",
    "nearest_neighbors",
    "normalized_laplacian",
    "rbf_kernel",
    "strongest",
    "warn_of_copies",
]

Neighbors: TypeAlias = tuple[npt.NDArray[np.intp], Matrix]
"""Indices of the nearest other rows of each row and their squared distances, nearest first."""

_ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative error of a squared distance
_TIED = 1e-9  # relative difference below which distances count as equal
_WIDTH_SAMPLES = 10_000  # the median distance is computed on at most this many samples
_LOCAL_WIDTH = 0.5  # of the kernel with local widths, as its authors recommend
_LEAST_WIDTH = 1e-3  # of its local widths, as a fraction of their mean; duplicates have none
_BLOCK_BYTES = 1 << 25  # distances held at a time
_CACHED_BYTES = 1 << 18  # distances finished at a time, so that they stay in the cache
_WELL_FILLED = 0.25  # sparse columns with a larger share of non-zeros are multiplied as dense


# Distances


def squared_distances(X: Array) -> Matrix:
    """Return the squared Euclidean distances between rows; those of duplicates are exactly 0."""
    [(_, squares)] = distance_blocks(X, block_bytes=8 * X.shape[0] ** 2)
    np.fill_diagonal(squares, 0.0)
    return squares


def distance_blocks(X: Array, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[int, Matrix]]:
    """Yield the first row of each block of rows and the block's squared distances to all rows."""
    n = X.shape[0]
    groups = _column_groups(X)
    lengths = np.sum([row_norms(group, squared=True) for group in groups], axis=0)
    step = max(1, block_bytes // (8 * n))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        yield begin, _distances([group[rows] for group in groups], groups, lengths[rows], lengths)


def gram_matrix(X: Array) -> Matrix:
    """Return ``X_c X_c'``, the inner products of the rows after centring the columns."""
    groups = _column_groups(X)
    gram = _product(groups, groups)
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    symmetric: Matrix = 0.5 * (gram + gram.T)
    return symmetric


def _column_groups(X: Array) -> list[Array]:
    """Split the columns into a dense group and a sparse one, whose products add up.

    A dense group is centred, since a common offset would cost digits. The median is used because
    a single distant row would move the mean away from all others.
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
    products = [ours @ theirs.T for ours, theirs in zip(left, right, strict=True)]
    dense = [product.toarray() if sp.issparse(product) else product for product in products]
    return np.asarray(reduce(iadd, dense))  # in place: the products are large


def _distances(left: list[Array], right: list[Array], x: Matrix, y: Matrix) -> Matrix:
    """Return ``|x|^2 - 2 x'y + |y|^2``, with 0 for values that rounding alone explains."""
    squares = _product(left, right)
    step = max(1, _CACHED_BYTES // (8 * y.size))
    for begin in range(0, x.size, step):
        block = squares[begin : begin + step]
        lengths = x[begin : begin + step, None] + y
        block *= -2.0
        block += lengths
        lengths *= _ROUNDING
        np.copyto(block, 0.0, where=block <= lengths)
    return squares


# Nearest neighbours


def nearest_neighbors(X: Array, n_neighbors: int, *, beyond: int = 0) -> Neighbors:
    """Return the ``n_neighbors + beyond`` nearest other rows; of tied rows the first ones.

    Raises ValueError if `n_neighbors` is not from 1 to the number of samples less 1 + `beyond`.
    """
    n = X.shape[0]
    most = n - 1 - beyond
    if isinstance(n_neighbors, bool):  # Python and scikit-learn accept it as an integer
        raise ValueError(f"n_neighbors={n_neighbors}; expected an integer of at least 1")
    if most < 1:
        raise ValueError(f"received {n} samples; a neighbour graph needs at least {n - most + 1}")
    if not 1 <= n_neighbors <= most:
        raise ValueError(f"n_neighbors={n_neighbors} with {n} samples; expected 1 to {most}")
    count = n_neighbors + beyond
    neighbors = np.empty((n, count), dtype=np.intp)
    squares = np.empty((n, count))
    for begin, distances in distance_blocks(X):
        rows = np.arange(begin, begin + distances.shape[0])
        distances[rows - begin, rows] = np.inf
        near, found = _smallest(distances, count)
        order = np.argsort(found, axis=1, kind="stable")
        neighbors[rows] = np.take_along_axis(near, order, axis=1)
        squares[rows] = np.take_along_axis(found, order, axis=1)
    return neighbors, squares


def _smallest(distances: Matrix, count: int) -> Neighbors:
    """Return columns and values of the smallest entries of each row, the first ones of a tie.

    Counts are full of ties. Without this rule rounding would decide between them, and dense and
    sparse rows would have different neighbours.
    """
    cut = np.partition(distances, count - 1, axis=1)[:, count - 1 : count]
    nearer = distances < cut * (1.0 - _TIED)
    tied = (distances <= cut * (1.0 + _TIED)) & ~nearer
    room = count - nearer.sum(axis=1, keepdims=True)
    chosen = nearer | (tied & (np.cumsum(tied, axis=1) <= room))
    near = np.nonzero(chosen)[1].reshape(-1, count)
    found = np.take_along_axis(distances, near, axis=1)
    return near, np.where(np.take_along_axis(tied, near, axis=1), cut, found)


def warn_of_copies(nearest: Sequence[Neighbors], n_neighbors: int, n_clusters: int) -> None:
    """Warn if a sample has more copies than neighbours in the graph of every view.

    All copies are then linked to the same few of them, which get a higher degree and another
    place in the embedding. Too few distinct samples for the clusters are reported elsewhere.
    """
    crowded = np.logical_and.reduce([squares[:, -1] == 0 for _, squares in nearest])
    if n_clusters == 1 or not crowded.any():
        return
    samples = np.flatnonzero(crowded)
    # the first of tied rows are taken, so that all copies share their first neighbour
    first = np.column_stack([np.minimum(samples, rows[samples, 0]) for rows, _ in nearest])
    _, counts = np.unique(first, axis=0, return_counts=True)
    copies = int(counts.max()) - 1
    if copies <= n_neighbors or (crowded.all() and counts.size < n_clusters):
        return
    most = max(int(np.bincount(column).max()) for column in first.T) - 1
    within = "" if most == copies else ", the number of its copies within one view"
    warn_user(
        f"a sample has {copies} copies, more than n_neighbors={n_neighbors}. The graph links all "
        "copies to the same few, so that equal samples can be assigned to different clusters. "
        f"Increase n_neighbors to {most}{within}, or remove copies",
        ConvergenceWarning,
    )


# Kernels


def median_width(X: Array, name: str | None = None, max_samples: int = _WIDTH_SAMPLES) -> float:
    """Return the median of all n^2 distances between rows, the zeros of the diagonal included.

    If it is 0, return the median of the positive distances. Of more than `max_samples` rows a
    random subset with a fixed seed is used. Raises ValueError if all rows are equal.
    """
    if X.shape[0] > max_samples:
        drawn = np.random.default_rng(0).choice(X.shape[0], max_samples, replace=False)
        X = X[np.sort(drawn)]
    return _median_width(distance_blocks(X), X.shape[0], name)


def _median_width(blocks: Iterable[tuple[int, Matrix]], n: int, name: str | None) -> float:
    pairs = np.empty(n * (n - 1) // 2)  # each stands for two of the n^2
    filled = 0
    for begin, squares in blocks:
        for row, distances in enumerate(squares, start=begin):
            pairs[filled : filled + n - 1 - row] = distances[row + 1 :]
            filled += n - 1 - row
    # in ascending order the n zeros of the diagonal come first, then every pair twice
    middle = [(place - n) // 2 for place in ((n * n - 1) // 2, n * n // 2)]
    pairs.partition([max(place, 0) for place in middle])
    width = float(np.mean([np.sqrt(pairs[place]) if place >= 0 else 0.0 for place in middle]))
    if width > 0:
        return width
    positive = pairs[pairs > 0]
    if positive.size == 0:
        which = "" if name is None else f" of view {name!r}"
        raise ValueError(f"all rows{which} are equal, so a kernel has no width; remove the view")
    return float(np.median(np.sqrt(positive)))


def rbf_kernel(X: Array, name: str | None = None) -> Matrix:
    """Return ``exp(-|x_i - x_j|^2 / (2 s^2))`` with s the :func:`median_width` of the rows."""
    kernel = squared_distances(X)
    n = X.shape[0]
    few = n <= _WIDTH_SAMPLES
    width = _median_width([(0, kernel)], n, name) if few else median_width(X, name)
    kernel *= -0.5 / width**2
    return np.exp(kernel, out=kernel)


def local_affinity_blocks(X: Array, n_neighbors: int) -> Iterator[tuple[int, Matrix]]:
    """Yield the first row of each block of rows and the block's affinities with local widths.

    They are ``exp(-d_ij^2 / (2 s_ij^2)) / s_ij`` up to a common factor, with squared Euclidean
    distances d, ``s_ij = (r_i + r_j + d_ij) / 6`` and r_i the mean of d_i over the nearest
    neighbours of i. Equal rows have affinity 1.
    """
    radii = nearest_neighbors(X, n_neighbors)[1].mean(axis=1)
    unit = float(radii.mean())
    radii = radii / (unit if unit > 0 else 1.0)
    for begin, squares in distance_blocks(X):
        rows = np.arange(begin, begin + squares.shape[0])
        squares[rows - begin, rows] = 0.0
        squares /= unit if unit > 0 else 1.0
        widths = squares + radii
        widths += radii[rows, None]
        widths *= _LOCAL_WIDTH / 3.0
        np.maximum(widths, _LOCAL_WIDTH * _LEAST_WIDTH if unit > 0 else 1.0, out=widths)
        squares /= widths
        squares *= squares
        squares *= -0.5
        np.exp(squares, out=squares)
        squares /= widths
        yield begin, squares


def strongest(affinities: Matrix, count: int) -> Neighbors:
    """Return columns and values of the largest positive entries of each row, the first of a tie."""
    near, inverse = _smallest(1.0 / affinities, count)
    return near, 1.0 / inverse


# Graphs


def knn_graph(X: Array, n_neighbors: int = 10) -> sp.csr_array:
    """Return the nearest-neighbour graph of the rows with heat weights."""
    return heat_graph(X, nearest_neighbors(X, n_neighbors))


def heat_graph(X: Array, nearest: Neighbors) -> sp.csr_array:
    """Return ``exp(-|x_i - x_j|^2 / (2 s^2))`` where i is a neighbour of j or j one of i."""
    neighbors, squares = nearest
    if squares.any():
        squares = squares / (2.0 * median_width(X) ** 2)
    graph = _graph(neighbors, np.exp(-squares))
    return sp.csr_array(graph.maximum(graph.T))


def adaptive_graph(nearest: Neighbors) -> sp.csr_array:
    """Return the adaptive-neighbour (PKN) graph for k neighbours of each row and one beyond.

    With squared distances ``d_1 <= ... <= d_(k+1)`` the weight of the j-th neighbour is
    ``(d_(k+1) - d_j) / (k d_(k+1) - d_1 - ... - d_k)``, or 1/k if all these distances are equal.
    The graph is the mean of these weights and their transpose.
    """
    neighbors, squares = nearest
    n_neighbors = neighbors.shape[1] - 1
    last = squares[:, -1:]
    weights = last - squares[:, :-1]
    total = weights.sum(axis=1, keepdims=True)
    differ = total > _ROUNDING * n_neighbors * last
    weights = np.where(differ, weights / np.where(differ, total, 1.0), 1.0 / n_neighbors)
    graph = _graph(neighbors[:, :-1], weights)
    return sp.csr_array((graph + graph.T) * 0.5)


def _graph(neighbors: npt.NDArray[np.intp], weights: Matrix) -> sp.csr_array:
    n, count = neighbors.shape
    begins = np.arange(0, n * count + 1, count)
    graph = sp.csr_array((weights.ravel(), neighbors.ravel(), begins), shape=(n, n))
    graph.eliminate_zeros()  # a weight that underflows is no edge
    return graph


def normalized_laplacian(W: Array) -> Array:
    """Return ``I - D^(-1/2) W D^(-1/2)`` of a symmetric graph; L_ii = 1 if i has no degree."""
    degree = np.asarray(W.sum(axis=1)).ravel()
    inverse = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    if sp.issparse(W):
        scale = sp.diags_array(inverse)
        laplacian = sp.eye_array(W.shape[0]) - scale @ W @ scale
        return sp.csr_array((laplacian + laplacian.T) * 0.5)
    laplacian = -(inverse[:, None] * W * inverse)
    laplacian[np.diag_indices_from(laplacian)] += 1.0
    return (laplacian + laplacian.T) * 0.5
