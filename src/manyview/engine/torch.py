"""The engine for torch tensors on the CPU or a GPU, with its sparse rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from sys import maxsize
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch.nn.functional import linear, pad

from manyview._typing import Matrix
from manyview.engine.arrays import Array, placed_like, product_over_rows, to_numpy
from manyview.engine.block import Block, RowView, State, Sums, split_by_block
from manyview.engine.local import LocalEngine
from manyview.engine.scaling import Folded, Pulled, Scaling
from manyview.linalg.threads import limited_threads
from manyview.views import Normalize, Views, normalize_by_view

__all__ = ["SparseRows", "TorchEngine"]


@dataclass(frozen=True)
class Sizes:
    """How much work a device gets at a time."""

    temporary_bytes: int  # arrays of rows x rank that a kernel makes, and rows that are widened
    piece_bytes: int  # arrays of rows x features
    chunk_rows: int  # rows that are compared with landmarks


_ON_CPU = Sizes(temporary_bytes=8 << 20, piece_bytes=8 << 20, chunk_rows=256)
# Every operation on a GPU has a cost of its own, so blocks are few and large.
_ON_GPU = Sizes(temporary_bytes=512 << 20, piece_bytes=256 << 20, chunk_rows=32_768)


class TorchEngine(LocalEngine):
    """Row blocks on the device of the views' tensors.

    Small matrices are copied to the device when kernels are called with them; arrays of samples
    stay there.

    Parameters
    ----------
    views : Views
        Checked views of tensors; dense ones are referred to, not copied.
    normalize : {"rows", "columns"} or None, or one of them for each view
        Unit rows, standardised columns, or neither.
    n_threads : int
        Threads of the host, at most, for what is computed side by side.
    scalings : list of Scaling, optional
        Column scalings of an earlier fit, for out-of-sample prediction.

    Attributes
    ----------
    blocks : list of Block
    device : torch.device
        Where the rows are.
    """

    block_rows: ClassVar[tuple[int, int]] = (256, maxsize)
    # Columns of what a kernel makes of a block, in double precision.
    temporary_width: ClassVar[int] = 32
    # Threads of the host beside a GPU: it compares a sample while the device has nothing to do.
    host_threads: ClassVar[int] = 4

    def __init__(
        self,
        views: Views,
        *,
        normalize: Normalize,
        n_threads: int = 1,
        scalings: list[Scaling] | None = None,
    ) -> None:
        self.dtype = views.dtype
        self.n_samples = views.n_samples
        self.device = views.arrays[0].device
        if self.device.type == "mps":
            raise TypeError(
                f"view {views.names[0]!r} is on {self.device}, which does not support float64; "
                "move the views to the CPU"
            )
        self._sizes = _ON_CPU if self.device.type == "cpu" else _ON_GPU
        self._n_threads = min(self.host_threads, n_threads)
        self.chunk = self._sizes.chunk_rows
        wanted = getattr(torch, self.dtype.name)
        self._arrays = [
            SparseRows.of(array, wanted) if array.layout == torch.sparse_csr else array
            for array in views.arrays
        ]
        self._known = views.known or (None,) * views.n_views
        by_view = normalize_by_view(normalize, views)
        self.blocks, self._whole = [], []
        for rows in self._row_slices():
            scaled: list[RowView] = []
            for v, array in enumerate(self._arrays):
                present = None if views.present is None else views.present[rows, v]
                x, known = array[rows], self._known[v]
                scale = self._row_scale(x, by_view[v], present)
                scaled.append(TensorRows(x, scale, None if known is None else known[rows]))
            self._whole.append(scaled)
            self.blocks.append(Block(rows, list(scaled)))
        scalings = scalings or self._found_scalings(views.n_features, by_view)
        # copies, because a scaling keeps what it has moved to a device
        self.scalings = [scaling.restrict(None) for scaling in scalings]

    def _row_slices(self) -> list[slice]:
        wanted = getattr(torch, self.dtype.name)
        widths = [self.temporary_width]
        for x in self._arrays:
            if isinstance(x, SparseRows):
                widths.append(4 * x.data.numel() // self.n_samples)  # to sort them by columns
            elif x.dtype != wanted:
                widths.append(x.shape[1])
        step = self._rows_within(self._sizes.temporary_bytes, widths)
        bounds = range(0, self.n_samples, step)
        return [slice(n, min(n + step, self.n_samples)) for n in bounds]

    def _rows_within(self, size: int, widths: list[int]) -> int:
        """Return how many rows of the widest array fit into so many bytes."""
        least, most = self.block_rows
        return min(max(least, size // (8 * max(widths))), most)

    def _row_scale(
        self, x: Array, normalize: str | None, present: npt.NDArray[np.bool_] | None
    ) -> Array | None:
        """Return the factor of each row: 1 / norm for unit rows, 0 for missing views."""
        scale = None
        if normalize == "rows":
            norms = row_norms(x, self._sizes.piece_bytes)
            scale = torch.where(norms > 0, 1.0 / norms, torch.ones_like(norms))
        if present is not None:
            here = self._placed(present).to(torch.float64)
            scale = here if scale is None else scale * here
        if scale is None:
            return None
        scale = scale.clamp(max=float(np.finfo(self.dtype).max))
        return scale.to(getattr(torch, self.dtype.name))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record no gradients while a fit runs, and use one BLAS thread if there is a GPU.

        Others would wait for each other, between short calls.
        """
        on_host = self.device.type == "cpu"
        with torch.no_grad(), nullcontext() if on_host else limited_threads(1):
            yield

    def asarray(self, values: npt.NDArray[Any]) -> Array:
        """Return NumPy values on the device of the samples."""
        return self._placed(values)

    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""
        x = self._arrays[v]
        if isinstance(x, SparseRows):
            # entries and their positions, by rows and by columns
            return 4 * int(torch.count_nonzero(self._placed(features)[x.indices]))
        return self.n_samples * int(np.count_nonzero(features))

    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return the rows of some samples in every view, in this process."""
        index = self._placed(samples)
        taken = []
        for v, array in enumerate(self._arrays):
            if isinstance(array, SparseRows):
                x = array.take(index).to_scipy()
            else:
                x = array[index]
                # NumPy has no bfloat16
                x = to_numpy(x.to(torch.float32) if x.dtype == torch.bfloat16 else x)
            scales = [block.views[v].scale for block in self.blocks]
            scale = None if scales[0] is None else self._taken(scales, samples)
            known = self._known[v]
            taken.append(RowView(x, scale, None if known is None else to_numpy(known[index])))
        return taken

    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return a state of some samples, in this process."""
        return self._taken([block.state[name] for block in self.blocks], samples)

    def _taken(self, arrays: list[Array], samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return the rows of some samples, given an array for each block."""
        chosen, back = split_by_block([block.rows.start for block in self.blocks], samples)
        parts = [arrays[b][self._placed(rows)] for b, rows in chosen]
        return to_numpy(torch.cat(parts))[back]

    def standardising(self, v: int) -> Scaling:
        """Return the scaling that gives the columns of view `v` mean 0 and variance 1."""
        with self._short_blocks():
            return super().standardising(v)

    def sum_wide(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Do as :meth:`sum`, for a kernel that makes arrays as wide as the views."""
        with self._short_blocks():
            return self.sum(kernel, *args)

    def _column_moments(self, v: int) -> tuple[Matrix, Matrix]:
        with self._short_blocks():
            return super()._column_moments(v)

    @contextmanager
    def _short_blocks(self) -> Iterator[None]:
        """Divide the blocks, for kernels that make arrays as wide as the views.

        Of the state they keep the labels.
        """
        long = self.blocks
        widths = [x.shape[1] for x in self._arrays]
        step = self._rows_within(self._sizes.piece_bytes, widths)
        self.blocks = [piece for block in long for piece in _pieces(block, step)]
        try:
            yield
        finally:
            self.blocks = long

    def _placed(self, value: Any) -> Any:
        """Return arguments of a kernel with their NumPy and SciPy arrays moved to the device."""
        if isinstance(value, np.ndarray):
            return placed_like(value, torch.empty(0, device=self.device))
        if sp.issparse(value):
            return SparseRows.from_scipy(value, self.device)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._placed, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self._placed, value))
        return value


def _pieces(block: Block, step: int) -> Iterator[Block]:
    size = block.rows.stop - block.rows.start
    for begin in range(0, size, step):
        rows = slice(begin, min(begin + step, size))
        views: list[RowView] = [view.part(rows) for view in block.views]
        whole = slice(block.rows.start + rows.start, block.rows.start + rows.stop)
        labels = block.state.get(State.LABELS)
        yield Block(whole, views, {} if labels is None else {State.LABELS: labels[rows]})


@dataclass(frozen=True)
class TensorRows(RowView):
    """Some rows of one view on a device: the products of :class:`RowView` in fewer passes."""

    def project(self, factor: Folded) -> Array:
        """Return Z W, rows x R, for a folded factor."""
        rows = self.in_precision(factor.features.dtype)
        if isinstance(rows.x, SparseRows):
            projected = rows.x @ factor.features
        else:
            # x @ W takes 1.5 times as long as with W stored by columns; see benchmarks/gpu.py
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
        """Return a copy of these rows with the features `active` only."""
        columns = torch.from_numpy(active).to(self.x.device)
        if isinstance(self.x, SparseRows):
            return TensorRows(self.x.take_columns(columns), self.scale)
        known = None if self.known is None else self.known.index_select(1, columns)
        return TensorRows(self.x.index_select(1, columns), self.scale, known)

    def in_precision(self, dtype: Any) -> TensorRows:
        """Return these rows in `dtype`, as a copy if they have another type."""
        x, scale = self.x, self.scale
        if x.dtype == dtype and (scale is None or scale.dtype == dtype):
            return self
        x = x.astype(dtype) if isinstance(x, SparseRows) else x.to(dtype)
        return TensorRows(x, None if scale is None else scale.to(dtype), self.known)


def row_norms(x: Array, piece_bytes: int) -> Array:
    """Return the Euclidean norm of each row in float64, safe from overflow and underflow.

    Copies of dense rows in double precision are at most `piece_bytes` large.
    """
    if isinstance(x, SparseRows):
        data = x.data.to(torch.float64)
        rows = x.rows_of_entries
        peak = data.new_zeros(x.shape[0]).scatter_reduce_(0, rows, data.abs(), "amax")
        safe = torch.where(peak > 0, peak, torch.ones_like(peak))
        return safe * torch.sqrt(x.row_sums((data / safe[rows]) ** 2))
    pieces = x.split(max(1, piece_bytes // (8 * max(int(x.shape[1]), 1))))
    if x.dtype != torch.float64:
        # squares of narrower numbers fit into double precision
        wide = (piece.to(torch.float64) for piece in pieces)
        return torch.cat([torch.linalg.vector_norm(piece, dim=1) for piece in wide])
    norms = torch.linalg.vector_norm(x, dim=1)
    tiny = float(np.sqrt(np.finfo(np.float64).tiny * 1e16))
    if bool((norms.isfinite() & (norms > tiny)).all()):
        return norms
    return torch.cat([_scaled_norms(piece) for piece in pieces])


def _scaled_norms(x: Array) -> Array:
    peak = x.abs().amax(dim=1)
    safe = torch.where(peak > 0, peak, torch.ones_like(peak))
    return safe * torch.linalg.vector_norm(x / safe[:, None], dim=1)


class SparseRows:
    """A CSR matrix on a device, with the attribute names of SciPy.

    Products with the transpose need a second copy in CSC order. Torch would make one for every
    product; here the first such product makes it and keeps it.

    Parameters
    ----------
    data, indices, indptr : tensor
        Entries, their columns, and the position of each row's first entry.
    shape : tuple of int
        Rows and columns.
    """

    # Entries of a sparse matrix that are converted to dense at a time, in products of two of them.
    dense_entries: ClassVar[int] = 1 << 26

    def __init__(self, data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape
        self._matrix: Array = None
        self._by_columns: Array = None

    @classmethod
    def of(cls, tensor: Array, dtype: Array) -> SparseRows:
        """Return the rows of a CSR tensor; entries of the right type are not copied."""
        # the libraries that multiply take int32; torch would convert for every product
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
        """The transpose, as the left or right side of a product."""
        return Transposed(self)

    @property
    def rows_of_entries(self) -> Array:
        """The row of each entry."""
        rows = torch.arange(self.shape[0], device=self.device)
        return torch.repeat_interleave(rows, self.indptr.diff(), output_size=self.data.numel())

    def with_data(self, data: Array) -> SparseRows:
        """Return a matrix with other entries at the same positions."""
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
        # consecutive rows; entries are not copied
        begin, end = (int(self.indptr[n]) for n in (rows.start, rows.stop))
        indptr = self.indptr[rows.start : rows.stop + 1] - begin
        shape = (rows.stop - rows.start, self.shape[1])
        return SparseRows(self.data[begin:end], self.indices[begin:end], indptr, shape)

    def take(self, rows: Array) -> SparseRows:
        """Return some rows, by position."""
        lengths = self.indptr.diff()[rows]
        indptr = pad(lengths.cumsum(0), (1, 0)).to(self.indptr.dtype)
        shift = torch.repeat_interleave(self.indptr[rows] - indptr[:-1], lengths)
        entries = shift + torch.arange(shift.numel(), device=self.device)
        shape = (rows.numel(), self.shape[1])
        return SparseRows(self.data[entries], self.indices[entries], indptr, shape)

    def take_columns(self, columns: Array) -> SparseRows:
        """Return some columns, by position in ascending order."""
        places = self.indices.new_full((self.shape[1],), -1)
        places[columns] = torch.arange(
            columns.numel(), dtype=self.indices.dtype, device=self.device
        )
        found = places[self.indices]
        kept = found >= 0
        before = pad(kept.cumsum(0), (1, 0))
        indptr = before[self.indptr].to(self.indptr.dtype)
        shape = (self.shape[0], columns.numel())
        return SparseRows(self.data[kept], found[kept], indptr, shape)

    def __matmul__(self, other: Array) -> Array:
        if isinstance(other, Transposed):
            return self._times_transposed(other.rows)
        if self._matrix is None:
            self._matrix = _csr(self.indptr, self.indices, self.data, self.shape)
        return self._matrix @ other

    def _times_transposed(self, other: SparseRows) -> Array:
        step = max(1, self.dense_entries // other.shape[1])
        bounds = range(0, other.shape[0], step)
        some = (slice(begin, min(begin + step, other.shape[0])) for begin in bounds)
        return torch.cat([self @ other[rows].toarray().T for rows in some], dim=1)

    @property
    def by_columns(self) -> Array:
        """The transpose as a CSR tensor."""
        if self._by_columns is None:
            order = torch.argsort(self.indices, stable=True)
            rows = self.rows_of_entries[order].to(self.indices.dtype)
            counts = torch.bincount(self.indices, minlength=self.shape[1])
            indptr = pad(counts.cumsum(0), (1, 0)).to(self.indptr.dtype)
            self._by_columns = _csr(indptr, rows, self.data[order], self.shape[::-1])
        return self._by_columns


class Transposed:
    """The transpose of sparse rows, as one side of a product."""

    def __init__(self, rows: SparseRows) -> None:
        self.rows = rows

    def __matmul__(self, dense: Array) -> Array:
        return self.rows.by_columns @ dense


def _csr(indptr: Array, indices: Array, data: Array, shape: tuple[int, ...]) -> Array:
    return torch.sparse_csr_tensor(indptr, indices, data, size=shape, check_invariants=False)
