"""Labels judged by leave-one-out predictions of the full-order regression.

With more features than samples, a regression repeats the labels it was taught, so its in-sample
predictions say nothing about them. Here every sample is predicted from the others. The model is the
full-order one with a ridge on the whole weight tensor, which is kernel ridge regression in the
product kernel ``prod_v (1 + c_v)``, where c_v is the cosine of two rows of view v; beside it stand
the regressions in each view's own kernel ``1 + c_v``. With H the hat matrix of one of them and F
the indicator, the prediction of sample i by a fit without it has the closed form::

    L_i = ((H F)_i - h_ii F_i) / (1 - h_ii)

L is the mean over the kernels, each weighted by the part of F that it predicts, and e the error of
L relative to the variance of F. A round gives each sample the label of the largest entry of::

    L / (1 - e) + w S F

where S, row-stochastic, is the affinity of samples through landmarks, and w the weight of these
votes. Rounds end when hardly a label changes.

All regressions are linear in the number of samples: they use landmarks (Nyström's approximation)
and a random part of the samples, and predict the others.
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
from manyview.engine import Block, Engine, RowView, State, Update
from manyview.engine.arrays import (
    Array,
    is_sparse,
    largest,
    namespace,
    placed_like,
    to_numpy,
    weighted_sums,
)
from manyview.graph.affinity import (
    Rows,
    compared_by_distance,
    cosines,
    feature_widths,
    inner_products,
    prepare_rows,
    product_kernel,
)
from manyview.graph.neighbours import harmonic_weights, weighted_links
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.partition import Labels, without_empty

__all__ = ["LabelJudge", "LeaveOneOutSettings", "Ridge", "judge_labels"]


@dataclass(frozen=True)
class LeaveOneOutSettings:
    """Tuning constants of the leave-one-out label step."""

    votes: float = 0.25
    """Weight w of the votes of the affinity; NMI differs by half a point from .25 to 1."""
    rounds: int = 5
    """Most rounds; five are as good as ten, and better for many samples."""
    unchanged: float = 1e-3
    """Part of the labels that a last round changes, at most; by convention."""
    n_landmarks: int = 1000
    """Landmarks of the regressions and of the votes; 300 differ by half a point where there are
    thousands of samples, and lose two where there are many thousands."""
    n_samples: int = 10_000
    """Samples that the regressions are fitted to; they predict the others."""
    voting_part: float = 1 / 16
    """Landmarks that vote on a sample, as a part of those of an average cluster. Half of them do
    as well for thousands of samples, and lose three points for many thousands."""
    fewest_voting: int = 5
    """Landmarks that vote on a sample, however small the clusters; by convention."""
    ridges: tuple[float, ...] = tuple(10.0 ** (0.75 * power - 3.0) for power in range(9))
    """Ridges that are compared, relative to the mean of the kernel's diagonal."""
    least_explained: float = 0.05
    """Lower limit of 1 - e, so that predictions of noise do not outvote the affinity."""


class _Landmarks(NamedTuple):
    """What samples are compared with, as it is passed to the blocks."""

    rows: list[Rows]  # of each view
    columns: list[tuple[Array, Array] | None]  # centres and factors of the features
    widths: list[Array]
    by_distance: list[bool]
    missing: list[Array | None]  # landmarks that lack the view
    order: int | None
    n_voting: int
    chunk: int


def judge_labels(
    engine: Engine,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    order: int | None = None,
    others: Sequence[Labels] = (),
    settings: LeaveOneOutSettings = LeaveOneOutSettings(),
    graph_settings: GraphSettings = DEFAULTS,
) -> float:
    """Move the samples to the clusters that the others predict for them, from labels in the blocks.

    `others` are further initial labels of all samples. The result with the smallest error is kept.

    Returns
    -------
    float
        The leave-one-out error e of the final labels, relative to the variance of the indicator.
    """
    judge = LabelJudge(engine, n_clusters, rng, order, settings, graph_settings)
    initial = [engine.take_state(State.LABELS, judge.sample), *(o[judge.sample] for o in others)]
    labels, error = judge.settled(initial[0].astype(np.intp))
    for other in initial[1:]:
        found, of_found = judge.settled(other.astype(np.intp))
        if of_found < error - 1e-6:  # not by rounding: the same clusters keep their numbers
            labels, error = found, of_found
    if judge.sample.size == engine.n_samples:
        engine.scatter(State.LABELS, labels)
    else:
        judge.label_all(engine, labels)
    return error


class LabelJudge:
    """Regressions of some samples, and their votes, by which labels are revised.

    ``sample`` holds the numbers of these samples: all, or random ones if there are many.
    """

    def __init__(
        self,
        engine: Engine,
        n_clusters: int,
        rng: np.random.Generator,
        order: int | None,
        settings: LeaveOneOutSettings,
        graph_settings: GraphSettings,
    ) -> None:
        self._n_clusters, self._settings = n_clusters, settings
        n, most = engine.n_samples, max(settings.n_samples, 10 * n_clusters)
        self.sample = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
        rows, size = engine.take(self.sample), self.sample.size
        count = min(size, max(settings.n_landmarks, 5 * n_clusters))
        # in random order, as of equally near landmarks the first is taken
        chosen = rng.permutation(size)[:count]
        voting = int(np.ceil(settings.voting_part * count / n_clusters))
        columns = [scaling.columns for scaling in engine.scalings]
        by_distance = compared_by_distance(engine, rows, graph_settings)
        widths = feature_widths(engine, by_distance)
        marks = [view.take(chosen) for view in rows]
        self._landmarks = _Landmarks(
            rows=list(map(prepare_rows, marks, columns, widths, by_distance)),
            columns=columns,
            widths=widths,
            by_distance=by_distance,
            missing=[view.missing for view in marks],
            order=order,
            n_voting=min(max(voting, settings.fewest_voting), count),
            chunk=engine.chunk,
        )
        block = Block(slice(0, size), rows)
        parts = [_compared(block, part, self._landmarks) for part in _chunks(size, engine.chunk)]
        kernels = map(np.concatenate, zip(*(found for found, _ in parts), strict=True))
        self._ridges = [Ridge.of(kernel, kernel[chosen], settings.ridges) for kernel in kernels]
        near = np.concatenate([near for _, near in parts])
        self._links = weighted_links(near, _vote_weights(near.shape[1]), count)
        self._reached = np.asarray(self._links.sum(axis=0)).ravel()

    def settled(self, labels: Labels) -> tuple[Labels, float]:
        """Return labels of the sample after the rounds, and their leave-one-out error."""
        settings = self._settings
        for _ in range(settings.rounds):
            F = _indicator(labels, self._n_clusters)
            mean, error, _ = _mean_prediction(self._ridges, F)
            votes = self._links @ self._profiles(F)
            scores = mean / max(1.0 - error, settings.least_explained) + settings.votes * votes
            new = _without_losing(labels, scores.argmax(axis=1), self._n_clusters)
            changed, labels = np.mean(new != labels), new
            if changed <= settings.unchanged:
                break
        return labels, _mean_prediction(self._ridges, _indicator(labels, self._n_clusters))[1]

    def label_all(self, engine: Engine, labels: Labels) -> None:
        """Predict the labels of all samples of the engine, given those of the sample."""
        F = _indicator(labels, self._n_clusters)
        _, error, weights = _mean_prediction(self._ridges, F)
        total = sum(weights) * max(1.0 - error, self._settings.least_explained)
        coefficients = [
            (weight / total * ridge.coefficients(F)).astype(engine.dtype)
            for weight, ridge in zip(weights, self._ridges, strict=True)
        ]
        profiles = (self._settings.votes * self._profiles(F)).astype(engine.dtype)
        engine.update(_predict_kernel, self._landmarks, coefficients, profiles)
        found = to_numpy(engine.gather(State.LABELS)).astype(np.intp)
        if np.unique(found).size < self._n_clusters:
            engine.scatter(State.LABELS, without_empty(found, self._n_clusters))

    def _profiles(self, F: Matrix) -> Matrix:
        """Return the mean row of F of the samples that each landmark votes on."""
        there = np.where(self._reached > 0, self._reached, 1.0)
        return np.asarray((self._links.T @ F) / there[:, None])


def _mean_prediction(ridges: list[Ridge], F: Matrix) -> tuple[Matrix, float, list[float]]:
    """Return the weighted mean of the leave-one-out predictions, its error, and the weights."""
    found = [ridge.leave_one_out(F) for ridge in ridges]
    weights = [max(1.0 - error, 1e-3) for _, error in found]
    pairs = zip(weights, found, strict=True)
    mean = reduce(add, (weight * predicted for weight, (predicted, _) in pairs)) / sum(weights)
    return mean, _relative_error(mean, F), weights


def _relative_error(predicted: Matrix, F: Matrix) -> float:
    total = float(np.sum((F - F.mean(axis=0)) ** 2))
    return float(np.sum((predicted - F) ** 2)) / max(total, np.finfo(np.float64).tiny)


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
    landmarks. ``ridge`` is the chosen ridge.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ridge = Ridge.of(1.0 + x @ x.T, 1.0 + x @ x.T, ridges=(1e-9,))
    >>> ridge.leave_one_out(2.0 * x)[0].round(3).ravel() + 0.0
    array([0., 2., 4., 6.])
    """

    basis: Matrix
    values: Matrix
    to_landmarks: Matrix
    ridges: npt.NDArray[np.float64]
    ridge: float = 0.0

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
        basis = (features @ rotation).astype(kernel.dtype)
        scale = float(values[kept].sum()) / kernel.shape[0]
        return cls(basis, values[kept], whitening @ rotation, np.array(ridges) * scale)

    def leave_one_out(self, F: Matrix) -> tuple[Matrix, float]:
        """Return leave-one-out predictions with the best ridge, and their relative error."""
        aligned, squares = self.basis.T @ F, self.basis**2
        best, least = np.zeros_like(F), np.inf
        for ridge in self.ridges:
            shrunk = self.values / (self.values + ridge)
            leverage = np.minimum(squares @ shrunk, 1.0 - 1e-6)[:, None]
            fitted = self.basis @ (shrunk[:, None] * aligned)
            predicted = (fitted - leverage * F) / (1.0 - leverage)
            error = _relative_error(predicted, F)
            if error < least:
                best, least, self.ridge = predicted, error, float(ridge)
        return best, least

    def coefficients(self, F: Matrix) -> Matrix:
        """Return what the kernel with the landmarks is multiplied by to predict other samples."""
        shrunk = self.values / (self.values + self.ridge)
        return np.asarray(self.to_landmarks @ (shrunk[:, None] * (self.basis.T @ F)))


# Comparison of samples with landmarks


def _chunks(n: int, chunk: int) -> list[slice]:
    return [slice(begin, min(begin + chunk, n)) for begin in range(0, n, chunk)]


def _compared(block: Block, part: slice, landmarks: _Landmarks) -> tuple[list[Array], Array]:
    """Return the kernels of some rows of a block with the landmarks, and the nearest landmarks.

    The first kernel is the product over the views, if there are several.
    """
    products, affinities = [], []
    for v, view in enumerate(block.views):
        scale = None if view.scale is None else view.scale[part]
        some = RowView(view.x[part] if is_sparse(view.x) else view.x[part, ...], scale)
        by_distance, marks = landmarks.by_distance[v], landmarks.rows[v]
        rows = prepare_rows(some, landmarks.columns[v], landmarks.widths[v], by_distance)
        products.append(inner_products(rows, marks))
        affinities.append(
            cosines(rows, marks, landmarks.missing[v]) if by_distance else products[-1]
        )
    product = product_kernel(products, landmarks.order)
    near = product
    if any(landmarks.by_distance):
        near = product_kernel(affinities, landmarks.order)
    kernels = [1.0 + of_view for of_view in products]
    return [product, *kernels][len(kernels) == 1 :], largest(near, landmarks.n_voting)


def _predict_kernel(
    block: Block, landmarks: _Landmarks, coefficients: list[Array], profiles: Array
) -> Update:
    """Label the rows of a block by the fitted regressions and the votes of landmarks."""
    parts = []
    for part in _chunks(block.rows.stop - block.rows.start, landmarks.chunk):
        kernels, near = _compared(block, part, landmarks)
        scores = reduce(
            lambda total, pair: total + pair[0] @ pair[1],
            zip(kernels, coefficients, strict=True),
            _votes(near, profiles),
        )
        parts.append(namespace(scores).argmax(scores, axis=1))
    return {State.LABELS: namespace(*parts).concat(parts, axis=0)}, ()


def _vote_weights(count: int) -> Matrix:
    weights = harmonic_weights(count)
    return np.asarray(weights / weights.sum())


def _votes(near: Array, profiles: Array) -> Array:
    weights = _vote_weights(near.shape[1])
    if isinstance(near, np.ndarray):
        return np.asarray(weighted_links(near, weights, profiles.shape[0]) @ profiles)
    return weighted_sums(near, placed_like(weights, profiles), profiles)
