"""Auto-weighted multiple graph learning."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.baselines.common import EmbeddingClusterer, scaled_arrays, warn_of_copies
from manyview.baselines.graphs import adaptive_graph, nearest_neighbors, normalized_laplacian
from manyview.iterate import iterate, warn_if_early
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.linalg.partition import Labels, cluster_rows, unit_rows
from manyview.views import has_equal_rows

__all__ = ["AMGL"]


_FLOOR = 1e-12  # a graph of as many components as clusters has no cut, and a weight nonetheless
_LEAST_ITERATIONS = 3


class AMGL(EmbeddingClusterer):
    """Auto-weighted Multiple Graph Learning.

    One spectral embedding F for the graphs of all views::

        min sum_v sqrt(tr(F' L_v F)),  F'F = I

    with L_v the normalised Laplacian of the adaptive-neighbour graph of a view. The square root
    weighs the views without a parameter: F are the eigenvectors of the smallest eigenvalues of
    ``sum_v a_v L_v`` with ``a_v = 1 / (2 sqrt(tr(F' L_v F)))``, the two renewed in turn from equal
    weights. k-means on the rows of F gives the labels. There is no `predict`: the embedding is one
    of these samples only.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_neighbors : int, default=10
        Neighbours of each sample in the graphs, at most the number of samples less 2. The
        authors' code has 5.
    max_iter : int, default=100
        Most iterations.
    tol : float, default=1e-8
        Stop when an iteration, of at least three, lowers the objective by less than this part; a
        single cluster takes one.
    unit_embedding : bool, default=False
        Whether to scale the rows of F to unit length before k-means. The authors do not; it is
        another, often better, method.
    n_init : int, default=1
        Starts of k-means.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither. Results depend on it strongly.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means and of the eigensolver. The embedding has no random start.
    verbose : int, default=0
        1 shows a bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        F, with orthonormal columns.
    view_weights_ : ndarray of shape (n_views,)
        a_v, scaled to sum to 1.
    objective_ : ndarray of shape (n_iter_,)
        The objective after every iteration; it does not rise.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw.

    Notes
    -----
    Memory: the graphs, of order ``n_views n n_neighbors``, and blocks of distances while
    neighbours are found; no matrix of samples by samples but for the smallest sets. Sparse views
    stay sparse.

    On counts whose nearest neighbours are a few short samples, one cluster takes nearly all
    samples; so it does in the authors' method. Where all of a sample's neighbours are equally
    far, as among duplicates, they share its weight here; the authors' code leaves it none. Of a
    sample with more copies than neighbours, which is warned of, copies can come into different
    clusters.

    References
    ----------
    F. Nie, J. Li, X. Li. Parameter-Free Auto-Weighted Multiple Graph Learning: A Framework for
    Multiview Clustering and Semi-Supervised Classification. IJCAI 2016.

    Examples
    --------
    >>> from manyview.baselines import AMGL
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = AMGL(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, round(float(model.view_weights_.sum()), 6)
    ((90,), 1.0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "unit_embedding": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int = 10,
        max_iter: int = 100,
        tol: float = 1e-8,
        unit_embedding: bool = False,
        n_init: int = 1,
        normalize: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.unit_embedding = unit_embedding
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, views: Any, y: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            The views; see :func:`manyview.as_views`.
        y : ignored
            There for scikit-learn's sake; labels take no part.

        Returns
        -------
        AMGL
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        rng, label_rng = self._generators()
        arrays = scaled_arrays(checked, self.normalize)
        # neighbours among equal samples would be noise, and noise has a weight
        vary = np.array([not has_equal_rows(array) for array in arrays])
        vary |= not vary.any()
        nearest = [
            nearest_neighbors(X, self.n_neighbors, beyond=1)
            for X, used in zip(arrays, vary, strict=True)
            if used
        ]
        warn_of_copies(nearest, self.n_neighbors, self.n_clusters)
        laplacians = _on_one_pattern(
            [normalized_laplacian(adaptive_graph(near)) for near in nearest]
        )

        def step(state: _State) -> tuple[_State, float]:
            start = None if state.embedding is None else state.embedding.sum(axis=1)
            F = smallest_eigenvectors(
                _combined(laplacians, state.weights), self.n_clusters, rng, v0=start
            )
            cuts = np.array([np.sum(F * (L @ F)) for L in laplacians])
            roots = np.sqrt(np.maximum(cuts, _FLOOR))
            # only their ratios matter
            return _State((1.0 / roots) / np.sum(1.0 / roots), F), float(roots.sum())

        def settled(state: _State, values: Sequence[float]) -> bool:
            if self.n_clusters == 1:  # all samples, whatever the weights
                return True
            enough = len(values) >= _LEAST_ITERATIONS
            return enough and values[-2] - values[-1] <= self.tol * values[-2]

        equal = np.full(len(laplacians), 1.0 / len(laplacians))
        with self._progress(self.max_iter) as show:
            found = iterate(
                step, _State(equal), max_iter=self.max_iter, settled=settled, on_iteration=show
            )
        if found.state.embedding is None:
            raise AssertionError("a fit has at least one iteration")
        self.labels_ = self._assigned(found.state.embedding, label_rng)
        self.embedding_ = found.state.embedding
        self._record_views(checked)
        self.view_weights_ = np.zeros(len(checked))
        self.view_weights_[vary] = found.state.weights
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        warn_if_early(found, remedy=f"raise max_iter, or tol above {self.tol:g}")
        return self

    def _assigned(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        rows = unit_rows(embedding) if self.unit_embedding else embedding
        return cluster_rows(rows, self.n_clusters, rng, n_init=self.n_init)[0]


class _State(NamedTuple):
    weights: Matrix
    embedding: Matrix | None = None


def _on_one_pattern(matrices: list[sp.csr_array]) -> list[sp.csr_array]:
    """Return the matrices with entries, some of them 0, in the same places."""
    n = matrices[0].shape[0]
    places = []
    for matrix in matrices:
        rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(matrix.indptr))
        places.append(rows * n + matrix.indices)
    union = np.unique(np.concatenate(places))
    begins = np.searchsorted(union, np.arange(n + 1, dtype=np.int64) * n)
    columns = union % n
    aligned = []
    for matrix, place in zip(matrices, places, strict=True):
        data = np.zeros(union.size)
        data[np.searchsorted(union, place)] = matrix.data
        aligned.append(sp.csr_array((data, columns, begins), shape=(n, n)))
    return aligned


def _combined(matrices: list[sp.csr_array], weights: Matrix) -> sp.csr_array:
    """Return the weighted sum of matrices of one pattern."""
    first = matrices[0]
    data = sum(weight * matrix.data for weight, matrix in zip(weights, matrices, strict=True))
    return sp.csr_array((data, first.indices, first.indptr), shape=first.shape)
