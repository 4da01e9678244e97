"""The model: views projected into a common space, multiplied there, and read by clusters.

The prediction is ``(S_1 * ... * S_V) A'`` with ``S_v = Z_v W_v``: the inner product of the
outer product of a sample's views with a weight tensor of rank R, which is never formed.
Kernels work on one :class:`~manyview.engine.Block`; its state holds

========================  =====================================================================
``projections``           S_v, rows x R, one per view
``others``                the product of all projections but one, while that view is updated
``indicator``             F, rows x K
========================  =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import mul

import array_api_compat
import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Sums, Update
from manyview.engine.arrays import Array, as_dtype, namespace, product_over_rows, to_numpy
from manyview.engine.block import add_sums
from manyview.engine.scaling import Folded, Pulled
from manyview.mmc.penalty import Penalty

__all__ = [
    "LEAST_EXPLAINED",
    "Factors",
    "Moments",
    "balancing_scales",
    "cross_moment",
    "interaction",
    "normal_kernel",
    "objective",
    "project_all",
    "project_kernel",
    "residual_kernel",
]


LEAST_EXPLAINED = 1e-3
"""Part of the indicator; a model that explains less is the zero model."""


@dataclass(frozen=True)
class Factors:
    """The parameters of the model.

    Attributes
    ----------
    views : tuple of array of shape (n_features_v + 1, rank)
        View factors W_v, bias last, where the engine does its small arithmetic.
    clusters : ndarray of shape (n_clusters, rank)
        Cluster factor A.
    """

    views: tuple[Array, ...]
    clusters: Matrix

    def with_view(self, v: int, factor: Array) -> Factors:
        """Return the factors with that of view `v` replaced."""
        return replace(self, views=(*self.views[:v], factor, *self.views[v + 1 :]))

    def with_clusters(self, factor: Matrix) -> Factors:
        """Return the factors with the cluster factor replaced."""
        return replace(self, clusters=factor)

    def scaled(self, scales: list[float]) -> Factors:
        """Return the factors multiplied by a number each, the cluster factor's last."""
        *views, clusters = scales
        scaled = tuple(factor * scale for factor, scale in zip(self.views, views, strict=True))
        return Factors(scaled, self.clusters * self.clusters.dtype.type(clusters))


@dataclass(frozen=True)
class Moments:
    """All that the fit and the cluster factor need to know of the rows.

    Attributes
    ----------
    gram : ndarray of shape (rank, rank)
        P'P, with P the interaction embedding.
    cross : ndarray of shape (rank, n_clusters)
        P'F.
    """

    gram: Matrix
    cross: Matrix

    @classmethod
    def of(cls, sums: Sums) -> Moments:
        """Return the moments that kernels have summed, wherever they did."""
        gram, cross = sums
        return cls(to_numpy(gram), to_numpy(cross))

    def squared_prediction(self, clusters: Matrix) -> float:
        """Return ``|P A'|^2``."""
        a = clusters.astype(np.float64)
        return float(np.sum((a @ self.gram) * a))

    def misfit(self, clusters: Matrix) -> float:
        """Return ``|P A' - F|^2`` for an orthonormal indicator."""
        both = float(np.sum(clusters.T.astype(np.float64) * self.cross))
        squared = self.squared_prediction(clusters)
        return max(float(self.cross.shape[1]) + (squared - 2.0 * both), 0.0)

    def explained(self, clusters: Matrix) -> float:
        """Return the part of the indicator's squared norm that the model explains."""
        return 1.0 - self.misfit(clusters) / float(len(clusters))

    def scaled(self, scale: float) -> Moments:
        """Return the moments of the interaction embedding times a number."""
        return Moments(self.gram * scale**2, self.cross * scale)


def objective(factors: Factors, moments: Moments, penalty: Penalty, gamma: float) -> float:
    """Return J, the squared misfit plus gamma times the penalties of all factors."""
    size = sum(penalty.value(factor) for factor in (*factors.views, factors.clusters))
    return moments.misfit(factors.clusters) + gamma * size


def balancing_scales(factors: Factors, penalty: Penalty) -> list[float]:
    """Return scales, of product 1, that make the penalties of all factors equal.

    A scalar can move from one factor to another without changing the prediction, and the sum of
    the penalties is smallest when they are equal: scaling by these never raises the objective.
    """
    sizes = np.array([penalty.value(factor) for factor in (*factors.views, factors.clusters)])
    if not (sizes > 0).all():
        return [1.0] * sizes.size
    logs = np.log(sizes) / penalty.degree
    return [float(scale) for scale in np.exp(logs.mean() - logs)]


def interaction(projections: list[Array]) -> Array:
    """Return the elementwise product of projections: the interaction embedding."""
    return reduce(mul, projections)


def residual_kernel(block: Block, v: int, clusters: Array) -> Update:
    """Set ``others`` for view `v` and pull what the model leaves unexplained through it.

    Half the negative gradient of the misfit in W_v is ``Z_v' (others * ((F - P A') A))``.
    """
    projections = block.state["projections"]
    rest = [projection for u, projection in enumerate(projections) if u != v]
    others = interaction(rest) if rest else None
    unexplained = block.state["indicator"] - _with_others(projections[v], others) @ clusters.T
    pulled = block.views[v].pull(_with_others(unexplained @ clusters, others))
    gram = _others_gram(others, block)
    return {"others": others}, (pulled, gram)


def normal_kernel(block: Block, v: int, direction: Folded, gram: Array) -> Sums:
    """Pull ``others * ((others * project(W)) A'A)``: the normal operator, the hot loop."""
    others = block.state["others"]
    parts = block.views[v].parts(direction.features.dtype)
    return add_sums(
        (_normal(view, direction, gram, None if others is None else others[rows, ...]),)
        for rows, view in parts
    )


def project_kernel(block: Block, v: int, factor: Folded) -> Update:
    """Renew the projection of view `v`, and with it the moments."""
    projections = list(block.state["projections"])
    projections[v] = block.views[v].project(factor)
    state = {"projections": projections, "others": None}
    return state, _moments(projections, block.state["indicator"])


def project_all(engine: Engine, factors: tuple[Array, ...]) -> Moments:
    """Set the projections of all views, and return the moments."""
    folded = [
        scaling.fold(factor) for scaling, factor in zip(engine.scalings, factors, strict=True)
    ]
    return Moments.of(engine.update(_project_all_kernel, folded))


def cross_moment(embedding: Array, indicator: Array) -> Array:
    """Return P'F, in double precision."""
    return product_over_rows(as_dtype(embedding, np.float64), as_dtype(indicator, np.float64))


def _normal(view: RowView, direction: Folded, gram: Array, others: Array | None) -> Pulled:
    projected = view.project(direction)
    if others is not None:
        projected *= others
    # symmetric; by columns it is three times faster on a device with TF32. See benchmarks/gpu.py
    weighted = projected @ gram.T
    if others is not None:
        weighted *= others
    return view.pull(weighted)


def _with_others(rows: Array, others: Array | None) -> Array:
    return rows if others is None else rows * others


def _others_gram(others: Array | None, block: Block) -> Array:
    if others is not None:
        return product_over_rows(others, others)
    projection = block.state["projections"][0]
    n_rows, rank = projection.shape
    return namespace(projection).full(
        (rank, rank), n_rows, dtype=projection.dtype, device=array_api_compat.device(projection)
    )


def _project_all_kernel(block: Block, factors: list[Folded]) -> Update:
    projections = [view.project(factor) for view, factor in zip(block.views, factors, strict=True)]
    return {"projections": projections}, _moments(projections, block.state["indicator"])


def _moments(projections: list[Array], indicator: Array) -> Sums:
    # always in double precision: the misfit is a small difference of large moments
    embedding = as_dtype(interaction(projections), np.float64)
    return product_over_rows(embedding, embedding), cross_moment(embedding, indicator)
