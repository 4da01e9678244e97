"""Defaults that follow from the data: how much to penalise, and how many columns to have."""

from __future__ import annotations

from math import comb

import numpy as np

from manyview.engine import Engine
from manyview.memory import check_memory
from manyview.mmc.penalty import Penalty

__all__ = ["checked_rank", "default_gamma", "default_rank"]

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
