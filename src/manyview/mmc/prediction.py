"""Out-of-sample prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Scaling, Update
from manyview.engine.arrays import Array, as_dtype, namespace, placed_like
from manyview.mmc.objective import Factors, interaction

__all__ = ["CentreReadout", "LargestReadout", "Predictor", "Readout", "predict_samples"]


class Readout(Protocol):
    """A rule from predictions to labels."""

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""

    def factor_by_cluster(self, clusters: Matrix) -> Matrix:
        """Return the cluster factor of a prediction that speaks for each cluster in a column."""


class LargestReadout:
    """The cluster of the largest prediction.

    The criterion of the discrete step is not asked: for samples that were not there predictions are
    smaller all over, and to join a small cluster would seldom pay.
    """

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        return namespace(prediction).argmax(prediction, axis=1)

    def factor_by_cluster(self, clusters: Matrix) -> Matrix:
        """Return the cluster factor: a prediction has a column for each cluster."""
        return clusters


@dataclass(frozen=True)
class CentreReadout:
    """The nearest centre of k-means, after the map that brings predictions nearest to F.

    Attributes
    ----------
    to_indicator : ndarray of shape (n_clusters, n_clusters)
        The linear map, by least squares.
    centres : ndarray of shape (n_clusters, n_clusters)
        Of the rows of F.
    """

    to_indicator: Matrix
    centres: Matrix

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        xp = namespace(prediction)
        # k-means has its centres in the precision of the rows
        to_indicator, centres = (
            placed_like(part.astype(np.float64, copy=False), prediction)
            for part in (self.to_indicator, self.centres)
        )
        rows = as_dtype(prediction, np.float64) @ to_indicator
        distances = xp.sum(centres**2, axis=1) - 2.0 * (rows @ centres.T)
        return xp.argmin(distances, axis=1)

    def factor_by_cluster(self, clusters: Matrix) -> Matrix:
        """Return the cluster factor of the inner products with the centres."""
        return self.centres @ (self.to_indicator.T @ clusters)


def predict_samples(
    engine: Engine, factors: Factors, readout: Readout, unknown: list[Matrix] | None = None
) -> None:
    """Put the model's prediction and labels of every sample of the engine into its blocks.

    Parameters
    ----------
    engine : Engine
        The samples.
    factors : Factors
        Of the model.
    readout : Readout
        From predictions to labels.
    unknown : list of ndarray of shape (n_features + 1,), optional
        A row of each view, scaled and with its bias, for samples that lack the view; by default
        the bias alone.
    """
    folded = [
        scaling.fold(engine.asarray(factor))
        for scaling, factor in zip(engine.scalings, factors.views, strict=True)
    ]
    instead = None
    if unknown is not None:
        rows = zip(unknown, factors.views, strict=True)
        instead = [np.asarray(row @ factor, dtype=factor.dtype) for row, factor in rows]
    engine.update(_predict_kernel, folded, factors.clusters, readout, instead)


def _predict_kernel(
    block: Block,
    factors: list[Any],
    clusters: Array,
    readout: Readout,
    instead: list[Array] | None,
) -> Update:
    projections = [view.project(factor) for view, factor in zip(block.views, factors, strict=True)]
    if instead is not None:
        filled = zip(block.views, projections, instead, strict=True)
        projections = [_where_lacking(view, rows, other) for view, rows, other in filled]
    prediction = interaction(projections) @ clusters.T
    return {"prediction": prediction, "labels": readout.labels(prediction)}, ()


def _where_lacking(view: RowView, projections: Array, instead: Array) -> Array:
    """Return projections with another row for samples that lack the view."""
    lacking = view.lacking
    if lacking is None:
        return projections
    return namespace(projections).where(lacking[:, None], instead, projections)


@dataclass(frozen=True)
class Predictor:
    """What a fit keeps for samples to come.

    Attributes
    ----------
    factors : Factors
        The features that are left, fitted anew; NumPy arrays.
    readout : Readout
        How a prediction becomes a label.
    mean_rows : list of ndarray of shape (n_features + 1,)
        Mean of each view's rows as fit scaled them, for samples that lack the view.
    normalize : {"rows", "columns"} or None
        How rows are scaled.
    scalings : list of Scaling
        How the columns of each view are scaled.
    is_zero : bool
        Whether the model went to zero, so that no feature speaks for a cluster.
    """

    factors: Factors
    readout: Readout
    mean_rows: list[Matrix]
    normalize: str | None
    scalings: list[Scaling]
    is_zero: bool

    def predict(self, engine: Engine, *, lacking: bool) -> None:
        """Put prediction and labels of every sample of the engine into its blocks.

        Parameters
        ----------
        engine : Engine
            The samples, scaled as ``normalize`` and ``scalings`` say.
        lacking : bool
            Whether some of them lack a view.
        """
        # the wider of the precisions of fit and of these views
        dtype = np.result_type(engine.dtype, self.factors.clusters.dtype)
        factors = Factors(
            tuple(factor.astype(dtype, copy=False) for factor in self.factors.views),
            self.factors.clusters.astype(dtype, copy=False),
        )
        predict_samples(engine, factors, self.readout, self.mean_rows if lacking else None)
