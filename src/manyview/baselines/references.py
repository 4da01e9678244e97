"""Reference methods: k-means and spectral clustering of the concatenated views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans

from manyview._typing import Scaling
from manyview.base import MultiViewClusterer
from manyview.baselines.common import Baseline, concatenated, scaled_arrays
from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, cluster_rows, unit_rows
from manyview.views import Array

__all__ = ["KMeansBeside", "MiniBatchBeside", "SpectralBeside"]


class _Concatenated(MultiViewClusterer, ABC):
    """Base of the reference methods, which cluster the rows of the concatenated views.

    The parameters are those that all baselines share; `normalize` is ``"rows"`` by default.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = Baseline._parameter_constraints

    def __init__(
        self,
        n_clusters: int,
        *,
        normalize: Scaling | None = "rows",
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
        X = concatenated(scaled_arrays(checked, self.normalize))
        self.labels_ = self._cluster(X, self._generator())
        self._record_views(checked)
        return self

    @abstractmethod
    def _cluster(self, X: Array, rng: np.random.Generator) -> Labels:
        """Return the clusters of the rows of X."""


class KMeansBeside(_Concatenated):
    """k-means on the concatenated views, the best of ten initialisations."""

    _name = "k-means"

    def _cluster(self, X: Array, rng: np.random.Generator) -> Labels:
        seed = int(rng.integers(2**31 - 1))
        return _fit_predict(KMeans(self.n_clusters, n_init=10, random_state=seed), X)


class MiniBatchBeside(_Concatenated):
    """Mini-batch k-means on the concatenated views, the best of five initialisations."""

    _name = "mini-batch"

    def _cluster(self, X: Array, rng: np.random.Generator) -> Labels:
        seed = int(rng.integers(2**31 - 1))
        return _fit_predict(MiniBatchKMeans(self.n_clusters, n_init=5, random_state=seed), X)


class SpectralBeside(_Concatenated):
    """Spectral clustering of the 10-nearest-neighbour graph of the concatenated views."""

    _name = "spectral"

    def _cluster(self, X: Array, rng: np.random.Generator) -> Labels:
        laplacian = normalized_laplacian(knn_graph(X, min(10, X.shape[0] - 1)))
        embedding = unit_rows(smallest_eigenvectors(laplacian, self.n_clusters, rng))
        return cluster_rows(embedding, self.n_clusters, rng)[0]


def _fit_predict(model: Any, X: Array) -> Labels:
    # not every supported version of scikit-learn accepts sparse arrays
    labels = model.fit_predict(sp.csr_matrix(X) if sp.issparse(X) else X)
    return np.asarray(labels, dtype=np.intp)
