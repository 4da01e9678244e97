"""The MMC objective: factors, interaction embedding, penalties, default parameters.

The model: views projected into a common space, multiplied there, and read by clusters.

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
from math import comb
from operator import mul
from typing import Protocol

import array_api_compat
import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, Sums, Update
from manyview.engine.arrays import Array, as_dtype, namespace, product_over_rows, to_numpy
from manyview.engine.block import add_sums
from manyview.engine.scaling import Folded, Pulled
from manyview.memory import check_memory

__all__ = [
    "LEAST_EXPLAINED",
    "Factors",
    "Frobenius",
    "Moments",
    "Penalty",
    "RowSparse",
    "balancing_scales",
    "checked_rank",
    "cross_moment",
    "default_gamma",
    "default_rank",
    "interaction",
    "normal_kernel",
    "objective",
    "penalty_named",
    "project_all",
    "project_kernel",
    "residual_kernel",
]


class Penalty(Protocol):
    """A penalty on the rows of a factor, and the quadratic that lies above it.

    Attributes
    ----------
    degree : int
        d, where scaling the factor by c scales the penalty by ``c**d``.
    unit_gamma : float
        The default of gamma where clusters have one sample and rows unit length
        (:func:`manyview.mmc.objective.default_gamma`).
    drops_features : bool
        Whether whole rows go to zero.
    """

    degree: int
    unit_gamma: float
    drops_features: bool

    def value(self, factor: Array) -> float:
        """Return the penalty of a factor."""

    def weights(self, factor: Array) -> Array:
        """Return p for which ``sum_i p_i |w_i|^2`` plus a constant touches the penalty here."""

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return which rows may be set to zero: they are tiny and on their way there."""


class RowSparse:
    """The l2,1 norm, ``sum_i |w_i|``, of MMC: whole rows, that is features, go to zero.

    Its weights are ``1 / (2 sqrt(|w_i|^2 + smoothing))``. The smoothing is so small that the
    objective, which is without it, still falls in every step but for rounding.
    """

    degree = 1
    unit_gamma = 0.005
    drops_features = True
    smoothing = 1e-20
    negligible = 1e-4

    def value(self, factor: Array) -> float:
        """Return the sum of the rows' norms."""
        norms = _row_norms(factor)
        return float(namespace(norms).sum(norms))

    def weights(self, factor: Array) -> Array:
        """Return ``1 / (2 |w_i|)``, bounded."""
        norms = _row_norms(factor)
        return 0.5 / namespace(norms).sqrt(norms**2 + self.smoothing)

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return the rows that shrink and are negligible beside the largest."""
        norms = _row_norms(factor)
        small = norms <= self.negligible * namespace(norms).max(norms)
        return small & (norms < _row_norms(previous))


class Frobenius:
    """The squared norm, ``sum_i |w_i|^2``, of MMC-F: every feature stays."""

    degree = 2
    unit_gamma = 0.01
    drops_features = False

    def value(self, factor: Array) -> float:
        """Return the sum of squares."""
        norms = _row_norms(factor)
        return float(namespace(norms).sum(norms**2))

    def weights(self, factor: Array) -> Array:
        """Return ones: the penalty is its own quadratic."""
        norms = _row_norms(factor)
        return namespace(norms).ones_like(norms)

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return that no row may go."""
        norms = _row_norms(factor)
        return namespace(norms).zeros_like(norms) > 0.0


def penalty_named(name: str) -> Penalty:
    """Return the penalty that the estimator's parameter names."""
    penalties: dict[str, type[Penalty]] = {"l21": RowSparse, "frobenius": Frobenius}
    return penalties[name]()


def _row_norms(factor: Array) -> Array:
    exact = as_dtype(factor, np.float64)
    xp = namespace(exact)
    return xp.sqrt(xp.sum(exact * exact, axis=1))


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


_BYTES_OF_SQUARES = 32.0  # four moments of rank x rank at a time, in double precision


def default_gamma(engine: Engine, penalty: Penalty, n_clusters: int) -> float:
    """Return a weight of the penalty under which the scale of the data does not matter.

    The indicator's entries are ``1 / sqrt(N / K)`` on average, and the model makes them as a
    product of V + 1 factors and V views. With every sample twice, or with a view multiplied by
    a number, the same clusters take factors of another size; a penalty of degree d changes with
    that size to the power of ``d / (V + 1)``. Gamma makes up for it, with rho_v the root mean
    square length of a row of view v::

        gamma = weight * (sqrt(N / K) * rho_1 * ... * rho_V) ** (d / (V + 1))

    Rows of unit length have rho = 1. The weight is the penalty's own.

    Parameters
    ----------
    engine : Engine
        The samples.
    penalty : Penalty
        The penalty.
    n_clusters : int
        Number of clusters, K.

    Returns
    -------
    float
        Gamma.
    """
    squares = np.array([square[:-1].sum() for _, square in engine.moments])
    logs = np.log(squares[squares > 0]).sum() + np.log(engine.n_samples / n_clusters)
    return float(penalty.unit_gamma * np.exp(0.5 * penalty.degree * logs / (squares.size + 1)))


def checked_rank(rank: int | None, n_clusters: int, n_views: int, order: int | None) -> int:
    """Return the rank that the user asked for, or else the default.

    Raises
    ------
    ValueError
        If it is too small for as many clusters, or too large for the memory of this machine.
    """
    if rank is None:
        rank = default_rank(n_clusters, n_views, order)
    if rank < n_clusters:
        raise ValueError(
            f"rank={rank} is less than n_clusters={n_clusters}: the prediction has "
            "at most that rank, and an indicator of as many clusters cannot be fitted"
        )
    choices = _view_choices(n_views, order)
    if rank < n_clusters * choices:
        raise ValueError(
            f"rank={rank} with order={order}: {choices} choices of {order} of "
            f"the {n_views} views ask for a rank of at least n_clusters times as many, "
            f"{n_clusters * choices}, or some would take no part"
        )
    check_memory(
        _BYTES_OF_SQUARES * rank * rank,
        work=f"MMC with rank={rank}",
        matrices="rank by rank",
        way_out="Use a smaller rank, or fewer clusters",
    )
    return int(rank)


def default_rank(n_clusters: int, n_views: int, order: int | None) -> int:
    """Return the rank: two columns per cluster, and at least 20 as in the paper.

    The prediction has at most the rank of the weight tensor, so that fewer columns than clusters
    cannot tell them apart, and a second one lets a cluster have two parts. With `order` below the
    number of views, each choice of `order` views has as many.
    """
    return max(20, 2 * n_clusters) * _view_choices(n_views, order)


def _view_choices(n_views: int, order: int | None) -> int:
    """Return in how many ways `order` of the views, or all, can be chosen."""
    return comb(n_views, min(order or n_views, n_views))
