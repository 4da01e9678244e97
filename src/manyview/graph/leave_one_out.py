"""Labels judged by predictions that leave their sample out.

With more features than samples, a regression repeats the labels it was taught, so its in-sample
predictions say nothing about them. Here every sample is predicted from the others, in two ways.

*Regressions.* The full-order model with a ridge on the whole weight tensor is kernel ridge
regression in the product kernel ``prod_v (1 + c_v)``, where c_v is the cosine of two rows of view
v. Beside it stand the regressions in each view's own kernel ``1 + c_v``. With H the hat matrix of
one of them and F the indicator, the prediction of sample i by a fit without it has the closed
form::

    L_i = ((H F)_i - h_ii F_i) / (1 - h_ii)

*Votes* are the mean rows of F of a sample's neighbours in an affinity graph, ``S F`` with S
row-stochastic: one graph for the product of all views and one for each view.

Regressions are averaged with weights 1 - e, where e is the error of one of them relative to the
variance of F; so are votes. With L and V these means and e the error of L, a round gives each
sample the label of the largest entry of::

    L / (1 - e) + w V

Rounds end when hardly a label changes. Initial labels are the clusters of the graph of all orders,
unless those of another graph end with a clearly smaller e.

Regressions use landmarks (Nyström's approximation) and a random part of the samples if there are
very many, and predict the others, so that time is linear in the number of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Update
from manyview.engine.arrays import Array, namespace, to_numpy
from manyview.graph.neighbours import Search, chunks_of, compared_rows
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.graph.spectral import AffinityGraphs, LandmarkVotes, votes_of
from manyview.linalg.partition import Labels, without_empty

__all__ = ["LabelJudge", "LeaveOneOutSettings", "Ridge", "judge_labels"]


@dataclass(frozen=True)
class LeaveOneOutSettings:
    """Tuning constants of the leave-one-out label step."""

    votes: float = 0.5
    """Weight w of the votes; mean NMI differs by half a point from .25 to 1."""
    rounds: int = 5
    """Most rounds; five are as good as ten, and better for many samples."""
    unchanged: float = 1e-3
    """Part of the labels that a last round changes, at most; by convention."""
    n_landmarks: int = 1000
    """Landmarks of the regressions, or five per cluster; 300 differ by half a point where there
    are thousands of samples, and lose two where there are many thousands."""
    ridges: tuple[float, ...] = tuple(10.0 ** (0.75 * power - 3.0) for power in range(9))
    """Ridges that are compared, relative to the mean of the kernel's diagonal."""
    clearly: float = 0.9
    """Error of other labels than the default ones, at most, relative to that of these. Any value
    from .88 to .94 chooses the same; at 1, sets change with the landmarks that are drawn."""
    least_explained: float = 0.05
    """Lower limit of 1 - e, so that predictions of noise do not outvote the graphs."""


class Judged(NamedTuple):
    """Labels of the sample after the rounds, and their leave-one-out error.

    ``unexplained`` is the part of the embedding's variance within the clusters that they came from.
    """

    labels: Labels
    error: float
    unexplained: float = 0.0


def judge_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    initial: bool = True,
    order: int | None = None,
    neighbourhood: float = 1.0,
    settings: LeaveOneOutSettings = LeaveOneOutSettings(),
    graph_settings: GraphSettings = DEFAULTS,
) -> float:
    """Put labels into the blocks that regressions and neighbours predict best.

    With `initial`, the spectral clusters of several affinity graphs are candidates for initial
    labels. Without it, the initial labels are those in the blocks.

    Returns
    -------
    float
        The leave-one-out error e of the final labels, relative to the variance of the indicator.
    """
    judge = LabelJudge(engine, n_clusters, rng, order, neighbourhood, settings, graph_settings)
    if initial:
        best = judge.best_of_graphs(engine, rng)
    else:
        best = judge.settled(engine.take_state(State.LABELS, judge.sample).astype(np.intp))
    if judge.sample.size == engine.n_samples:
        engine.scatter(State.LABELS, best.labels)
    else:
        judge.label_all(engine, best.labels)
    return best.error


class LabelJudge:
    """Regressions and votes by which the labels of some samples are revised.

    ``sample`` holds the numbers of these samples: all, or random ones if there are very many.
    """

    def __init__(
        self,
        engine: Engine,
        n_clusters: int,
        rng: np.random.Generator,
        order: int | None = None,
        neighbourhood: float = 1.0,
        settings: LeaveOneOutSettings = LeaveOneOutSettings(),
        graph_settings: GraphSettings = DEFAULTS,
    ) -> None:
        self._n_clusters, self._settings = n_clusters, settings
        self._graphs = AffinityGraphs(
            engine,
            n_clusters,
            rng,
            n_fitted=max(settings.n_landmarks, 5 * n_clusters),
            order=order,
            neighbourhood=neighbourhood,
            settings=graph_settings,
        )
        self.sample = self._graphs.sample
        fitted = self._graphs.fitted
        self._ridges = engine.side_by_side(
            lambda kernel: Ridge.of(kernel, kernel[fitted], settings.ridges), self._graphs.kernels
        )
        self._smoothers = self._graphs.smoothers()

    def best_of_graphs(self, engine: Engine, rng: np.random.Generator) -> Judged:
        """Return the labels from the clusters of the first graph, or of one with a smaller error."""
        graphs = self._graphs.settings.graphs
        seeds = rng.integers(2**31 - 1, size=len(graphs))

        def judged(number: int) -> Judged:
            own = np.random.default_rng(seeds[number])
            clusters = self._graphs.clusters(graphs[number], self._n_clusters, own)
            return self.settled(clusters.labels)._replace(unexplained=clusters.unexplained)

        first, *others = engine.side_by_side(judged, range(len(graphs)))
        best = min(others, key=lambda judged: judged.error, default=first)
        return best if best.error < self._settings.clearly * first.error else first

    def settled(self, labels: Labels) -> Judged:
        """Return labels of the sample after the rounds, and their leave-one-out error."""
        settings = self._settings
        F = _indicator(labels, self._n_clusters)
        regressions = [ridge.leave_one_out(F) for ridge in self._ridges]
        for _ in range(settings.rounds):
            mean, votes = _mean(regressions, F), _mean(self._votes(F), F)
            scores = mean.rows / self._explained(mean) + settings.votes * votes.rows
            new = _without_losing(labels, scores.argmax(axis=1), self._n_clusters)
            changed, labels = np.mean(new != labels), new
            F = _indicator(labels, self._n_clusters)
            regressions = [
                ridge.leave_one_out(F, near=before.ridge)
                for ridge, before in zip(self._ridges, regressions, strict=True)
            ]
            if changed <= settings.unchanged:
                break
        return Judged(labels, _mean(regressions, F).error)

    def _votes(self, F: Matrix) -> list[Prediction]:
        found = [smoother(F) for smoother in self._smoothers]
        return [Prediction(rows, _error_of_votes(rows, F)) for rows in found]

    def _explained(self, mean: Prediction) -> float:
        return max(1.0 - mean.error, self._settings.least_explained)

    def label_all(self, engine: Engine, labels: Labels) -> None:
        """Predict the labels of all samples of the engine, given those of the sample."""
        F = _indicator(labels, self._n_clusters)
        regressions, votes = [ridge.leave_one_out(F) for ridge in self._ridges], self._votes(F)
        scale = 1.0 / self._explained(_mean(regressions, F))
        coefficients = [
            (scale * weight * ridge.coefficients(F, found.ridge)).astype(engine.dtype)
            for weight, found, ridge in zip(
                _weights(regressions), regressions, self._ridges, strict=True
            )
        ]
        profiles = [
            (self._settings.votes * weight * smoother.profiles(F)).astype(engine.dtype)
            for weight, smoother in zip(_weights(votes), self._smoothers, strict=True)
            if isinstance(smoother, LandmarkVotes)
        ]
        weights = self._graphs.weights().astype(engine.dtype)
        engine.update(_predict_kernel, self._graphs.search, coefficients, profiles, weights)
        found = to_numpy(engine.gather(State.LABELS)).astype(np.intp)
        if np.unique(found).size < self._n_clusters:
            engine.scatter(State.LABELS, without_empty(found, self._n_clusters))


def _predict_kernel(
    block: Block,
    search: Search,
    coefficients: list[Array],
    profiles: list[Array],
    weights: Array,
) -> Update:
    """Label the rows of a block by the fitted regressions and the votes of landmarks."""
    parts = []
    for chunk in chunks_of(block, search):
        near, kernels = compared_rows(block, chunk, search)
        fitted = [kernel @ rows for kernel, rows in zip(kernels, coefficients, strict=True)]
        votes = [votes_of(some, weights, rows) for some, rows in zip(near, profiles, strict=True)]
        scores = reduce(add, [*fitted, *votes])
        parts.append(namespace(scores).argmax(scores, axis=1))
    return {State.LABELS: namespace(*parts).concat(parts, axis=0)}, ()


# Predictions of the indicator


class Prediction(NamedTuple):
    """Predicted rows of F, their error relative to its variance, and the number of the ridge."""

    rows: Matrix
    error: float
    ridge: int = 0


def _weights(predictions: Sequence[Prediction]) -> list[float]:
    """Return the weight of each prediction: the part of F that it explains, summing to one."""
    explained = [max(1.0 - found.error, 1e-3) for found in predictions]
    return [part / sum(explained) for part in explained]


def _mean(predictions: Sequence[Prediction], F: Matrix) -> Prediction:
    pairs = zip(_weights(predictions), predictions, strict=True)
    rows = reduce(add, (weight * found.rows for weight, found in pairs))
    return Prediction(rows, _relative_error(rows, F))


def _relative_error(predicted: Matrix, F: Matrix) -> float:
    total = float(np.sum((F - F.mean(axis=0)) ** 2))
    return float(np.sum((predicted - F) ** 2)) / max(total, np.finfo(np.float64).tiny)


def _error_of_votes(votes: Matrix, F: Matrix) -> float:
    """Return the relative error of votes, scaled to predict F best."""
    centred, wanted = votes - votes.mean(axis=0), F - F.mean(axis=0)
    squares = float(np.sum(centred**2)) * float(np.sum(wanted**2))
    along = max(float(np.sum(centred * wanted)), 0.0)
    return 1.0 - along**2 / max(squares, np.finfo(np.float64).tiny)


def _indicator(labels: Labels, n_clusters: int) -> Matrix:
    """Return ``Y (Y'Y)^(-1/2)`` with Y one-hot."""
    sizes = np.bincount(labels, minlength=n_clusters)
    F = np.zeros((labels.size, n_clusters))
    F[np.arange(labels.size), labels] = 1.0 / np.sqrt(sizes[labels])
    return F


def _without_losing(before: Labels, after: Labels, n_clusters: int) -> Labels:
    """Return `after`, except that clusters without a member keep those they had before."""
    for lost in np.flatnonzero(np.bincount(after, minlength=n_clusters) == 0):
        after[before == lost] = lost
    return after if np.unique(after).size == n_clusters else before


# Ridge regression in a kernel, through landmarks


@dataclass
class Ridge:
    """Kernel ridge regression through landmarks, with its leave-one-out predictions.

    ``basis`` (samples x rank) has the left singular vectors of Nyström's features, ``values`` their
    squared singular values, and ``to_landmarks`` turns coefficients of the basis into those of the
    landmarks. ``leverages`` (samples x ridges) are the diagonals of the hat matrices.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ridge = Ridge.of(1.0 + x @ x.T, 1.0 + x @ x.T, ridges=(1e-9,))
    >>> ridge.leave_one_out(2.0 * x).rows.round(3).ravel() + 0.0
    array([0., 2., 4., 6.])
    """

    basis: Matrix
    values: Matrix
    to_landmarks: Matrix
    ridges: npt.NDArray[np.float64]
    leverages: Matrix

    @classmethod
    def of(cls, kernel: Matrix, of_landmarks: Matrix, ridges: tuple[float, ...]) -> Ridge:
        """Return the regression for a kernel of samples with landmarks, and of these among them."""
        values, vectors = scipy.linalg.eigh(of_landmarks.astype(np.float64), check_finite=False)
        kept = values > 1e-6 * max(float(values[-1]), np.finfo(np.float64).tiny)
        whitening = vectors[:, kept] / np.sqrt(values[kept])
        features = kernel @ whitening
        values, vectors = scipy.linalg.eigh(features.T @ features, check_finite=False)
        kept = values > 1e-8 * max(float(values[-1]), np.finfo(np.float64).tiny)
        rotation = vectors[:, kept] / np.sqrt(values[kept])
        basis, values = (features @ rotation).astype(kernel.dtype), values[kept]
        scaled = np.array(ridges) * float(values.sum()) / kernel.shape[0]
        leverages = (basis**2) @ (values[:, None] / (values[:, None] + scaled)).astype(basis.dtype)
        leverages = np.minimum(leverages.astype(np.float64), 1.0 - 1e-6)
        return cls(basis, values, whitening @ rotation, scaled, leverages)

    def leave_one_out(self, F: Matrix, near: int | None = None) -> Prediction:
        """Return leave-one-out predictions with the best ridge, or the best of those `near` one."""
        numbers = range(self.ridges.size)
        if near is not None:
            numbers = range(max(near - 1, 0), min(near + 2, self.ridges.size))
        aligned = self.basis.T @ F.astype(self.basis.dtype)
        best = None
        for number in numbers:
            leverage = self.leverages[:, number, None]
            fitted = self.basis @ (self._shrunk(number) * aligned).astype(self.basis.dtype)
            rows = (fitted - leverage * F) / (1.0 - leverage)
            error = _relative_error(rows, F)
            if best is None or error < best.error:
                best = Prediction(rows, error, number)
        if best is None:
            raise ValueError("expected at least one ridge")
        return best

    def coefficients(self, F: Matrix, ridge: int) -> Matrix:
        """Return what the kernel with the landmarks is multiplied by to predict other samples."""
        return np.asarray(self.to_landmarks @ (self._shrunk(ridge) * (self.basis.T @ F)))

    def _shrunk(self, ridge: int) -> Matrix:
        return np.asarray(self.values / (self.values + self.ridges[ridge]))[:, None]
