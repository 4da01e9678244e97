"""Spectral embeddings and k-means on their rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.optimize import linear_sum_assignment
from scipy.special import entr
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from manyview._typing import Matrix
from manyview.linalg.eigen import largest_by_products, largest_eigenpairs
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


_ROWS_PER_VECTOR = 6  # or fewer, and a dense decomposition is faster
_LEAST_WEIGHT = 1e-6  # of the clearest eigenvector, below which eigenvalues do not differ


def graph_embedding(adjacency: Any, n_components: int, *, rng: np.random.Generator) -> Matrix:
    """Return the top eigenvectors of a degree-normalised graph.

    Parameters
    ----------
    adjacency : sparse array of shape (n, n)
        Symmetric, non-negative weights.
    n_components : int
        Number of eigenvectors.
    rng : numpy.random.Generator
        Source of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (n, n_components)
        Orthonormal eigenvectors, largest eigenvalue first.

    Notes
    -----
    Every connected component has one eigenvector of eigenvalue 1, known beforehand. Lanczos can
    miss copies of a multiple eigenvalue, so these are set aside and only the rest is iterated.
    With more components than eigenvectors wanted, those of the largest components are returned.
    """
    n = adjacency.shape[0]
    root = np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    normalised = (sp.diags_array(inverse) @ adjacency @ sp.diags_array(inverse)).tocsr()
    known = _component_vectors(adjacency, root, n_components)
    wanted = n_components - known.shape[1]
    if wanted == 0:
        return known
    if _ROWS_PER_VECTOR * n_components >= n or n <= 64:
        return np.hstack([known, _dense_vectors(normalised, known, wanted)])

    # shifting the known vectors from 1 to -1, the end of the spectrum, takes them out of the way
    deflated = scipy.sparse.linalg.LinearOperator(
        (n, n),
        matvec=lambda x: normalised @ x - 2.0 * (known @ (known.T @ x)),
        dtype=normalised.dtype,
    )
    start = rng.standard_normal(n)
    try:
        n_vectors = min(n, max(2 * wanted + 10, 30))
        _, vectors = largest_by_products(
            deflated, wanted, start, rng, n_vectors=n_vectors, tol=1e-6
        )
    except scipy.sparse.linalg.ArpackNoConvergence:
        return np.hstack([known, _dense_vectors(normalised, known, wanted)])
    return np.hstack([known, vectors])


def clear_embedding(adjacency: Any, n_clusters: int, *, rng: np.random.Generator) -> Matrix:
    """Return the top eigenvectors, weighted by :func:`clear_weights`; unit rows.

    Parameters
    ----------
    adjacency : sparse array of shape (n, n)
        Symmetric, non-negative weights.
    n_clusters : int
        Number of clusters, K.
    rng : numpy.random.Generator
        Source of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (n, n_weights)
        The embedding, of as many columns as there are weights.
    """
    vectors = graph_embedding(adjacency, min(2 * n_clusters, adjacency.shape[0]), rng=rng)
    root = np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    scaled = np.divide(vectors.T, root, out=np.zeros_like(vectors.T), where=root > 0).T
    values = np.maximum(np.sum(scaled * (adjacency @ scaled), axis=0), 0.0)
    weights = clear_weights(values, n_clusters)
    return unit_rows(vectors[:, : weights.size] * weights)


def clear_weights(values: Matrix, n_clusters: int) -> Matrix:
    """Return how much each of the top eigenvectors says of K clusters, by the eigenvalues.

    The k-th counts ``(1 - l_2K / l_k) min(1, 2 - k / K)``, with l_k its eigenvalue. The first
    factor is how far it stands above one that K clusters have no use for: where clusters show in
    fewer than K eigenvectors, the others are noise, and rows of unit length would give it the same
    weight. By the second, those beyond the K-th count less and less: which one comes as the K-th is
    chance where eigenvalues are close, and a cluster may show in a later one.

    Parameters
    ----------
    values : ndarray
        The 2 K largest eigenvalues, or as many as there are, largest first; the last is noise.
    n_clusters : int
        Number of clusters, K.

    Returns
    -------
    ndarray of shape (2 * n_clusters - 1,), or shorter if there are fewer
        Weights. Where eigenvalues do not differ, 1 for each of the first K, and no more.

    Examples
    --------
    >>> clear_weights(np.array([1.0, 0.8, 0.5, 0.4]), 2)
    array([0.6, 0.5, 0.1])
    """
    top = values[: 2 * n_clusters - 1]
    floor = values[-1] if values.size > n_clusters else 0.0
    weights = np.divide(top - floor, top, out=np.zeros_like(top), where=top > floor)
    if weights.max(initial=0.0) < _LEAST_WEIGHT:
        return np.ones_like(top[:n_clusters])
    return np.asarray(weights * np.minimum(1.0, 2.0 - np.arange(1, top.size + 1) / n_clusters))


def unit_rows(rows: Matrix) -> Matrix:
    """Return `rows` scaled to unit length; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def _dense_vectors(normalised: Any, known: Matrix, wanted: int) -> Matrix:
    deflated = normalised.toarray() - 2.0 * known @ known.T
    return largest_eigenpairs(deflated, wanted)[1]


def _component_vectors(adjacency: Any, root: Matrix, most: int) -> Matrix:
    """Eigenvectors of eigenvalue 1, one per component, largest component first, `most` at most."""
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
