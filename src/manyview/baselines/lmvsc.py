"""Large-scale multi-view subspace clustering (LMVSC)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import row_norms

from manyview._typing import Floats, Matrix, Scaling
from manyview.baselines.common import AT_LEAST_ONE, Baseline, scaled_arrays
from manyview.baselines.gmc import simplex_projection
from manyview.iterate import Iterated, iterate
from manyview.linalg.eigen import largest_eigenpairs
from manyview.linalg.partition import cluster_rows
from manyview.memory import check_memory
from manyview.views import Array, Views, has_equal_rows

__all__ = ["LMVSC"]

_NO_DIRECTION = 1e-7  # singular values below this part of the largest are rounding errors


class LMVSC(Baseline):
    """Large-scale multi-view subspace clustering.

    Each sample of a view is written as a convex combination of landmarks A_v, the centres of
    k-means on that view::

        min over Z_v  | X_v - Z_v A_v |^2 + alpha | Z_v |^2,    Z_v >= 0,  rows sum to 1

    The left singular vectors of ``[Z_1 ... Z_V]`` are the spectral embedding of the graph
    ``sum_v Z_v Z_v'``, which is never formed. k-means on their rows gives the labels. Time and
    memory are linear in the number of samples.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    n_landmarks : int, default=100
        Number of landmarks of each view; with fewer samples all are landmarks. The authors choose
        from K, 50 and 100 with labels.
    regularization : float, default=1.0
        alpha, above 0. The authors choose from 0.01, 1 and 100 with labels.
    max_iter : int, default=1000
        Maximum number of iterations of the solver for Z.
    tol : float, default=1e-6
        Stop when an iteration decreases the objective by less than this fraction of it.
    n_init : int, default=10
        Number of initialisations of the k-means that gives the labels.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, standardise its features (which makes a
        sparse view dense), or neither, as the authors do. alpha has the scale of the squared
        features, and where it is small beside them, more iterations are needed.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks and of k-means.
    verbose : int, default=0
        1 shows a progress bar with the objective.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        The singular vectors; columns beyond the rank of ``[Z_1 ... Z_V]`` are 0.
    landmarks_ : list of ndarray of shape (n_landmarks, n_features_v)
        The landmarks of each view, on the scale set by `normalize`.
    objective_ : ndarray of shape (n_iter_,)
        Sum of the views' objectives after every iteration; it does not increase.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The views seen by fit.

    Notes
    -----
    The problems of all samples are solved together by accelerated projected gradient steps; the
    authors' program calls a quadratic programme for each sample. A sample whose objective a step
    would increase takes a plain step instead. The paper scales the columns of Z_v by the
    square roots of their sums; the authors' program does not, and neither does this one.

    A view with equal rows has no effect.

    References
    ----------
    Z. Kang, W. Zhou, Z. Zhao, J. Shao, M. Han, Z. Xu. Large-Scale Multi-View Subspace Clustering
    in Linear Time. AAAI 2020.

    Examples
    --------
    >>> from manyview.baselines import LMVSC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = LMVSC(n_clusters=3, n_landmarks=20, random_state=0).fit(views)
    >>> model.labels_.shape, [landmarks.shape for landmarks in model.landmarks_]
    ((150,), [(20, 20), (20, 20)])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "n_landmarks": [AT_LEAST_ONE],
        "regularization": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_landmarks: int = 100,
        regularization: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_init: int = 10,
        normalize: Scaling | None = "rows",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_landmarks = n_landmarks
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.normalize = normalize
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, views: Views) -> Iterated[Any]:
        n = views.n_samples
        count = min(self.n_landmarks, n)
        check_memory(
            48.0 * n * count * views.n_views,  # Z, the step before, products, momentum
            work=f"LMVSC on {n} samples with n_landmarks={count}",
            matrices="samples by landmarks",
            way_out="Use fewer landmarks",
        )
        rng = self._generator()
        arrays = scaled_arrays(views, self.normalize)
        landmarks = [
            # not every supported version of scikit-learn accepts sparse arrays
            cluster_rows(sp.csr_matrix(X) if sp.issparse(X) else X, count, rng, n_init=1)[1]
            for X in arrays
        ]
        pairs = list(zip(arrays, landmarks, strict=True))
        used = [pair for pair in pairs if not has_equal_rows(pair[0])] or pairs[:1]
        problems = [problem(X, A, float(self.regularization)) for X, A in used]

        def converged(states: Sequence[State], values: Sequence[float]) -> bool:
            return len(values) > 1 and values[-2] - values[-1] <= self.tol * values[-2]

        with self._progress(self.max_iter) as show:
            found = iterate(
                partial(iteration, problems),
                [initial_state(each) for each in problems],
                max_iter=self.max_iter,
                settled=converged,
                on_iteration=show,
            )
        embedding = left_singular_vectors(
            np.hstack([state.Z for state in found.state]), self.n_clusters
        )
        self.labels_, _ = cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)
        self.embedding_ = embedding
        self.landmarks_ = landmarks
        return found


class Problem(NamedTuple):
    """The objective of a view, ``sum_i z_i' G z_i - 2 z_i' b_i + |x_i|^2``."""

    G: Matrix  # A A' + alpha I
    B: Matrix  # X A'
    square_norms: Floats
    step: float  # the inverse of the largest eigenvalue of G


class State(NamedTuple):
    """The iterate of a view: Z and its objectives, and the extrapolated Z of the next step."""

    Z: Matrix
    values: Floats
    ahead: Matrix
    momentum: Floats


def problem(X: Array, A: Matrix, alpha: float) -> Problem:
    """Return the problem of a view with its landmarks."""
    G = A @ A.T
    G[np.diag_indices_from(G)] += alpha
    largest = float(largest_eigenpairs(G, 1)[0][0])
    return Problem(G, np.asarray(X @ A.T), row_norms(X, squared=True), 1.0 / largest)


def initial_state(view: Problem) -> State:
    """Return equal coefficients."""
    Z: Matrix = np.full(view.B.shape, 1.0 / view.B.shape[1])
    return State(Z, objectives(view, Z), Z, np.ones(Z.shape[0]))


def objectives(view: Problem, Z: Matrix) -> Floats:
    """Return the objective of each sample."""
    return np.asarray(np.einsum("ij,ij->i", Z, Z @ view.G - 2.0 * view.B) + view.square_norms)


def iteration(views: Sequence[Problem], states: Sequence[State]) -> tuple[list[State], float]:
    """Take a step for every view, and return the sum of their objectives too."""
    reached = [step(view, state) for view, state in zip(views, states, strict=True)]
    return reached, float(sum(state.values.sum() for state in reached))


def step(view: Problem, state: State) -> State:
    """Take an accelerated step for each sample, or a plain one where that increases its value."""
    Z = _projected(view, state.ahead)
    values = objectives(view, Z)
    worse = np.flatnonzero(values > state.values)
    momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * state.momentum**2))
    ahead = Z + ((state.momentum - 1.0) / momentum)[:, None] * (Z - state.Z)
    if worse.size:
        part = view._replace(B=view.B[worse], square_norms=view.square_norms[worse])
        Z[worse] = _projected(part, state.Z[worse])
        after = objectives(part, Z[worse])
        kept = worse[after > state.values[worse]]  # by rounding, at the minimum
        Z[kept] = state.Z[kept]
        values[worse] = np.minimum(after, state.values[worse])
        ahead[worse] = Z[worse]
        momentum[worse] = 1.0
    return State(Z, values, ahead, momentum)


def _projected(view: Problem, Z: Matrix) -> Matrix:
    return simplex_projection(Z - view.step * (Z @ view.G - view.B))


def left_singular_vectors(Z: Matrix, count: int) -> Matrix:
    """Return the left singular vectors of the largest singular values, from the Gram matrix."""
    kept = min(count, Z.shape[1])
    squares, right = largest_eigenpairs(Z.T @ Z, kept)
    values = np.sqrt(np.maximum(squares, 0.0))
    inverse = np.divide(1.0, values, out=np.zeros(kept), where=values > _NO_DIRECTION * values[0])
    vectors: Matrix = np.zeros((Z.shape[0], count))
    vectors[:, :kept] = (Z @ right) * inverse
    return vectors
