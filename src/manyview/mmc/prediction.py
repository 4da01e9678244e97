"""Out-of-sample prediction: factors, scaling and a rule from predictions to labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Scaling, State, Update
from manyview.engine.arrays import Array, as_dtype, namespace, placed_like
from manyview.mmc.objective import Factors, interaction

__all__ = ["CentreReadout", "LargestReadout", "Predictor", "Readout"]


class LargestReadout:
    """The cluster of the largest prediction, for the discrete indicator.

    The criterion of the discrete update is not used here. Out-of-sample predictions are smaller
    overall, so by that criterion too few samples would join small clusters.
    """

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        return namespace(prediction).argmax(prediction, axis=1)

    def factor_by_cluster(self, clusters: Matrix) -> Matrix:
        """Return the cluster factor whose prediction has a score of each cluster per column: A."""
        return clusters


@dataclass(frozen=True)
class CentreReadout:
    """The nearest k-means centre, for the orthogonal indicator.

    `to_indicator` (K x K) is the least squares map from predictions to rows of F. `centres` (K x K)
    are the k-means centres of the rows of F.
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


Readout: TypeAlias = LargestReadout | CentreReadout


@dataclass(frozen=True)
class Predictor:
    """What a fit keeps for out-of-sample prediction."""

    factors: Factors  # the selected features, refitted; NumPy arrays
    readout: Readout
    mean_rows: list[Matrix]  # mean scaled row of each view, which replaces a missing view
    normalize: list[str | None]  # scaling of each view
    scalings: list[Scaling]  # of the columns of each view
    is_zero: bool  # no feature characterises a cluster

    def predict(self, engine: Engine, *, incomplete: bool) -> None:
        """Compute the prediction and label of every sample of the engine, in its blocks.

        `incomplete` says whether some samples have missing views.
        """
        # the wider of the precisions of fit and of these views
        dtype = np.result_type(engine.dtype, self.factors.clusters.dtype)
        factors = [factor.astype(dtype, copy=False) for factor in self.factors.views]
        clusters = self.factors.clusters.astype(dtype, copy=False)
        folded = [
            scaling.fold(engine.asarray(factor))
            for scaling, factor in zip(engine.scalings, factors, strict=True)
        ]
        means = None
        if incomplete:
            pairs = zip(self.mean_rows, factors, strict=True)
            means = [np.asarray(row @ factor, dtype=dtype) for row, factor in pairs]
        engine.update(_predict_kernel, folded, clusters, self.readout, means)


def _predict_kernel(
    block: Block,
    factors: list[Any],
    clusters: Array,
    readout: Readout,
    means: list[Array] | None,
) -> Update:
    projections = [view.project(factor) for view, factor in zip(block.views, factors, strict=True)]
    if means is not None:
        triples = zip(block.views, projections, means, strict=True)
        projections = [_with_mean_where_missing(*triple) for triple in triples]
    prediction = interaction(projections) @ clusters.T
    return {State.PREDICTION: prediction, State.LABELS: readout.labels(prediction)}, ()


def _with_mean_where_missing(view: RowView, projection: Array, mean: Array) -> Array:
    missing = view.missing
    if missing is None:
        return projection
    return namespace(projection).where(missing[:, None], mean, projection)
