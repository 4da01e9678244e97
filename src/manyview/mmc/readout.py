"""From the prediction of an indicator to labels, for samples seen and unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from manyview.engine import Block, Engine, Update
from manyview.linalg.partition import Labels
from manyview.mmc.model import Factors, interaction

__all__ = ["CentreReadout", "JoiningReadout", "Readout", "joining_gains", "predicted_indicator"]

Matrix = npt.NDArray[np.floating[Any]]


class Readout(Protocol):
    """A rule from predictions to labels."""

    def labels(self, prediction: Matrix) -> Labels:
        """Return the cluster of each row of a prediction."""


@dataclass(frozen=True)
class JoiningReadout:
    """The cluster whose part of the discrete criterion would gain most by the sample."""

    sizes: Matrix
    sums: Matrix

    def labels(self, prediction: Matrix) -> Labels:
        """Return the cluster of each row of a prediction."""
        best: Labels = joining_gains(prediction, self.sizes, self.sums).argmax(axis=1)
        return best


@dataclass(frozen=True)
class CentreReadout:
    """The nearest centre of k-means, after the rotation that makes predictions orthonormal."""

    rotation: Matrix
    centres: Matrix

    def labels(self, prediction: Matrix) -> Labels:
        """Return the cluster of each row of a prediction."""
        rows = prediction @ self.rotation
        distances = (self.centres**2).sum(axis=1) - 2.0 * (rows @ self.centres.T)
        nearest: Labels = distances.argmin(axis=1)
        return nearest


def joining_gains(prediction: Matrix, sizes: Matrix, sums: Matrix) -> Matrix:
    """Return by how much ``sum_k S_k / sqrt(size_k)`` rises if a sample joins each cluster.

    Parameters
    ----------
    prediction : ndarray of shape (n, n_clusters)
        The model's prediction of the indicator.
    sizes, sums : ndarray of shape (n_clusters,)
        Number of members of each cluster, and the sum of their predictions for it.

    Returns
    -------
    ndarray of shape (n, n_clusters)
        Gains of each sample, if it joined alone.
    """
    gains: Matrix = (sums + prediction) / np.sqrt(sizes + 1.0) - sums / np.sqrt(sizes)
    return gains


def predicted_indicator(engine: Engine, factors: Factors) -> Matrix:
    """Return the prediction of the model for every sample of the engine."""
    folded = [
        scaling.fold(factor) for scaling, factor in zip(engine.scalings, factors.views, strict=True)
    ]
    engine.update(_predict_kernel, folded, factors.clusters)
    return engine.gather("prediction")


def _predict_kernel(block: Block, factors: list[Any], clusters: Matrix) -> Update:
    projections = [view.project(factor) for view, factor in zip(block.views, factors, strict=True)]
    return {"prediction": interaction(projections) @ clusters.T}, ()
