"""The indicator step: which clusters the prediction speaks for.

Both indicators satisfy ``F'F = I`` and both steps maximise ``<prediction, F>``, which is all
that the objective sees of F. The orthogonal one is the paper's relaxation, solved by a polar
decomposition; the discrete one, ``F = Y (Y'Y)^(-1/2)`` with Y one-hot, is what it relaxes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.engine import Block, Engine, Sums, Update
from manyview.engine.arrays import Array, as_dtype, namespace, picked, placed_like, to_numpy
from manyview.linalg.polar import inverse_square_root
from manyview.mmc.kmeans import cluster_sizes, cluster_state, members_of
from manyview.mmc.model import NEXT_TO_NOTHING, Factors, Moments, cross_moment, interaction
from manyview.mmc.readout import CentreReadout, LargestReadout, Readout

__all__ = [
    "DiscreteIndicator",
    "Indicator",
    "OrthogonalIndicator",
    "indicator_named",
]

Matrix = npt.NDArray[np.floating[Any]]

ROUNDS = 20  # most that move samples in one step
FOLLOWERS = 1 / 32  # part of the samples that had a reason to move, below which others may wait
_GAINS = 2.0 ** np.arange(-80, 20)
_NOTHING = 1e-12


@dataclass(frozen=True)
class _Best:
    """The sample that gains most; of two, their sum is the one that gains more, or the first."""

    gain: float
    sample: int

    def __add__(self, other: _Best) -> _Best:
        return max(self, other, key=lambda best: (best.gain, -best.sample))


class Indicator(ABC):
    """How an indicator is set at the start and renewed in every sweep."""

    def start(self, engine: Engine, n_clusters: int, given: Matrix | None = None) -> None:
        """Put the indicator of the ``labels`` in the blocks into them.

        One that the caller has `given`, from which these are, is taken as it is where it may be.
        """
        engine.update(_onehot_kernel, cluster_sizes(engine, n_clusters), engine.dtype)

    @abstractmethod
    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Renew the indicator in the blocks and return the moments with it.

        Where it stays as it was, so do they: the same object is returned.
        """

    @abstractmethod
    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Put the ``labels`` of the samples into the blocks; return the rule for other samples."""


class OrthogonalIndicator(Indicator):
    """Any matrix with orthonormal columns: the polar factor of the prediction."""

    def start(self, engine: Engine, n_clusters: int, given: Matrix | None = None) -> None:
        """Put the indicator that the caller has given, or that of the labels, into the blocks."""
        if given is None:
            super().start(engine, n_clusters)
        else:
            engine.scatter("indicator", given.astype(engine.dtype))

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Set ``F = U V'`` of the prediction's thin SVD, through its K x K Gram matrix."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        if not np.trace(gram) > _NOTHING:  # the zero model has no direction to follow
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
        return Moments.of((moments.gram, *engine.sum(_cross_kernel)))

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Put the labels of k-means on the rows of F into the blocks; return its centres."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        rotation = np.linalg.pinv(gram, rcond=_rank_tolerance(engine), hermitian=True) @ (
            clusters @ moments.cross
        )
        # k-means stops at an absolute tolerance: rows of length 1, not 1 / sqrt(n_samples)
        scale = float(np.sqrt(engine.n_samples))
        engine.update(_scaled_kernel, scale)
        centres = cluster_state(engine, "scaled", len(clusters), rng)
        engine.forget("scaled")
        return CentreReadout(scale * rotation, centres)


class DiscreteIndicator(Indicator):
    """One cluster a sample: ``F[n, k] = 1 / sqrt(size_k)`` for its cluster k, else 0.

    Parameters
    ----------
    holds : bool
        Whether labels as they are count beside the prediction: a model that explains the indicator
        in part is no authority on every sample, and the labels of a good start are one, too. The
        step then maximises ``<prediction + h F, F_new>`` with F as it is, h of :func:`_hold`:
        a sample moves where the prediction speaks for another cluster by more than h, in units of
        F. By that ``<prediction, F_new>`` does not fall, so that neither way J rises.
    """

    def __init__(self, *, holds: bool = False) -> None:
        self._holds = holds

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Move samples as long as ``sum_k S_k / sqrt(size_k)`` rises, never emptying a cluster.

        S_k is the sum of what speaks for cluster k over its members. All samples that would
        gain by a move, alone, are moved together; where that overshoots, only those that would
        gain most. The few for whom that makes a move pay, beside those who moved, wait for the
        next sweep.
        """
        if moments.predicted(factors.clusters) < NEXT_TO_NOTHING * len(factors.clusters):
            return moments  # what a model says that has all but vanished is rounding
        hold = _hold(factors, moments) if self._holds else 0.0
        sizes, sums = map(to_numpy, engine.update(_tally_kernel, factors.clusters, hold))
        moved, most = False, 0
        for _ in range(ROUNDS):
            movers = to_numpy(engine.update(_propose_kernel, sizes, sums, _GAINS)[0])
            most = max(most, movers[0])
            if movers[0] <= FOLLOWERS * most:
                break
            for chosen in _ever_fewer(engine, movers):
                new_sizes, new_sums = map(to_numpy, engine.update(_trial_kernel, *chosen))
                if new_sizes.min() > 0 and _spread(new_sizes, new_sums) > _spread(sizes, sums):
                    break
            else:
                break
            engine.update(_accept_kernel)
            sizes, sums, moved = new_sizes, new_sums, True
        engine.forget("prediction", "proposal", "gain", "trial")
        if not moved:
            return moments
        engine.update(_onehot_kernel, sizes, engine.dtype)
        return Moments.of((moments.gram, *engine.sum(_cross_kernel)))

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> Readout:
        """Leave the labels as they are; return the rule that the largest prediction says it."""
        return LargestReadout()


def indicator_named(name: str, *, holds: bool = False) -> Indicator:
    """Return the indicator that the estimator's parameter names; `holds` is of the discrete one."""
    return DiscreteIndicator(holds=holds) if name == "discrete" else OrthogonalIndicator()


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


def _spread(sizes: Matrix, sums: Matrix) -> float:
    return float(np.sum(sums / np.sqrt(sizes)))


def _ever_fewer(engine: Engine, movers: Matrix) -> Iterator[tuple[float, int | None]]:
    """Choices of movers: all, then those of the largest gains, at last the one that gains most.

    A choice is the gain to ask for, each leaving at most half of the movers, and the one sample to
    move, if any. `movers` counts them: all, and those that gain at least each of ``_GAINS``.
    """
    yield 0.0, None
    left = movers[0]
    for gain, count in zip(_GAINS, movers[1:], strict=True):
        if 0 < count <= left / 2:
            yield float(gain), None
            left = count
    (best,) = engine.sum(_best_kernel)
    yield 0.0, best.sample


def _prediction(block: Block, clusters: Array) -> Array:
    return interaction(block.state["projections"]) @ clusters.T


def _hold(factors: Factors, moments: Moments) -> float:
    """Return how much the labels as they are count beside the prediction: ``u (1 - u)^2``.

    u is the part of the indicator that the model leaves unexplained, beside what the sizes of the
    clusters explain by themselves, one of K dimensions. The prediction for the own cluster is
    1 - u on average. Nothing holds the labels where the model explains all of them, nor where
    it explains nothing: what is left of it then is what the caller's choice of a model allows.
    """
    dimensions = max(len(factors.clusters) - 1, 1)
    unexplained = min(moments.misfit(factors.clusters) / dimensions, 1.0)
    return unexplained * (1.0 - unexplained) ** 2


def _tally_kernel(block: Block, clusters: Array, hold: float) -> Update:
    prediction = _prediction(block, clusters)
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


def _joining_gains(prediction: Array, sizes: Array, sums: Array) -> Array:
    """Return how much ``sum_k S_k / sqrt(size_k)`` gains by a sample in each cluster, alone."""
    xp = namespace(prediction)
    return (sums + prediction) / xp.sqrt(sizes + 1.0) - sums / xp.sqrt(sizes)


def _propose_kernel(block: Block, sizes: Array, sums: Array, gains_asked: Array) -> Update:
    labels, prediction = block.state["labels"], block.state["prediction"]
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
    # what rounding could have made, of predictions or here, is no gain; the last member of a
    # cluster stays
    noise = 64.0 * _eps(prediction) * (xp.abs(own) + xp.abs(picked(prediction, proposal)))
    spread = xp.abs(sums) / xp.sqrt(sizes)
    noise = noise + 4.0 * _eps(gain) * (xp.take(spread, labels) + xp.take(spread, proposal))
    gain = xp.where((size > 1.0) & (gain > noise), gain, xp.zeros_like(gain))
    smaller = xp.searchsorted(xp.sort(gain), gains_asked)
    counts = xp.concat([_count(gain > 0.0)[None], gain.shape[0] - smaller])
    return {"proposal": proposal, "gain": gain}, (counts,)


def _eps(array: Array) -> float:
    return float(namespace(array).finfo(array.dtype).eps)


def _count(which: Array) -> Array:
    xp = namespace(which)
    return xp.sum(xp.astype(which, xp.int64))


def _best_kernel(block: Block) -> Sums:
    gain = block.state["gain"]
    best = int(namespace(gain).argmax(gain))
    return (_Best(float(gain[best]), block.rows.start + best),)


def _trial_kernel(block: Block, gain_asked: float, sample: int | None) -> Update:
    state = block.state
    xp = namespace(state["gain"])
    moves = (state["gain"] > 0.0) & (state["gain"] >= gain_asked)
    if sample is not None:
        rows = np.arange(block.rows.start, block.rows.stop)
        moves = placed_like(rows == sample, moves)
    trial = xp.where(moves, state["proposal"], state["labels"])
    return {"trial": trial}, _tally(trial, state["prediction"])


def _accept_kernel(block: Block) -> Update:
    return {"labels": block.state["trial"]}, ()


def _onehot_kernel(block: Block, sizes: Array, dtype: np.dtype[Any]) -> Update:
    members = members_of(block.state["labels"], sizes.shape[0])
    xp = namespace(sizes)
    entries = 1.0 / xp.sqrt(sizes)
    return {"indicator": as_dtype(xp.where(members, entries, xp.zeros_like(entries)), dtype)}, ()


def _cross_kernel(block: Block) -> Sums:
    return (cross_moment(interaction(block.state["projections"]), block.state["indicator"]),)


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
