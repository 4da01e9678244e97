"""The indicator step: which clusters the prediction speaks for.

The indicator F satisfies ``F'F = I``, so that ``|prediction - F|^2`` depends on it by
``<prediction, F>`` alone: a step lowers the objective as much as it raises that product. Its two
forms are in :mod:`manyview.mmc.discrete` and :mod:`manyview.mmc.orthogonal`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, Sums, Update
from manyview.engine.arrays import Array, as_dtype, namespace
from manyview.mmc.kmeans import cluster_sizes, members_of
from manyview.mmc.model import Factors, Moments, cross_moment, interaction
from manyview.mmc.readout import Readout

__all__ = ["Indicator", "set_from_labels", "with_new_indicator"]


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
