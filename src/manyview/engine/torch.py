"""The torch engine, with its sparse rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch.nn.functional import linear

from manyview._typing import Matrix
from manyview.engine.arrays import Array, placed_like, product_over_rows, to_numpy
from manyview.engine.block import Block, RowView, Sums, Update
from manyview.engine.local import LocalEngine
from manyview.engine.scaling import Folded, Pulled, Scaling
from manyview.linalg.threads import blas_threads, limited_threads
from manyview.views import Views

__all__ = ["SparseRows", "TorchEngine"]


_DENSE_ENTRIES = 1 << 26  # of sparse rows that are made dense at a time


class SparseRows:
    """A CSR matrix on a device, by the names that SciPy gives to its parts.

    Products with the transpose need a second copy, by columns: torch would make one for every
    product. It is made for the first of them and kept.

    Parameters
    ----------
    data, indices, indptr : tensor
        Entries, their columns, and where each row begins among them.
    shape : tuple of int
        Rows and columns.
    """

    def __init__(self, data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape
        self._matrix: Array = None
        self._by_columns: Array = None

    @classmethod
    def of(cls, tensor: Array, dtype: Array) -> SparseRows:
        """Return the rows of a tensor in CSR layout, whose entries are not copied if they fit."""
        # what libraries multiply with is int32; torch would convert for every product
        small = max(tensor.shape[1], tensor.values().numel()) < np.iinfo(np.int32).max
        indices, indptr = (
            part.to(torch.int32) if small else part
            for part in (tensor.col_indices(), tensor.crow_indices())
        )
        return cls(tensor.values().to(dtype), indices, indptr, tuple(tensor.shape))

    @classmethod
    def from_scipy(cls, x: Any, device: Array) -> SparseRows:
        """Return the rows of a SciPy CSR array on a device."""
        data, indices, indptr = (
            torch.from_numpy(np.require(part, requirements="W")).to(device)
            for part in (x.data, x.indices, x.indptr)
        )
        return cls(data, indices, indptr, x.shape)

    def to_scipy(self) -> Any:
        """Return the rows as a SciPy CSR array in this process."""
        parts = tuple(to_numpy(part) for part in (self.data, self.indices, self.indptr))
        return sp.csr_array(parts, shape=self.shape)

    @property
    def dtype(self) -> Array:
        """Type of the entries."""
        return self.data.dtype

    @property
    def device(self) -> Array:
        """Where the entries are."""
        return self.data.device

    @property
    def T(self) -> Transposed:
        """The transpose, to be multiplied with."""
        return Transposed(self)

    @property
    def rows_of_entries(self) -> Array:
        """The row of each entry."""
        rows = torch.arange(self.shape[0], device=self.device)
        return torch.repeat_interleave(rows, self.indptr.diff(), output_size=self.data.numel())

    def with_data(self, data: Array) -> SparseRows:
        """Return other entries in the same places."""
        return SparseRows(data, self.indices, self.indptr, self.shape)

    def astype(self, dtype: Array) -> SparseRows:
        """Return the rows in another type."""
        return self if dtype == self.dtype else self.with_data(self.data.to(dtype))

    def times(self, rows: Array | None, columns: Array | None) -> SparseRows:
        """Return the entries multiplied by a number for each row and one for each column."""
        data = self.data
        if rows is not None:
            data = data * rows[self.rows_of_entries]
        if columns is not None:
            data = data * columns[self.indices]
        return self.with_data(data)

    def row_sums(self, values: Array) -> Array:
        """Return the sums over rows of values that belong to the entries."""
        return values.new_zeros(self.shape[0]).index_add_(0, self.rows_of_entries, values)

    def column_sums(self, values: Array) -> Array:
        """Return the sums over columns of values that belong to the entries."""
        return values.new_zeros(self.shape[1]).index_add_(0, self.indices, values)

    def toarray(self) -> Array:
        """Return the rows as a dense tensor."""
        dense = self.data.new_zeros(self.shape)
        dense[self.rows_of_entries, self.indices.long()] = self.data
        return dense

    def __getitem__(self, rows: slice) -> SparseRows:
        # rows that follow each other; entries are not copied
        begin, end = (int(self.indptr[n]) for n in (rows.start, rows.stop))
        indptr = self.indptr[rows.start : rows.stop + 1] - begin
        shape = (rows.stop - rows.start, self.shape[1])
        return SparseRows(self.data[begin:end], self.indices[begin:end], indptr, shape)

    def take(self, rows: Array) -> SparseRows:
        """Return some rows, by their numbers."""
        lengths = self.indptr.diff()[rows]
        indptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(self.indptr.dtype)
        shift = torch.repeat_interleave(self.indptr[rows] - indptr[:-1], lengths)
        entries = shift + torch.arange(shift.numel(), device=self.device)
        shape = (rows.numel(), self.shape[1])
        return SparseRows(self.data[entries], self.indices[entries], indptr, shape)

    def take_columns(self, columns: Array) -> SparseRows:
        """Return some columns, by their numbers in rising order."""
        places = self.indices.new_full((self.shape[1],), -1)
        places[columns] = torch.arange(
            columns.numel(), dtype=self.indices.dtype, device=self.device
        )
        found = places[self.indices]
        kept = found >= 0
        before = torch.nn.functional.pad(kept.cumsum(0), (1, 0))
        indptr = before[self.indptr].to(self.indptr.dtype)
        shape = (self.shape[0], columns.numel())
        return SparseRows(self.data[kept], found[kept], indptr, shape)

    def __matmul__(self, other: Array) -> Array:
        if isinstance(other, Transposed):
            return self._with_rows_of(other.rows)
        if self._matrix is None:
            self._matrix = self._tensor(self.indptr, self.indices, self.data, self.shape)
        return self._matrix @ other

    def _with_rows_of(self, other: SparseRows) -> Array:
        step = max(1, _DENSE_ENTRIES // other.shape[1])
        bounds = range(0, other.shape[0], step)
        some = (slice(begin, min(begin + step, other.shape[0])) for begin in bounds)
        return torch.cat([self @ other[rows].toarray().T for rows in some], dim=1)

    @property
    def by_columns(self) -> Array:
        """The transpose in CSR layout."""
        if self._by_columns is None:
            order = torch.argsort(self.indices, stable=True)
            rows = self.rows_of_entries[order].to(self.indices.dtype)
            counts = torch.bincount(self.indices, minlength=self.shape[1])
            indptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(self.indptr.dtype)
            self._by_columns = self._tensor(indptr, rows, self.data[order], self.shape[::-1])
        return self._by_columns

    @staticmethod
    def _tensor(indptr: Array, indices: Array, data: Array, shape: tuple[int, ...]) -> Array:
        return torch.sparse_csr_tensor(indptr, indices, data, size=shape, check_invariants=False)


class Transposed:
    """The transpose of sparse rows, as one side of a product."""

    def __init__(self, rows: SparseRows) -> None:
        self.rows = rows

    def __matmul__(self, dense: Array) -> Array:
        return self.rows.by_columns @ dense


# On a device every operation has a cost of its own, so that blocks are few: so large that what a
# kernel makes of a block, some arrays of rows x rank, stays below this, and so do rows that have
# to be widened.
_TEMPORARY_BYTES = {"cpu": 8 << 20, "cuda": 512 << 20}
_WIDTH = 32  # columns of what a kernel makes, in double precision
_CHUNK_ROWS = {"cpu": 256, "cuda": 32_768}
_PIECE_BYTES = {"cpu": 8 << 20, "cuda": 256 << 20}
# The host has little to do beside a device, and with more threads these wait for each other: a fit
# of a million samples took 3.1 s with 16 and 0.8 s with 4. See benchmarks/gpu.py.
_HOST_THREADS = 4


@dataclass(frozen=True)
class TensorRows(RowView):
    """Some rows of one view on a device: the products of :class:`RowView` in fewer passes."""

    def project(self, factor: Folded) -> Array:
        """Return Z W, rows x R, for a folded factor."""
        rows = self.in_precision(factor.features.dtype)
        if isinstance(rows.x, SparseRows):
            projected = rows.x @ factor.features
        else:
            # the factor by columns: x @ W as it is took 1.5 times as long. See benchmarks/gpu.py
            projected = linear(rows.x, factor.features.T.contiguous())
        if factor.offset is not None:
            projected += factor.offset
        if rows.scale is None:
            projected += factor.bias
            return projected
        return torch.addcmul(factor.bias, projected, rows.scale[:, None], out=projected)

    def pull(self, rows: Array) -> Pulled:
        """Return Z' M for these rows, before :meth:`Scaling.unfold`."""
        view = self.in_precision(rows.dtype)
        scaled, plain_sum = rows, rows.sum(dim=0)
        scaled_sum = plain_sum
        if view.scale is not None:
            scaled = rows * view.scale[:, None]
            scaled_sum = view.scale @ rows
        return Pulled(product_over_rows(view.x, scaled), scaled_sum, plain_sum)

    def restrict(self, active: npt.NDArray[np.intp]) -> TensorRows:
        """Return a copy of these rows that holds the features `active` only."""
        columns = torch.from_numpy(active).to(self.x.device)
        if isinstance(self.x, SparseRows):
            return TensorRows(self.x.take_columns(columns), self.scale)
        return TensorRows(self.x.index_select(1, columns), self.scale)

    def in_precision(self, dtype: Any) -> TensorRows:
        """Return these rows widened to `dtype`, a copy if they are of a narrower type."""
        x, scale = self.x, self.scale
        if x.dtype == dtype and (scale is None or scale.dtype == dtype):
            return self
        x = x.astype(dtype) if isinstance(x, SparseRows) else x.to(dtype)
        return TensorRows(x, None if scale is None else scale.to(dtype))


class TorchEngine(LocalEngine):
    """Row blocks on the device of the views' tensors.

    Small matrices come to the device as kernels are called with them; samples' arrays stay there.

    Parameters
    ----------
    views : Views
        Checked views of tensors; dense ones are referred to, not copied.
    normalize : {"rows", "columns"} or None
        Unit rows, standardised columns, or neither.
    scalings : list of Scaling, optional
        Column scalings found by an earlier fit, for samples that it did not see.

    Attributes
    ----------
    blocks : list of Block
    device : torch.device
        Where the rows are.
    """

    def __init__(
        self,
        views: Views,
        *,
        normalize: str | None,
        scalings: list[Scaling] | None = None,
    ) -> None:
        self.dtype = views.dtype
        self.n_samples = views.n_samples
        self.device = views.arrays[0].device
        if self.device.type == "mps":
            raise TypeError(
                f"view {views.names[0]!r} is on {self.device}, which has no double precision; "
                "moments need it. Bring the views to the CPU"
            )
        self.chunk = _at(_CHUNK_ROWS, self.device)
        self._arrays = [_held(array, self.dtype) for array in views.arrays]
        self.blocks = []
        for rows in self._row_slices():
            raw = (TensorRows(array[rows], None) for array in self._arrays)
            scaled: list[RowView] = [
                self._scale_rows(x, v, rows, normalize, views.present) for v, x in enumerate(raw)
            ]
            self.blocks.append(Block(rows, scaled))
        self._whole = [list(block.views) for block in self.blocks]
        scalings = scalings or self._found_scalings(views.n_features, normalize)
        # of their own, as they keep what they bring to the device
        self.scalings = [scaling.restrict(None) for scaling in scalings]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold what the work needs: no graph is recorded, and the host has few threads."""
        on_host = self.device.type == "cpu"
        few = nullcontext() if on_host else limited_threads(min(_HOST_THREADS, blas_threads()))
        with torch.no_grad(), few:
            yield

    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""
        return super().sum(kernel, *self._placed(args))

    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Put the state that ``kernel(block, *args)`` returns into each block; sum the rest.

        Nothing changes before all blocks are done, so that an interrupt leaves them as they were.
        """
        return super().update(kernel, *self._placed(args))

    def asarray(self, values: npt.NDArray[Any]) -> Array:
        """Return NumPy values on the device of the samples."""
        return self._placed(values)

    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None brings all of them back."""
        if active is None and self.scalings[v].active is None:
            return
        for block, whole in zip(self.blocks, self._whole, strict=True):
            block.views[v] = whole[v] if active is None else whole[v].restrict(active)
        self.scalings[v] = self.scalings[v].restrict(active)

    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""
        x = self._arrays[v]
        if isinstance(x, SparseRows):
            # entries and their places, by rows and by columns
            return 4 * int(torch.count_nonzero(self._placed(features)[x.indices]))
        return self.n_samples * int(np.count_nonzero(features))

    def scatter(self, name: str, values: npt.NDArray[Any]) -> None:
        """Give each block its rows of an array, as state."""
        there = self._placed(values)
        for block in self.blocks:
            block.state[name] = there[block.rows]

    def gather(self, name: str) -> Array:
        """Return a state of all blocks as one array, where the samples are."""
        return torch.cat([block.state[name] for block in self.blocks])

    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return some samples' rows of every view, in this process."""
        index = self._placed(samples)
        taken = []
        for v, array in enumerate(self._arrays):
            x = array.take(index).to_scipy() if isinstance(array, SparseRows) else array[index]
            scales = [block.views[v].scale for block in self.blocks]
            scale = None if scales[0] is None else self._taken(scales, samples)
            taken.append(RowView(x if sp.issparse(x) else _in_process(x), scale))
        return taken

    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return some samples' rows of a state, in this process."""
        return self._taken([block.state[name] for block in self.blocks], samples)

    def standardising(self, v: int) -> Scaling:
        """Return the scaling that gives the columns of view `v` mean 0 and variance 1."""
        with self._short_blocks():
            return super().standardising(v)

    def _column_moments(self, v: int) -> tuple[Matrix, Matrix]:
        with self._short_blocks():
            return super()._column_moments(v)

    @contextmanager
    def _short_blocks(self) -> Iterator[None]:
        """Cut the blocks, for kernels that make arrays as wide as the views; without state."""
        long = self.blocks
        step = self._rows_within(_at(_PIECE_BYTES, self.device), [x.shape[1] for x in self._arrays])
        self.blocks = [piece for block in long for piece in _cut(block, step)]
        try:
            yield
        finally:
            self.blocks = long

    def _rows_within(self, size: int, widths: list[int]) -> int:
        return max(256, size // (8 * max(widths)))

    def _row_slices(self) -> list[slice]:
        size = _at(_TEMPORARY_BYTES, self.device)
        wanted = torch.float64 if self.dtype == np.float64 else torch.float32
        widths = [_WIDTH]
        for x in self._arrays:
            if isinstance(x, SparseRows):
                widths.append(4 * x.data.numel() // self.n_samples)  # to sort them by columns
            elif x.dtype != wanted:
                widths.append(x.shape[1])
        step = self._rows_within(size, widths)
        bounds = range(0, self.n_samples, step)
        return [slice(n, min(n + step, self.n_samples)) for n in bounds]

    def _scale_rows(
        self,
        view: TensorRows,
        v: int,
        rows: slice,
        normalize: str | None,
        present: npt.NDArray[np.bool_] | None,
    ) -> TensorRows:
        scale = None
        if normalize == "rows":
            norms = row_norms(view.x)
            scale = torch.where(norms > 0, 1.0 / norms, torch.ones_like(norms))
        if present is not None:
            here = self._placed(present[rows, v]).to(torch.float64)
            scale = here if scale is None else scale * here
        if scale is None:
            return view
        scale = scale.clamp(max=float(np.finfo(self.dtype).max))
        return TensorRows(view.x, scale.to(getattr(torch, self.dtype.name)))

    def _placed(self, value: Any) -> Any:
        """Return a value of kernels' arguments with the NumPy and SciPy arrays in it moved."""
        if isinstance(value, np.ndarray):
            return placed_like(value, torch.empty(0, device=self.device))
        if sp.issparse(value):
            return SparseRows.from_scipy(value, self.device)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._placed, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self._placed, value))
        return value

    def _taken(self, arrays: list[Array], samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        starts = np.array([block.rows.start for block in self.blocks])
        owner = np.searchsorted(starts, samples, side="right") - 1
        order = np.argsort(owner, kind="stable")
        parts = []
        for b in np.unique(owner):
            places = samples[order][owner[order] == b] - starts[b]
            parts.append(arrays[b][self._placed(places)])
        taken = to_numpy(torch.cat(parts))
        back = np.empty_like(taken)
        back[order] = taken
        return back


def row_norms(x: Array) -> Array:
    """Return the Euclidean norm of each row in double precision, safe from over- and underflow."""
    if isinstance(x, SparseRows):
        data = x.data.to(torch.float64)
        rows = x.rows_of_entries
        peak = data.new_zeros(x.shape[0]).scatter_reduce_(0, rows, data.abs(), "amax")
        safe = torch.where(peak > 0, peak, torch.ones_like(peak))
        return safe * torch.sqrt(x.row_sums((data / safe[rows]) ** 2))
    if x.dtype != torch.float64:
        # squares have room in double precision; torch would widen all rows at once
        parts = (part.to(torch.float64) for part in x.split(_short(x)))
        return torch.cat([torch.linalg.vector_norm(part, dim=1) for part in parts])
    norms = torch.linalg.vector_norm(x, dim=1)
    tiny = float(np.sqrt(np.finfo(np.float64).tiny * 1e16))
    if bool((norms.isfinite() & (norms > tiny)).all()):
        return norms
    return torch.cat([_scaled_norms(part) for part in x.split(_short(x))])


def _scaled_norms(x: Array) -> Array:
    peak = x.abs().amax(dim=1)
    safe = torch.where(peak > 0, peak, torch.ones_like(peak))
    return safe * torch.linalg.vector_norm(x / safe[:, None], dim=1)


def _short(x: Array) -> int:
    return max(1, _at(_PIECE_BYTES, x.device) // (8 * max(int(x.shape[1]), 1)))


def _at(sizes: dict[str, int], device: Array) -> int:
    return sizes["cpu" if device.type == "cpu" else "cuda"]


def _cut(block: Block, step: int) -> Iterator[Block]:
    for begin in range(0, block.rows.stop - block.rows.start, step):
        end = min(begin + step, block.rows.stop - block.rows.start)
        rows = slice(block.rows.start + begin, block.rows.start + end)
        yield Block(rows, [_part(view, slice(begin, end)) for view in block.views])


def _part(view: RowView, rows: slice) -> TensorRows:
    return TensorRows(view.x[rows], None if view.scale is None else view.scale[rows])


def _held(tensor: Array, dtype: np.dtype[Any]) -> Array:
    if tensor.layout == torch.sparse_csr:
        return SparseRows.of(tensor, getattr(torch, dtype.name))
    return tensor


def _in_process(x: Array) -> npt.NDArray[Any]:
    # NumPy has no bfloat16
    return to_numpy(x.to(torch.float32) if x.dtype == torch.bfloat16 else x)
