"""Blocks of rows, with each view as a linear operator.

A view is never copied to scale it or to append a bias. It offers two products, `project` and
`pull`, and all of MMC is built on these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import array_api_compat
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Matrix
from manyview.engine.arrays import Array, is_sparse, namespace, placed_like
from manyview.engine.scaling import Folded, Pulled

__all__ = [
    "Block",
    "RowView",
    "State",
    "Sums",
    "Update",
    "add_sums",
    "row_norms",
    "row_scale",
    "rows_of",
    "split_by_block",
    "widen",
]

Sums: TypeAlias = tuple[Any, ...]
"""What a kernel returns to be added over blocks: new arrays, no parts of views or state."""
Update: TypeAlias = tuple[dict[str, Any], Sums]
"""What a kernel returns: the new state of its block, and what is added over blocks."""


class State:
    """Names of the arrays that kernels keep with a block; their first axis is the samples."""

    LABELS = "labels"  # cluster of each sample
    INDICATOR = "indicator"  # F, samples x clusters
    PREVIOUS_INDICATOR = "previous"  # F before the last iteration
    PROJECTIONS = "projections"  # list with Z_v W_v, samples x rank, of each view
    OTHER_PROJECTIONS = "others"  # product of the projections of all views but one
    PREDICTION = "prediction"  # F as the model predicts it
    PROPOSAL = "proposal"  # labels that the label step suggests
    GAIN = "gain"  # what each suggested label gains
    TRIAL = "trial"  # suggested labels under test
    SPANNED = "spanned"  # orthonormal basis of a prediction of deficient rank
    SCALED = "scaled"  # rows of F, scaled for k-means
    EMBEDDING = "embedding"  # spectral embedding, samples x dimensions
    DISTANCE = "distance"  # mean distance from the nearest samples


@dataclass(frozen=True)
class RowView:
    """Some rows of one view, as a linear operator.

    Attributes
    ----------
    x : array or csr_array of shape (rows, features)
        The raw rows.
    scale : array of shape (rows,), or None
        Factor of each row; 0 where the sample's view is missing. None means 1 everywhere.
    known : array of bool of shape (rows, features), or None
        Which entries are known; in the place of the others are means. None for all.
    """

    x: Array
    scale: Array | None
    known: Array | None = None

    # Rows of a narrower type are converted some at a time, so that they stay in the cache.
    widened_bytes: ClassVar[int] = 2 << 20
    # At least so many rows at a time: each part adds a sum as wide as the view.
    widened_rows: ClassVar[int] = 256
    # From so many features on, BLAS computes (M' X)' faster than X' M: up to twice in float64.
    wide: ClassVar[int] = 256

    @property
    def missing(self) -> Array | None:
        """Mask of the samples whose view is missing; None if no view is known to be missing."""
        return None if self.scale is None else self.scale == 0

    def project(self, factor: Folded) -> Array:
        """Return Z W, rows x R, for a folded factor."""
        parts = [rows.x @ factor.features for _, rows in self.parts(factor.features.dtype)]
        projected = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if factor.offset is not None:
            projected += factor.offset
        if self.scale is not None:
            projected *= self.scale[:, None]
        projected += factor.bias
        return projected

    def pull(self, rows: Array) -> Pulled:
        """Return Z' M for these rows, before :meth:`Scaling.unfold`."""
        # a product with ones is several times faster than a sum over the first axis
        device = array_api_compat.device(rows)
        plain_sum = namespace(rows).ones(rows.shape[0], dtype=rows.dtype, device=device) @ rows
        if self.scale is None:
            scaled, scaled_sum = rows, plain_sum
        else:
            scaled, scaled_sum = rows * self.scale[:, None], self.scale @ rows
        parts = ((part._pull_features(scaled[some, ...]),) for some, part in self.parts(rows.dtype))
        (features,) = add_sums(parts)
        return Pulled(features, scaled_sum, plain_sum)

    def _pull_features(self, rows: Array) -> Array:
        if isinstance(self.x, np.ndarray) and self.x.shape[1] >= self.wide:
            return (rows.T @ self.x).T
        return self.x.T @ rows

    def restrict(self, active: npt.NDArray[np.intp]) -> RowView:
        """Return a copy of these rows with the features `active` only."""
        if sp.issparse(self.x):
            return RowView(self.x[:, active], self.scale)
        xp, columns = namespace(self.x), placed_like(active, self.x)
        known = None if self.known is None else xp.take(self.known, columns, axis=1)
        return RowView(xp.take(self.x, columns, axis=1), self.scale, known)

    def take(self, rows: Array) -> RowView:
        """Return a copy of some of these rows, by position."""
        scale = None if self.scale is None else namespace(self.scale).take(self.scale, rows, axis=0)
        if sp.issparse(self.x):
            return RowView(self.x[rows], scale)
        if is_sparse(self.x):
            return RowView(self.x.take(rows), scale)
        xp, known = namespace(self.x), self.known
        known = None if known is None else xp.take(known, rows, axis=0)
        return RowView(xp.take(self.x, rows, axis=0), scale, known)

    def part(self, rows: slice) -> RowView:
        """Return consecutive rows, without a copy of dense ones."""
        scale, known = (
            None if part is None else part[rows, ...] for part in (self.scale, self.known)
        )
        x = self.x[rows] if is_sparse(self.x) else self.x[rows, ...]
        return replace(self, x=x, scale=scale, known=known)

    def in_precision(self, dtype: Any) -> RowView:
        """Return these rows in `dtype`, as a copy if they have another type."""
        x = self.x
        if x.dtype == dtype:
            return self
        if sp.issparse(x):
            return RowView(x.astype(dtype), self.scale)
        if isinstance(x, np.ndarray):
            return replace(self, x=widen(x, np.empty_like(x, dtype=dtype)))
        return replace(self, x=namespace(x).astype(x, dtype, copy=False))

    def parts(self, dtype: Any) -> Iterator[tuple[slice, RowView]]:
        """Yield these rows in `dtype`, with their positions.

        Rows that have this type come all at once. Others are converted some at a time, always
        into the same memory: a part is valid until the next one is requested.
        """
        x, (n, width) = self.x, self.x.shape
        if x.dtype == dtype or not isinstance(x, np.ndarray):
            yield slice(0, n), self.in_precision(dtype)
            return
        count = max(self.widened_bytes // max(width * dtype.itemsize, 1), self.widened_rows)
        memory = np.empty((min(count, n), width), dtype=dtype)
        for begin in range(0, max(n, 1), count):
            rows = slice(begin, min(begin + count, n))
            part = widen(x[rows], memory[: rows.stop - begin])
            yield rows, RowView(part, None if self.scale is None else self.scale[rows])


@dataclass
class Block:
    """Some samples: their rows of every view, and the state that kernels keep with them.

    Attributes
    ----------
    rows : slice
        Which samples.
    views : list of RowView
        Their rows of each view.
    state : dict
        Arrays whose first axis is the block's rows, by the names in :class:`State`.
    """

    rows: slice
    views: list[RowView]
    state: dict[str, Any] = field(default_factory=dict)

    def numbers(self, like: Array) -> Array:
        """Return the numbers of the block's samples, on the device of another array."""
        if isinstance(like, np.ndarray):
            return np.arange(self.rows.start, self.rows.stop, dtype=np.uint64)
        xp, device = namespace(like), array_api_compat.device(like)
        # torch cannot multiply unsigned 64-bit integers; signed ones overflow in the same way
        dtype = xp.int64 if array_api_compat.is_torch_array(like) else xp.uint64
        return xp.arange(self.rows.start, self.rows.stop, dtype=dtype, device=device)


def add_sums(results: Iterable[Sums]) -> Sums:
    """Return the sum of results in the given order, so that threads do not change it."""
    total: list[Any] = []
    owned = False
    for sums in results:
        if not total:
            total = list(sums)
        elif not owned:
            total = [a + b for a, b in zip(total, sums, strict=True)]
            owned = True
        else:
            for v, more in enumerate(sums):
                total[v] += more
    return tuple(total)


def widen(x: npt.NDArray[Any], out: Matrix) -> Matrix:
    """Write `x` into an array of another type and return that array.

    Finite half-precision numbers become float32 by their bits: exact, and several times faster
    than NumPy's conversion, which would take most of the time of a product with few columns.
    """
    if x.dtype != np.float16 or out.dtype != np.float32:
        np.copyto(out, x)
        return out
    bits = out.view(np.int32)
    np.copyto(bits, x.view(np.int16))
    bits <<= 13
    bits &= np.int32(-0x70002000)  # clear the copies of the sign bit
    out *= np.float32(2.0**112)  # exponents of the two types have different offsets
    return out


def rows_of(array: Any, rows: slice) -> Any:
    """Return some rows of an array or CSR array, without a copy of the entries."""
    if not sp.issparse(array):
        return array[rows]
    # SciPy copies slices, and its constructor copies short parts of long arrays
    pointers = array.indptr[rows.start : rows.stop + 1]
    part = slice(pointers[0], pointers[-1])
    block = sp.csr_array((rows.stop - rows.start, array.shape[1]), dtype=array.dtype)
    block.data, block.indices = array.data[part], array.indices[part]
    block.indptr = pointers - pointers[0]
    return block


def row_scale(
    x: Array, normalize: str | None, present: npt.NDArray[np.bool_] | None, dtype: np.dtype[Any]
) -> Matrix | None:
    """Return the factor of each row: 1 / norm for unit rows, 0 for missing views; None for 1."""
    scale = None
    if normalize == "rows":
        norms = row_norms(x)
        scale = np.divide(1.0, norms, where=norms > 0, out=np.ones_like(norms))
    if present is not None:
        scale = present.astype(np.float64) if scale is None else scale * present
    return None if scale is None else np.minimum(scale, np.finfo(dtype).max).astype(dtype)


def row_norms(x: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of each row, safe from overflow and underflow."""
    if sp.issparse(x):
        peak = np.asarray(abs(x).max(axis=1).toarray(), dtype=np.float64).ravel()
        safe = np.where(peak > 0, peak, 1.0)
        data = x.data / np.repeat(safe, np.diff(x.indptr))
        scaled = sp.csr_array((data * data, x.indices, x.indptr), shape=x.shape)
        squares = np.asarray(scaled.sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(safe * np.sqrt(squares))
    x = x.astype(np.float64, copy=False)
    squares = np.einsum("ij,ij->i", x, x)
    if np.isfinite(squares).all() and (squares > np.finfo(np.float64).tiny * 1e16).all():
        return np.asarray(np.sqrt(squares))
    peak = np.abs(x).max(axis=1)
    safe = np.where(peak > 0, peak, 1.0)
    return np.asarray(safe * np.linalg.norm(x / safe[:, None], axis=1))


def split_by_block(
    starts: list[int], samples: npt.NDArray[np.intp]
) -> tuple[list[tuple[int, npt.NDArray[np.intp]]], npt.NDArray[np.intp]]:
    """Return the rows of each block that samples are, and the order that undoes the split.

    Examples
    --------
    >>> chosen, back = split_by_block([0, 10], np.array([12, 3, 10]))
    >>> [(block, rows.tolist()) for block, rows in chosen]
    [(0, [3]), (1, [2, 0])]
    >>> back.tolist()
    [1, 0, 2]
    """
    owner = np.searchsorted(starts, samples, side="right") - 1
    order = np.argsort(owner, kind="stable")
    blocks, first = np.unique(owner[order], return_index=True)
    parts = np.split(samples[order], first[1:])
    chosen = [(int(b), part - starts[b]) for b, part in zip(blocks, parts, strict=True)]
    return chosen, np.argsort(order)
