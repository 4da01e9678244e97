"""From the prediction of an indicator to labels, for samples seen and unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from manyview.engine import Block, Engine, Update
from manyview.engine.arrays import Array, namespace, placed_like
from manyview.mmc.model import Factors, interaction

__all__ = ["CentreReadout", "JoiningReadout", "Readout", "joining_gains", "predict_samples"]

Matrix = npt.NDArray[np.floating[Any]]


class Readout(Protocol):
    """A rule from predictions to labels."""

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""


@dataclass(frozen=True)
class JoiningReadout:
    """The cluster whose part of the discrete criterion would gain most by the sample."""

    sizes: Matrix
    sums: Matrix

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        sizes, sums = (placed_like(part, prediction) for part in (self.sizes, self.sums))
        return namespace(prediction).argmax(joining_gains(prediction, sizes, sums), axis=1)


@dataclass(frozen=True)
class CentreReadout:
    """The nearest centre of k-means, after the rotation that makes predictions orthonormal."""

    rotation: Matrix
    centres: Matrix

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        xp = namespace(prediction)
        rotation, centres = (
            placed_like(part, prediction) for part in (self.rotation, self.centres)
        )
        rows = xp.astype(prediction, rotation.dtype, copy=False) @ rotation
        distances = xp.sum(centres**2, axis=1) - 2.0 * (rows @ centres.T)
        return xp.argmin(distances, axis=1)


def joining_gains(prediction: Array, sizes: Array, sums: Array) -> Array:
    """Return by how much ``sum_k S_k / sqrt(size_k)`` rises if a sample joins each cluster.

    Parameters
    ----------
    prediction : array of shape (n, n_clusters)
        The model's prediction of the indicator.
    sizes, sums : array of shape (n_clusters,)
        Number of members of each cluster, and the sum of their predictions for it.

    Returns
    -------
    array of shape (n, n_clusters)
        Gains of each sample, if it joined alone.
    """
    xp = namespace(prediction)
    return (sums + prediction) / xp.sqrt(sizes + 1.0) - sums / xp.sqrt(sizes)


def predict_samples(engine: Engine, factors: Factors, readout: Readout) -> None:
    """Put the model's prediction and labels of every sample of the engine into its blocks."""
    folded = [
        scaling.fold(engine.asarray(factor))
        for scaling, factor in zip(engine.scalings, factors.views, strict=True)
    ]
    engine.update(_predict_kernel, folded, factors.clusters, readout)


def _predict_kernel(block: Block, factors: list[Any], clusters: Array, readout: Readout) -> Update:
    projections = [view.project(factor) for view, factor in zip(block.views, factors, strict=True)]
    prediction = interaction(projections) @ clusters.T
    return {"prediction": prediction, "labels": readout.labels(prediction)}, ()
