"""Spectral embeddings of graphs, k-means on their rows, and sizes of clusters."""

from __future__ import annotations

import warnings
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator
from scipy.special import entr
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from manyview._typing import Matrix
from manyview.linalg.eigen import lanczos, largest_eigenpairs
from manyview.linalg.threads import limited_threads

__all__ = [
    "Labels",
    "clear_embedding",
    "clear_weights",
    "cluster_rows",
    "effective_clusters",
    "graph_embedding",
    "has_collapsed",
    "matched_order",
    "unit_rows",
    "without_empty",
]

Labels = npt.NDArray[np.intp]

_ROWS_PER_VECTOR = 6  # with fewer rows per eigenvector, a dense decomposition is faster
_MORE_VECTORS = 50  # eigenvectors beyond the K-th, at most
_TOLERANCE = 1e-3  # of eigenvalues; 1e-6 gives the same labels of real data
_LEAST_WEIGHT = 1e-6  # if the largest weight is below, the eigenvalues do not differ


# Embeddings


def graph_embedding(adjacency: Any, n_components: int, *, rng: np.random.Generator) -> Matrix:
    """Return the top eigenvectors of a degree-normalised graph, shape (n, n_components).

    `adjacency` is a sparse array of symmetric, non-negative weights. Every connected component has
    one known eigenvector of eigenvalue 1. Lanczos can miss copies of a multiple eigenvalue, so it
    only searches for the others. With more components than `n_components`, the eigenvectors of
    the largest components are returned.
    """
    n = adjacency.shape[0]
    root = np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    normalised = (sp.diags_array(inverse) @ adjacency @ sp.diags_array(inverse)).tocsr()
    known = _component_vectors(adjacency, root, n_components)
    wanted = n_components - known.shape[1]
    if wanted == 0:
        return known
    if _ROWS_PER_VECTOR * n_components < n and n > 64:
        # deflation moves the known eigenvectors from 1 to -1, the other end of the spectrum
        single, components = normalised.astype(np.float32), sp.csr_array(known.astype(np.float32))
        deflated = LinearOperator(
            (n, n),
            matvec=lambda x: single @ x - 2.0 * (components @ (components.T @ x)),
            dtype=single.dtype,
        )
        start, n_vectors = rng.standard_normal(n), min(n, max(2 * wanted + 10, 30))
        options = {"n_vectors": n_vectors, "tol": _TOLERANCE}
        try:
            vectors = lanczos(deflated, wanted, start.astype(np.float32), rng, **options)[1]
            return np.hstack([known, vectors])
        except ArpackNoConvergence:
            pass
    vectors = largest_eigenpairs(normalised.toarray() - 2.0 * known @ known.T, wanted)[1]
    return np.hstack([known, vectors])


def _component_vectors(adjacency: Any, root: Matrix, most: int) -> Matrix:
    """Return the eigenvectors of eigenvalue 1 of the `most` largest components, largest first."""
    count, component = sp.csgraph.connected_components(adjacency, directed=False)
    rank = np.empty(count, dtype=np.intp)
    rank[np.argsort(-np.bincount(component), kind="stable")] = np.arange(count)
    weight = np.where(root > 0, root, 1.0)  # an isolated sample is a component of its own
    weight = weight / np.sqrt(np.bincount(component, weights=weight**2))[component]
    column = rank[component]
    vectors = np.zeros((component.size, min(count, most)))
    rows = np.flatnonzero(column < most)
    vectors[rows, column[rows]] = weight[rows]
    return vectors


def clear_embedding(
    adjacency: Any, n_clusters: int, *, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Return the weighted top eigenvectors with rows of unit length, and the eigenvalues.

    The weights are those of :func:`clear_weights`.
    """
    count = n_clusters + min(n_clusters, _MORE_VECTORS)
    vectors = graph_embedding(adjacency, min(count, adjacency.shape[0]), rng=rng)
    root = np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    scaled = np.divide(vectors.T, root, out=np.zeros_like(vectors.T), where=root > 0).T
    values = np.maximum(np.sum(scaled * (adjacency @ scaled), axis=0), 0.0)
    weights = clear_weights(values, n_clusters)
    return unit_rows(vectors[:, : weights.size] * weights), values


def clear_weights(values: Matrix, n_clusters: int) -> Matrix:
    """Return weights of the top eigenvectors for K clusters, from the eigenvalues.

    `values` are the M largest eigenvalues, or as many as there are, in descending order, where
    M = 2 K up to 50 clusters and K + 50 beyond. The k-th weight is
    ``(1 - l_M / l_k) min(1, (M - k) / (M - K))`` with eigenvalues l. The first factor compares an
    eigenvector with the M-th, which is noise: if K clusters show in fewer than K eigenvectors, the
    others get small weights. The second factor fades eigenvectors beyond the K-th out, because
    their order is arbitrary where eigenvalues are close. If eigenvalues do not differ, the first K
    weights are 1 and there are no others.

    Examples
    --------
    >>> clear_weights(np.array([1.0, 0.8, 0.5, 0.4]), 2)
    array([0.6, 0.5, 0.1])
    """
    more = min(n_clusters, _MORE_VECTORS)
    top = values[: n_clusters + more - 1]
    floor = values[-1] if values.size > n_clusters else 0.0
    weights = np.divide(top - floor, top, out=np.zeros_like(top), where=top > floor)
    if weights.max(initial=0.0) < _LEAST_WEIGHT:
        return np.ones_like(top[:n_clusters])
    left = n_clusters + more - np.arange(1, top.size + 1)
    return np.asarray(weights * np.minimum(1.0, left / more))


def unit_rows(rows: Matrix) -> Matrix:
    """Return `rows` scaled to unit length; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


# Clusters


class _Quiet:
    """Ignores warnings of k-means, in all threads, until the last thread is done.

    If each thread restored the filters that it found, overlapping calls would leave one behind.
    """

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore", ConvergenceWarning)
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._filters.__exit__(None, None, None)


_QUIET = _Quiet()


def cluster_rows(
    rows: Matrix, n_clusters: int, rng: np.random.Generator, *, n_init: int = 10
) -> tuple[Labels, Matrix]:
    """Return labels without empty clusters, and centres, of k-means on `rows`."""
    kmeans = KMeans(n_clusters, n_init=n_init, random_state=int(rng.integers(2**31 - 1)))
    # one thread: on shared cores, several threads wait for each other in every iteration
    # with fewer distinct rows than clusters, without_empty fills the clusters
    with _QUIET, limited_threads(1):
        labels = kmeans.fit_predict(rows)
    return without_empty(labels.astype(np.intp), n_clusters), kmeans.cluster_centers_


def without_empty(labels: Labels, n_clusters: int) -> Labels:
    """Return `labels` with the last member of the largest cluster moved to each empty one."""
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(sizes == 0):
        largest = int(sizes.argmax())
        moved = int(np.flatnonzero(labels == largest)[-1])
        labels[moved] = empty
        sizes[largest] -= 1
        sizes[empty] = 1
    return labels


def effective_clusters(sizes: npt.NDArray[Any]) -> float:
    """Return the exponential of the entropy of cluster sizes, which is K for K equal sizes."""
    return float(np.exp(entr(sizes / sizes.sum()).sum()))


def has_collapsed(sizes: npt.NDArray[Any], before: npt.NDArray[Any]) -> bool:
    """Return whether clusters vanished: less than half of the effective clusters beyond one remain.

    One cluster of nearly all samples beside tiny ones is no result, however well the model fits.

    Examples
    --------
    >>> has_collapsed(np.array([98, 1, 1]), before=np.array([30, 30, 40]))
    True
    """
    return effective_clusters(sizes) - 1.0 < 0.5 * (effective_clusters(before) - 1.0)


def matched_order(counts: npt.NDArray[np.int64]) -> tuple[list[int], list[int], int]:
    """Return orders of classes and of clusters that put matching pairs first, and their number.

    `counts` holds the samples of each class (row) in each cluster (column). The matching is that
    of the clustering accuracy; a pair without a common sample does not count. Clusters without a
    match come last, the largest first.

    Examples
    --------
    >>> matched_order(np.array([[1, 3, 0], [2, 0, 0]]))
    ([0, 1], [1, 0, 2], 2)
    """
    first, second = linear_sum_assignment(counts, maximize=True)
    pairs = [(int(i), int(j)) for i, j in zip(first, second, strict=True) if counts[i, j]]
    rows, columns = [i for i, _ in pairs], [j for _, j in pairs]
    other_rows = [row for row in range(counts.shape[0]) if row not in rows]
    other_columns = [column for column in range(counts.shape[1]) if column not in columns]
    other_columns.sort(key=lambda column: -int(counts[:, column].sum()))
    return rows + other_rows, columns + other_columns, len(pairs)
