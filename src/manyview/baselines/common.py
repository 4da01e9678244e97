"""Base classes, preprocessing and parameter checks shared by the baselines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Floats, Matrix
from manyview.base import MultiViewClusterer
from manyview.iterate import Iterated, warn_if_early
from manyview.linalg.partition import Labels, cluster_rows
from manyview.memory import check_memory
from manyview.views import Array, Views
from manyview.views.checks import ROUNDING_OF_MEAN

__all__ = [
    "AT_LEAST_ONE",
    "Baseline",
    "EmbeddingClusterer",
    "check_pairwise_memory",
    "column_moments",
    "column_scales",
    "concatenated",
    "scaled_arrays",
    "strength_per_view",
]

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
_NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


class Baseline(MultiViewClusterer, ABC):
    """Base of the baselines: checks the input, calls the method's `_fit` and records its course."""

    normalize: str | None
    objective_: Floats
    n_iter_: int
    # the warning about a fit that ends before it converges
    _monitored: ClassVar[str] = "the objective"
    _remedy: ClassVar[str] = "increase max_iter or tol"

    # parameters that have the same name in several methods have the same meaning and range
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [AT_LEAST_ONE],
        "n_neighbors": [AT_LEAST_ONE],
        "regularization": [_NOT_NEGATIVE, "array-like"],
        "max_iter": [AT_LEAST_ONE],
        "tol": [_NOT_NEGATIVE],
        "n_init": [AT_LEAST_ONE],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def fit(self, views: Any, y: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            The views; see :func:`manyview.as_views`.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        self
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        found = self._fit(checked)
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        self._record_views(checked)
        warn_if_early(found, what=self._monitored, remedy=self._remedy)
        return self

    @abstractmethod
    def _fit(self, views: Views) -> Iterated[Any]:
        """Run the method, set its attributes at the very end, and return the iterations."""


class EmbeddingClusterer(Baseline):
    """Base of the methods that cluster the rows of an embedding that does not depend on the seed.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The embedding.
    """

    n_init: int
    embedding_: Matrix

    def relabelled(self, random_state: Any) -> Labels:
        """Return the labels that a fit with another seed would give.

        The embedding is the same for every seed up to rounding. Only its clustering is repeated,
        so further seeds are cheap.

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
        return self._cluster(self.embedding_, self._generators(random_state)[1])

    @staticmethod
    def _generators(random_state: Any) -> list[np.random.Generator]:
        """Return the random generators of the eigensolver and of the labels."""
        seed = check_random_state(random_state).randint(2**31 - 1)
        return np.random.default_rng(seed).spawn(2)

    def _cluster(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        """Return the labels of the rows of an embedding."""
        return cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)[0]


def check_pairwise_memory(n_bytes: float, *, method: str, n_samples: int) -> None:
    """Raise NotEnoughMemoryError if matrices of samples by samples would not fit in memory."""
    check_memory(
        n_bytes,
        work=f"{method} on {n_samples} samples",
        matrices="samples by samples",
        way_out="AMGL, RMKMC, MultiNMF and MMC need no such matrices",
    )


def strength_per_view(name: str, value: Any, n_views: int) -> Floats:
    """Return the parameter `name` as one non-negative number per view."""
    expected = f"expected a non-negative number, or one for each of the {n_views} views"
    try:
        strengths = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r}; {expected}") from error
    if strengths.shape not in ((), (n_views,)):
        raise ValueError(f"{name} has shape {strengths.shape}; {expected}")
    if not ((strengths >= 0) & (strengths < np.inf)).all():
        raise ValueError(f"{name}={value!r}; {expected}")
    return np.array(np.broadcast_to(strengths, (n_views,)))


# Preprocessing


def scaled_arrays(
    views: Views | Sequence[Array],
    normalize: str | None,
    columns: Sequence[tuple[Matrix, Matrix]] | None = None,
) -> list[Array]:
    """Return the views in double precision, preprocessed; the input is not changed.

    ``"rows"`` scales samples to unit length and leaves zero rows as they are. ``"columns"``
    standardises features, and constant ones become 0; it makes sparse views dense. `columns` are
    the :func:`column_scales` of the training samples, by default those of `views`. ``"zscore"``
    standardises samples over their features; it makes sparse views dense too.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_arrays([np.array([[3, 4], [0, 0]])], "rows")
    [array([[0.6, 0.8],
           [0. , 0. ]])]
    """
    if normalize == "rows":
        return [_unit_length(array.astype(np.float64, copy=False)) for array in views]
    floats = _checked_floats(views)
    if normalize is None:
        return floats
    if normalize == "zscore":
        check_memory(
            8.0 * sum(X.shape[0] * X.shape[1] for X in floats if sp.issparse(X)),
            work="normalize='zscore' of sparse views",
            matrices="samples by features",
            way_out="Use normalize='rows', which keeps them sparse",
        )
        return [_standardised_samples(X.toarray() if sp.issparse(X) else X) for X in floats]
    if normalize != "columns":
        expected = "expected 'rows', 'columns', 'zscore' or None"
        raise ValueError(f"normalize={normalize!r}; {expected}")
    columns = column_scales(floats) if columns is None else columns
    return [
        ((X.toarray() if sp.issparse(X) else X) - mean) / deviation
        for X, (mean, deviation) in zip(floats, columns, strict=True)
    ]


def column_scales(views: Views | Sequence[Array]) -> list[tuple[Matrix, Matrix]]:
    """Return the mean and standard deviation of the features of each view.

    The deviation of a constant feature is replaced by 1. Sparse views are not made dense.
    """
    scales: list[tuple[Matrix, Matrix]] = []
    for mean, variance in map(column_moments, _checked_floats(views)):
        deviation = np.sqrt(variance)
        varies = deviation > ROUNDING_OF_MEAN * np.abs(mean)
        scales.append((mean, np.where(varies, deviation, 1.0)))
    return scales


def concatenated(arrays: Sequence[Array]) -> Array:
    """Return the concatenated views, ``[X_1 ... X_V]``; sparse if any of them is."""
    if len(arrays) == 1:
        return arrays[0]
    if any(sp.issparse(array) for array in arrays):
        return sp.hstack([sp.csr_array(array) for array in arrays], format="csr")
    return np.hstack(list(arrays))


def _checked_floats(views: Views | Sequence[Array]) -> list[Array]:
    """Return the views in double precision; raise if the squares of entries leave its range."""
    floats = [array.astype(np.float64, copy=False) for array in views]
    names = views.names if isinstance(views, Views) else [f"view{v}" for v in range(len(floats))]
    for name, array in zip(names, floats, strict=True):
        values = array.data if sp.issparse(array) else array
        peak = max(float(values.max()), -float(values.min())) if values.size else 0.0
        if peak and not 1e-140 < peak < 1e140:
            raise ValueError(
                f"view {name!r} has entries of size {peak:.3g}, whose squares leave the range of "
                "float64; rescale them, or use normalize='rows'"
            )
    return floats


def _unit_length(array: Array) -> Array:
    # dividing by the largest entry first keeps the squares in range
    peaks = abs(array).max(axis=1)
    array = _divided_rows(array, peaks.toarray().ravel() if sp.issparse(array) else peaks)
    return _divided_rows(array, np.sqrt(np.asarray((array * array).sum(axis=1)).ravel()))


def _standardised_samples(array: Matrix) -> Matrix:
    mean, deviation = array.mean(axis=1, keepdims=True), array.std(axis=1, keepdims=True)
    varies = deviation > ROUNDING_OF_MEAN * np.abs(mean)
    return np.asarray(np.where(varies, (array - mean) / np.where(varies, deviation, 1.0), 0.0))


def _divided_rows(array: Array, lengths: Matrix) -> Array:
    lengths = np.where(lengths > 0, lengths, 1.0)
    if sp.issparse(array):
        data = array.data / np.repeat(lengths, np.diff(array.indptr))
        return sp.csr_array((data, array.indices, array.indptr), shape=array.shape)
    return array / lengths[:, None]


def column_moments(array: Array) -> tuple[Floats, Floats]:
    """Return the mean and variance of each feature; a sparse array is not made dense."""
    if sp.issparse(array):
        mean, variance = mean_variance_axis(array, axis=0)
        return mean, variance
    return array.mean(axis=0), array.var(axis=0)
