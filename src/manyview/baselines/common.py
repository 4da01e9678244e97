"""Scaling, view weights, rotations, labels and memory limits shared by the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Floats, Matrix
from manyview.base import MultiViewClusterer
from manyview.baselines.graphs import Nearest
from manyview.exceptions import warn_user
from manyview.linalg.partition import Labels, cluster_rows, unit_rows
from manyview.memory import check_memory
from manyview.views import Array, Views
from manyview.views.checks import ROUNDING_OF_MEAN

__all__ = [
    "ColumnScale",
    "EmbeddingClusterer",
    "Share",
    "beside",
    "column_scales",
    "refuse_beyond",
    "rotate_to_labels",
    "scaled_arrays",
    "share_of",
    "strength_per_view",
    "warn_of_copies",
]


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


def refuse_beyond(
    bytes_needed: float, *, method: str, n_samples: int, limit: float | None = None
) -> None:
    """Raise before memory runs out.

    Parameters
    ----------
    bytes_needed : float
        What the work ahead will hold at once.
    method : str
        Who needs it, for the error.
    n_samples : int
        Number of samples, for the error.
    limit : float, optional
        Most that it may; see :func:`manyview.memory.check_memory`.

    Examples
    --------
    >>> refuse_beyond(8e10, method="KCTD", n_samples=10**5, limit=1e9)
    Traceback (most recent call last):
    ...
    manyview.exceptions.NotEnoughMemoryError: KCTD on 100000 samples needs 74.5 GiB of memory, for
    matrices of samples by samples, and 0.931 GiB may be used. AMGL, RMKMC,
    MultiNMF and MMC need none
    """
    check_memory(
        bytes_needed,
        work=f"{method} on {n_samples} samples",
        matrices="samples by samples",
        way_out="AMGL, RMKMC, MultiNMF and MMC need none",
        limit=limit,
    )


class EmbeddingClusterer(MultiViewClusterer):
    """Base of the methods that cluster the rows of an embedding which no seed changes.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The embedding.
    """

    n_init: int
    embedding_: Matrix

    def relabelled(self, random_state: Any) -> Labels:
        """Return the labels that a fit with another seed would give.

        The embedding is the same for every seed, but for rounding; only its clustering is done
        anew, so that repeats cost little.

        Parameters
        ----------
        random_state : int, RandomState instance or None
            Seed.

        Returns
        -------
        ndarray of shape (n_samples,)
            Cluster of each sample.
        """
        check_is_fitted(self, "labels_")
        return self._assigned(self.embedding_, _generators(random_state)[1])

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Return the sources of random numbers of the eigensolver and of the labels."""
        return _generators(self.random_state)

    def _assigned(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        """Return labels from an embedding."""
        return cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)[0]


def _generators(random_state: Any) -> tuple[np.random.Generator, np.random.Generator]:
    seed = check_random_state(random_state).randint(2**31 - 1)
    solver, labels = np.random.default_rng(seed).spawn(2)
    return solver, labels


def strength_per_view(name: str, value: Any, n_views: int) -> npt.NDArray[np.float64]:
    """Return a number of at least 0 for each view.

    Parameters
    ----------
    name : str
        What the parameter is called, for the error.
    value : float or array-like of shape (n_views,)
        One number for all, or one each.
    n_views : int
        Number of views.

    Returns
    -------
    ndarray of shape (n_views,)
        The numbers.

    Examples
    --------
    >>> strength_per_view("regularization", 0.5, 2)
    array([0.5, 0.5])
    """
    try:
        strengths = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r}; expected a number, or one for each view") from error
    if strengths.shape not in ((), (n_views,)):
        raise ValueError(
            f"{name} has shape {strengths.shape}; expected a number, or one for each of "
            f"{n_views} views"
        )
    if not (np.isfinite(strengths).all() and (strengths >= 0).all()):
        raise ValueError(f"{name}={value!r}; expected finite numbers of at least 0")
    return np.array(np.broadcast_to(strengths, (n_views,)))


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


_SMALLEST, _LARGEST = 1e-140, 1e140


class ColumnScale(NamedTuple):
    """Mean and standard deviation of the features of a view; 1 for the latter where it is 0."""

    mean: Matrix
    deviation: Matrix


def scaled_arrays(
    views: Sequence[Array],
    normalize: str | None,
    columns: Sequence[ColumnScale] | None = None,
) -> list[Array]:
    """Return the views in double precision, scaled.

    Parameters
    ----------
    views : sequence of ndarray or csr_array
        One array a view, rows as samples; not changed.
    normalize : {"rows", "columns"} or None
        Samples to unit Euclidean length, where rows of zeros stay; features to mean 0 and
        standard deviation 1, where constant ones become 0; or neither.
    columns : sequence of ColumnScale, optional
        What ``"columns"`` takes off and divides by, one a view: that of the training samples
        where others are scaled. By default that of `views`.

    Returns
    -------
    list of ndarray or csr_array
        Sparse views stay sparse but for ``"columns"``, which makes them dense: a feature less its
        mean has hardly any zeros.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_arrays([np.array([[3, 4], [0, 0]])], "rows")
    [array([[0.6, 0.8],
           [0. , 0. ]])]
    """
    if normalize == "rows":
        return [_unit_length(array.astype(np.float64, copy=False)) for array in views]
    floats = _floats(views)
    if normalize is None:
        return floats
    if normalize == "columns":
        scales = [_column_scale(array) for array in floats] if columns is None else columns
        return [
            ((array.toarray() if sp.issparse(array) else array) - scale.mean) / scale.deviation
            for array, scale in zip(floats, scales, strict=True)
        ]
    raise ValueError(f"normalize={normalize!r}; expected 'rows', 'columns' or None")


def column_scales(views: Sequence[Array]) -> list[ColumnScale]:
    """Return mean and deviation of the features of every view; sparse views are not densified."""
    return [_column_scale(array) for array in _floats(views)]


def beside(arrays: Sequence[Array]) -> Array:
    """Return the views side by side, ``[X_1 ... X_V]``: sparse if any of them is."""
    if len(arrays) == 1:
        return arrays[0]
    if any(sp.issparse(array) for array in arrays):
        return sp.hstack([sp.csr_array(array) for array in arrays], format="csr")
    return np.hstack(list(arrays))


def _floats(views: Sequence[Array]) -> list[Array]:
    """Return the views in double precision, in which their squares can be written."""
    floats = [array.astype(np.float64, copy=False) for array in views]
    names = views.names if isinstance(views, Views) else [f"view{v}" for v in range(len(floats))]
    for name, array in zip(names, floats, strict=True):
        _check_range(name, array)
    return floats


def _unit_length(array: Array) -> Array:
    # by the largest entry first, which keeps the squares in range
    if sp.issparse(array):
        peaks = abs(array).max(axis=1).toarray().ravel()
    else:
        peaks = np.abs(array).max(axis=1)
    array = _divided(array, peaks)
    return _divided(array, np.sqrt(np.asarray((array * array).sum(axis=1)).ravel()))


def _divided(array: Array, lengths: Matrix) -> Array:
    lengths = np.where(lengths > 0, lengths, 1.0)
    if sp.issparse(array):
        data = array.data / np.repeat(lengths, np.diff(array.indptr))
        return sp.csr_array((data, array.indices, array.indptr), shape=array.shape)
    return array / lengths[:, None]


def _check_range(name: str, array: Array) -> None:
    values = array.data if sp.issparse(array) else array
    peak = max(float(values.max()), -float(values.min())) if values.size else 0.0
    if peak and not _SMALLEST < peak < _LARGEST:
        raise ValueError(
            f"view {name!r} has entries of size {peak:.3g}, whose squares leave the range of "
            "float64; rescale them, or use normalize='rows'"
        )


def _column_scale(array: Array) -> ColumnScale:
    n = array.shape[0]
    mean = np.asarray(array.mean(axis=0), dtype=np.float64).ravel()
    if sp.issparse(array):
        # deviations at the entries that are there, and the mean itself at those that are not
        filled = np.bincount(array.indices, minlength=mean.size)
        apart = (array.data - mean[array.indices]) ** 2
        squares = np.bincount(array.indices, weights=apart, minlength=mean.size)
        variance = (squares + (n - filled) * mean**2) / n
    else:
        variance = np.asarray(array.var(axis=0), dtype=np.float64)
    deviation = np.sqrt(variance)
    varies = deviation > ROUNDING_OF_MEAN * np.abs(mean)
    return ColumnScale(mean, np.where(varies, deviation, 1.0))


_LARGEST_SHARES = 1e150  # sum of a view whose square can be written down


@dataclass(frozen=True)
class Share:
    """A view plus a number, over the sum of its entries: neither is applied to the array."""

    array: Array
    shift: float
    total: float
    square_norm: float

    def times(self, basis: Floats) -> Floats:
        """Return X U."""
        return self._finished(self.array @ basis, basis)

    def pull(self, coefficients: Floats) -> Floats:
        """Return X' V."""
        if sp.issparse(self.array):
            return self._finished(self.array.T @ coefficients, coefficients)
        # the same, in the order in which rows lie in memory
        return self._finished((coefficients.T @ self.array).T, coefficients)

    def _finished(self, product: Floats, factor: Floats) -> Floats:
        if self.shift:
            # what cancels can leave rounding below zero
            product = np.maximum(product + self.shift * factor.sum(axis=0), 0.0)
        return np.asarray(product / self.total)


def share_of(name: str, array: Array, negative: str) -> Share:
    """Return a view over the sum of its entries, none of them negative.

    Parameters
    ----------
    name : str
        What the view is called, for the errors.
    array : ndarray or csr_array of shape (n, d)
        The view, in float64.
    negative : {"raise", "shift", "clip"}
        What to do with negative entries: refuse them, subtract the smallest from all entries, or
        set them to zero.

    Returns
    -------
    Share
        The view; sparse ones stay sparse.
    """
    entries = array.data if sp.issparse(array) else array
    lowest = float(entries.min(initial=0.0))
    shift = 0.0
    if lowest < 0.0:
        if negative == "raise":
            raise ValueError(
                f"view {name!r} has negative entries, down to {lowest:.6g}: its factors are "
                "nonnegative; use negative='shift' or negative='clip'"
            )
        if negative == "shift":
            shift = -lowest
        else:
            array = array.maximum(0.0) if sp.issparse(array) else np.maximum(array, 0.0)
            entries = array.data if sp.issparse(array) else array
    size = float(array.shape[0]) * float(array.shape[1])
    with np.errstate(over="ignore"):
        plain = float(entries.sum())
        total = plain + shift * size
    if not 1 / _LARGEST_SHARES < total < _LARGEST_SHARES:
        raise ValueError(
            f"view {name!r} has entries that sum to {total:g}; expected a sum above 0, between "
            f"{1 / _LARGEST:g} and {_LARGEST:g}"
        )
    square_norm = (float(np.linalg.norm(entries)) / total) ** 2
    square_norm += (shift / total) * (2.0 * plain / total + shift * size / total)
    return Share(array, shift, total, square_norm)
