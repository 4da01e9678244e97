"""Co-regularised spectral clustering."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from manyview._typing import Matrix
from manyview.baselines.common import (
    EmbeddingClusterer,
    refuse_beyond,
    scaled_arrays,
    strength_per_view,
)
from manyview.baselines.graphs import rbf_kernel
from manyview.iterate import iterate, warn_if_early
from manyview.linalg.eigen import largest_eigenvectors, renewed_eigenvectors, symmetric_operator
from manyview.linalg.partition import unit_rows

__all__ = ["CoRegSC"]


class CoRegSC(EmbeddingClusterer):
    """Co-regularised multi-view spectral clustering.

    Every view has a spectral embedding U_v of its own, and these are drawn towards a common one,
    U*, or towards each other. With ``S_v = D^(-1/2) K_v D^(-1/2)`` the normalised RBF kernel of a
    view, the centroid form maximises, over matrices with orthonormal columns::

        sum_v tr(U_v' S_v U_v) + sum_v regularization_v tr(U_v U_v' U* U*')

    and the pairwise form::

        sum_v tr(U_v' S_v U_v) + regularization sum_(v<w) tr(U_v U_v' U_w U_w')

    each U in turn being the leading eigenvectors of what the others leave. k-means on the rows,
    scaled to unit length, of U* or of ``[U_1 ... U_V]`` gives the labels. There is no `predict`:
    the embedding is one of these samples only.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    regularization : float or array-like of shape (n_views,), default=0.01
        Weight of the agreement, for the centroid form one each if need be. The paper's range is
        0.01 to 0.05. At 0 every view has its own spectral embedding, and U* is still their
        common part.
    form : {"centroid", "pairwise"}, default="centroid"
        Towards what the embeddings are drawn.
    max_iter : int, default=10
        Most sweeps over the views.
    tol : float, default=0.0
        Stop when a sweep raises the objective by less than this part of it. At 0, as in the
        public scripts, there are always `max_iter` sweeps.
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
    embedding_ : ndarray of shape (n_samples, n_clusters) or (n_samples, n_views * n_clusters)
        What k-means is given, rows of unit length (rows of zeros stay).
    view_embeddings_ : list of ndarray of shape (n_samples, n_clusters)
        U_v.
    objective_ : ndarray of shape (n_iter_,)
        The objective after every sweep; it does not fall. In the centroid form
        ``embedding_`` is found anew from the last U_v, for which it is a little higher still.
    n_iter_ : int
        Number of sweeps.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw.

    Notes
    -----
    Memory: one dense kernel of n^2 doubles a view and two beside them, ``8 (V + 2) n^2`` bytes,
    refused beforehand beyond half of the machine's memory. Sparse views are not densified, but
    their kernels are dense. The width of a kernel is the median of all pairwise distances.

    It differs from the public code in two places: U* is computed once more after the last sweep,
    and the pairwise form clusters on the embeddings of all views, of which that code keeps the
    first.

    References
    ----------
    A. Kumar, P. Rai, H. Daume III. Co-regularized Multi-view Spectral Clustering. NIPS 2011.

    Examples
    --------
    >>> from manyview.baselines import CoRegSC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=90, n_clusters=3, random_state=0)
    >>> model = CoRegSC(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, model.n_iter_
    ((90,), 10)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "regularization": [Interval(Real, 0, None, closed="left"), "array-like"],
        "form": [StrOptions({"centroid", "pairwise"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        regularization: Any = 0.01,
        form: str = "centroid",
        max_iter: int = 10,
        tol: float = 0.0,
        n_init: int = 1,
        normalize: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.regularization = regularization
        self.form = form
        self.max_iter = max_iter
        self.tol = tol
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
        CoRegSC
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        strengths = strength_per_view("regularization", self.regularization, len(checked))
        if self.form == "pairwise" and np.ndim(self.regularization):
            raise ValueError(
                f"regularization={self.regularization!r} with form='pairwise': expected one number"
            )
        n = checked.n_samples
        refuse_beyond(8 * (len(checked) + 2) * n**2, method="CoRegSC", n_samples=n)
        rng, label_rng = self._generators()
        arrays = scaled_arrays(checked, self.normalize)
        affinities = [
            _normalised(rbf_kernel(array, name))
            for name, array in zip(checked.names, arrays, strict=True)
        ]
        sweep = _centroid_sweep if self.form == "centroid" else _pairwise_sweep
        own = [
            largest_eigenvectors(symmetric_operator(S), self.n_clusters, rng) for S in affinities
        ]

        def settled(embeddings: list[Matrix], values: Sequence[float]) -> bool:
            if self.tol == 0:  # a number of sweeps is what was asked for
                return len(values) == self.max_iter
            return len(values) > 1 and values[-1] - values[-2] < self.tol * values[-1]

        with self._progress(self.max_iter) as show:
            found = iterate(
                lambda embeddings: sweep(affinities, embeddings, strengths, rng),
                own,
                max_iter=self.max_iter,
                settled=settled,
                on_iteration=show,
            )
        centroid = self.form == "centroid"
        whole = _common(found.state, strengths) if centroid else np.hstack(found.state)
        embedding = unit_rows(whole)
        self.labels_ = self._assigned(embedding, label_rng)
        self.embedding_ = embedding
        self._record_views(checked)
        self.view_embeddings_ = found.state
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        warn_if_early(found, remedy=f"raise max_iter, or tol above {self.tol:g}")
        return self


def _centroid_sweep(
    affinities: list[Matrix], embeddings: list[Matrix], strengths: Matrix, rng: np.random.Generator
) -> tuple[list[Matrix], float]:
    """Renew U*, then every U_v; return them and the objective."""
    common = _common(embeddings, strengths)
    drawn, values = [], []
    for S, U, strength in zip(affinities, embeddings, strengths, strict=True):
        renewed, value = renewed_eigenvectors(symmetric_operator(S, strength, common), U, rng)
        drawn.append(renewed)
        values.append(value)
    return drawn, float(np.sum(values))


def _pairwise_sweep(
    affinities: list[Matrix], embeddings: list[Matrix], strengths: Matrix, rng: np.random.Generator
) -> tuple[list[Matrix], float]:
    """Renew every U_v, the first one last; return them and the objective."""
    n_views, strength = len(affinities), float(strengths[0])
    drawn = list(embeddings)
    total = 0.0
    for v in [*range(1, n_views), 0]:
        others = [drawn[w] for w in range(n_views) if w != v]
        towards = np.hstack(others) if others else None
        operator = symmetric_operator(affinities[v], strength, towards)
        drawn[v], value = renewed_eigenvectors(operator, drawn[v], rng)
        total += value - strength * sum(_overlap(drawn[v], other) for other in others)
    total += strength * sum(_overlap(drawn[v], drawn[w]) for v in range(n_views) for w in range(v))
    return drawn, total


def _common(embeddings: list[Matrix], strengths: Matrix) -> Matrix:
    """Leading eigenvectors of ``sum_v strength_v U_v U_v'``, of equal weights where all are 0."""
    weights = np.sqrt(strengths) if strengths.any() else np.ones(len(embeddings))
    beside = np.hstack([weight * U for weight, U in zip(weights, embeddings, strict=True)])
    left, _, _ = np.linalg.svd(beside, full_matrices=False)
    return left[:, : embeddings[0].shape[1]]


def _overlap(U: Matrix, W: Matrix) -> float:
    return float(np.sum((U.T @ W) ** 2))


def _normalised(kernel: Matrix) -> Matrix:
    # in place: the kernel is not needed, and its diagonal leaves no degree at zero
    inverse = 1.0 / np.sqrt(kernel.sum(axis=1))
    kernel *= inverse[:, None]
    kernel *= inverse
    return kernel
