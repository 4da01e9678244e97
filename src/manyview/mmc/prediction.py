"""Out-of-sample prediction: factors, scaling and a rule from predictions to labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Scaling, State, Update
from manyview.engine.arrays import Array, as_dtype, namespace, placed_like, to_numpy
from manyview.mmc.objective import Factors, Moments, interaction

__all__ = ["CentreReadout", "CosineReadout", "Predictor", "Readout"]


@dataclass(frozen=True)
class CosineReadout:
    """The largest cosine with the mean prediction of a cluster, for indicators that follow labels.

    The largest entry of a prediction would miss a cluster whose features lie between those of
    others: a regression predicts about the same row of F for it as for a mixture of them (masking).
    The direction of its mean prediction still differs from theirs. Directions are compared rather
    than positions because out-of-sample predictions are smaller than those of the training samples.
    The larger the part of F that the model explains, the closer this is to the largest entry.

    Column k of `weights` (K x K) turns a prediction into its cosine with cluster k, times a number
    that is the same for all clusters.
    """

    weights: Matrix

    @classmethod
    def of(cls, moments: Moments, clusters: Matrix, *, ridge: float = 0.03) -> Self:
        """Return the readout of a model with cluster factor `clusters`.

        With P the predictions of the training samples, column k of P'F has the direction of the
        mean of cluster k. Cosines are in the metric of linear discriminant analysis, the inverse of
        the scatter within clusters ``P'P - P'F F'P``. `ridge` is added to its diagonal, in units of
        the mean of the diagonal of P'P; from 0.02 to 0.1 held-out labels are about equally good.
        """
        factor = clusters.astype(np.float64)
        gram, means = factor @ moments.gram @ factor.T, factor @ moments.cross
        unit = float(np.trace(gram)) / len(gram)
        if not unit * len(gram) > 1e-12:  # the prediction of a zero model has no direction
            return cls(np.eye(len(gram)))
        within = (gram - means @ means.T) / unit + ridge * np.eye(len(gram))
        weights = np.linalg.solve(within, means)
        squares = np.sum(means * weights, axis=0)
        return cls(weights / np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny)))

    def scores(self, prediction: Array) -> Array:
        """Return the score of each cluster for each row of a prediction; the label has the most."""
        return as_dtype(prediction, np.float64) @ placed_like(self.weights, prediction)

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        return namespace(prediction).argmax(self.scores(prediction), axis=1)

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

    def scores(self, prediction: Array) -> Array:
        """Return the score of each cluster for each row of a prediction; the label has the most."""
        xp = namespace(prediction)
        # k-means has its centres in the precision of the rows
        to_indicator, centres = (
            placed_like(part.astype(np.float64, copy=False), prediction)
            for part in (self.to_indicator, self.centres)
        )
        rows = as_dtype(prediction, np.float64) @ to_indicator
        return rows @ centres.T - 0.5 * xp.sum(centres**2, axis=1)

    def labels(self, prediction: Array) -> Array:
        """Return the cluster of each row of a prediction."""
        return namespace(prediction).argmax(self.scores(prediction), axis=1)

    def factor_by_cluster(self, clusters: Matrix) -> Matrix:
        """Return the cluster factor of the inner products with the centres."""
        return self.centres @ (self.to_indicator.T @ clusters)


Readout: TypeAlias = CosineReadout | CentreReadout


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

    def directions(self, prediction: Array) -> Matrix:
        """Return scores of predictions in rows of unit length, from which memberships follow.

        The lengths are left out because predictions of new samples are smaller.
        """
        scores = to_numpy(self.readout.scores(prediction))
        lengths = np.linalg.norm(scores, axis=1, keepdims=True)
        return np.asarray(scores / np.where(lengths > 0, lengths, 1.0))


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
