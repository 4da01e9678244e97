"""Forms of the indicator: labels found beforehand, discrete labels, the orthogonal relaxation.

The indicator F satisfies ``F'F = I``, so ``|B A' - F|^2`` depends on it only through the inner
product ``<B A', F>``. An update lowers the objective by twice the amount by which it raises that
product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, State, Sums, Update
from manyview.engine.arrays import Array, as_dtype, namespace, picked, placed_like, to_numpy
from manyview.graph.kmeans import cluster_sizes, cluster_state, members_of
from manyview.linalg.solvers import inverse_square_root
from manyview.mmc.objective import (
    LEAST_EXPLAINED,
    Factors,
    Moments,
    cross_moment,
    interaction,
)
from manyview.mmc.prediction import CentreReadout, CosineReadout, Readout

__all__ = [
    "DiscreteIndicator",
    "Indicator",
    "LargestGain",
    "LeaveOneOutIndicator",
    "OrthogonalIndicator",
    "best_moves",
]


class Indicator(ABC):
    """The form of F: how it is initialised, updated in every iteration, and read."""

    follows_model = True  # whether iterations move labels to what the factors predict

    def start(self, engine: Engine, n_clusters: int, given: Matrix | None = None) -> None:
        """Initialise F in the blocks from their labels.

        `given` is the indicator that the user passed, if any; only the orthogonal form uses it.
        """
        _set_from_labels(engine, cluster_sizes(engine, n_clusters))

    @abstractmethod
    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Update F in the blocks and return the new moments, or `moments` if F did not change."""

    @abstractmethod
    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Put the final labels into the blocks and return the rule for out-of-sample labels."""


def _set_from_labels(engine: Engine, sizes: Matrix) -> None:
    """Set ``F = Y (Y'Y)^(-1/2)`` in the blocks, with Y one-hot and `sizes` those of clusters."""
    engine.update(_onehot_kernel, sizes, engine.dtype)


def _onehot_kernel(block: Block, sizes: Array, dtype: np.dtype[Any]) -> Update:
    members = members_of(block.state[State.LABELS], sizes.shape[0])
    xp = namespace(sizes)
    entries = 1.0 / xp.sqrt(sizes)
    return {
        State.INDICATOR: as_dtype(xp.where(members, entries, xp.zeros_like(entries)), dtype)
    }, ()


def _with_new_indicator(engine: Engine, moments: Moments) -> Moments:
    """Return the moments with B'F of the indicator that is now in the blocks."""
    return Moments.of((moments.gram, *engine.sum(_cross_kernel)))


def _cross_kernel(block: Block) -> Sums:
    return (
        cross_moment(interaction(block.state[State.PROJECTIONS]), block.state[State.INDICATOR]),
    )


# The discrete indicator


@dataclass(frozen=True)
class DiscreteIndicator(Indicator):
    """One cluster per sample: ``F[n, k] = 1 / sqrt(size_k)`` for its cluster k, else 0.

    An update makes at most `max_rounds` rounds of moves. It ends when fewer samples want to move
    than the part `few_movers` of those in the largest round; they wait for the next iteration.
    """

    max_rounds: int = 20
    few_movers: float = 1 / 32

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Move samples while ``sum_k S_k / sqrt(size_k)`` rises, without emptying a cluster.

        S_k is the sum of the predictions for cluster k over its members. In each round all
        samples that would gain by moving alone move together. If that does not raise the criterion
        or empties a cluster, at most half of them, with the largest gains, are tried, and so on
        down to a single sample.
        """
        if moments.squared_prediction(factors.clusters) < LEAST_EXPLAINED * len(factors.clusters):
            return moments  # the prediction of a zero model is rounding
        sizes, sums = map(to_numpy, engine.update(_tally_kernel, factors.clusters))
        moved, most = False, 0
        for _ in range(self.max_rounds):
            movers = to_numpy(engine.update(_propose_kernel, sizes, sums, _GAIN_THRESHOLDS)[0])
            most = max(most, movers[0])
            if movers[0] <= self.few_movers * most:
                break
            for chosen in _ever_fewer(engine, movers):
                new_sizes, new_sums = map(to_numpy, engine.update(_trial_kernel, *chosen))
                if new_sizes.min() > 0 and (
                    _criterion(new_sizes, new_sums) > _criterion(sizes, sums)
                ):
                    break
            else:
                break
            engine.update(_accept_kernel)
            sizes, sums, moved = new_sizes, new_sums, True
        engine.forget(State.PREDICTION, State.PROPOSAL, State.GAIN, State.TRIAL)
        if not moved:
            return moments
        _set_from_labels(engine, sizes)
        return _with_new_indicator(engine, moments)

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Keep the labels; out-of-sample labels follow the means of their predictions."""
        return CosineReadout.of(moments, factors.clusters)


def _criterion(sizes: Matrix, sums: Matrix) -> float:
    """Return ``sum_k S_k / sqrt(size_k)``, which is ``<B A', F>``."""
    return float(np.sum(sums / np.sqrt(sizes)))


_GAIN_THRESHOLDS = 2.0 ** np.arange(-80, 20)


def _ever_fewer(engine: Engine, movers: Matrix) -> Iterator[tuple[float, int | None]]:
    """Yield ever smaller choices of samples to move: all of them first, a single one last.

    A choice is the least gain of those that move, or 0 and the one sample that moves. Each choice
    but the last is at most half of the one before. `movers` counts the samples that gain at all,
    and those that gain at least each of ``_GAIN_THRESHOLDS``.
    """
    yield 0.0, None
    left = movers[0]
    for gain, count in zip(_GAIN_THRESHOLDS, movers[1:], strict=True):
        if 0 < count <= left / 2:
            yield float(gain), None
            left = count
    (largest,) = engine.sum(_largest_gain_kernel)
    yield 0.0, largest.sample


@dataclass(frozen=True)
class LargestGain:
    """The largest gain of some samples and the first sample that has it.

    The sum of two is the larger one, so that an engine finds the largest gain over all blocks.
    """

    gain: float
    sample: int

    @classmethod
    def of(cls, gains: Array, first: int) -> Self:
        """Return the largest gain of consecutive samples, numbered from `first`."""
        at = int(namespace(gains).argmax(gains))
        return cls(float(gains[at]), first + at)

    def __add__(self, other: LargestGain) -> LargestGain:
        return max(self, other, key=lambda largest: (largest.gain, -largest.sample))


def best_moves(prediction: Array, labels: Array, sizes: Array, sums: Array) -> tuple[Array, Array]:
    """Return the best other cluster of each sample, and what the criterion gains by the move.

    `sizes` and `sums` are size_k and S_k over all samples, of which the rows of `prediction` may be
    some. A gain is that of moving one sample alone. It is 0 if it does not exceed rounding, and for
    the last member of a cluster.
    """
    xp = namespace(prediction)
    own = picked(prediction, labels)
    size, total = xp.take(sizes, labels), xp.take(sums, labels)
    left_size = xp.where(size > 2.0, size - 1.0, xp.ones_like(size))
    leaving = (total - own) / xp.sqrt(left_size) - total / xp.sqrt(size)
    joining = (sums + prediction) / xp.sqrt(sizes + 1.0) - sums / xp.sqrt(sizes)
    elsewhere = ~members_of(labels, prediction.shape[1])
    joining = xp.where(elsewhere, joining, xp.full_like(joining, -xp.inf))
    proposal = xp.argmax(joining, axis=1)
    gain = picked(joining, proposal) + leaving
    # rounding of the predictions, and of the differences here
    noise = 64.0 * _eps(prediction) * (xp.abs(own) + xp.abs(picked(prediction, proposal)))
    terms = xp.abs(sums) / xp.sqrt(sizes)
    noise = noise + 4.0 * _eps(gain) * (xp.take(terms, labels) + xp.take(terms, proposal))
    return proposal, xp.where((size > 1.0) & (gain > noise), gain, xp.zeros_like(gain))


def _eps(array: Array) -> float:
    return float(namespace(array).finfo(array.dtype).eps)


def _tally_kernel(block: Block, clusters: Array) -> Update:
    prediction = interaction(block.state[State.PROJECTIONS]) @ clusters.T
    return {State.PREDICTION: prediction}, _tally(block.state[State.LABELS], prediction)


def _tally(labels: Array, prediction: Array) -> Sums:
    """Return size_k and S_k of the clusters, in double precision."""
    members = members_of(labels, prediction.shape[1])
    xp = namespace(prediction)
    own = xp.where(members, prediction, xp.zeros_like(prediction))
    return tuple(xp.sum(as_dtype(rows, np.float64), axis=0) for rows in (members, own))


def _propose_kernel(block: Block, sizes: Array, sums: Array, thresholds: Array) -> Update:
    proposal, gain = best_moves(
        block.state[State.PREDICTION], block.state[State.LABELS], sizes, sums
    )
    xp = namespace(gain)
    below = xp.searchsorted(xp.sort(gain), thresholds)
    gaining = xp.sum(xp.astype(gain > 0.0, xp.int64))
    counts = xp.concat([gaining[None], gain.shape[0] - below])
    return {State.PROPOSAL: proposal, State.GAIN: gain}, (counts,)


def _largest_gain_kernel(block: Block) -> Sums:
    return (LargestGain.of(block.state[State.GAIN], block.rows.start),)


def _trial_kernel(block: Block, least_gain: float, sample: int | None) -> Update:
    gain = block.state[State.GAIN]
    moves = (gain > 0.0) & (gain >= least_gain)
    if sample is not None:
        rows = np.arange(block.rows.start, block.rows.stop)
        moves = placed_like(rows == sample, moves)
    trial = namespace(gain).where(moves, block.state[State.PROPOSAL], block.state[State.LABELS])
    return {State.TRIAL: trial}, _tally(trial, block.state[State.PREDICTION])


def _accept_kernel(block: Block) -> Update:
    return {State.LABELS: block.state[State.TRIAL]}, ()


# The indicator judged by leave-one-out predictions


class LeaveOneOutIndicator(Indicator):
    """One cluster per sample, found before the factors are fitted to it.

    The labels are those of :mod:`manyview.graph.leave_one_out`.
    """

    follows_model = False

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Keep F: the factors are fitted to it."""
        return moments

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Keep the labels; out-of-sample labels follow the means of their predictions."""
        return CosineReadout.of(moments, factors.clusters)


# The orthogonal indicator


class OrthogonalIndicator(Indicator):
    """Any matrix with orthonormal columns: the polar factor of the prediction."""

    def start(self, engine: Engine, n_clusters: int, given: Matrix | None = None) -> None:
        """Initialise F with the given indicator, or else from the labels."""
        if given is None:
            super().start(engine, n_clusters)
        else:
            engine.scatter(State.INDICATOR, given.astype(engine.dtype))

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Set ``F = U V'`` of the thin SVD of the prediction, through its K x K Gram matrix."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        if not np.trace(gram) > 1e-12:  # the prediction of a zero model has no direction
            return moments
        root, null = inverse_square_root(gram, rtol=_rank_tolerance(engine))
        to_polar = (clusters.T @ root).astype(engine.dtype)
        if null.shape[1]:
            overlap = to_numpy(engine.update(_spanned_kernel, to_polar)[0])
            fill = _completion(overlap, null)
            engine.update(
                _filled_kernel, fill.astype(engine.dtype), (overlap @ fill).astype(engine.dtype)
            )
        else:
            engine.update(_polar_kernel, to_polar)
        # a second time, because an ill-conditioned Gram matrix loses digits
        (gram,) = engine.sum(_indicator_gram_kernel)
        correction, _ = inverse_square_root(to_numpy(gram))
        engine.update(_corrected_kernel, correction.astype(engine.dtype))
        return _with_new_indicator(engine, moments)

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Label the samples by k-means on the rows of F; its centres label other samples."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        to_indicator = np.linalg.pinv(gram, rcond=_rank_tolerance(engine), hermitian=True) @ (
            clusters @ moments.cross
        )
        # k-means stops at an absolute tolerance, so rows get length 1 in place of 1 / sqrt(N)
        scale = float(np.sqrt(engine.n_samples))
        engine.update(_scaled_kernel, scale)
        centres = cluster_state(engine, State.SCALED, len(clusters), rng)
        engine.forget(State.SCALED)
        return CentreReadout(scale * to_indicator, centres)


def _rank_tolerance(engine: Engine) -> float:
    """Return the relative size below which eigenvalues of a Gram matrix are rounding."""
    return max(1e-12, (64.0 * float(np.finfo(engine.dtype).eps)) ** 2)


def _completion(overlap: Matrix, null: Matrix) -> Matrix:
    """Return how the previous indicator fills the directions that the prediction does not span.

    With U the spanned part and F the previous indicator, ``overlap = U'F``. F has K dimensions, so
    outside U it has at least as many as are missing. Of the ways to place them, the one nearest to
    F is taken.
    """
    outside = np.eye(len(overlap)) - overlap.T @ overlap
    directions = np.linalg.eigh(outside)[1][:, -null.shape[1] :]
    left, _, right = np.linalg.svd(directions.T @ outside @ null)
    return np.asarray(directions @ (left @ right) @ null.T)


def _polar_kernel(block: Block, to_polar: Array) -> Update:
    return {State.INDICATOR: interaction(block.state[State.PROJECTIONS]) @ to_polar}, ()


def _spanned_kernel(block: Block, to_polar: Array) -> Update:
    spanned = interaction(block.state[State.PROJECTIONS]) @ to_polar
    return {State.SPANNED: spanned}, (cross_moment(spanned, block.state[State.INDICATOR]),)


def _filled_kernel(block: Block, fill: Array, overlap: Array) -> Update:
    spanned, previous = block.state[State.SPANNED], block.state[State.INDICATOR]
    filled = spanned + previous @ fill - spanned @ overlap
    return {State.INDICATOR: filled, State.SPANNED: None}, ()


def _indicator_gram_kernel(block: Block) -> Sums:
    indicator = block.state[State.INDICATOR]
    return (cross_moment(indicator, indicator),)


def _corrected_kernel(block: Block, correction: Array) -> Update:
    return {State.INDICATOR: block.state[State.INDICATOR] @ correction}, ()


def _scaled_kernel(block: Block, scale: float) -> Update:
    return {State.SCALED: scale * block.state[State.INDICATOR]}, ()
