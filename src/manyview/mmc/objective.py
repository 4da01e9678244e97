"""The MMC objective: factors, interaction embedding, penalties and default parameters.

Rows are samples. The symbols are those of the paper, in row convention:

==================  ============================================================================
``Z_v = [X_v, 1]``  view v with a constant feature, the bias, as its last column
``W_v``             view factor, (features + 1) x R; the last row is the bias
``A``               cluster factor, K x R; the paper's W^(V+1)
``F``               cluster indicator, N x K, with F'F = I
``S_v = Z_v W_v``   projection of view v, N x R
``B``               interaction embedding S_1 * ... * S_V (elementwise), N x R; the paper's Pi
==================  ============================================================================

The prediction ``B A'`` is the inner product of the outer product of a sample's views with a weight
tensor of rank R. The tensor is never formed. The objective is::

    J = |B A' - F|^2 + gamma (sum_v pen(W_v) + pen(A))

Functions named ``..._kernel`` work on one :class:`~manyview.engine.Block` of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import comb
from operator import mul
from typing import TypeAlias

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Block, Engine, RowView, State, Sums, Update
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

LEAST_EXPLAINED = 1e-3
"""A model that explains a smaller part of the indicator counts as zero."""


@dataclass(frozen=True)
class Factors:
    """The parameters of the model: view factors W_v (bias last) and the cluster factor A.

    View factors are on the engine's device, the cluster factor is a NumPy array.
    """

    views: tuple[Array, ...]
    clusters: Matrix

    def with_view(self, v: int, factor: Array) -> Factors:
        """Return the factors with W_v replaced."""
        return replace(self, views=(*self.views[:v], factor, *self.views[v + 1 :]))

    def with_clusters(self, factor: Matrix) -> Factors:
        """Return the factors with A replaced."""
        return replace(self, clusters=factor)

    def scaled(self, scales: list[float]) -> Factors:
        """Return the factors multiplied by one number each, that of A last."""
        *views, clusters = scales
        scaled = tuple(factor * scale for factor, scale in zip(self.views, views, strict=True))
        return Factors(scaled, self.clusters * self.clusters.dtype.type(clusters))

    def on_host(self) -> Factors:
        """Return the factors as NumPy arrays."""
        return Factors(tuple(map(to_numpy, self.views)), self.clusters)


@dataclass(frozen=True)
class Moments:
    """The sums over samples that determine misfit and cluster factor: ``B'B`` and ``B'F``."""

    gram: Matrix
    cross: Matrix

    @classmethod
    def of(cls, sums: Sums) -> Moments:
        """Return the moments that a kernel summed, as NumPy arrays."""
        gram, cross = sums
        return cls(to_numpy(gram), to_numpy(cross))

    def squared_prediction(self, clusters: Matrix) -> float:
        """Return ``|B A'|^2``."""
        a = clusters.astype(np.float64)
        return float(np.sum((a @ self.gram) * a))

    def misfit(self, clusters: Matrix) -> float:
        """Return ``|B A' - F|^2``, using ``|F|^2 = K``."""
        both = float(np.sum(clusters.T.astype(np.float64) * self.cross))
        squared = self.squared_prediction(clusters)
        return max(float(self.cross.shape[1]) + (squared - 2.0 * both), 0.0)

    def explained(self, clusters: Matrix) -> float:
        """Return the part of ``|F|^2`` that the model explains."""
        return 1.0 - self.misfit(clusters) / float(len(clusters))

    def scaled(self, scale: float) -> Moments:
        """Return the moments after multiplying B by a number."""
        return Moments(self.gram * scale**2, self.cross * scale)


def objective(factors: Factors, moments: Moments, penalty: Penalty, gamma: float) -> float:
    """Return the objective J."""
    size = sum(penalty.value(factor) for factor in (*factors.views, factors.clusters))
    return moments.misfit(factors.clusters) + gamma * size


class RowSparse:
    """The l2,1 norm ``sum_i |w_i|`` of MMC, which sets whole rows (features) to zero."""

    degree = 1  # multiplying a factor by c multiplies its penalty by c**degree
    unit_gamma = 0.005  # default gamma for clusters of one sample and rows of unit length
    drops_features = True
    smoothing = 1e-20  # bounds the weights at zero rows; too small to affect the descent of J
    negligible = 1e-4  # size of a vanished row, as part of the largest

    def value(self, factor: Array) -> float:
        """Return the sum of the row norms."""
        norms = _row_norms(factor)
        return float(namespace(norms).sum(norms))

    def weights(self, factor: Array) -> Array:
        """Return p such that ``sum_i p_i |w_i|^2`` plus a constant touches the penalty here.

        It is ``p_i = 1 / (2 |w_i|)``, bounded. Elsewhere the quadratic lies above the penalty.
        """
        norms = _row_norms(factor)
        return 0.5 / namespace(norms).sqrt(norms**2 + self.smoothing)

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return which rows may be set to zero: they are negligible and shrinking."""
        norms = _row_norms(factor)
        small = norms <= self.negligible * namespace(norms).max(norms)
        return small & (norms < _row_norms(previous))


class Frobenius:
    """The squared norm ``sum_i |w_i|^2`` of MMC-F, which keeps every feature."""

    degree = 2
    unit_gamma = 0.01
    drops_features = False

    def value(self, factor: Array) -> float:
        """Return the sum of squares."""
        norms = _row_norms(factor)
        return float(namespace(norms).sum(norms**2))

    def weights(self, factor: Array) -> Array:
        """Return ones: the penalty is its own quadratic bound."""
        norms = _row_norms(factor)
        return namespace(norms).ones_like(norms)

    def vanished(self, factor: Array, previous: Array) -> Array:
        """Return False for every row."""
        norms = _row_norms(factor)
        return namespace(norms).zeros_like(norms) > 0.0


Penalty: TypeAlias = RowSparse | Frobenius


def penalty_named(name: str) -> Penalty:
    """Return the penalty for the estimator's parameter ``penalty``."""
    return RowSparse() if name == "l21" else Frobenius()


def _row_norms(factor: Array) -> Array:
    exact = as_dtype(factor, np.float64)
    xp = namespace(exact)
    return xp.sqrt(xp.sum(exact * exact, axis=1))


def balancing_scales(factors: Factors, penalty: Penalty) -> list[float]:
    """Return scales, of product 1, that make the penalties of all factors equal.

    A scalar can move from one factor to another without changing the prediction. The sum of the
    penalties is smallest when they are equal, so these scales never raise the objective.
    """
    sizes = np.array([penalty.value(factor) for factor in (*factors.views, factors.clusters)])
    if not (sizes > 0).all():
        return [1.0] * sizes.size
    logs = np.log(sizes) / penalty.degree
    return [float(scale) for scale in np.exp(logs.mean() - logs)]


# The passes over the samples


def interaction(projections: list[Array]) -> Array:
    """Return B, the elementwise product of the projections S_v."""
    return reduce(mul, projections)


def cross_moment(embedding: Array, indicator: Array) -> Array:
    """Return B'F in double precision."""
    return product_over_rows(as_dtype(embedding, np.float64), as_dtype(indicator, np.float64))


def project_all(engine: Engine, factors: tuple[Array, ...]) -> Moments:
    """Compute the projections S_v of all views in the blocks and return the moments."""
    folded = [
        scaling.fold(factor) for scaling, factor in zip(engine.scalings, factors, strict=True)
    ]
    return Moments.of(engine.update(_project_all_kernel, folded))


def _project_all_kernel(block: Block, factors: list[Folded]) -> Update:
    projections = [view.project(factor) for view, factor in zip(block.views, factors, strict=True)]
    return {State.PROJECTIONS: projections}, _moments(projections, block.state[State.INDICATOR])


def project_kernel(block: Block, v: int, factor: Folded) -> Update:
    """Recompute S_v of one view, and return the moments."""
    projections = list(block.state[State.PROJECTIONS])
    projections[v] = block.views[v].project(factor)
    state = {State.PROJECTIONS: projections, State.OTHER_PROJECTIONS: None}
    return state, _moments(projections, block.state[State.INDICATOR])


def _moments(projections: list[Array], indicator: Array) -> Sums:
    # always in double precision: the misfit is a small difference of large moments
    embedding = as_dtype(interaction(projections), np.float64)
    return product_over_rows(embedding, embedding), cross_moment(embedding, indicator)


def residual_kernel(block: Block, v: int, clusters: Array) -> Update:
    """Return half the negative gradient of the misfit in W_v, and the Gram matrix of B_-v.

    The gradient is ``Z_v' (B_-v * ((F - B A') A))``. B_-v, the product of the projections of the
    other views, stays in the block for :func:`normal_kernel`; it is None if there is one view.
    """
    projections = block.state[State.PROJECTIONS]
    own, rest = projections[v], [*projections[:v], *projections[v + 1 :]]
    others = interaction(rest) if rest else None
    embedding = own if others is None else own * others
    residual = (block.state[State.INDICATOR] - embedding @ clusters.T) @ clusters
    if others is None:  # all ones
        ones = namespace(own).ones_like(own[:1, :])
        gram = own.shape[0] * (ones.T @ ones)
    else:
        residual = residual * others
        gram = product_over_rows(others, others)
    return {State.OTHER_PROJECTIONS: others}, (block.views[v].pull(residual), gram)


def normal_kernel(block: Block, v: int, direction: Folded, gram: Array) -> Sums:
    """Return ``Z_v' (B_-v * ((B_-v * (Z_v W)) A'A))``: the normal operator, the hot loop."""
    others = block.state[State.OTHER_PROJECTIONS]
    parts = block.views[v].parts(direction.features.dtype)
    return add_sums(
        (_normal(view, direction, gram, None if others is None else others[rows, ...]),)
        for rows, view in parts
    )


def _normal(view: RowView, direction: Folded, gram: Array, others: Array | None) -> Pulled:
    projected = view.project(direction)
    if others is not None:
        projected *= others
    # A'A is symmetric; its transpose is three times faster on a device with TF32
    weighted = projected @ gram.T
    if others is not None:
        weighted *= others
    return view.pull(weighted)


# Default parameters


def default_gamma(engine: Engine, penalty: Penalty, n_clusters: int) -> float:
    """Return a gamma that makes the result independent of the scale and number of samples.

    The entries of F are ``1 / sqrt(N / K)`` on average, and the model forms them as a product of
    V + 1 factors and V views. If every sample is given twice, or a view is multiplied by a number,
    the same clusters need factors of another size, and a penalty of degree d changes with that size
    to the power of ``d / (V + 1)``. Gamma compensates for it. With rho_v the root mean square
    length of the rows of view v (1 for unit rows)::

        gamma = unit_gamma * (sqrt(N / K) * rho_1 * ... * rho_V) ** (d / (V + 1))
    """
    squares = np.array([square[:-1].sum() for _, square in engine.moments])
    logs = np.log(squares[squares > 0]).sum() + np.log(engine.n_samples / n_clusters)
    return float(penalty.unit_gamma * np.exp(0.5 * penalty.degree * logs / (squares.size + 1)))


def default_rank(n_clusters: int, n_views: int, order: int | None) -> int:
    """Return the default rank: two columns per cluster, and at least 20 as in the paper.

    With `order` below the number of views, each choice of `order` views gets as many columns.
    """
    return max(20, 2 * n_clusters) * _view_choices(n_views, order)


def checked_rank(rank: int | None, n_clusters: int, n_views: int, order: int | None) -> int:
    """Return the given rank or the default; raise ValueError if it is too small or too large."""
    if rank is None:
        rank = default_rank(n_clusters, n_views, order)
    if rank < n_clusters:
        raise ValueError(
            f"rank={rank} is less than n_clusters={n_clusters}; the prediction has at most that "
            "rank, so the rank must be at least the number of clusters"
        )
    choices = _view_choices(n_views, order)
    if rank < n_clusters * choices:
        raise ValueError(
            f"rank={rank} is too small for order={order}: there are {choices} choices of {order} "
            f"of the {n_views} views, and each needs n_clusters={n_clusters} columns; expected at "
            f"least {n_clusters * choices}"
        )
    check_memory(
        32.0 * rank * rank,  # four moments at a time, in double precision
        work=f"MMC with rank={rank}",
        matrices="rank by rank",
        way_out="Use a smaller rank, or fewer clusters",
    )
    return int(rank)


def _view_choices(n_views: int, order: int | None) -> int:
    """Return the number of ways to choose `order` of the views."""
    return comb(n_views, min(order or n_views, n_views))
