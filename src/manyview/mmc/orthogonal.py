"""The orthogonal indicator: the paper's relaxation, by a polar decomposition."""

from __future__ import annotations

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, Sums, Update
from manyview.engine.arrays import Array, to_numpy
from manyview.linalg.polar import inverse_square_root
from manyview.mmc.indicator import Indicator, with_new_indicator
from manyview.mmc.kmeans import cluster_state
from manyview.mmc.model import Factors, Moments, cross_moment, interaction
from manyview.mmc.readout import CentreReadout, Readout

__all__ = ["OrthogonalIndicator"]


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
