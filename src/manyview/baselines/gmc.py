"""Graph-based multi-view clustering (GMC)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.baselines.common import Baseline, EmbeddingClusterer, scaled_arrays
from manyview.baselines.graphs import Neighbors, nearest_neighbors, warn_of_copies
from manyview.iterate import Iterated, iterate
from manyview.linalg.eigen import smallest_eigenvectors
from manyview.memory import check_memory
from manyview.views import Views, has_equal_rows

__all__ = ["GMC"]

_SMOOTHING = 1e-2  # keeps the weight of a view finite whose graph is the fused one
_NO_EDGE = 1e-12  # weights below are rounding errors; those of a row sum to 1
_BLOCK_BYTES = 1 << 25  # differences of embedded samples that are held at a time


class GMC(EmbeddingClusterer):
    """Graph-based multi-view clustering.

    GMC learns a graph S_v of each view, a fused graph U and weights of the views together, and
    asks that U has as many connected components as there are clusters::

        min  sum_v sum_ij |x_iv - x_jv|^2 s_ijv + sum_v sum_i beta_iv |s_iv|^2
             + sum_v |U - S_v| + 2 lambda tr(F' L F)

    where the rows of S_v and U are non-negative and sum to 1, |.| is the Frobenius norm, L is the
    Laplacian of ``(U + U') / 2``, and F has n_clusters orthonormal columns. The norm, which is not
    squared, gives each view the weight ``w_v = 1 / (2 |U - S_v|)``. The updates are

    - s_iv: with ``a_j = |x_iv - x_jv|^2 - 2 w_v u_ij`` for the k + 1 nearest neighbours j of i,
      ``s_ijv = (a_max - a_j) / sum_h (a_max - a_h)``. This is the minimum for the beta_iv at
      which i has k neighbours;
    - u_i: the projection of ``(sum_v w_v s_iv - lambda d_i / 2) / sum_v w_v`` to the simplex, with
      ``d_ij = |f_i - f_j|^2``, over the neighbours of i in any view;
    - F: the eigenvectors of the smallest eigenvalues of L.

    Then lambda is doubled if U has fewer components than clusters, and halved if it has more. The
    iteration ends when there are as many, and they are the clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    n_neighbors : int, default=15
        Number of neighbours in the graphs of the views, k, at most the number of samples less 2.
    regularization : float, default=1.0
        Initial lambda.
    max_iter : int, default=30
        Maximum number of iterations; the authors' code has 20.
    n_init : int, default=1
        Number of initialisations of k-means.
    normalize : {"zscore", "rows", "columns"} or None, default="zscore"
        Standardise each sample over the features of a view, as the authors do, scale it to unit
        length, standardise the features, or neither. ``"zscore"`` and ``"columns"`` make sparse
        views dense.
    random_state : int, RandomState instance or None, default=None
        Seed of the eigensolver, and of k-means if U has another number of components.
    verbose : int, default=0
        1 shows a progress bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample: its component of U or, if U has another number of components, that
        of k-means on the rows of F.
    affinity_ : csr_array of shape (n_samples, n_samples)
        The fused graph, ``(U + U') / 2``.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        F, with orthonormal columns.
    view_weights_ : ndarray of shape (n_views,)
        w_v, scaled to sum to 1. The weight of a view with equal rows is 0.
    objective_ : ndarray of shape (n_iter_,)
        The objective after every iteration, with the lambda and beta of that iteration. No update
        increases it, but a change of lambda and beta can.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    The authors' code averages the graphs of the views in the update of U with equal weights. Here
    they have the weights w_v, which minimise the objective. Entries of S_v that the formula of the
    paper makes negative are 0 there; here the neighbour with the largest a_j has weight 0. The
    weights w_v are computed before each update, from ``sqrt(|U - S_v|^2 + 1e-4)``.

    Graphs are sparse: memory is of order ``n_samples n_views^2 n_neighbors``, and time is mostly
    that of the eigenvectors.

    References
    ----------
    H. Wang, Y. Yang, B. Liu. GMC: Graph-Based Multi-View Clustering. IEEE Transactions on
    Knowledge and Data Engineering 32 (6), 2020.

    Examples
    --------
    >>> from manyview.baselines import GMC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = GMC(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, model.embedding_.shape
    ((90,), (90, 3))
    """

    _monitored = "the number of components of the fused graph"
    _remedy = (
        "the labels are those of k-means on its embedding; increase max_iter or change n_neighbors"
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "regularization": [Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"zscore", "rows", "columns"}), None],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int = 15,
        regularization: float = 1.0,
        max_iter: int = 30,
        n_init: int = 1,
        normalize: Literal["zscore", "rows", "columns"] | None = "zscore",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.regularization = regularization
        self.max_iter = max_iter
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        most = views.n_views * (self.n_neighbors + 1)
        check_memory(
            8.0 * views.n_samples * most * (views.n_views + 6),
            work=f"GMC on {views.n_samples} samples with n_neighbors={self.n_neighbors}",
            matrices="samples by neighbours",
            way_out="Use fewer neighbours",
        )
        rng, label_rng = self._generators(self.random_state)
        arrays = scaled_arrays(views, self.normalize)
        # the neighbours in a view with equal rows are arbitrary, but would get a weight
        varies = np.array([not has_equal_rows(X) for X in arrays])
        varies |= not varies.any()
        used = [X for X, differ in zip(arrays, varies, strict=True) if differ]
        nearest = [nearest_neighbors(X, self.n_neighbors, beyond=1) for X in used]
        warn_of_copies(nearest, self.n_neighbors, self.n_clusters)
        candidates = Candidates.of(nearest)
        with self._progress(self.max_iter) as show:
            found = iterate(
                lambda state: iteration(candidates, state, rng),
                initial_state(candidates, self.n_clusters, self.regularization, rng),
                max_iter=self.max_iter,
                settled=lambda state, values: state.n_components == self.n_clusters,
                on_iteration=show,
            )
        state = found.state
        # the rows of F are equal within a component, so that k-means finds the components
        self.labels_ = self._cluster(state.F, label_rng)
        self.affinity_ = candidates.graph(state.U)
        self.embedding_ = state.F
        self.view_weights_ = np.zeros(views.n_views)
        weights = view_weights(state.U, state.graphs)
        self.view_weights_[varies] = weights / weights.sum()
        return found


class Candidates(NamedTuple):
    """The possible edges: for each sample its neighbours in any view.

    Graphs are arrays with a row for each sample and a column for each candidate; rows with fewer
    candidates than others are filled up.
    """

    neighbors: npt.NDArray[np.intp]  # sample of each candidate
    used: npt.NDArray[np.bool_]  # False where a row is filled up
    places: Sequence[npt.NDArray[np.intp]]  # for each view, the candidates that are neighbours
    squares: Sequence[Matrix]  # for each view, squared distances to its neighbours

    @classmethod
    def of(cls, nearest: Sequence[Neighbors]) -> Candidates:
        """Return the union of the neighbours in all views."""
        joined = np.hstack([rows for rows, _ in nearest])
        order = np.argsort(joined, axis=1, kind="stable")
        ordered = np.take_along_axis(joined, order, axis=1)
        place = np.zeros_like(ordered)
        place[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
        width = int(place.max()) + 1
        neighbors = np.tile(np.arange(joined.shape[0])[:, None], (1, width))
        np.put_along_axis(neighbors, place, ordered, axis=1)
        places = np.empty_like(place)
        np.put_along_axis(places, order, place, axis=1)
        return cls(
            neighbors,
            np.arange(width) <= place[:, -1:],
            np.split(places, len(nearest), axis=1),
            [squares for _, squares in nearest],
        )

    def graph(self, U: Matrix) -> sp.csr_array:
        """Return a symmetric graph, ``(U + U') / 2``."""
        edges = U > _NO_EDGE
        begins = np.concatenate([[0], np.cumsum(edges.sum(axis=1))])
        n = U.shape[0]
        graph = sp.csr_array((U[edges], self.neighbors[edges], begins), shape=(n, n))
        return sp.csr_array((graph + graph.T) * 0.5)

    def embedded_squares(self, F: Matrix) -> Matrix:
        """Return the squared distances of rows of F to those of the candidates."""
        squares: Matrix = np.empty(self.neighbors.shape)
        step = max(1, _BLOCK_BYTES // (8 * squares.shape[1] * F.shape[1]))
        for begin in range(0, F.shape[0], step):
            rows = slice(begin, begin + step)
            differences = F[rows, None, :] - F[self.neighbors[rows]]
            squares[rows] = np.einsum("ijk,ijk->ij", differences, differences)
        return squares


class State(NamedTuple):
    """The iterate: fused graph, graphs of the views, embedding, and the next lambda."""

    U: Matrix
    graphs: Sequence[Matrix]
    F: Matrix
    lambda_: float
    n_components: int


def initial_state(
    candidates: Candidates, n_clusters: int, lambda_: float, rng: np.random.Generator
) -> State:
    """Return the graphs of the views alone, their mean, and its embedding."""
    empty = np.zeros(candidates.neighbors.shape)
    graphs = updated_graphs(candidates, empty, np.zeros(len(candidates.places)))[0]
    U: Matrix = np.mean(graphs, axis=0)
    F, n_components = _embedding(candidates.graph(U), n_clusters, rng)
    return State(U, graphs, F, lambda_, n_components)


def iteration(
    candidates: Candidates, state: State, rng: np.random.Generator
) -> tuple[State, float]:
    """Update the graphs, the fused graph, the embedding and lambda; return the objective too."""
    U, lambda_, n_clusters = state.U, state.lambda_, state.F.shape[1]
    graphs, betas = updated_graphs(candidates, U, view_weights(U, state.graphs))
    weights = view_weights(U, graphs)
    U = fused_graph(candidates, graphs, weights, lambda_, state.F)
    F, n_components = _embedding(candidates.graph(U), n_clusters, rng)
    value = objective(candidates, U, graphs, betas, lambda_, F)
    if n_components < n_clusters:
        lambda_ *= 2.0
    elif n_components > n_clusters:
        lambda_, F = lambda_ / 2.0, state.F  # an embedding of fewer components joins some again
    return State(U, graphs, F, lambda_, n_components), value


def updated_graphs(
    candidates: Candidates, U: Matrix, weights: Matrix
) -> tuple[list[Matrix], list[Matrix]]:
    """Return the graphs of the views and their betas."""
    graphs: list[Matrix] = []
    betas: list[Matrix] = []
    for places, squares, w in zip(candidates.places, candidates.squares, weights, strict=True):
        cost = squares - 2.0 * w * np.take_along_axis(U, places, axis=1)
        excess = cost.max(axis=1, keepdims=True) - cost
        total = excess.sum(axis=1, keepdims=True)
        differ = total > 0.0
        equal = np.full(cost.shape[1], 1.0 / (cost.shape[1] - 1))
        equal[-1] = 0.0
        graph: Matrix = np.zeros(U.shape)
        values = np.where(differ, excess / np.where(differ, total, 1.0), equal)
        np.put_along_axis(graph, places, values, axis=1)
        graphs.append(graph)
        betas.append(0.5 * total[:, 0] - w)
    return graphs, betas


def view_weights(U: Matrix, graphs: Sequence[Matrix]) -> Matrix:
    """Return w, from the distances of the graphs of the views to the fused one."""
    return np.asarray(0.5 / _graph_distances(U, graphs))


def _graph_distances(U: Matrix, graphs: Sequence[Matrix]) -> Matrix:
    return np.array([np.hypot(np.linalg.norm(U - S), _SMOOTHING) for S in graphs])


def fused_graph(
    candidates: Candidates, graphs: Sequence[Matrix], weights: Matrix, lambda_: float, F: Matrix
) -> Matrix:
    """Return U."""
    total = np.sum([w * S for w, S in zip(weights, graphs, strict=True)], axis=0)
    target = (total - 0.5 * lambda_ * candidates.embedded_squares(F)) / weights.sum()
    return simplex_projection(np.where(candidates.used, target, -np.inf))


def simplex_projection(rows: Matrix) -> Matrix:
    """Return the nearest rows that are non-negative and sum to 1; entries of -inf become 0.

    Examples
    --------
    >>> simplex_projection(np.array([[0.5, 0.7, -np.inf], [3.0, 0.0, 1.0]]))
    array([[0.4, 0.6, 0. ],
           [1. , 0. , 0. ]])
    """
    rows = rows - rows.max(axis=1, keepdims=True)  # entries of large size would lose digits
    ordered = np.maximum(-np.sort(-rows, axis=1), -2.0)  # those of -1 and below become 0
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, rows.shape[1] + 1)
    last = np.sum(ordered > excess, axis=1, keepdims=True) - 1
    return np.asarray(np.maximum(rows - np.take_along_axis(excess, last, axis=1), 0.0))


def objective(
    candidates: Candidates,
    U: Matrix,
    graphs: Sequence[Matrix],
    betas: Sequence[Matrix],
    lambda_: float,
    F: Matrix,
) -> float:
    """Return the objective, with the smoothed distances of the graphs."""
    value = float(_graph_distances(U, graphs).sum())
    value += lambda_ * float(np.sum(U * candidates.embedded_squares(F)))
    for places, squares, S, beta in zip(
        candidates.places, candidates.squares, graphs, betas, strict=True
    ):
        value += float(np.sum(squares * np.take_along_axis(S, places, axis=1)))
        value += float(beta @ np.sum(S * S, axis=1))
    return value


def _embedding(
    graph: sp.csr_array, n_clusters: int, rng: np.random.Generator
) -> tuple[Matrix, int]:
    """Return the eigenvectors of the Laplacian's smallest eigenvalues and the components."""
    laplacian = sp.csr_array(sp.csgraph.laplacian(graph))
    # an eigenvalue is at most twice the largest degree
    bound = 2.0 * float(graph.sum(axis=1).max())
    F = smallest_eigenvectors(laplacian, n_clusters, rng, bound=bound)
    return F, int(sp.csgraph.connected_components(graph, directed=False)[0])
