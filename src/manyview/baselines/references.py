"""Reference methods: common clustering methods on the concatenated views or the sum of graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
from manyview.views import Array, has_equal_rows

__all__ = [
    "KMeansBeside",
    "MiniBatchBeside",
    "SpectralBeside",
    "StandardisedKMeans",
    "SummedGraphs",
    "UmapKMeans",
]

_N_NEIGHBORS = 15  # of UMAP, its default, and of the summed graphs
_N_COMPONENTS = 5  # of UMAP; more than the two of pictures, as its authors advise for clustering


class _Reference(MultiViewClusterer, ABC):
    """Base of the reference methods.

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
        self.labels_ = self._cluster(scaled_arrays(checked, self.normalize), self._generator())
        self._record_views(checked)
        return self

    @abstractmethod
    def _cluster(self, arrays: Sequence[Array], rng: np.random.Generator) -> Labels:
        """Return the clusters of the rows of the scaled views."""


class KMeansBeside(_Reference):
    """k-means on the concatenated views, the best of ten initialisations."""

    _name = "k-means"

    def _cluster(self, arrays: Sequence[Array], rng: np.random.Generator) -> Labels:
        seed = int(rng.integers(2**31 - 1))
        model = KMeans(self.n_clusters, n_init=10, random_state=seed)
        return _fit_predict(model, concatenated(arrays))


class StandardisedKMeans(KMeansBeside):
    """k-means on the concatenated views with standardised features."""

    _name = "k-means-standardised"

    def __init__(
        self,
        n_clusters: int,
        *,
        normalize: Scaling | None = "columns",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_clusters, normalize=normalize, random_state=random_state, verbose=verbose
        )


class MiniBatchBeside(_Reference):
    """Mini-batch k-means on the concatenated views, the best of five initialisations."""

    _name = "mini-batch"

    def _cluster(self, arrays: Sequence[Array], rng: np.random.Generator) -> Labels:
        seed = int(rng.integers(2**31 - 1))
        model = MiniBatchKMeans(self.n_clusters, n_init=5, random_state=seed)
        return _fit_predict(model, concatenated(arrays))


class SpectralBeside(_Reference):
    """Spectral clustering of the 10-nearest-neighbour graph of the concatenated views."""

    _name = "spectral"

    def _cluster(self, arrays: Sequence[Array], rng: np.random.Generator) -> Labels:
        X = concatenated(arrays)
        return _spectral(knn_graph(X, min(10, X.shape[0] - 1)), self.n_clusters, rng)


class SummedGraphs(_Reference):
    """Spectral clustering of the sum of the views' graphs of 15 nearest neighbours.

    Edges have heat weights of a width that is the median distance in the view. A view with equal
    rows has no effect.
    """

    _name = "summed-graphs"

    def _cluster(self, arrays: Sequence[Array], rng: np.random.Generator) -> Labels:
        used = [X for X in arrays if not has_equal_rows(X)] or arrays[:1]
        graphs = [knn_graph(X, min(_N_NEIGHBORS, X.shape[0] - 1)) for X in used]
        return _spectral(sum(graphs[1:], graphs[0]), self.n_clusters, rng)


class UmapKMeans(_Reference):
    """k-means on UMAP's embedding of the concatenated views in five dimensions.

    Needs the package umap-learn: ``pip install 'manyview[umap]'``.
    """

    _name = "umap"

    def _cluster(self, arrays: Sequence[Array], rng: np.random.Generator) -> Labels:
        try:
            from umap import UMAP
        except ModuleNotFoundError as error:
            if error.name != "umap":
                raise
            message = "the reference umap needs umap-learn: pip install 'manyview[umap]'"
            raise ModuleNotFoundError(message, name="umap") from error
        seed = int(rng.integers(2**31 - 1))
        reducer = UMAP(
            n_neighbors=min(_N_NEIGHBORS, arrays[0].shape[0] - 1),
            n_components=_N_COMPONENTS,
            min_dist=0.0,
            random_state=seed,
            n_jobs=1,  # more are not reproducible
        )
        rows = reducer.fit_transform(_for_packages(concatenated(arrays)))
        return _fit_predict(KMeans(self.n_clusters, n_init=10, random_state=seed), rows)


def _spectral(graph: Array, n_clusters: int, rng: np.random.Generator) -> Labels:
    embedding = unit_rows(smallest_eigenvectors(normalized_laplacian(graph), n_clusters, rng))
    return cluster_rows(embedding, n_clusters, rng)[0]


def _fit_predict(model: Any, X: Array) -> Labels:
    return np.asarray(model.fit_predict(_for_packages(X)), dtype=np.intp)


def _for_packages(X: Array) -> Any:
    # not every supported version of other packages accepts sparse arrays
    return sp.csr_matrix(X) if sp.issparse(X) else X
