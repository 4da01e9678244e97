"""The indicator step: which clusters the prediction speaks for.

Both indicators satisfy ``F'F = I`` and both steps maximise ``<prediction, F>``, which is all
that the objective sees of F. The orthogonal one is the paper's relaxation, solved by a polar
decomposition; the discrete one, ``F = Y (Y'Y)^(-1/2)`` with Y one-hot, is what it relaxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from manyview.engine import Block, Engine, Sums, Update
from manyview.linalg.partition import Labels, cluster_rows
from manyview.linalg.polar import inverse_square_root
from manyview.mmc.model import Factors, Moments, cross_moment, interaction
from manyview.mmc.readout import CentreReadout, JoiningReadout, Readout, joining_gains

__all__ = [
    "DiscreteIndicator",
    "Indicator",
    "OrthogonalIndicator",
    "indicator_named",
]

Matrix = npt.NDArray[np.floating[Any]]

_EXPONENTS = np.arange(-80, 20)
_NOTHING = 1e-12


class Indicator(Protocol):
    """How an indicator is set at the start and renewed in every sweep."""

    def start(self, engine: Engine, indicator: Matrix) -> None:
        """Put an indicator, orthonormal columns, into the blocks."""

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Renew the indicator in the blocks and return the moments with it."""

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> tuple[Labels, Readout]:
        """Return the labels of the samples in the blocks, and the rule for other samples."""


class OrthogonalIndicator:
    """Any matrix with orthonormal columns: the polar factor of the prediction."""

    def start(self, engine: Engine, indicator: Matrix) -> None:
        """Put an indicator into the blocks."""
        engine.scatter("indicator", indicator.astype(engine.dtype))

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Set ``F = U V'`` of the prediction's thin SVD, through its K x K Gram matrix."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        if not np.trace(gram) > _NOTHING:  # the zero model has no direction to follow
            return moments
        root, null = inverse_square_root(gram, rtol=_rank_tolerance(engine))
        readout = (clusters.T @ root).astype(engine.dtype)
        if null.shape[1]:
            overlap = engine.update(_known_kernel, readout)[0]
            fill = _completion(overlap, null)
            engine.update(
                _filled_kernel, fill.astype(engine.dtype), (overlap @ fill).astype(engine.dtype)
            )
        else:
            engine.update(_polar_kernel, readout)
        # once more, as an ill-conditioned Gram matrix loses digits
        (gram,) = engine.sum(_indicator_gram_kernel)
        correction, _ = inverse_square_root(gram)
        engine.update(_corrected_kernel, correction.astype(engine.dtype))
        return Moments(moments.gram, *engine.sum(_cross_kernel))

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> tuple[Labels, Readout]:
        """Return the labels of k-means on the rows of F, and its centres as the rule."""
        clusters = factors.clusters.astype(np.float64)
        gram = clusters @ moments.gram @ clusters.T
        rotation = np.linalg.pinv(gram, rcond=_rank_tolerance(engine), hermitian=True) @ (
            clusters @ moments.cross
        )
        # k-means stops at an absolute tolerance: rows of length 1, not 1 / sqrt(n_samples)
        scale = np.sqrt(engine.n_samples)
        labels, centres = cluster_rows(scale * engine.gather("indicator"), len(clusters), rng)
        return labels, CentreReadout(scale * rotation, centres)


class DiscreteIndicator:
    """One cluster a sample: ``F[n, k] = 1 / sqrt(size_k)`` for its cluster k, else 0."""

    rounds = 20

    def start(self, engine: Engine, indicator: Matrix) -> None:
        """Put the indicator of the clusters of given labels, one-hot up to scale, into blocks."""
        labels = indicator.argmax(axis=1)
        engine.scatter("labels", labels)
        sizes = np.bincount(labels, minlength=indicator.shape[1])
        engine.update(_onehot_kernel, sizes, engine.dtype)

    def update(self, engine: Engine, factors: Factors, moments: Moments) -> Moments:
        """Move samples as long as ``sum_k S_k / sqrt(size_k)`` rises, never emptying a cluster.

        S_k is the sum of the predictions for cluster k over its members. All samples that would
        gain by a move, alone, are moved together; where that overshoots, only those that would
        gain most.
        """
        sizes, sums = engine.update(_tally_kernel, factors.clusters)
        for _ in range(self.rounds):
            (histogram,) = engine.update(_propose_kernel, sizes, sums)
            if not histogram.any():
                break
            for chosen in _ever_fewer(engine, histogram):
                new_sizes, new_sums = engine.update(_trial_kernel, chosen)
                if new_sizes.min() > 0 and _spread(new_sizes, new_sums) > _spread(sizes, sums):
                    break
            else:
                break
            engine.update(_accept_kernel)
            sizes, sums = new_sizes, new_sums
        engine.forget("prediction", "proposal", "gain", "trial")
        engine.update(_onehot_kernel, sizes, engine.dtype)
        return Moments(moments.gram, *engine.sum(_cross_kernel))

    def read(
        self, engine: Engine, factors: Factors, moments: Moments, rng: np.random.Generator
    ) -> tuple[Labels, Readout]:
        """Return the labels in the blocks, and joining the cluster that gains most as the rule."""
        sizes, sums = engine.update(_tally_kernel, factors.clusters)
        return engine.gather("labels"), JoiningReadout(sizes, sums)


def indicator_named(name: str) -> Indicator:
    """Return the indicator that the estimator's parameter names."""
    kinds: dict[str, type[Indicator]] = {
        "discrete": DiscreteIndicator,
        "orthogonal": OrthogonalIndicator,
    }
    return kinds[name]()


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


def _ever_fewer(engine: Engine, histogram: Matrix) -> Iterator[float | slice]:
    """Choices of movers: all, then those of the largest gains, at last the one that gains most.

    A choice is the gain to ask for, each leaving at most half of the movers, or a sample.
    """
    yield 0.0
    movers = np.cumsum(histogram[::-1])[::-1]
    left = movers[0]
    for exponent, count in zip(_EXPONENTS, movers, strict=True):
        if 0 < count <= left / 2:
            yield float(2.0**exponent)
            left = count
    best = int(engine.gather("gain").argmax())
    yield slice(best, best + 1)


def _float64(array: Matrix) -> Matrix:
    return array.astype(np.float64, copy=False)


def _prediction(block: Block, clusters: Matrix) -> Matrix:
    return interaction(block.state["projections"]) @ clusters.T


def _tally_kernel(block: Block, clusters: Matrix) -> Update:
    prediction = _prediction(block, clusters)
    return {"prediction": prediction}, _tally(block.state["labels"], prediction)


def _tally(labels: Labels, prediction: Matrix) -> Sums:
    n_clusters = prediction.shape[1]
    own = prediction[np.arange(labels.size), labels]
    sizes = np.bincount(labels, minlength=n_clusters).astype(np.float64)
    return sizes, np.bincount(labels, weights=own, minlength=n_clusters)


def _propose_kernel(block: Block, sizes: Matrix, sums: Matrix) -> Update:
    labels, prediction = block.state["labels"], block.state["prediction"]
    every = np.arange(labels.size)
    own = prediction[every, labels]
    left_size = np.maximum(sizes[labels] - 1.0, 1.0)
    leaving = (sums[labels] - own) / np.sqrt(left_size) - sums[labels] / np.sqrt(sizes[labels])
    gains = joining_gains(prediction, sizes, sums)
    gains[every, labels] = -np.inf
    proposal = gains.argmax(axis=1)
    gain = gains[every, proposal] + leaving
    # what rounding could have made is no gain; the last member of a cluster stays
    noise = 64.0 * np.finfo(prediction.dtype).eps * (np.abs(own) + np.abs(prediction).max(axis=1))
    gain = np.where((sizes[labels] > 1.0) & (gain > noise), gain, 0.0)
    movers = gain[gain > 0]
    exponents = np.clip(np.frexp(movers)[1] - 1, _EXPONENTS[0], _EXPONENTS[-1])
    histogram = np.bincount(exponents - _EXPONENTS[0], minlength=_EXPONENTS.size)
    return {"proposal": proposal, "gain": gain}, (histogram,)


def _trial_kernel(block: Block, chosen: float | slice) -> Update:
    state = block.state
    if isinstance(chosen, slice):
        rows = np.arange(block.rows.start, block.rows.stop)
        moves = (rows >= chosen.start) & (rows < chosen.stop)
    else:
        moves = state["gain"] >= max(chosen, np.finfo(np.float64).tiny)
    trial = np.where(moves, state["proposal"], state["labels"])
    return {"trial": trial}, _tally(trial, state["prediction"])


def _accept_kernel(block: Block) -> Update:
    return {"labels": block.state["trial"]}, ()


def _onehot_kernel(block: Block, sizes: Matrix, dtype: npt.DTypeLike) -> Update:
    labels = block.state["labels"]
    indicator = np.zeros((labels.size, len(sizes)), dtype=dtype)
    indicator[np.arange(labels.size), labels] = 1.0 / np.sqrt(sizes[labels])
    return {"indicator": indicator}, ()


def _cross_kernel(block: Block) -> Sums:
    return (cross_moment(interaction(block.state["projections"]), block.state["indicator"]),)


def _polar_kernel(block: Block, readout: Matrix) -> Update:
    return {"indicator": interaction(block.state["projections"]) @ readout}, ()


def _known_kernel(block: Block, readout: Matrix) -> Update:
    known = interaction(block.state["projections"]) @ readout
    return {"known": known}, (_float64(known.T) @ _float64(block.state["indicator"]),)


def _filled_kernel(block: Block, fill: Matrix, overlap: Matrix) -> Update:
    known, previous = block.state["known"], block.state["indicator"]
    filled = known + previous @ fill - known @ overlap
    return {"indicator": filled, "known": None}, ()


def _indicator_gram_kernel(block: Block) -> Sums:
    indicator = _float64(block.state["indicator"])
    return (indicator.T @ indicator,)


def _corrected_kernel(block: Block, correction: Matrix) -> Update:
    return {"indicator": block.state["indicator"] @ correction}, ()
