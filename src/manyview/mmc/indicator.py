"""Indicator steps: discrete labels and the paper's orthogonal relaxation.

The indicator step: which clusters the prediction speaks for.

The indicator F satisfies ``F'F = I``, so that ``|prediction - F|^2`` depends on it by
``<prediction, F>`` alone: a step lowers the objective as much as it raises that product. Its two
forms are in :mod:`manyview.mmc.indicator` and :mod:`manyview.mmc.indicator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, Sums, Update
from manyview.engine.arrays import Array, as_dtype, namespace, picked, placed_like, to_numpy
from manyview.graph.kmeans import cluster_sizes, cluster_state, members_of
from manyview.linalg.solvers import inverse_square_root
from manyview.mmc.objective import LEAST_EXPLAINED, Factors, Moments, cross_moment, interaction
from manyview.mmc.prediction import CentreReadout, LargestReadout, Readout

__all__ = [
    "DiscreteIndicator",
    "Indicator",
    "LargestGain",
    "OrthogonalIndicator",
    "best_moves",
    "set_from_labels",
    "with_new_indicator",
]


class Indicator(ABC):
    """How an indicator is set at the start and renewed in every sweep."""

    def start(self, engine: Engine, n_clusters: int, given: Matrix | None = None) -> None:
        """Put the indicator of the ``labels`` in the blocks into them.

        `given` is the indicator, if any, that the caller gave and the labels are of. The
        orthogonal form takes it as it is.
        """
        set_from_labels(engine, cluster_sizes(engine, n_clusters))

    @abstractmethod
    def update(
        self, engine: Engine, factors: Factors, moments: Moments, *, trust: float
    ) -> Moments:
        """Renew the indicator in the blocks and return the moments with it.

        Where it stays as it was, so do they: the same object is returned. `trust`, 0 to 1, is how
        far labels are held beside what the model predicts; the orthogonal form, which has none,
        ignores it.
        """

    @abstractmethod
    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Put the ``labels`` of the samples into the blocks; return the rule for other samples."""


def set_from_labels(engine: Engine, sizes: Matrix) -> None:
    """Set ``F = Y (Y'Y)^(-1/2)`` in the blocks, Y one-hot; `sizes` are those of the clusters."""
    engine.update(_onehot_kernel, sizes, engine.dtype)


def with_new_indicator(engine: Engine, moments: Moments) -> Moments:
    """Return the moments with P'F of the indicator that is in the blocks now."""
    return Moments.of((moments.gram, *engine.sum(_cross_kernel)))


def _onehot_kernel(block: Block, sizes: Array, dtype: np.dtype[Any]) -> Update:
    members = members_of(block.state["labels"], sizes.shape[0])
    xp = namespace(sizes)
    entries = 1.0 / xp.sqrt(sizes)
    return {"indicator": as_dtype(xp.where(members, entries, xp.zeros_like(entries)), dtype)}, ()


def _cross_kernel(block: Block) -> Sums:
    return (cross_moment(interaction(block.state["projections"]), block.state["indicator"]),)


_MOST_ROUNDS = 20  # of moves in one step
_TOO_FEW_MOVERS = 1 / 32  # as part of those in the fullest round
_GAIN_THRESHOLDS = 2.0 ** np.arange(-80, 20)


@dataclass(frozen=True)
class LargestGain:
    """The largest gain of some samples, and whose it is; the first sample's of equal ones.

    The sum of two is the larger one, so that an engine finds that of all blocks.
    """

    gain: float
    sample: int

    @classmethod
    def of(cls, gains: Array, first: int) -> Self:
        """Return the largest of the gains of consecutive samples, numbered from `first` on."""
        at = int(namespace(gains).argmax(gains))
        return cls(float(gains[at]), first + at)

    def __add__(self, other: LargestGain) -> LargestGain:
        return max(self, other, key=lambda largest: (largest.gain, -largest.sample))


class DiscreteIndicator(Indicator):
    """One cluster per sample: ``F[n, k] = 1 / sqrt(size_k)`` for its cluster k, else 0.

    Notes
    -----
    Labels may be held: the step maximises ``<prediction + h F, F_new>``, with F the indicator as it
    is and h the trust times ``u (1 - u)^2`` of :func:`_hold`. That adds ``h / sqrt(size_k)``, h
    times its entry of F, to a sample's prediction for its own cluster k. For good labels beside a
    model that explains them in part only, whose errors would become labels.

    J does not rise, whether labels are held or not. As ``|F| = |F_new|``, it falls by
    ``2 <prediction, F_new - F>``, and ``<F, F_new> <= <F, F>``: an F_new for which
    ``<prediction + h F, F_new>`` is at least what it is for F has
    ``<prediction, F_new - F> >= h <F, F - F_new> >= 0``.
    """

    def update(
        self, engine: Engine, factors: Factors, moments: Moments, *, trust: float
    ) -> Moments:
        """Move samples as long as ``sum_k S_k / sqrt(size_k)`` rises, never emptying a cluster.

        S_k is the sum of the predictions for cluster k (with ``h F``, where labels are held) over
        its members. In each round all samples that would gain by moving alone are moved together.
        Where that does not raise the criterion, or empties a cluster, the half of them or fewer
        that gain most are tried, and so on down to the one that gains most. The rounds end when no
        such choice raises the criterion, and when the samples that would gain are no more than
        ``_TOO_FEW_MOVERS`` of those in the fullest round so far: they wait for the next sweep.
        """
        if moments.squared_prediction(factors.clusters) < LEAST_EXPLAINED * len(factors.clusters):
            return moments  # what a model says that has all but vanished is rounding
        hold = trust * _hold(factors, moments)
        sizes, sums = map(to_numpy, engine.update(_tally_kernel, factors.clusters, hold))
        moved, most = False, 0
        for _ in range(_MOST_ROUNDS):
            movers = to_numpy(engine.update(_propose_kernel, sizes, sums, _GAIN_THRESHOLDS)[0])
            most = max(most, movers[0])
            if movers[0] <= _TOO_FEW_MOVERS * most:
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
        engine.forget("prediction", "proposal", "gain", "trial")
        if not moved:
            return moments
        set_from_labels(engine, sizes)
        return with_new_indicator(engine, moments)

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Leave the labels as they are; other samples go by the largest prediction."""
        return LargestReadout()


def _hold(factors: Factors, moments: Moments) -> float:
    """Return ``h = u (1 - u)^2``, by which the labels as they are count beside the prediction.

    ``u = |prediction - F|^2 / (K - 1)``, at most 1, is the part of the indicator that the model
    leaves unexplained; a model that knows the sizes of the clusters only has the misfit K - 1.
    So h is 0 where the model explains all, and where it explains nothing; it is largest, 4/27, at
    u = 1/3. The square lets a model that explains little, such as one without interactions, still
    follow its own prediction, which is about ``(1 - u) F`` on average.
    """
    dimensions = max(len(factors.clusters) - 1, 1)
    unexplained = min(moments.misfit(factors.clusters) / dimensions, 1.0)
    return unexplained * (1.0 - unexplained) ** 2


def _criterion(sizes: Matrix, sums: Matrix) -> float:
    """Return ``sum_k S_k / sqrt(size_k)``, which is ``<prediction, F>``."""
    return float(np.sum(sums / np.sqrt(sizes)))


def _ever_fewer(engine: Engine, movers: Matrix) -> Iterator[tuple[float, int | None]]:
    """Choices of movers: all, then those of the largest gains, at last the one that gains most.

    A choice is the least gain of those who move, or 0 and the one sample that moves. Each but
    the last is at most half of the one before. `movers` counts who gains at all, and who gains at
    least each of ``_GAIN_THRESHOLDS``.
    """
    yield 0.0, None
    left = movers[0]
    for gain, count in zip(_GAIN_THRESHOLDS, movers[1:], strict=True):
        if 0 < count <= left / 2:
            yield float(gain), None
            left = count
    (largest,) = engine.sum(_largest_gain_kernel)
    yield 0.0, largest.sample


def best_moves(prediction: Array, labels: Array, sizes: Array, sums: Array) -> tuple[Array, Array]:
    """Return the best other cluster of each sample, and what ``sum_k S_k / sqrt(size_k)`` gains.

    Parameters
    ----------
    prediction : array of shape (n, n_clusters)
        What speaks for each cluster.
    labels : array of shape (n,)
        The clusters as they are.
    sizes, sums : array of shape (n_clusters,)
        size_k and S_k of all samples, of which these may be some.

    Returns
    -------
    proposal : array of int of shape (n,)
        Clusters.
    gain : array of shape (n,)
        By a move of this sample alone; 0 where it is not above rounding, and for the last member
        of a cluster.
    """
    xp = namespace(prediction)
    own = picked(prediction, labels)
    size, total = xp.take(sizes, labels), xp.take(sums, labels)
    left_size = xp.where(size > 2.0, size - 1.0, xp.ones_like(size))
    leaving = (total - own) / xp.sqrt(left_size) - total / xp.sqrt(size)
    gains = _joining_gains(prediction, sizes, sums)
    elsewhere = ~members_of(labels, prediction.shape[1])
    gains = xp.where(elsewhere, gains, xp.full_like(gains, -xp.inf))
    proposal = xp.argmax(gains, axis=1)
    gain = picked(gains, proposal) + leaving
    # rounding of the predictions, and of the differences here
    noise = 64.0 * _eps(prediction) * (xp.abs(own) + xp.abs(picked(prediction, proposal)))
    terms = xp.abs(sums) / xp.sqrt(sizes)
    noise = noise + 4.0 * _eps(gain) * (xp.take(terms, labels) + xp.take(terms, proposal))
    return proposal, xp.where((size > 1.0) & (gain > noise), gain, xp.zeros_like(gain))


def _joining_gains(prediction: Array, sizes: Array, sums: Array) -> Array:
    """Return what ``sum_k S_k / sqrt(size_k)`` gains by each sample alone, in each cluster."""
    xp = namespace(prediction)
    return (sums + prediction) / xp.sqrt(sizes + 1.0) - sums / xp.sqrt(sizes)


def _tally_kernel(block: Block, clusters: Array, hold: float) -> Update:
    prediction = interaction(block.state["projections"]) @ clusters.T
    if hold:
        prediction = prediction + hold * block.state["indicator"]
    return {"prediction": prediction}, _tally(block.state["labels"], prediction)


def _tally(labels: Array, prediction: Array) -> Sums:
    members = members_of(labels, prediction.shape[1])
    xp = namespace(prediction)
    own = xp.where(members, prediction, xp.zeros_like(prediction))
    return _exact_sum(members), _exact_sum(own)


def _exact_sum(rows: Array) -> Array:
    rows = as_dtype(rows, np.float64)
    return namespace(rows).sum(rows, axis=0)


def _propose_kernel(block: Block, sizes: Array, sums: Array, thresholds: Array) -> Update:
    labels, prediction = block.state["labels"], block.state["prediction"]
    proposal, gain = best_moves(prediction, labels, sizes, sums)
    xp = namespace(gain)
    below = xp.searchsorted(xp.sort(gain), thresholds)
    counts = xp.concat([_count(gain > 0.0)[None], gain.shape[0] - below])
    return {"proposal": proposal, "gain": gain}, (counts,)


def _eps(array: Array) -> float:
    return float(namespace(array).finfo(array.dtype).eps)


def _count(which: Array) -> Array:
    xp = namespace(which)
    return xp.sum(xp.astype(which, xp.int64))


def _largest_gain_kernel(block: Block) -> Sums:
    return (LargestGain.of(block.state["gain"], block.rows.start),)


def _trial_kernel(block: Block, least_gain: float, sample: int | None) -> Update:
    state = block.state
    xp = namespace(state["gain"])
    moves = (state["gain"] > 0.0) & (state["gain"] >= least_gain)
    if sample is not None:
        rows = np.arange(block.rows.start, block.rows.stop)
        moves = placed_like(rows == sample, moves)
    trial = xp.where(moves, state["proposal"], state["labels"])
    return {"trial": trial}, _tally(trial, state["prediction"])


def _accept_kernel(block: Block) -> Update:
    return {"labels": block.state["trial"]}, ()


_LEAST_SQUARED_NORM = 1e-12  # of a prediction, below which it is the zero model's


class OrthogonalIndicator(Indicator):
    """Any matrix with orthonormal columns: the polar factor of the prediction."""

    def start(self, engine: Engine, n_clusters: int, given: Matrix | None = None) -> None:
        """Put the indicator that the caller has given, or that of the labels, into the blocks."""
        if given is None:
            super().start(engine, n_clusters)
        else:
            engine.scatter("indicator", given.astype(engine.dtype))

    def update(
        self, engine: Engine, factors: Factors, moments: Moments, *, trust: float
    ) -> Moments:
        """Set ``F = U V'`` of the prediction's thin SVD, through its K x K Gram matrix."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        if not np.trace(gram) > _LEAST_SQUARED_NORM:  # the zero model has no direction to follow
            return moments
        root, null = inverse_square_root(gram, rtol=_rank_tolerance(engine))
        readout = (clusters.T @ root).astype(engine.dtype)
        if null.shape[1]:
            overlap = to_numpy(engine.update(_known_kernel, readout)[0])
            fill = _completion(overlap, null)
            engine.update(
                _filled_kernel, fill.astype(engine.dtype), (overlap @ fill).astype(engine.dtype)
            )
        else:
            engine.update(_polar_kernel, readout)
        # once more, as an ill-conditioned Gram matrix loses digits
        (gram,) = engine.sum(_indicator_gram_kernel)
        correction, _ = inverse_square_root(to_numpy(gram))
        engine.update(_corrected_kernel, correction.astype(engine.dtype))
        return with_new_indicator(engine, moments)

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Put the labels of k-means on the rows of F into the blocks; return its centres."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        to_indicator = np.linalg.pinv(gram, rcond=_rank_tolerance(engine), hermitian=True) @ (
            clusters @ moments.cross
        )
        # k-means stops at an absolute tolerance: rows of length 1, not 1 / sqrt(n_samples)
        scale = float(np.sqrt(engine.n_samples))
        engine.update(_scaled_kernel, scale)
        centres = cluster_state(engine, "scaled", len(clusters), rng)
        engine.forget("scaled")
        return CentreReadout(scale * to_indicator, centres)


def _rank_tolerance(engine: Engine) -> float:
    """Eigenvalues of a Gram matrix, beside its largest, below which a direction is but rounding."""
    return max(1e-12, (64.0 * float(np.finfo(engine.dtype).eps)) ** 2)


def _completion(overlap: Matrix, null: Matrix) -> Matrix:
    """Return how the previous indicator fills the directions that the prediction lacks.

    With U the part that the prediction spans and F the previous indicator, ``overlap = U'F``.
    F has K dimensions, so that outside U it has at least as many as U lacks; of the ways to put
    these into the lacking directions, that nearest to F itself is taken.
    """
    outside = np.eye(len(overlap)) - overlap.T @ overlap
    directions = np.linalg.eigh(outside)[1][:, -null.shape[1] :]
    left, _, right = np.linalg.svd(directions.T @ outside @ null)
    return np.asarray(directions @ (left @ right) @ null.T)


def _polar_kernel(block: Block, readout: Array) -> Update:
    return {"indicator": interaction(block.state["projections"]) @ readout}, ()


def _known_kernel(block: Block, readout: Array) -> Update:
    known = interaction(block.state["projections"]) @ readout
    return {"known": known}, (cross_moment(known, block.state["indicator"]),)


def _filled_kernel(block: Block, fill: Array, overlap: Array) -> Update:
    known, previous = block.state["known"], block.state["indicator"]
    filled = known + previous @ fill - known @ overlap
    return {"indicator": filled, "known": None}, ()


def _indicator_gram_kernel(block: Block) -> Sums:
    indicator = block.state["indicator"]
    return (cross_moment(indicator, indicator),)


def _corrected_kernel(block: Block, correction: Array) -> Update:
    return {"indicator": block.state["indicator"] @ correction}, ()


def _scaled_kernel(block: Block, scale: float) -> Update:
    return {"scaled": scale * block.state["indicator"]}, ()
