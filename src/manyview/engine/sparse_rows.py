"""Rows of a sparse tensor in CSR layout, with the few operations that kernels ask of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from manyview.engine.arrays import Array, to_numpy

__all__ = ["SparseRows"]

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
