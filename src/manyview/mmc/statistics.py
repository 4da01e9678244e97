"""What the samples of each cluster have in common: means of features, and what products add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from manyview._typing import Floats, Matrix
from manyview.engine import Block, Engine, State, Sums
from manyview.engine.arrays import (
    Array,
    as_dtype,
    in_memory,
    is_sparse,
    namespace,
    placed_like,
    to_numpy,
)
from manyview.engine.base import column_squares
from manyview.engine.block import add_sums

__all__ = ["Difference", "Places", "Statistics"]

Places = tuple[tuple[int, int], ...]

_LEAST_EFFECT = 0.2  # in standard deviations; less is usually called no effect
_FEATURE_SQUARE = 9.0  # a feature differs from three standard errors on
_PRODUCT_SQUARE = 16.0  # products are many, so four
_LEAST_GAIN = 0.01  # part of the variance of membership
_PIECE_BYTES = (1 << 18, 1 << 26)  # of a product of columns, in a cache or on a GPU
_ROUNDING = 1e-6  # of means, which add up in another order on a cluster
_CONSTANT = 1e-7  # a smaller deviation, as part of the mean, is lost in the sum of squares


class Difference(NamedTuple):
    """How a feature differs between a cluster and the other samples, in its own units.

    Attributes
    ----------
    direction : {"high", "low", ""}
        Whether the cluster has more or less of the feature. Empty if its mean differs by less than
        three standard errors, or a fifth of a standard deviation.
    mean, others, overall : float
        Mean in the cluster, in all other samples, and in all samples.
    effect : float
        ``mean - others`` in standard deviations of the feature over all samples.
    """

    direction: str
    mean: float
    others: float
    overall: float
    effect: float


@dataclass(frozen=True)
class Statistics:
    """Sums over the samples of a fit that describe its clusters.

    Attributes
    ----------
    sizes : ndarray of shape (n_clusters,)
        Samples in each cluster.
    counts : list of ndarray of shape (n_clusters, 1) or (n_clusters, n_features_v)
        Those that have a view, or of which a feature is known.
    means : list of ndarray of shape (n_clusters, n_features_v)
        Their means of the features, in the units of the views.
    deviations : list of ndarray of shape (n_features_v,)
        Standard deviation of each feature over all clusters; 0 for constant features.
    pairs : ndarray of int of shape (n_pairs, 4)
        Pairs of features, as ``view, feature, view, feature``.
    gains : ndarray of shape (n_pairs, n_clusters)
        Part of the variance of membership that the product explains beyond its two features, and
        0 where that is little. It is negative where a cluster has low products.
    """

    sizes: Floats
    counts: list[Floats]
    means: list[Matrix]
    deviations: list[Matrix]
    pairs: npt.NDArray[np.intp]
    gains: Matrix

    @classmethod
    def of(cls, engine: Engine, n_clusters: int, places: Sequence[Places]) -> Self:
        """Return the statistics of the labels in the blocks, with those of pairs of features."""
        (sizes,) = engine.sum(_sizes_kernel, n_clusters)
        counts, means, deviations = [], [], []
        for v in range(len(engine.scalings)):
            sums = engine.sum_wide(_features_kernel, v, n_clusters)
            totals, count, squares = (to_numpy(part).astype(np.float64) for part in sums)
            n = np.maximum(count.sum(axis=1), 1.0)
            overall = totals.sum(axis=1) / n
            with np.errstate(over="ignore", invalid="ignore"):
                deviation = np.sqrt(np.maximum(squares / n - overall**2, 0.0))
            varies = np.isfinite(deviation) & (deviation > _CONSTANT * np.abs(overall))
            counts.append(count.T)
            means.append((totals / np.maximum(count, 1.0)).T)
            deviations.append(np.where(varies, deviation, 0.0))
        plain = cls(
            to_numpy(sizes).astype(np.float64),
            counts,
            [mean.astype(engine.dtype) for mean in means],
            [deviation.astype(engine.dtype) for deviation in deviations],
            np.array(places, dtype=np.intp).reshape(-1, 4),
            np.zeros((len(places), n_clusters)),
        )
        return plain._with_gains(engine) if len(places) else plain

    def agrees_with(self, other: Statistics) -> bool:
        """Return whether sizes, counts and means are equal up to rounding."""
        if not np.array_equal(self.sizes, other.sizes):
            return False
        for v, (mean, wanted) in enumerate(zip(self.means, other.means, strict=True)):
            with np.errstate(invalid="ignore"):
                near = np.abs(mean - wanted) <= _ROUNDING * (np.abs(wanted) + other.deviations[v])
            same_counts = np.array_equal(self.counts[v], other.counts[v])
            if not same_counts or not (near | (mean == wanted)).all():
                return False
        return True

    def overall(self, v: int) -> Floats:
        """Return the mean of each feature of a view over all samples that have it."""
        total: Floats = np.sum(self.counts[v] * self.means[v].astype(np.float64), axis=0)
        mean: Floats = total / np.maximum(self.counts[v].sum(axis=0), 1.0)
        return mean

    def others(self, v: int) -> Floats:
        """Return the mean of each feature in the samples outside of each cluster."""
        count, mean = self.counts[v], self.means[v].astype(np.float64)
        n = count.sum(axis=0)
        rest = n * self.overall(v) - count * mean
        outside = np.broadcast_to(n - count, rest.shape)
        found: Floats = np.divide(rest, outside, where=outside > 0, out=mean.copy())
        return found

    def effects(self, v: int) -> Floats:
        """Return how much higher the features are in each cluster, in standard deviations."""
        difference = self.means[v].astype(np.float64) - self.others(v)
        possible = (self.deviations[v] > 0) & (self.counts[v] > 0)
        found: Floats = np.divide(
            difference, self.deviations[v], where=possible, out=np.zeros_like(difference)
        )
        return found

    def explained(self, v: int) -> Floats:
        """Return the part of the variance of membership that each single feature explains."""
        share = self.counts[v] / np.maximum(self.counts[v].sum(axis=0), 1.0)
        found: Floats = self.effects(v) ** 2 * (share * (1.0 - share))
        return np.minimum(found, 1.0)

    def differs(self, v: int) -> npt.NDArray[np.bool_]:
        """Return which features differ between a cluster and the other samples."""
        least = _FEATURE_SQUARE / (self.counts[v].sum(axis=0) - 2.0 + _FEATURE_SQUARE)
        large = np.abs(self.effects(v)) >= _LEAST_EFFECT
        found: npt.NDArray[np.bool_] = large & (self.explained(v) >= least)
        return found

    def _with_gains(self, engine: Engine) -> Self:
        """Return these statistics with the gains of the pairs."""
        columns = [
            np.unique(np.concatenate([self.pairs[self.pairs[:, at] == v, at + 1] for at in (0, 2)]))
            for v in range(len(self.means))
        ]
        starts = np.cumsum([0, *map(len, columns)])
        scales = [
            (
                self.overall(v)[some],
                np.divide(
                    1.0,
                    self.deviations[v][some].astype(np.float64),
                    where=self.deviations[v][some] > 0,
                    out=np.zeros(len(some)),
                ),
            )
            for v, some in enumerate(columns)
        ]
        ends = [
            np.array(
                [starts[v] + np.searchsorted(columns[v], i) for v, i in self.pairs[:, at : at + 2]]
            )
            for at in (0, 2)
        ]
        used = [v for v, some in enumerate(columns) if len(some)]
        sums = engine.sum_wide(
            _pairs_kernel,
            len(self.sizes),
            used,
            [columns[v].tolist() for v in used],  # as numbers they stay on the host
            [scales[v] for v in used],
            ends,
        )
        return replace(self, gains=_gains(*(to_numpy(part) for part in sums)))


def _gains(by_cluster: Floats, squares: Floats) -> Floats:
    """Return what products explain beyond their features, with the sign of their coefficients.

    `by_cluster` (4 x K x C) has the sums of 1, a, b and ab over the samples of each cluster, and
    `squares` (5 x C) those of a^2, b^2, (ab)^2, a ab and b ab over all samples.
    """
    n = np.maximum(by_cluster[0].sum(axis=0), 1.0)
    mean = by_cluster.sum(axis=1) / n
    _, a, b, ab = mean
    share = by_cluster[0] / n
    # covariances with membership, K x C, and among a, b and ab
    with_a, with_b, with_ab = by_cluster[1:] / n - share * mean[1:, None]
    aa, bb, pp, ap, bp = squares / n - np.stack([a * a, b * b, ab * ab, a * ab, b * ab])
    single = np.stack([np.stack([aa, ab - a * b]), np.stack([ab - a * b, bb])]).transpose(2, 0, 1)
    inverse = np.linalg.pinv(single, rcond=1e-9, hermitian=True)
    product = np.stack([ap, bp], axis=1)
    member = np.stack([with_a, with_b], axis=2)
    slope = np.einsum("cij,cj->ci", inverse, product)
    left = pp - np.einsum("ci,ci->c", slope, product)
    covariance = with_ab - np.einsum("kci,ci->kc", member, slope)
    variance = share * (1.0 - share)
    possible = (left > 1e-9 * np.maximum(squares[2] / n, 1e-300)) & (variance > 0)
    gain = np.divide(covariance**2, left * variance, where=possible, out=np.zeros_like(share))
    alone = np.einsum("kci,cij,kcj->kc", member, inverse, member)
    alone = np.divide(alone, variance, where=variance > 0, out=np.zeros_like(share))
    unexplained = np.maximum(1.0 - alone - gain, 0.0)
    least = np.maximum(_LEAST_GAIN, _PRODUCT_SQUARE * unexplained / np.maximum(n - 4.0, 1.0))
    found: Floats = np.where(gain >= least, np.sign(covariance) * np.minimum(gain, 1.0), 0.0)
    return found.T


# The passes over the samples


def _members(block: Block, n_clusters: int) -> Array:
    """Return 1 where a sample is in a cluster, rows x K."""
    labels = block.state[State.LABELS]
    clusters = placed_like(np.arange(n_clusters), labels)
    return as_dtype(labels[:, None] == clusters[None, :], np.float64)


def _sizes_kernel(block: Block, n_clusters: int) -> Sums:
    members = _members(block, n_clusters)
    return (namespace(members).sum(members, axis=0),)


def _features_kernel(block: Block, v: int, n_clusters: int) -> Sums:
    view = block.views[v]
    missing = view.missing
    # the rows in the units of the user
    raw = replace(view, scale=None if missing is None else as_dtype(~missing, np.float64))
    members = _members(block, n_clusters)
    if view.known is not None:
        known = as_dtype(view.known, np.float64)
        raw = replace(raw, x=as_dtype(view.x, np.float64) * known)
    pulled = raw.pull(members)
    with np.errstate(over="ignore"):
        (squares,) = column_squares(raw)
    if view.known is None:
        return pulled.features, pulled.scaled_sum[None, ...], squares
    here = known if raw.scale is None else known * raw.scale[:, None]
    return pulled.features, here.T @ members, squares


def _pairs_kernel(
    block: Block,
    n_clusters: int,
    views: list[int],
    columns: list[list[int]],
    scales: list[tuple[Array, Array]],
    ends: list[Array],
) -> Sums:
    """Sum 1, a, b and ab over clusters, and the squares of the last, for standardised a and b."""
    members = _members(block, n_clusters)
    xp = namespace(members)
    parts, present = [], []
    for v, some, (centre, width) in zip(views, columns, scales, strict=True):
        view = block.views[v].restrict(np.array(some, dtype=np.intp))
        dense = view.x.toarray() if is_sparse(view.x) else view.x
        parts.append((as_dtype(dense, np.float64) - centre) * width)
        here = xp.ones_like(parts[-1])
        if view.missing is not None:
            here = here * as_dtype(~view.missing, np.float64)[:, None]
        present.append(here if view.known is None else here * as_dtype(view.known, np.float64))
    values, here = xp.concat(parts, axis=1), xp.concat(present, axis=1)
    n = members.shape[0]
    step = max(_PIECE_BYTES[not in_memory(members)] // (8 * ends[0].shape[0]), 1)
    slices = (slice(begin, min(begin + step, n)) for begin in range(0, max(n, 1), step))
    return add_sums(
        _pair_sums(members[rows, :], values[rows, :], here[rows, :], ends) for rows in slices
    )


def _pair_sums(members: Array, values: Array, present: Array, ends: list[Array]) -> Sums:
    xp = namespace(members)
    one, other = (xp.take(present, end, axis=1) for end in ends)
    both = one * other
    a, b = (xp.take(values, end, axis=1) * both for end in ends)
    product = a * b
    by_cluster = xp.stack([members.T @ part for part in (both, a, b, product)])
    squares = (a * a, b * b, product * product, a * product, b * product)
    return by_cluster, xp.stack([xp.sum(part, axis=0) for part in squares])
