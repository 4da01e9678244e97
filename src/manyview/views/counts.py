"""Counts: how they are recognised, and their logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace

from manyview.views.backends import is_dense_tensor, place_of
from manyview.views.container import Array, Views

__all__ = ["are_counts", "with_logs"]

_FEWEST_FEATURES = 10  # narrower tables of whole numbers are measurements
_LEAST_VARIATION = 0.15  # of the sums of rows, relative to their mean; histograms have less
_LEAST_SKEW = 0.75  # deviation of entries above 0, relative to their mean; pixels have about .5
_MOSTLY_ONES = 0.5  # part of ones among entries above 0, from which these need not vary so much


def are_counts(x: Any) -> bool:
    """Return whether rows are counts of words, genes or proteins, say, and neither pixels nor bins.

    Counts are whole numbers from 0 to more than 2 whose sums vary from row to row. Those above 0
    are mostly ones, or vary about as much as their mean.

    Examples
    --------
    >>> words = np.random.default_rng(0).negative_binomial(0.5, 0.5, (20, 30))
    >>> are_counts(words), are_counts(words > 0), are_counts(words / 2)
    (True, False, False)
    """
    values = x.data if sp.issparse(x) else x
    if x.shape[1] < _FEWEST_FEATURES or not values.size:
        return False
    if values.min() < 0 or not 2 < values.max() < np.inf:
        return False
    if values.dtype.kind == "f" and not np.array_equal(values, np.floor(values)):
        return False
    values = values[values > 0].astype(np.float64)
    sums = np.asarray(x.sum(axis=1), dtype=np.float64)
    skewed = values.std() >= _LEAST_SKEW * values.mean()
    mostly_ones = np.mean(values == 1) >= _MOSTLY_ONES
    varying = sums.std() >= _LEAST_VARIATION * sums.mean()
    return bool(varying and (skewed or mostly_ones))


def with_logs(views: Views, normalize: Sequence[str | None]) -> tuple[Views, list[str | None]]:
    """Return views with the logarithms of those scaled by "log", and the scaling that is left.

    Each row of counts is divided by its mean, and every x becomes log(1 + x). The others are
    not copied. Rows that lack the view may become anything finite.
    """
    if "log" not in normalize:
        return views, list(normalize)
    pairs = zip(views.arrays, normalize, strict=True)
    arrays = tuple(_logs(x, views.dtype) if by == "log" else x for x, by in pairs)
    left = ["rows" if by == "log" else by for by in normalize]
    return replace(views, arrays=arrays, ranges=None), left


def _logs(x: Array, dtype: np.dtype[Any]) -> Array:
    place = place_of(x)
    if place == "dask":
        # a row may be divided among chunks of columns
        each = x.map_blocks(_sums, chunks=(x.chunks[0], (1,) * x.numblocks[1]), dtype=np.float64)
        means = each.sum(axis=1, keepdims=True) / x.shape[1]
        meta = x._meta.astype(dtype)
        return x.map_blocks(_logs_of_chunk, means, dtype, dtype=dtype, meta=meta)
    if place == "torch" and not is_dense_tensor(x):
        return _logs_of_sparse_tensor(x, dtype)
    return _logs_of_chunk(x, _sums(x) / x.shape[1], dtype)


def _sums(x: Array) -> Array:
    """Return the sum of each row, as a column."""
    if sp.issparse(x):
        return np.asarray(x.sum(axis=1), dtype=np.float64)[:, None]
    xp = array_namespace(x)
    return xp.sum(x, axis=1, dtype=xp.float64, keepdims=True)


def _logs_of_chunk(x: Array, means: Array, dtype: np.dtype[Any]) -> Array:
    if sp.issparse(x):
        x = x.astype(dtype, copy=False)
        factor = np.repeat(_factor(means)[:, 0], np.diff(x.indptr)).astype(dtype)
        logs = np.log1p(np.maximum(x.data, 0) * factor)
        return sp.csr_array((logs, x.indices, x.indptr), shape=x.shape)
    xp = array_namespace(x)
    wanted = getattr(xp, dtype.name)
    x = xp.clip(xp.astype(x, wanted, copy=False), min=0.0)
    return xp.log1p(x * xp.astype(_factor(means), wanted))


def _logs_of_sparse_tensor(x: Any, dtype: np.dtype[Any]) -> Any:
    import torch

    pointers, values = x.crow_indices(), x.values().to(getattr(torch, dtype.name))
    row = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), pointers.diff())
    sums = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
    sums.index_add_(0, row, values.to(torch.float64))
    factor = _factor(sums / x.shape[1]).to(values.dtype)
    logs = torch.log1p(values.clamp(min=0.0) * factor[row])
    return torch.sparse_csr_tensor(
        pointers, x.col_indices(), logs, size=x.shape, check_invariants=False
    )


def _factor(means: Array) -> Array:
    """Return what rows are multiplied by; 1 where they hold nothing."""
    xp = array_namespace(means)
    return xp.where(means > 0, 1.0 / xp.where(means > 0, means, 1.0), 1.0)
