"""Multi-view spectral clustering as an estimator."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import NormalizeViews
from manyview.base import MultiViewClusterer
from manyview.engine import State, blas_threads, engine_for
from manyview.graph.scaling import resolve_normalization
from manyview.graph.settings import ALL_ORDERS, GraphOf, GraphSettings
from manyview.graph.spectral import spectral_labels

__all__ = ["MultiViewSpectral"]

_GRAPHS = {"all": ALL_ORDERS, "product": GraphOf(1.0, 0.0), "sum": GraphOf(0.0, 1.0)}


class MultiViewSpectral(MultiViewClusterer):
    """Spectral clustering of one affinity graph over all views.

    Each sample is linked to its nearest neighbours, nearer ones with larger weights: by each view,
    and by the product over the views of one plus their cosine, by which samples are near if they
    agree in all views, or strongly in some. k-means on the leading eigenvectors of the sum of these
    graphs gives the clusters. There is no kernel width to choose. Graphs of this kind are the
    default initialisation of :class:`manyview.MMC`.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    graph : {"all", "product", "sum"}, default="all"
        Neighbours that are linked: those by the product of all views, by the single views, or by
        all of these, where the single views together count twice as much as the product. Clusters
        that are visible only in products of features need ``"product"``; views of which one says
        something else need ``"sum"``.
    neighbourhood : float or None, default=None
        Neighbourhood size relative to half the samples of an average cluster, or to 200 if that is
        less. A sample has at least five neighbours. None takes both 1 and 1/16.
    landmarks : int, optional
        Most samples that are compared with each other; at least 2 K. Of more samples, so many
        random ones are embedded, and kernel regression on them embeds the others, so that time and
        memory grow linearly. By default 8,000, or 20 per cluster if that is more, up to 10,000.
    normalize : {"auto", "rows", "columns", "log"} or None, or list or dict of them, default="auto"
        Scaling of each view, as in :class:`manyview.MMC`.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks, of the eigensolver and of k-means.
    n_jobs : int, optional
        Threads over blocks of rows, as in scikit-learn: -1 for all processors. By default as many
        as BLAS would use; BLAS then uses one in each. Labels do not depend on it. Tensors and Dask
        arrays use the threads of torch and Dask.
    verbose : int, default=0
        1 prints the part of the embedding's variance within the clusters: 0 for perfectly clear
        clusters, .3 to .7 for noise.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; a tensor for tensors, a Dask array for Dask arrays.
    embedding_ : ndarray of shape (n_samples, n_components)
        Spectral embedding: leading eigenvectors, at most 2 K - 1, weighted by how far their
        eigenvalues exceed noise, with rows of unit length; of the same kind as ``labels_``.
    normalize_ : dict of str to {"rows", "columns", "log"} or None
        Scaling of each view, by its name.
    affinity_ : csr_array of shape (n_samples, n_samples) or None
        Symmetric weights of the graph; None with landmarks, where it is never formed.
    n_views_, n_features_in_, view_names_, feature_names_in_
        Number of views, and of each its number of features, its name and the names of its features,
        or None.

    See Also
    --------
    manyview.MMC : Improves these clusters with a model that also predicts new samples.

    Notes
    -----
    Samples may miss views (``as_views(views, present=...)``). A missing view has no influence on
    the neighbours of its sample. Where cells are unknown (NaN in a dense array or tensor), samples
    are compared by the features that both have.

    Examples
    --------
    >>> from manyview import MultiViewSpectral
    >>> from manyview.datasets import make_views
    >>> from manyview.metrics import clustering_accuracy
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = MultiViewSpectral(n_clusters=3, random_state=0).fit(views)
    >>> clustering_accuracy(y, model.labels_) > 0.9
    True
    >>> model.embedding_.shape, model.affinity_.shape
    ((150, 5), (150, 150))
    """

    _takes_missing_views = True
    _takes_unknown_cells = True
    _takes_other_places = True
    _graph_settings = GraphSettings()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "graph": [StrOptions(set(_GRAPHS))],
        "neighbourhood": [Interval(Real, 0, None, closed="neither"), None],
        "landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "normalize": [StrOptions({"auto", "rows", "columns", "log"}), list, tuple, dict, None],
        "random_state": ["random_state"],
        "n_jobs": [
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        graph: Literal["all", "product", "sum"] = "all",
        neighbourhood: float | None = None,
        landmarks: int | None = None,
        normalize: NormalizeViews = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.graph = graph
        self.neighbourhood = neighbourhood
        self.landmarks = landmarks
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        MultiViewSpectral
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        rng = self._generator()
        settings = self._settings()
        threads = blas_threads() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        by_view = resolve_normalization(
            self.normalize, checked, self.n_clusters, rng, settings, threads
        )
        engine = engine_for(checked, normalize=by_view, n_threads=threads)
        with engine.running(), self._progress(1, "unexplained variance") as show:
            unexplained, affinity = spectral_labels(
                engine, self.n_clusters, rng, graph=_GRAPHS[self.graph], settings=settings
            )
            show(1, unexplained)
            labels, embedding = engine.gather(State.LABELS), engine.gather(State.EMBEDDING)
        self._record_views(checked)
        self.normalize_ = dict(zip(self.view_names_, by_view, strict=True))
        self.labels_, self.embedding_, self.affinity_ = labels, embedding, affinity
        return self

    def _settings(self) -> GraphSettings:
        """Return the tuning constants with the parameters of this estimator applied."""
        settings = self._graph_settings
        if self.neighbourhood is not None:
            settings = replace(settings, sizes=(float(self.neighbourhood),))
        if self.landmarks is not None:
            count = int(self.landmarks)
            settings = replace(settings, n_compared=count, compared_per_cluster=0)
        return settings
