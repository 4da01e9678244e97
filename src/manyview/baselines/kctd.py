"""KCTD: one symmetric factorisation of the kernels of all views."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from manyview.base import MultiViewClusterer
from manyview.baselines.graphs import rbf_kernel
from manyview.baselines.kernel_decomposition import (
    decompose_admm,
    decompose_lbfgs,
    with_unit_columns,
)
from manyview.baselines.memory import refuse_beyond
from manyview.baselines.scaling import scaled_arrays
from manyview.iterate import warn_if_early
from manyview.linalg.partition import cluster_rows
from manyview.memory import check_memory

__all__ = ["KCTD"]


class KCTD(MultiViewClusterer):
    """Kernel tensor decomposition: k-means on a factor that the kernels of all views share.

    The RBF kernels K_v of the views are the slices of an N x N x V tensor. Its symmetric
    decomposition of rank R has one row b_i a sample and one row a_v a view::

        min over B (N x R), A (V x R) of  sum_v | K_v - B diag(a_v) B' |^2

    and the clusters are those of k-means on the rows of B.

    This is a reconstruction: the decomposition is that of a method for incomplete data, whose
    missing entries and sparsity term are left out, and the optimiser follows the same group's
    way of splitting a symmetric factor. It is no faithful copy of the authors' program.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    rank : int, optional
        Rank of the decomposition, R. By default `n_clusters`.
    solver : {"admm", "lbfgs"}, default="admm"
        ``"admm"`` splits B into two copies and alternates; it is not monotone. ``"lbfgs"``
        descends on (B, A) together, monotonically, and commonly ends at a slightly lower misfit.
        The clusters can depend on which: see Notes.
    max_iter : int, default=200
        Most iterations. Either solver commonly takes 300 to 2000 before the misfit settles, and
        more where there are many clusters.
    tol : float, default=1e-6
        Stop when an iteration of ``"admm"`` changes the misfit by less than this part of it and
        the two copies of B agree to 1e-4, or ten of ``"lbfgs"`` together change it by less.
    unit_columns : bool, default=False
        Scale the columns of B to unit length before k-means, and A against them. The scale of a
        column of B against that of A is not determined by the misfit, and k-means sees it.
    normalize : {"rows", "columns"} or None, default=None
        Scale the samples of each view to unit length, standardise its features, or neither.
    n_init : int, default=1
        Number of starts of k-means.
    random_state : int, RandomState instance or None, default=None
        Seed of the factors and of k-means.
    verbose : int, default=0
        1 shows a bar with the misfit.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample.
    embedding_ : ndarray of shape (n_samples, rank)
        Shared factor B.
    view_weights_ : ndarray of shape (n_views, rank)
        Weights A of the columns of B in each view.
    objective_ : ndarray of shape (n_iter_,)
        Misfit after every iteration, as a part of ``sum_v |K_v|^2``.
    n_iter_ : int
        Number of iterations.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw: the number of views, and of each its number of features, its name and the
        names of its features, or None.

    Notes
    -----
    One kernel a view is kept, V N^2 numbers; a fit that would need more than half of the
    machine's memory is refused. Only the products K_v B are formed, O(V N^2 R) an iteration.
    There is no `predict`: a sample that was not there has no row in B.

    Where one nearly constant direction holds almost all of every kernel, as it does on raw word
    counts, the directions that tell clusters apart weigh little in the misfit, and the clusters
    depend on how far it is lowered. Results should name `solver`, `max_iter` and `unit_columns`.

    References
    ----------
    L. He, C.-T. Lu, Y. Chen, J. Zhang, L. Shen, P. S. Yu, F. Wang. A Self-Organizing Tensor
    Architecture for Multi-View Clustering. ICDM 2018; KCTD is among the methods compared there.

    Examples
    --------
    >>> from manyview.baselines import KCTD
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=60, n_clusters=3, random_state=0)
    >>> model = KCTD(n_clusters=3, solver="lbfgs", max_iter=1000, random_state=0).fit(views)
    >>> model.embedding_.shape, model.view_weights_.shape
    ((60, 3), (2, 3))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"admm", "lbfgs"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "unit_columns": ["boolean"],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        rank: int | None = None,
        solver: str = "admm",
        max_iter: int = 200,
        tol: float = 1e-6,
        unit_columns: bool = False,
        normalize: str | None = None,
        n_init: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.rank = rank
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.unit_columns = unit_columns
        self.normalize = normalize
        self.n_init = n_init
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
        KCTD
            The fitted estimator.
        """
        checked = self._setup_fit(views)
        n_samples, n_views = checked.n_samples, len(checked)
        rank = self.n_clusters if self.rank is None else int(self.rank)
        refuse_beyond(8 * (n_views + 2) * n_samples**2, method="KCTD", n_samples=n_samples)
        check_memory(
            32.0 * rank * rank,  # four Gram matrices at a time
            work=f"KCTD with rank={rank}",
            matrices="rank by rank",
            way_out="Use a smaller rank",
        )
        rng = self._generator()
        arrays = scaled_arrays(checked, self.normalize)
        kernels = [rbf_kernel(X, name) for X, name in zip(arrays, checked.names, strict=True)]
        solve = {"admm": decompose_admm, "lbfgs": decompose_lbfgs}[self.solver]
        with self._progress(self.max_iter, "misfit") as show:
            found = solve(
                kernels,
                0.1 * rng.standard_normal((n_samples, rank)),
                max_iter=self.max_iter,
                tol=self.tol,
                on_iteration=show,
            )
        factors = with_unit_columns(found.state) if self.unit_columns else found.state
        self.labels_, _ = cluster_rows(factors.shared, self.n_clusters, rng, n_init=self.n_init)
        self._record_views(checked)
        self.embedding_ = factors.shared
        self.view_weights_ = factors.weights
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        warn_if_early(
            found,
            what=f"the misfit of solver={self.solver!r}",
            remedy="raise max_iter: either solver commonly takes 300 to 2000, and more where there "
            "are many clusters",
        )
        return self
