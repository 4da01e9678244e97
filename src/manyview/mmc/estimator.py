"""The front door: class MMC."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer
from manyview.engine import Engine, blas_threads, engine_for
from manyview.engine.arrays import to_numpy
from manyview.exceptions import InterruptWarning, ViewWarning, warn_user
from manyview.graph.settings import GraphSettings
from manyview.iterate import ProgressBar
from manyview.mmc.checkpoint import opened, resumed, writable
from manyview.mmc.diagnostics import remark_on, remark_on_rows
from manyview.mmc.explain import Combination, combinations_of
from manyview.mmc.indicator import DiscreteIndicator, Indicator, OrthogonalIndicator
from manyview.mmc.initial import STARTS, Given, Start
from manyview.mmc.objective import checked_rank, default_gamma, penalty_named
from manyview.mmc.prediction import Predictor
from manyview.mmc.solver import Candidate, Fitted, Problem, Setup, best_of
from manyview.views import Views, check_scale

__all__ = ["MMC"]


class MMC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiViewClusterer):
    """Multi-linear Multi-view Clustering.

    A regression from all products of features across views to a cluster indicator F, with the
    indicator itself unknown. Its weight tensor has rank R and is kept as factors, one W_v per
    view and one A for the clusters::

        J = | (Z_1 W_1 * ... * Z_V W_V) A' - F |^2 + gamma (sum_v pen(W_v) + pen(A)),  F'F = I

    where ``Z_v = [X_v, 1]`` and ``*`` is the elementwise product. The ones let products of fewer
    views, down to single features, take part. The tensor is never formed.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, K.
    rank : int, optional
        Rank R of the weight tensor; default ``max(20, 2 K)``. At least `n_clusters`. With `order`
        below the number of views both numbers hold for each choice of `order` views, and are
        multiplied by the number of choices.
    gamma : float, optional
        Weight of the penalty. By default it follows from the data, so that their scale does not
        matter (:func:`manyview.mmc.objective.default_gamma`): about 0.01, which the paper has.
    penalty : {"l21", "frobenius"}, default="l21"
        ``"l21"``, the sum of the norms of the factors' rows, drops features; ``"frobenius"``,
        their squared norm, is the paper's MMC-F.
    order : int, optional
        Most views whose features are multiplied with each other: 1 for single features, 2 for
        pairs. By default, and where there are fewer, as many as there are.
    indicator : {"discrete", "orthogonal"}, default="discrete"
        ``"discrete"`` puts every sample into one cluster in every sweep; ``"orthogonal"`` is the
        paper's relaxation, to any F with orthonormal columns, followed by k-means on its rows.
        Discrete labels that the graph shows clearly are held where the model explains them in part
        only, so that ``predict`` of the same samples differs from ``labels_`` for some.
    init : {"graph", "kmeans", "random"} or array-like, default="graph"
        Where the indicator starts: the clusters of the neighbour graph of the product kernel
        ``prod_v (1 + X_v X_v')``, or those of k-means where the graph shows none and the model
        explains these better; those of k-means on the views side by side; random ones; or given as
        labels of shape (n_samples,) or as an indicator or memberships of shape (n_samples,
        n_clusters), made orthonormal.
    n_init : int, default=1
        Number of starts that are carried through. The one of the lowest objective is kept,
        leaving out those that collapsed: they have a low objective and no clusters. Each start
        from a graph looks at a fourth of the neighbours of the one before (beyond 4,000 samples,
        all but the first at the very nearest landmarks), and is kept if it lowers the objective
        by a tenth, which ranks starts but roughly.
    max_iter : int, default=100
        Most sweeps.
    tol : float, default=1e-3
        Stop when a sweep lowers the objective by less than this part of it. Inside a sweep,
        conjugate gradients end with a step that lowers it by less than five times as much.
    patience : int or None, default=3
        Stop when this number of sweeps in a row have left 97 % of the indicator as it was. More
        sweeps drop more features and fit these samples closer, and others less close. None goes
        on until the objective settles.
    normalize : {"rows", "columns"} or None, default="rows"
        Scale the samples of each view to unit length, or standardise its features. None leaves the
        views as they are; rows should then have a length of about 1, the size of the constant that
        is appended. The data are not copied for it.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.
    n_jobs : int, optional
        Threads over blocks of rows, as in scikit-learn: -1 for all processors. By default as many
        as BLAS would use, which then has one in each. Labels do not depend on it. Tensors and Dask
        arrays have the threads of torch and Dask.
    verbose : int, default=0
        1 shows a bar with the objective.
    checkpoint : path, optional
        File in which the fit writes down where it stands, for one start only (``n_init=1``).
        The same call resumes from the file after an interrupt or crash, with the result it would
        have given uninterrupted. If the fit had finished, no further sweep is made. A file of
        other data or parameters is refused; only `max_iter` may be raised. By default nothing is
        written.
    checkpoint_every : int, default=1
        Sweeps from one checkpoint to the next. Each costs a pass over the views.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; of tensors a tensor, of Dask arrays a Dask array.
    indicator_ : ndarray of shape (n_samples, n_clusters)
        Indicator F, with orthonormal columns; as ``labels_``.
    view_factors_ : list of ndarray of shape (n_features_v + 1, rank)
        View factors W_v, bias last. A row of zeros is a feature that takes no part.
    cluster_factors_ : ndarray of shape (n_clusters, rank)
        Cluster factor A.
    gamma_ : float
        Weight of the penalty.
    objective_ : ndarray of shape (n_iter_,)
        J after every sweep.
    n_iter_ : int
        Number of sweeps.
    n_views_, n_features_in_, view_names_, feature_names_in_
        What fit saw: the number of views, and of each its number of features, its name and the
        names of its features, or None.

    See Also
    --------
    manyview.datasets.make_views : Synthetic views to try it on.

    Notes
    -----
    `predict` and `transform` use factors of their own: the features that the l2,1 penalty left,
    fitted to the final indicator once more with the squared norm as penalty, which serves samples
    that were not there better.

    `predict` puts a sample into the cluster of its largest entry in `transform`. `labels_` are the
    outcome of the last indicator step on the training samples, which moves them only while that
    raises its criterion. The two agree but for samples between clusters, labels that are held (see
    `indicator`) and where the sweeps ended by `max_iter`; with ``indicator="orthogonal"`` both
    follow the same centres.

    An interrupt (Ctrl-C) during the sweeps ends the fit with the last whole sweep and a warning.

    References
    ----------
    L. He, C.-T. Lu, Y. Chen, J. Zhang, L. Shen, P. S. Yu, F. Wang. A Self-Organizing Tensor
    Architecture for Multi-View Clustering. ICDM 2018.

    Examples
    --------
    >>> from manyview import MMC
    >>> from manyview.datasets import make_views
    >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
    >>> model = MMC(n_clusters=3, random_state=0).fit(views)
    >>> model.labels_.shape, model.predict(views.take([0, 1])).shape
    ((150,), (2,))
    """

    _takes_lacking_views = True
    _takes_other_places = True
    _graph_settings = GraphSettings()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "penalty": [StrOptions({"l21", "frobenius"})],
        "order": [Interval(Integral, 1, None, closed="left"), None],
        "indicator": [StrOptions({"discrete", "orthogonal"})],
        "init": [StrOptions(set(STARTS)), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "normalize": [StrOptions({"rows", "columns"}), None],
        "random_state": ["random_state"],
        "n_jobs": [
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "verbose": ["verbose"],
        "checkpoint": [str, PathLike, None],
        "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        rank: int | None = None,
        gamma: float | None = None,
        penalty: str = "l21",
        order: int | None = None,
        indicator: str = "discrete",
        init: Any = "graph",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        patience: int | None = 3,
        normalize: str | None = "rows",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 1,
    ) -> None:
        self.n_clusters = n_clusters
        self.rank = rank
        self.gamma = gamma
        self.penalty = penalty
        self.order = order
        self.indicator = indicator
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

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
        MMC
            The fitted estimator.
        """
        # before _setup_fit does: a file that will not do is told of before the views are read
        self._validate_params()
        path = self._checkpoint_path()
        checked = self._setup_fit(views)
        check_scale(checked, self.normalize)
        rank = checked_rank(self.rank, self.n_clusters, len(checked), self.order)
        init = self.init
        if not isinstance(init, str):
            init = Given.of(init, checked.n_samples, self.n_clusters)
        complete = checked.present is None
        start = Start(init, self.n_clusters, rank, self.order, complete, self._graph_settings)
        rng = self._generator()
        engine = self._engine(checked, self.normalize)
        file, saved = None, None
        with engine.running():
            if path is not None:
                parameters = self.get_params(deep=False) | {"rank": rank}
                file, saved = opened(path, engine, checked, parameters, rng)
            # before features are left out
            mean_rows, squares = map(list, zip(*engine.moments, strict=True))
            problem = self._problem(engine, self.gamma if saved is None else saved.gamma)
        said = remark_on_rows(squares) if self.normalize == "rows" else None
        if said is not None:
            warn_user(said, ViewWarning)

        def first(number: int) -> Fitted:
            if saved is not None:
                return resumed(engine, problem, saved, rng)
            return start.begin(engine, problem, rng, number)

        total = self._n_starts * self.max_iter
        with engine.running(), ProgressBar("MMC", total=total, shown=bool(self.verbose)) as bar:
            setup = Setup(engine, problem, rng, bar, file)
            best, interrupted = best_of(setup, first, self._n_starts, by=start.lower_by)
        self._record_views(checked)
        self._record(best, engine, problem, mean_rows)
        message = remark_on(
            best.fitted,
            problem,
            checked,
            gamma_given=self.gamma is not None,
            interrupted=interrupted,
        )
        if message is not None:
            kind = InterruptWarning if interrupted else ConvergenceWarning
            warn_user(message, kind)
        return self

    def predict(self, views: Any) -> npt.NDArray[np.intp]:
        """Return the cluster of each sample of other views of the same kind.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            Views with the names and features of those of fit. A sample may lack some
            (``as_views(views, present=...)``): of these the model takes the mean of what fit saw.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters.
        """
        labels: npt.NDArray[np.intp] = self._predicted(views, "labels")
        return labels

    def transform(self, views: Any) -> Matrix:
        """Return the model's prediction of the indicator.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            How far each sample belongs to each cluster, in the scale of ``indicator_``.
        """
        prediction: Matrix = self._as_output(self._predicted(views, "prediction"), views)
        return prediction

    def explain(
        self,
        order: int | None = None,
        *,
        top: int = 10,
        views: int | str | Iterable[int | str] | None = None,
    ) -> list[Combination]:
        """Return the features that, together, speak most for each cluster.

        `transform` is a sum over products of features of different views, each product with a
        weight for every cluster; these are the largest. They refer to features as fit scales
        them, and to the scale of `transform`, which is smaller for larger clusters. With the
        orthogonal indicator a cluster is read by the inner product with its centre.

        Parameters
        ----------
        order : int, optional
            Number of features that are multiplied: 1 for single ones, 2 for pairs of two views.
            By default pairs, or single features where there are none: with one view, or where
            the penalty has left the features of one.
        top : int, default=10
            Most products for each cluster.
        views : int, str or iterable of them, optional
            Places or names of the views that features may come from; by default all.

        Returns
        -------
        list of Combination
            Tuples of cluster, weight, features (pairs of the names of view and feature) and their
            places; by cluster, largest weight first. Weights that are not above zero are left
            out, so that there may be fewer than `top`, or none: of a model that went to zero,
            always none.

        Examples
        --------
        >>> from manyview import MMC
        >>> from manyview.datasets import make_views
        >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
        >>> model = MMC(n_clusters=3, random_state=0).fit(views)
        >>> for combination in model.explain(top=1):
        ...     print(combination.cluster, combination.features)
        0 (('informative0', 'informative18'), ('informative1', 'informative17'))
        1 (('informative0', 'informative9'), ('informative1', 'informative6'))
        2 (('informative0', 'informative10'), ('informative1', 'informative19'))
        """
        check_is_fitted(self, "labels_")
        return combinations_of(self._predictor, self, order, top, views)

    def to_local(self) -> Self:
        """Return a copy whose results are all NumPy arrays in this process.

        It predicts with neither Dask nor torch, and can be saved. ``labels_`` and ``indicator_``
        of a fit on a cluster or a device are brought here, where they have to fit.

        Returns
        -------
        MMC
            The copy.
        """
        check_is_fitted(self, "labels_")
        local = copy(self)
        local.labels_ = to_numpy(self.labels_)
        local.indicator_ = to_numpy(self.indicator_)
        return local

    def _predicted(self, views: Any, what: str) -> Any:
        checked = self._setup_predict(views)
        check_scale(checked, self._predictor.normalize)
        engine = self._engine(checked, self._predictor.normalize, scalings=self._predictor.scalings)
        with engine.running():
            self._predictor.predict(engine, lacking=checked.present is not None)
            return engine.gather(what)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_starts(self) -> int:
        return self.n_init if isinstance(self.init, str) else 1

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_factors_.shape[0])

    def _engine(self, views: Views, normalize: str | None, **options: Any) -> Engine:
        threads = blas_threads() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        return engine_for(views, normalize=normalize, n_threads=threads, **options)

    def _checkpoint_path(self) -> Path | None:
        """Return the file that `checkpoint` names, or raise where it will not do."""
        if self.checkpoint is None:
            return None
        if self._n_starts > 1:
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} with n_init={self.n_init}: a checkpoint is "
                "of one start; use n_init=1, with another random_state and file for each start"
            )
        return writable(Path(self.checkpoint))

    def _problem(self, engine: Engine, gamma: float | None) -> Problem:
        penalty = penalty_named(self.penalty)
        if gamma is None:
            gamma = default_gamma(engine, penalty, self.n_clusters)
        discrete = self.indicator == "discrete"
        indicator: Indicator = DiscreteIndicator() if discrete else OrthogonalIndicator()
        return Problem(penalty, float(gamma), indicator, self.max_iter, self.tol, self.patience)

    def _record(
        self, best: Candidate, engine: Engine, problem: Problem, mean_rows: list[Matrix]
    ) -> None:
        fitted = best.fitted
        self.labels_ = best.labels
        self.indicator_ = best.indicator
        factors = [*map(to_numpy, fitted.factors.views), fitted.factors.clusters]
        if fitted.is_zero:  # what goes to zero comes near it only
            factors = list(map(np.zeros_like, factors))
        *self.view_factors_, self.cluster_factors_ = factors
        self.gamma_ = problem.gamma
        self.objective_ = np.array(fitted.objective)
        self.n_iter_ = len(fitted.objective)
        self._predictor = Predictor(
            best.refitted,
            best.readout,
            mean_rows,
            self.normalize,
            [scaling.restrict(None) for scaling in engine.scalings],
            fitted.is_zero,
        )
