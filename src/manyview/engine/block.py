"""A block of rows: the raw views of some samples, and what a fit keeps about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
    "Sums",
    "Update",
    "add_sums",
    "from_half",
    "row_norms",
    "rows_of",
    "scale_rows",
]

_WIDE = 256  # features from which on BLAS pulls rows faster the other way round
_WIDENED_BYTES = 2 << 20  # of rows that are widened together, and then read from the cache
_WIDENED_ROWS = 256  # at least: what each part adds to a sum is as wide as the view

Sums: TypeAlias = tuple[Any, ...]
"""What a kernel returns to be added over blocks: arrays of its own, no part of views or state."""
Update: TypeAlias = tuple[dict[str, Any], Sums]
"""What a kernel returns to be kept with its block, and to be added over blocks."""


@dataclass(frozen=True)
class RowView:
    """Some rows of one view, as a linear operator.

    Attributes
    ----------
    x : array or csr_array of shape (rows, features)
        The raw rows.
    scale : array of shape (rows,), or None
        Factor of each row; 0 for a sample that lacks the view. None means 1 everywhere.
    """

    x: Array
    scale: Array | None

    @property
    def lacking(self) -> Array | None:
        """Which of the samples lack the view; None where all have it for certain."""
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
        parts = ((_pulled(part.x, scaled[some, ...]),) for some, part in self.parts(rows.dtype))
        (features,) = add_sums(parts)
        return Pulled(features, scaled_sum, plain_sum)

    def restrict(self, active: npt.NDArray[np.intp]) -> RowView:
        """Return a copy of these rows that holds the features `active` only."""
        if sp.issparse(self.x):
            return RowView(self.x[:, active], self.scale)
        xp = namespace(self.x)
        return RowView(xp.take(self.x, placed_like(active, self.x), axis=1), self.scale)

    def take(self, rows: Array) -> RowView:
        """Return a copy of some of these rows, by their places."""
        scale = None if self.scale is None else namespace(self.scale).take(self.scale, rows, axis=0)
        if sp.issparse(self.x):
            return RowView(self.x[rows], scale)
        if is_sparse(self.x):
            return RowView(self.x.take(rows), scale)
        return RowView(namespace(self.x).take(self.x, rows, axis=0), scale)

    def in_precision(self, dtype: Any) -> RowView:
        """Return these rows widened to `dtype`, a copy if they are of a narrower type.

        So a view of pixels as uint8 is widened a block at a time and never as a whole.
        """
        if self.x.dtype == dtype:
            return self
        if sp.issparse(self.x):
            return RowView(self.x.astype(dtype), self.scale)
        x = self.x
        if isinstance(x, np.ndarray) and x.dtype == np.float16:
            x = from_half(x)
        return RowView(namespace(x).astype(x, dtype, copy=False), self.scale)

    def parts(self, dtype: Any) -> Iterator[tuple[slice, RowView]]:
        """Yield these rows in a precision, and which they are: all at once, or as widened.

        Rows of a narrower type are widened some at a time, to the same place, so that they are in
        the cache for all that is done with them. A part holds until the next one is asked for.
        """
        x, (n, width) = self.x, self.x.shape
        if x.dtype == dtype or not isinstance(x, np.ndarray):
            yield slice(0, n), self.in_precision(dtype)
            return
        count = max(_WIDENED_BYTES // max(width * dtype.itemsize, 1), _WIDENED_ROWS)
        place = np.empty((min(count, n), width), dtype=dtype)
        for begin in range(0, max(n, 1), count):
            rows = slice(begin, min(begin + count, n))
            part = place[: rows.stop - begin]
            _widen(x[rows], part)
            yield rows, RowView(part, None if self.scale is None else self.scale[rows])


def _pulled(x: Array, rows: Array) -> Array:
    """Return ``x' rows``."""
    if isinstance(x, np.ndarray) and x.shape[1] >= _WIDE:
        # the same sums, which BLAS does faster this way round: up to twice in double precision
        return (rows.T @ x).T
    return x.T @ rows


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
        Arrays whose first axis is the block's rows, by name.
    """

    rows: slice
    views: list[RowView]
    state: dict[str, Any] = field(default_factory=dict)

    def numbers(self, like: Array) -> Array:
        """Return which samples its rows are, in the place of another array."""
        if isinstance(like, np.ndarray):
            return np.arange(self.rows.start, self.rows.stop, dtype=np.uint64)
        xp, device = namespace(like), array_api_compat.device(like)
        # torch multiplies no unsigned integers of this size; signed ones wrap around alike
        signed = array_api_compat.is_torch_array(like)
        dtype = xp.int64 if signed else xp.uint64
        return xp.arange(self.rows.start, self.rows.stop, dtype=dtype, device=device)


def from_half(x: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return finite numbers of half precision in single precision, by their bits.

    Exact, and several times faster than NumPy's conversion, which is most of the time of a product
    with few columns.

    Examples
    --------
    >>> from_half(np.array([[1.5, -0.25]], dtype=np.float16))
    array([[ 1.5 , -0.25]], dtype=float32)
    """
    numbers = np.empty(x.shape, dtype=np.float32)
    _widen_half(x, numbers)
    return numbers


def _widen(x: npt.NDArray[Any], place: Matrix) -> None:
    if x.dtype == np.float16 and place.dtype == np.float32:
        _widen_half(x, place)
    else:
        np.copyto(place, x)


def _widen_half(x: npt.NDArray[np.float16], place: npt.NDArray[np.float32]) -> None:
    bits = place.view(np.int32)
    np.copyto(bits, x.view(np.int16))
    bits <<= 13
    bits &= np.int32(-0x70002000)  # the sign, which the widening repeats, and what was shifted
    place *= np.float32(2.0**112)  # the exponents have other zeros


def row_norms(x: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of each row, safe from overflow and underflow."""
    if sp.issparse(x):
        peak = abs(x).max(axis=1)
        peak = np.asarray(peak.toarray(), dtype=np.float64).ravel()
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


def rows_of(array: Any, rows: slice) -> Any:
    """Return some rows of an array or CSR array, which share its memory."""
    if not sp.issparse(array):
        return array[rows]
    # a slice of a CSR array is a copy, and its constructor copies parts that are short beside
    # the whole: attributes are set instead
    pointers = array.indptr[rows.start : rows.stop + 1]
    part = slice(pointers[0], pointers[-1])
    block = sp.csr_array((rows.stop - rows.start, array.shape[1]), dtype=array.dtype)
    block.data, block.indices = array.data[part], array.indices[part]
    block.indptr = pointers - pointers[0]
    return block


def scale_rows(
    view: RowView,
    v: int,
    rows: slice,
    normalize: str | None,
    present: npt.NDArray[np.bool_] | None,
    dtype: np.dtype[Any],
) -> RowView:
    """Return rows with the factors that normalising and lacking views give them.

    Parameters
    ----------
    view : RowView
        Raw rows.
    v : int
        Which view they are of.
    rows : slice
        Which samples.
    normalize : {"rows", "columns"} or None
        Only ``"rows"`` is a matter of single rows.
    present : ndarray of bool, shape (samples, views), or None
        Which samples have which views.
    dtype : dtype
        Precision of the factors.
    """
    scale = None
    if normalize == "rows":
        norms = row_norms(view.x)
        scale = np.divide(1.0, norms, where=norms > 0, out=np.ones_like(norms))
    if present is not None:
        here = present[rows, v]
        scale = here.astype(np.float64) if scale is None else scale * here
    if scale is None:
        return view
    return RowView(view.x, np.minimum(scale, np.finfo(dtype).max).astype(dtype))


def add_sums(results: Iterable[Sums]) -> Sums:
    """Return the sum of results, in their order, so that threads do not change it."""
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
