"""Variants of MMC, as estimators for a comparison.

They have their own module because the processes of a comparison import them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.linear_model import RidgeClassifier

from manyview import MMC, MultiViewSpectral, Views, as_views
from manyview.baselines.common import concatenated, scaled_arrays
from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.graph.settings import ALL_ORDERS, FAR_PRODUCT, NEAR_PRODUCT, GraphSettings
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import cluster_rows, unit_rows

Labels = npt.NDArray[np.intp]


@dataclass
class _Configured:
    """Parameters that a comparison passes to every estimator."""

    n_clusters: int
    random_state: int | None = None
    normalize: Literal["auto", "rows", "columns"] | None = "auto"

    def _mmc(self, **options: Any) -> MMC:
        return MMC(
            self.n_clusters,
            random_state=self.random_state,
            normalize=self.normalize,
            **options,
        )


PARTS: dict[str, dict[str, Any]] = {
    "votes": {"votes": 0.0},
    "regressions": {"votes": 1e6},
    "other graphs": {"graphs": (ALL_ORDERS,)},
    "graphs of single views": {"graphs": (FAR_PRODUCT, NEAR_PRODUCT)},
    "the near graph": {"graphs": (ALL_ORDERS, FAR_PRODUCT)},
    "distances": {"distance": False},
    "winsorising": {"winsorise_at": np.inf},
    "weights of views": {"informative": 1e-9},
    "squares for many samples": {"extending_power": 1},
}
"""What of the label step and its graphs :class:`Without` can leave out."""


@dataclass
class Without(_Configured):
    """MMC without one of ``PARTS``."""

    part: str = "votes"

    def fit(self, views: Any) -> Self:
        model = self._mmc()
        model._graph_settings = replace(GraphSettings(), **PARTS[self.part])
        self.labels_ = model.fit(views).labels_
        return self


@dataclass
class SummedGraphs(_Configured):
    """Spectral clustering of the sum of the views' graphs of 15 nearest neighbours."""

    def fit(self, views: Any) -> Self:
        arrays = scaled_arrays(as_views(views), self.normalize)
        n_neighbours = min(15, arrays[0].shape[0] - 1)
        laplacian = normalized_laplacian(sum(knn_graph(array, n_neighbours) for array in arrays))
        rng = np.random.default_rng(self.random_state)
        embedding = unit_rows(smallest_eigenvectors(laplacian, self.n_clusters, rng))
        self.labels_ = cluster_rows(embedding, self.n_clusters, rng)[0]
        return self


@dataclass
class UmapKMeans(_Configured):
    """k-means on UMAP's embedding of the concatenated views; needs umap-learn."""

    def fit(self, views: Any) -> Self:
        from umap import UMAP

        X = concatenated(scaled_arrays(as_views(views), self.normalize))
        X = sp.csr_matrix(X) if sp.issparse(X) else X
        seed = self.random_state
        n_neighbours = min(15, X.shape[0] - 1)
        rows = UMAP(
            n_neighbors=n_neighbours, n_components=5, min_dist=0.0, random_state=seed
        ).fit_transform(X)
        self.labels_ = KMeans(self.n_clusters, n_init=10, random_state=seed).fit_predict(rows)
        return self


@dataclass
class _Split(_Configured, ABC):
    """Base of the variants that score the first `n_first` samples or the others.

    A comparison sets the number of clusters to that of the scored classes. Held-out samples may
    miss a class, so `n_all` is used instead.
    """

    n_all: int = 2
    n_first: int = 1

    def fit(self, views: Any) -> Self:
        self.n_clusters = self.n_all
        self.labels_ = self._labels(as_views(views))
        return self

    @abstractmethod
    def _labels(self, views: Views) -> Labels:
        """Return the labels."""


@dataclass
class Predicted(_Split):
    """MMC fitted to the first samples; scores its prediction of the others."""

    def _labels(self, views: Views) -> Labels:
        rows = np.arange(views.n_samples)
        model = self._mmc().fit(views.take(rows[: self.n_first]))
        return model.predict(views.take(rows[self.n_first :]))


@dataclass
class PredictedByRidge(_Split):
    """A ridge classifier of the concatenated views, trained on the initial labels of MMC."""

    def _labels(self, views: Views) -> Labels:
        first = views.take(np.arange(self.n_first))
        initial = MultiViewSpectral(self.n_clusters, random_state=self.random_state).fit(first)
        X = concatenated(scaled_arrays(views, "rows"))
        X = sp.csr_matrix(X) if sp.issparse(X) else X
        model = RidgeClassifier().fit(X[: self.n_first], initial.labels_)
        return np.asarray(model.predict(X[self.n_first :]), dtype=np.intp)


@dataclass
class FittedToAll(_Split):
    """MMC fitted to all samples; scores the others."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views).labels_[self.n_first :]


@dataclass
class FirstFittedToAll(_Split):
    """MMC fitted to all samples; scores the first."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views).labels_[: self.n_first]


@dataclass
class FirstFitted(_Split):
    """MMC fitted to the first samples; scores these."""

    def _labels(self, views: Views) -> Labels:
        return self._mmc().fit(views.take(np.arange(self.n_first))).labels_
