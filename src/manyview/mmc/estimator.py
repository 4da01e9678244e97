"""The MMC estimator."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import partial
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from manyview._typing import ArrayLike, Floats, Matrix, NormalizeViews
from manyview.base import MultiViewClusterer
from manyview.choice import StableClusters, stable_clusters
from manyview.engine import Engine, State, blas_threads, engine_for, in_units
from manyview.engine.arrays import to_numpy
from manyview.exceptions import InterruptWarning, ViewWarning, warn_user
from manyview.graph.scaling import resolve_normalization
from manyview.graph.settings import GraphSettings
from manyview.iterate import ProgressBar
from manyview.mmc.checkpoint import CheckpointFile, writable
from manyview.mmc.diagnostics import dominance_warning, fit_warning
from manyview.mmc.explain import (
    Combinations,
    Profile,
    combinations_of,
    likely_pairs,
    profile_of,
)
from manyview.mmc.indicator import (
    DiscreteIndicator,
    Indicator,
    LeaveOneOutIndicator,
    OrthogonalIndicator,
)
from manyview.mmc.initial import INITS, Given, LabelInitialisation
from manyview.mmc.membership import Lazy, Memberships, Training
from manyview.mmc.objective import checked_rank, default_gamma, penalty_named
from manyview.mmc.prediction import Predictor
from manyview.mmc.solver import Candidate, Problem, best_of
from manyview.mmc.statistics import Statistics
from manyview.mmc.view_weights import ViewWeights
from manyview.views import Normalize, Views, check_scale

__all__ = ["MMC"]

_POSITIVE = Interval(Integral, 1, None, closed="left")
_MOST_AUTO = 20  # clusters that n_clusters="auto" tries
_INDICATORS: dict[str, type[Indicator]] = {
    "discrete": DiscreteIndicator,
    "leave-one-out": LeaveOneOutIndicator,
    "orthogonal": OrthogonalIndicator,
}
_LAZY = {
    "_memberships": ("membership_", "confidence_", "outlier_score_", "_found_memberships"),
    "_view_weights": ("view_weights_",),
}


class MMC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiViewClusterer):
    """Multi-linear Multi-view Clustering.

    A regression from all products of features across views to a cluster indicator F, which is
    itself unknown. The weight tensor has rank R and is kept as factors, one W_v per view and one A
    for the clusters::

        J = | (Z_1 W_1 * ... * Z_V W_V) A' - F |^2 + gamma (sum_v pen(W_v) + pen(A)),  F'F = I

    where ``Z_v = [X_v, 1]`` and ``*`` is the elementwise product. Because of the ones, products
    over fewer views, down to single features, take part too. The tensor is never formed.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters, K. ``"auto"`` takes the recommendation of
        :func:`manyview.choose_n_clusters` for 2 to 20 clusters, and raises an error if there are no
        clusters.
    rank : int, optional
        Rank R of the weight tensor, at least `n_clusters`; default ``max(20, 2 K)``. With `order`
        below the number of views, both numbers are multiplied by the number of choices of `order`
        views.
    gamma : float, optional
        Weight of the penalty. The default follows from the data, so that their scale does not
        matter (:func:`manyview.mmc.objective.default_gamma`). It is about 0.01, the paper's value.
    penalty : {"l21", "frobenius"}, default="l21"
        ``"l21"``, the sum of the norms of the factors' rows, drops features. ``"frobenius"``, the
        squared norm, is the paper's MMC-F.
    order : int, optional
        Largest number of views whose features are multiplied with each other: 1 for single
        features, 2 for pairs. By default all views.
    indicator : {"leave-one-out", "discrete", "orthogonal"}, default="leave-one-out"
        ``"leave-one-out"`` finds the labels first, and then fits the factors to them. A sample is
        in the cluster that regressions on the other samples, and its neighbours, predict for it.
        With ``"discrete"`` every iteration moves samples to the cluster that the factors predict;
        as these were fitted to the same samples, few move. ``"orthogonal"`` is the paper's
        relaxation to any F with orthonormal columns, followed by k-means on its rows.
    init : {"graph", "kmeans", "random"} or array-like, default="graph"
        Initial labels. ``"graph"`` takes the spectral clusters of affinity graphs
        (:class:`manyview.MultiViewSpectral`), ``"kmeans"`` clusters the concatenated views. An
        array has labels of shape (n_samples,), or an indicator or memberships of shape
        (n_samples, n_clusters), which are orthonormalised.
    n_init : int, default=1
        Number of restarts. The result with the lowest objective is kept, except that collapsed
        results, which have a low objective but no clusters, come last. Each restart from a graph
        uses a quarter of the neighbours of the one before, and must lower the objective by a tenth
        to be kept.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-3
        Stop when an iteration lowers the objective by less than this part of it. Within an
        iteration, conjugate gradients end with a step that lowers it by less than five times this
        part.
    patience : int or None, default=3
        Early stopping: stop when this number of consecutive iterations each left 97 % of the
        indicator unchanged. Further iterations drop more features and overfit the training
        samples. None iterates until the objective converges.
    normalize : {"auto", "rows", "columns", "log"} or None, or list or dict of them, default="auto"
        Scale the samples of each view to unit length, or standardise its features. With None the
        views are used as they are, and rows should have a length of about 1, the size of the
        appended constant. ``"log"`` is for counts: rows are divided by their mean, every x
        becomes log(1 + x), and these rows have unit length. ``"auto"`` uses logarithms of counts
        and unit rows of other views, or standardises dense views that are not mostly zeros if
        clusters of up to 500 samples are then clearer. Standardised views are
        compared by distance in place of angle, which plain tables of measurements need. A list has
        an entry for each view; a dict has them by the name of the view, and views that it does not
        name have ``"auto"``. Data are copied for logarithms only.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation.
    n_jobs : int, optional
        Number of threads over blocks of rows, as in scikit-learn: -1 for all processors. By default
        as many as BLAS would use. The labels do not depend on it. Torch and Dask use their own
        threads.
    verbose : int, default=0
        1 shows a progress bar with the stages of the initialisation and the objective, and the
        part of unknown cells.
    checkpoint : path, optional
        File for checkpoints of the fit; it requires ``n_init=1``. After an interrupt or a crash the
        same call resumes from the file, with the result of an uninterrupted fit. If the fit had
        finished, no iteration is repeated. A file of other data or parameters is rejected; only
        `max_iter` may be raised. By default nothing is written.
    checkpoint_every : int, default=1
        Number of iterations between checkpoints. Each costs a pass over the views.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; a tensor or Dask array if the views are.
    indicator_ : ndarray of shape (n_samples, n_clusters)
        Indicator F, with orthonormal columns; of the same kind as ``labels_``.
    view_factors_ : list of ndarray of shape (n_features_v + 1, rank)
        View factors W_v, bias last. A row of zeros is a dropped feature.
    cluster_factors_ : ndarray of shape (n_clusters, rank)
        Cluster factor A.
    n_clusters_ : int
        Number of clusters, K.
    choice_ : StableClusters or None
        With ``n_clusters="auto"``, how stable other numbers of clusters are.
    gamma_ : float
        Weight of the penalty.
    normalize_ : dict of str to {"rows", "columns", "log"} or None
        Scaling of each view, by its name.
    objective_ : ndarray of shape (n_iter_,)
        J after every iteration.
    n_iter_ : int
        Number of iterations.
    membership_ : ndarray of shape (n_samples, n_clusters)
        Membership of each sample in each cluster; rows sum to one. It is calibrated: about 80 % of
        the samples with a membership of .8 are in that cluster again when half of the data is
        clustered anew. Like the next three it is computed when it is first asked for, which takes
        up to as long as the fit, and the model refers to the training views until then.
    confidence_ : ndarray of shape (n_samples,)
        Membership of each sample in its own cluster, that in ``labels_``. It is the largest one
        except for samples between clusters.
    outlier_score_ : ndarray of shape (n_samples,)
        How far each sample is from its ten nearest samples: the logarithm of the mean distance, as
        a robust z-score within its cluster. :meth:`labels_without_outliers` sets aside those above
        3.5.
    view_weights_ : ViewWeights
        How much each view contributes to each cluster and to all of them: how much less of the
        labels can be predicted without the view, and how much with this view alone. It prints as a
        table, ``np.asarray`` gives the former, of shape (n_clusters + 1, n_views), and
        ``to_frame()`` a DataFrame; see :class:`~manyview.mmc.ViewWeights`.
    n_views_, n_features_in_, view_names_, feature_names_in_
        The number of views seen by fit and, for each view, its number of features, its name, and
        the names of its features or None.

    See Also
    --------
    manyview.datasets.make_views : Synthetic views.

    Notes
    -----
    `predict` and `transform` use separate factors: the features that the l2,1 penalty selected,
    refitted to the final indicator with the squared norm as penalty. These predict out-of-sample
    labels better.

    `predict` assigns a sample to the cluster whose mean in `transform` has the largest cosine with
    the sample's row, in the metric of linear discriminant analysis. ``labels_`` are found before
    (see `indicator`), or the result of the last indicator update. Both agree except for samples
    between clusters. With ``indicator="orthogonal"`` both use the same k-means centres.

    An interrupt (Ctrl-C) during the iterations ends the fit with the last complete iteration and a
    warning.

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

    _statistics: Statistics | None
    _takes_missing_views = True
    _takes_unknown_cells = True
    _takes_other_places = True
    _graph_settings = GraphSettings()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [_POSITIVE, StrOptions({"auto"})],
        "rank": [_POSITIVE, None],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "penalty": [StrOptions({"l21", "frobenius"})],
        "order": [_POSITIVE, None],
        "indicator": [StrOptions(set(_INDICATORS))],
        "init": [StrOptions(set(INITS)), "array-like"],
        "n_init": [_POSITIVE],
        "max_iter": [_POSITIVE],
        "tol": [Interval(Real, 0, None, closed="left")],
        "patience": [_POSITIVE, None],
        "normalize": [StrOptions({"auto", "rows", "columns", "log"}), list, tuple, dict, None],
        "random_state": ["random_state"],
        "n_jobs": [Interval(Integral, None, -1, closed="right"), _POSITIVE, None],
        "verbose": ["verbose"],
        "checkpoint": [str, PathLike, None],
        "checkpoint_every": [_POSITIVE],
    }

    def __init__(
        self,
        n_clusters: int | Literal["auto"],
        *,
        rank: int | None = None,
        gamma: float | None = None,
        penalty: Literal["l21", "frobenius"] = "l21",
        order: int | None = None,
        indicator: Literal["leave-one-out", "discrete", "orthogonal"] = "leave-one-out",
        init: Literal["graph", "kmeans", "random"] | ArrayLike = "graph",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        patience: int | None = 3,
        normalize: NormalizeViews = "auto",
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
            The views; see :func:`manyview.as_views`. NaN in a dense array or tensor is an unknown
            cell: samples are compared by the features that both have, and the model uses the mean
            of the feature.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        MMC
            The fitted estimator.
        """
        self._validate_params()
        # reject an unusable checkpoint before reading the views
        path = self._checkpoint_path()
        checked = self._setup_fit(views)
        rng = self._generator()
        choice, n_clusters = self._resolved_n_clusters(checked, rng)
        n_init = self._n_restarts
        with ProgressBar("MMC", total=n_init * self.max_iter, shown=bool(self.verbose)) as bar:
            bar.stage("scaling")
            by_view = resolve_normalization(
                self.normalize, checked, n_clusters, rng, self._graph_settings, self._n_threads
            )
            rank = checked_rank(self.rank, n_clusters, checked.n_views, self.order)
            init: str | Given = (
                self.init
                if isinstance(self.init, str)
                else Given.of(self.init, checked.n_samples, n_clusters)
            )
            start = LabelInitialisation(
                init, n_clusters, rank, self.order, self._graph_settings, on_stage=bar.stage
            )
            engine = self._engine(checked, by_view)
            with engine.running():
                file = saved = None
                if path is not None:
                    resolved = {"n_clusters": n_clusters, "rank": rank, "normalize": by_view}
                    parameters = self.get_params(deep=False) | resolved
                    file = CheckpointFile(path, engine, checked, parameters, rng)
                    saved = file.read()
                # before features are dropped
                mean_rows, squares = map(list, zip(*engine.moments, strict=True))
                gamma = self.gamma if saved is None else saved.gamma
                problem = self._problem(engine, n_clusters, gamma)
            message = dominance_warning(squares) if set(by_view) == {"rows"} else None
            if message is not None:
                bar.clear()
                warn_user(message, ViewWarning)
            options = {} if file is None else {"keep": partial(file.keep, engine, problem, rng)}
            with engine.running():
                best, bar.interrupted = best_of(
                    n_init, engine, problem, start if saved is None else saved, rng, bar, **options
                )
                predictor = self._predictor_of(best, engine, mean_rows, by_view)
                engine.unrestrict()
                if n_init > 1:  # the blocks have the labels of the last restart
                    engine.scatter(State.LABELS, to_numpy(best.labels))
            raw = in_units(engine, checked, by_view)
            with raw.running():
                statistics = Statistics.of(raw, n_clusters, likely_pairs(predictor))
        self._record_views(checked)
        self._record(best, problem, predictor)
        self._statistics = statistics
        training = Training(
            checked,
            n_clusters,
            self.labels_,
            self.order,
            self._predictor,
            statistics,
            self._graph_settings,
            self._n_threads,
        )
        self._memberships = Lazy(training.memberships)
        self._view_weights = Lazy(training.view_weights)
        self.n_clusters_, self.choice_ = n_clusters, choice
        message = fit_warning(
            best.fitted, problem, checked, gamma=self.gamma, interrupted=bar.interrupted
        )
        if message is not None:
            warn_user(message, InterruptWarning if bar.interrupted else ConvergenceWarning)
        return self

    def _check_data(self, views: Any) -> list[str | None]:
        """Return the scaling of each view in a fit, after all checks that precede its iterations.

        ``n_clusters`` is a number.
        """
        self._validate_params()
        checked = self._setup_fit(views)
        rng = self._generator()
        by_view = resolve_normalization(
            self.normalize, checked, self.n_clusters, rng, self._graph_settings, self._n_threads
        )
        engine = self._engine(checked, by_view)
        with engine.running():
            squares = [of_view[1] for of_view in engine.moments]
        message = dominance_warning(squares) if set(by_view) == {"rows"} else None
        if message is not None:
            warn_user(message, ViewWarning)
        return by_view

    def predict(self, views: Any) -> npt.NDArray[np.intp]:
        """Return the clusters of out-of-sample views.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            Views with the same names and features as in fit. For a missing view of a sample
            (``as_views(views, present=...)``), and for unknown cells (NaN), the model uses the mean
            of the training samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Clusters.
        """
        labels: npt.NDArray[np.intp] = self._predicted(views, State.LABELS)
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
            The score of each sample for each cluster, in the scale of ``indicator_``.
        """
        prediction: Matrix = self._as_output(self._predicted(views, State.PREDICTION), views)
        return prediction

    def predict_proba(self, views: Any) -> Matrix:
        """Return the memberships of out-of-sample views.

        Parameters
        ----------
        views : list, tuple or dict of array-likes, or Views
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            The membership of each sample in each cluster, calibrated as ``membership_`` is. Rows
            sum to one, and the largest entry is that of the cluster that `predict` returns.

        Examples
        --------
        >>> from manyview import MMC
        >>> from manyview.datasets import make_views
        >>> views, _ = make_views(n_samples=150, n_clusters=3, random_state=0)
        >>> model = MMC(n_clusters=3, random_state=0).fit(views)
        >>> some = views.take([0, 1])
        >>> bool((model.predict_proba(some).argmax(axis=1) == model.predict(some)).all())
        True
        """
        # unusable views are rejected before memberships are computed
        prediction = self._predicted(views, State.PREDICTION)
        calibration = self._found_memberships.calibration
        return calibration.memberships(self._predictor.directions(prediction))

    @property
    def membership_(self) -> Matrix:
        """Membership of each sample in each cluster."""
        return self._found_memberships.membership

    @property
    def confidence_(self) -> npt.NDArray[np.float64]:
        """Membership of each sample in its own cluster."""
        membership, labels = self.membership_, to_numpy(self.labels_)
        return np.asarray(membership[np.arange(labels.size), labels])

    @property
    def outlier_score_(self) -> npt.NDArray[np.float64]:
        """Distance of each sample from its neighbours, as a robust z-score within its cluster."""
        return self._found_memberships.outlier_score

    def labels_without_outliers(self, threshold: float = 3.5) -> npt.NDArray[np.intp]:
        """Return the labels, with -1 for samples whose outlier score is above a threshold.

        Parameters
        ----------
        threshold : float, default=3.5
            Largest ``outlier_score_`` of a sample that keeps its label. 3.5 is the usual limit of
            robust z-scores.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``labels_``, or -1.

        Examples
        --------
        >>> import numpy as np
        >>> from manyview import MMC
        >>> from manyview.datasets import make_views
        >>> views, _ = make_views(n_samples=150, n_clusters=3, random_state=0)
        >>> arrays = [np.array(view) for view in views]
        >>> for view in arrays:
        ...     view[0] *= -5.0
        >>> model = MMC(n_clusters=3, normalize="columns", random_state=0).fit(arrays)
        >>> np.flatnonzero(model.labels_without_outliers() == -1)
        array([0])
        """
        if not isinstance(threshold, Real) or np.isnan(threshold):
            raise ValueError(f"threshold={threshold!r}; expected a number")
        scores = self.outlier_score_
        return np.where(scores > threshold, -1, to_numpy(self.labels_)).astype(np.intp)

    @property
    def view_weights_(self) -> ViewWeights:
        """How much each view contributes to each cluster, and to all of them."""
        weights: ViewWeights = self._asked_for("_view_weights", "view weights")
        return weights

    @property
    def _found_memberships(self) -> Memberships:
        memberships: Memberships = self._asked_for("_memberships", "memberships")
        return memberships

    def _asked_for(self, place: str, what: str) -> Any:
        check_is_fitted(self, "labels_")
        found = getattr(self, place).found
        if found is None:
            raise AttributeError(
                f"the model was saved without {what}: by an earlier version of manyview, after an "
                "interrupt, or after its training views had been changed; fit again"
            )
        return found

    def explain(
        self,
        order: int | None = None,
        *,
        top: int = 10,
        views: int | str | Iterable[int | str] | None = None,
    ) -> Combinations:
        """Return the features that, multiplied, characterise each cluster most.

        `transform` is a sum over products of features of different views, each with a weight for
        every cluster. This returns the products with the largest absolute weights that the samples
        of fit confirm: every feature is higher or lower in the cluster than in the other samples,
        or its product with another one distinguishes the cluster. A single feature must differ in
        the direction of its weight.

        Parameters
        ----------
        order : int, optional
            Number of features in a product: 1 for single features, 2 for pairs from two views. By
            default pairs, or single features for clusters without pairs, because there is one view
            or the penalty dropped all features of the others.
        top : int, default=10
            Maximum number of products per cluster.
        views : int, str or iterable of them, optional
            Positions or names of the views to consider; by default all.

        Returns
        -------
        Combinations
            A list of :class:`~manyview.mmc.Combination`, by cluster and with the largest absolute
            weight first; it prints as text or, in a notebook, as a table, and ``to_frame()``
            returns a DataFrame. There may be fewer than `top`. A zero model has none.

        See Also
        --------
        profile : The features that distinguish the clusters most, by the samples alone.

        Notes
        -----
        Weights refer to features as fit scales them, and to the scale of `transform`, which is
        smaller for larger clusters. With the orthogonal indicator they refer to the inner product
        with the centre of a cluster. Directions and means refer to the features as given.

        Examples
        --------
        >>> from manyview import MMC
        >>> from manyview.datasets import make_views
        >>> views, y = make_views(n_samples=150, n_clusters=3, random_state=0)
        >>> model = MMC(n_clusters=3, random_state=0).fit(views)
        >>> model.explain(1, top=2)
        cluster 0
          informative1 'informative19' high (2.3 against 0.1); weight 0.0314
          informative0 'informative10' high (1.3 against -1.2); weight 0.029
        cluster 1
          informative0 'informative10' low (-1.5 against 0.2); weight -0.0271
          informative1 'informative13' high (1.1 against -1.2); weight 0.0262
        cluster 2
          informative1 'informative6' low (-2.5 against 0.2); weight -0.0271
          informative1 'informative13' low (-2 against 0.4); weight -0.0217
        """
        check_is_fitted(self, "labels_")
        return combinations_of(self._predictor, self, self._statistics, order, top, views)

    def profile(self, *, top: int = 5) -> Profile:
        """Return what distinguishes the samples of each cluster from the others.

        Features are compared in the units of the views. Each explains a part of the variance of
        membership in the cluster: its squared correlation with membership. A product of two
        features of different views is listed with the part that it adds beyond these two features;
        of all products, those with the largest weights in the model are examined.

        Parameters
        ----------
        top : int, default=5
            Maximum number of features, and of products, per cluster.

        Returns
        -------
        Profile
            A list of :class:`~manyview.mmc.Combination`, by cluster and with the largest part
            first. It has the sizes of the clusters, prints as text or, in a notebook, as a table,
            and ``to_frame()`` returns a DataFrame.

        Raises
        ------
        ValueError
            If the model is from a file of an earlier version, which has no statistics.

        See Also
        --------
        explain : The features with the largest weights in the model.

        Examples
        --------
        >>> from manyview import MMC
        >>> from manyview.datasets import make_views
        >>> views, y = make_views(n_samples=150, n_clusters=3, n_features=[20], random_state=0)
        >>> MMC(n_clusters=3, random_state=0).fit(views).profile(top=2)
        cluster 0: 50 samples (33.3%)
          informative0 'informative2' high (1.5 against -0.3); explains 40%
          informative0 'informative13' high (1.2 against -0.5); explains 38%
        cluster 1: 48 samples (32.0%)
          informative0 'informative10' high (1.4 against -1.2); explains 66%
          informative0 'informative5' high (0.6 against -1.3); explains 43%
        cluster 2: 52 samples (34.7%)
          informative0 'informative9' high (1.1 against -1.1); explains 47%
          informative0 'informative2' low (-1 against 0.9); explains 43%
        """
        check_is_fitted(self, "labels_")
        return profile_of(self._predictor, self, self._statistics, top)

    def to_local(self) -> Self:
        """Return a copy whose results are NumPy arrays in this process.

        The copy predicts without Dask or torch, and can be saved. ``labels_`` and ``indicator_`` of
        a fit on a cluster or a device must fit into the memory of this process. Memberships and
        view weights are computed first, unless they were asked for before.

        Returns
        -------
        MMC
            The copy.
        """
        check_is_fitted(self, "labels_")
        local = copy(self)
        local.labels_ = to_numpy(self.labels_)
        local.indicator_ = to_numpy(self.indicator_)
        local._memberships, local._view_weights = (
            self._memberships.kept(),
            self._view_weights.kept(),
        )
        return local

    def _feature_means(self) -> list[Floats]:
        if self._statistics is None:
            raise ValueError(
                "the model file is of an earlier version and has no means of the features, which "
                "stand for unknown cells (NaN); fit again, or fill them"
            )
        return [self._statistics.overall(v) for v in range(self.n_views_)]

    def _predicted(self, views: Any, what: str) -> Any:
        checked = self._setup_predict(views)
        check_scale(checked, self._predictor.normalize)
        engine = self._engine(checked, self._predictor.normalize, scalings=self._predictor.scalings)
        with engine.running():
            self._predictor.predict(engine, incomplete=checked.present is not None)
            return engine.gather(what)

    def __dir__(self) -> list[str]:
        # names for completion and for the display of notebooks, which read what they find: that
        # must not compute memberships
        hidden: set[str] = set()
        for place, results in _LAZY.items():
            lazy = getattr(self, place, None)
            hidden |= set() if lazy is not None and lazy.is_computed else set(results)
        names = object.__dir__(self)
        return [name for name in names if name not in hidden and hasattr(self, name)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_restarts(self) -> int:
        return self.n_init if isinstance(self.init, str) else 1

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_factors_.shape[0])

    def _engine(self, views: Views, normalize: Normalize, **options: Any) -> Engine:
        return engine_for(views, normalize=normalize, n_threads=self._n_threads, **options)

    @property
    def _n_threads(self) -> int:
        return blas_threads() if self.n_jobs is None else int(effective_n_jobs(self.n_jobs))

    def _checkpoint_path(self) -> Path | None:
        """Return the checkpoint file, or raise if it is unusable."""
        if self.checkpoint is None:
            return None
        if self._n_restarts > 1:
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} with n_init={self.n_init}: a checkpoint "
                "needs n_init=1; use another random_state and file for each restart"
            )
        return writable(Path(self.checkpoint))

    @property
    def _labels_by_graph(self) -> bool:
        """Whether labels are found before the factors, from affinity graphs."""
        by_graph = isinstance(self.init, str) and self.init == "graph"
        return by_graph and self.indicator == "leave-one-out"

    def _resolved_n_clusters(
        self, views: Views, rng: np.random.Generator
    ) -> tuple[StableClusters | None, int]:
        """Return the given number of clusters, or the recommended one and how it was chosen."""
        if not isinstance(self.n_clusters, str):
            return None, int(self.n_clusters)
        if not isinstance(self.init, str):
            raise ValueError("n_clusters='auto' with labels as init; give the number of clusters")
        numbers = range(2, min(_MOST_AUTO, views.n_samples // 8) + 1)
        if not numbers:
            raise ValueError(
                f"n_clusters='auto' with {views.n_samples} samples; expected at least 16, or a "
                "number of clusters"
            )
        choice = stable_clusters(
            views,
            numbers,
            rng,
            estimator=self,
            n_threads=self._n_threads,
            shown=bool(self.verbose),
        )
        if choice.n_clusters is None:
            raise ValueError(
                f"{choice.summary}. Look at choose_n_clusters(views), or fit with a number of "
                "clusters in place of n_clusters='auto'"
            )
        return choice, choice.n_clusters

    def _problem(self, engine: Engine, n_clusters: int, gamma: float | None) -> Problem:
        penalty = penalty_named(self.penalty)
        if gamma is None:
            gamma = default_gamma(engine, penalty, n_clusters)
        indicator = _INDICATORS[self.indicator]()
        return Problem(penalty, float(gamma), indicator, self.max_iter, self.tol, self.patience)

    def _record(self, best: Candidate, problem: Problem, predictor: Predictor) -> None:
        """Set the attributes of the fitted estimator."""
        fitted = best.fitted
        self.labels_ = best.labels
        self.indicator_ = best.indicator
        factors = [*map(to_numpy, fitted.factors.views), fitted.factors.clusters]
        if fitted.is_zero:  # it converges to zero without reaching it
            factors = list(map(np.zeros_like, factors))
        *self.view_factors_, self.cluster_factors_ = factors
        self.gamma_ = problem.gamma
        self.normalize_ = dict(zip(self.view_names_, predictor.normalize, strict=True))
        self.objective_ = np.array(fitted.objective)
        self.n_iter_ = len(fitted.objective)
        self._predictor = predictor

    @staticmethod
    def _predictor_of(
        best: Candidate, engine: Engine, mean_rows: list[Matrix], normalize: list[str | None]
    ) -> Predictor:
        return Predictor(
            factors=best.refitted,
            readout=best.readout,
            mean_rows=mean_rows,
            normalize=normalize,
            scalings=[scaling.restrict(None) for scaling in engine.scalings],
            is_zero=best.fitted.is_zero,
        )
