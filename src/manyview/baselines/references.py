"""Reference methods: k-means and spectral clustering of the concatenated views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.utils._param_validation import Interval, StrOptions

from manyview.base import MultiViewClusterer
from manyview.baselines.common import beside, scaled_arrays
from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, cluster_rows, unit_rows
from manyview.views import Array

__all__ = ["KMeansBeside", "MiniBatchBeside", "SpectralBeside"]


class _Beside(MultiViewClusterer, ABC):
    """Base of methods for one view, given all of them side by side.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, standardise its features, or neither.
    random_state : int, RandomState instance or None, default=None
        Seed.
    verbose : int, default=0
        Ignored: there is nothing to show.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        normalize: str | None = "rows",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, views: Any, y: Any = None) -> Self:
        """Cluster the samples; `y` is ignored."""
        checked = self._setup_fit(views)
        X = beside(scaled_arrays(checked, self.normalize))
        self.labels_ = self._clustered(X, self._generator())
        self._record_views(checked)
        return self

    @abstractmethod
    def _clustered(self, X: Array, rng: np.random.Generator) -> Labels:
        """Return the clusters of the rows of X."""


class KMeansBeside(_Beside):
    """k-means on the views side by side, the best of ten starts."""

    _name = "k-means"

    def _clustered(self, X: Array, rng: np.random.Generator) -> Labels:
        model = KMeans(self.n_clusters, n_init=10, random_state=int(rng.integers(2**31 - 1)))
        return np.asarray(model.fit_predict(_matrix(X)), dtype=np.intp)


class MiniBatchBeside(_Beside):
    """k-means by small batches on the views side by side, the best of five starts."""

    _name = "mini-batch"

    def _clustered(self, X: Array, rng: np.random.Generator) -> Labels:
        model = MiniBatchKMeans(
            self.n_clusters, n_init=5, random_state=int(rng.integers(2**31 - 1))
        )
        return np.asarray(model.fit_predict(_matrix(X)), dtype=np.intp)


class SpectralBeside(_Beside):
    """Spectral clustering of the graph of ten neighbours of the views side by side."""

    _name = "spectral"

    def _clustered(self, X: Array, rng: np.random.Generator) -> Labels:
        laplacian = normalized_laplacian(knn_graph(X, min(10, X.shape[0] - 1)))
        embedding = unit_rows(smallest_eigenvectors(laplacian, self.n_clusters, rng))
        return cluster_rows(embedding, self.n_clusters, rng)[0]


def _matrix(X: Array) -> Any:
    # scikit-learn takes sparse matrices, and not every version sparse arrays
    return sp.csr_matrix(X) if sp.issparse(X) else X
