"""Results of a fit that are computed when they are asked for: soft memberships and view weights.

The scores of a sample are its row of the one-hot indicator, as the regressions of
:mod:`manyview.graph.leave_one_out` predict it from the other samples. Their softmax alone would say
how well the labels can be predicted, and be overconfident: labels that are easy to predict may
still be those of one clustering among several. So memberships are calibrated. Two halves of the
data are clustered anew, and a sample's membership is the probability of the cluster that its half
gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import softmax

from manyview._typing import Matrix
from manyview.engine import Engine, State, engine_for, in_units
from manyview.engine.arrays import to_numpy
from manyview.exceptions import warn_user
from manyview.graph.leave_one_out import LabelJudge, judge_labels
from manyview.graph.outliers import outlier_scores
from manyview.graph.scaling import random_samples
from manyview.graph.settings import GraphSettings
from manyview.linalg.partition import Labels
from manyview.mmc.prediction import Predictor
from manyview.mmc.statistics import Statistics
from manyview.mmc.view_weights import ViewWeights, view_weights_of
from manyview.views import Views

__all__ = ["Calibration", "Lazy", "MembershipSettings", "Memberships", "Training"]

T = TypeVar("T")


@dataclass(frozen=True)
class MembershipSettings:
    """Tuning constants of memberships."""

    samples: int = 2000
    """Samples that are clustered anew, one half at a time; by convention."""
    per_cluster: int = 20
    """Such samples for each cluster, if that is more, up to `most`."""
    most: int = 10_000
    """Limit of their number however many the clusters."""
    n_landmarks: int = 400
    """Landmarks of the regressions; 1,000 take twice the time and give memberships as reliable."""
    fewest: int = 2
    """Samples for each cluster that a half must have to be clustered anew."""


class Calibration(NamedTuple):
    """Turns scores into memberships: ``(1 - doubt) softmax(slope * scores) + doubt / K``.

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> Calibration(slope=2.0, doubt=0.1).memberships(scores).round(3)
    array([[0.843, 0.157],
           [0.5  , 0.5  ]])
    """

    slope: float
    doubt: float

    @classmethod
    def of(cls, scores: Matrix, wanted: Matrix) -> Self:
        """Return the calibration with the largest likelihood of `wanted`.

        Rows of `wanted` are one-hot, or memberships. With n of them the doubt is at least
        1 / (n + 1), because what never happened to n samples may happen to the next.
        """
        n, n_clusters = scores.shape
        least = 1.0 / (n + 1.0)
        if n_clusters == 1:
            return cls(1.0, least)

        def surprise(parameters: npt.NDArray[np.float64]) -> float:
            found = cls(float(np.exp(parameters[0])), float(parameters[1]))
            return -float(np.mean(np.sum(wanted * np.log(found.memberships(scores)), axis=1)))

        found = minimize(
            surprise,
            (1.0, max(least, 0.05)),
            method="Nelder-Mead",
            bounds=((-3.0, 5.0), (least, 0.99)),
            options={"xatol": 1e-4, "fatol": 1e-7, "maxiter": 400},
        )
        return cls(float(np.exp(found.x[0])), float(found.x[1]))

    def memberships(self, scores: Matrix) -> Matrix:
        """Return the memberships of samples with these scores; each row sums to one."""
        shared = self.doubt / scores.shape[1]
        return np.asarray((1.0 - self.doubt) * softmax(self.slope * scores, axis=1) + shared)


class Memberships(NamedTuple):
    """Memberships of the training samples, their outlier scores, and how to predict memberships."""

    membership: Matrix
    outlier_score: npt.NDArray[np.float64]
    calibration: Calibration  # of the scores of predictions


@dataclass(frozen=True)
class Training:
    """A finished fit, from which memberships and view weights are computed."""

    views: Views
    n_clusters: int
    labels: Any
    order: int | None
    predictor: Predictor
    statistics: Statistics
    graph_settings: GraphSettings
    n_threads: int
    settings: MembershipSettings = MembershipSettings()

    def memberships(self) -> Memberships:
        """Return the memberships; always the same for the same views and labels."""
        rng = np.random.default_rng(0)
        labels = to_numpy(self.labels).astype(np.intp)
        fewer = min(self.settings.n_landmarks, self.graph_settings.n_landmarks)
        options: dict[str, Any] = {
            "order": self.order,
            "settings": replace(self.graph_settings, n_landmarks=fewer),
        }
        engine = self._engine(self.views)
        with engine.running():
            self._check_unchanged(engine, labels)
            scores = LabelJudge(engine, self.n_clusters, rng, **options).scores(labels)
            outlying = outlier_scores(engine, labels, rng, self.graph_settings)
        most = max(self.settings.samples, self.settings.per_cluster * self.n_clusters)
        numbers, sample = random_samples(self.views, min(most, self.settings.most), rng)
        again = self._clustered_anew(sample, labels[numbers], rng, options)
        calibration = Calibration.of(scores[numbers], np.eye(self.n_clusters)[again])
        membership = calibration.memberships(scores)
        predicted = Calibration.of(self._predicted(sample), membership[numbers])
        return Memberships(membership, outlying, predicted)

    def view_weights(self) -> ViewWeights:
        """Return the weights of the views; always the same for the same views and labels."""
        labels = to_numpy(self.labels).astype(np.intp)
        engine = self._engine(self.views, scalings=self.predictor.scalings)
        with engine.running():
            self._check_unchanged(engine, labels)
            return view_weights_of(
                engine,
                self.views.names,
                labels,
                self.n_clusters,
                np.random.default_rng(0),
                order=self.order,
                graph_settings=self.graph_settings,
            )

    def _check_unchanged(self, engine: Engine, labels: Labels) -> None:
        """Raise ChangedViewsError unless the views and labels are those of the fit."""
        engine.scatter(State.LABELS, labels)
        raw = in_units(engine, self.views, self.predictor.normalize)
        with raw.running():
            found = Statistics.of(raw, self.n_clusters, ())
        if not found.agrees_with(self.statistics):
            raise ChangedViewsError(
                "the training views or labels_ were changed after fit, so memberships and view "
                "weights cannot be computed. Fit again, and ask for membership_ and view_weights_ "
                "before you change the arrays"
            )

    def _clustered_anew(
        self, sample: Views, labels: Labels, rng: np.random.Generator, options: dict[str, Any]
    ) -> Labels:
        """Return labels of the sample that its halves get when they are clustered anew.

        The clusters of a half have the numbers of those in `labels` with which they share most
        samples. If there are too few samples, `labels` are returned.
        """
        if self.n_clusters == 1 or labels.size < 2 * self.settings.fewest * self.n_clusters:
            return labels
        again = labels.copy()
        for half in np.array_split(rng.permutation(labels.size), 2):
            engine = self._engine(sample.take(half))
            with engine.running():
                judge_labels(engine, self.n_clusters, rng, **options)
                found = to_numpy(engine.gather(State.LABELS)).astype(np.intp)
            again[half] = matched(found, labels[half], self.n_clusters)
        return again

    def _predicted(self, sample: Views) -> Matrix:
        """Return the directions of the model's predictions for the sample."""
        engine = self._engine(sample, scalings=self.predictor.scalings)
        with engine.running():
            self.predictor.predict(engine, incomplete=sample.present is not None)
            return self.predictor.directions(engine.gather(State.PREDICTION))

    def _engine(self, views: Views, **options: Any) -> Engine:
        normalize = self.predictor.normalize
        return engine_for(views, normalize=normalize, n_threads=self.n_threads, **options)


class ChangedViewsError(ValueError):
    """The views of a fit were changed before a result was asked for."""


class Lazy(Generic[T]):
    """A result that is computed when it is first asked for.

    Until then the views of the fit are referred to. What is pickled has the result and no views.
    The result is None where it is not known.
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute: Callable[[], T] | None = compute
        self._found: T | None = None

    @classmethod
    def of(cls, found: T | None) -> Self:
        """Return what holds a known result, or None."""
        known = cls.__new__(cls)
        known._found, known._compute = found, None
        return known

    @property
    def is_computed(self) -> bool:
        """Whether it is known."""
        return self._found is not None

    @property
    def found(self) -> T | None:
        """The result."""
        if self._compute is not None:
            self._found, self._compute = self._compute(), None
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.kept())

    def kept(self) -> Self:
        """Return the result without the views; with a warning None if these were changed."""
        try:
            return self.of(self.found)
        except ChangedViewsError as error:
            warn_user(f"the model is kept without memberships or view weights: {error}")
            return self.of(None)


def matched(labels: Labels, wanted: Labels, n_clusters: int) -> Labels:
    """Return labels numbered so that as many as possible are as `wanted`.

    Examples
    --------
    >>> matched(np.array([0, 0, 1, 2]), np.array([2, 2, 0, 1]), 3)
    array([2, 2, 0, 1])
    """
    shared = np.zeros((n_clusters, n_clusters))
    np.add.at(shared, (labels, wanted), 1)
    _, numbers = linear_sum_assignment(shared, maximize=True)
    return np.asarray(numbers[labels])
