"""Array helpers for NumPy, SciPy sparse and torch arrays.

What the array API standard offers is taken from there. The functions here are those that the
standard does not have, or that a library does much faster in its own way.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import array_api_compat
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from array_api_compat import is_torch_array

__all__ = [
    "Array",
    "as_dtype",
    "as_dtype_of",
    "column_sums",
    "in_memory",
    "is_sparse",
    "largest",
    "namespace",
    "picked",
    "placed_like",
    "product_over_rows",
    "row_sums",
    "rows_of_entries",
    "times",
    "to_numpy",
    "uniform_of_rows",
    "with_rows_at",
]

Array: TypeAlias = Any

_GROUP = 8  # entries of a row that `_few_largest` compares by their maximum


def namespace(*arrays: Array) -> Any:
    """Return the array namespace that arrays share."""
    return array_api_compat.array_namespace(*arrays)


def is_sparse(array: Array) -> bool:
    """Return whether rows are in CSR form, of SciPy or on a device."""
    return hasattr(array, "indptr")


def in_memory(array: Array) -> bool:
    """Return whether NumPy can read an array without a copy."""
    if is_torch_array(array):
        return bool(array.device.type == "cpu")
    return isinstance(array, np.ndarray)


def as_dtype(array: Array, dtype: np.dtype[Any] | type[np.generic]) -> Array:
    """Return an array in a NumPy type, without a copy if it has that type."""
    xp = namespace(array)
    return xp.astype(array, getattr(xp, np.dtype(dtype).name), copy=False)


def as_dtype_of(array: Array, other: Array) -> Array:
    """Return an array in the type of another one of its namespace."""
    return namespace(array).astype(array, other.dtype, copy=False)


def placed_like(values: npt.NDArray[Any], array: Array) -> Array:
    """Return NumPy values in the namespace and on the device of another array."""
    if isinstance(array, np.ndarray):
        return values
    if is_torch_array(array):
        import torch

        # tensors need writable memory and positive strides; a blocking copy would wait for all
        # earlier work of the device
        values = np.require(values, requirements=["C", "W"])
        return torch.from_numpy(values).to(array.device, non_blocking=True)
    return namespace(array).asarray(values, device=array_api_compat.device(array))


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Return an array of any namespace as a NumPy array."""
    if isinstance(array, np.ndarray):
        return array
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    return np.asarray(array)


def largest(rows: Array, count: int) -> Array:
    """Return the columns of the largest entries of each row, largest first; no entry is NaN."""
    if isinstance(rows, np.ndarray):
        if 4 * count <= rows.shape[1] // _GROUP:
            return _few_largest(rows, count)
        top = np.argpartition(rows, rows.shape[1] - count, axis=1)[:, -count:]
        ranks = np.argsort(-np.take_along_axis(rows, top, axis=1), axis=1, kind="stable")
        return np.take_along_axis(top, ranks, axis=1).astype(np.int32)
    if is_torch_array(rows):
        return rows.topk(count, dim=1).indices
    return namespace(rows).argsort(rows, axis=1, descending=True)[:, :count]


def _few_largest(rows: npt.NDArray[Any], count: int) -> npt.NDArray[np.int32]:
    """Return the columns of a few largest entries of each row.

    Columns are put into groups. An entry below the `count`-th largest group maximum cannot be
    among the `count` largest; the few entries that remain are sorted.
    """
    n, width = rows.shape
    groups = width // _GROUP
    best = rows[:, : groups * _GROUP].reshape(n, _GROUP, groups).max(axis=1)
    least = np.partition(best, groups - count, axis=1)[:, groups - count]
    left = np.flatnonzero(rows >= least[:, None])
    row = left // width
    order = np.lexsort((-rows.ravel()[left], row))
    first = np.searchsorted(row, np.arange(n))
    return np.asarray(left[order][first[:, None] + np.arange(count)] % width, dtype=np.int32)


def picked(rows: Array, columns: Array) -> Array:
    """Return one entry of each row, given its column."""
    return namespace(rows).take_along_axis(rows, columns[:, None], axis=1)[:, 0]


def product_over_rows(left: Array, right: Array, summed_rows: int = 4096) -> Array:
    """Return ``left' right`` for matrices with very many rows.

    Such a product leaves few numbers. It keeps a GPU busy only if it is cut into parts of
    `summed_rows` rows that are computed in parallel; benchmarks/gpu.py measures their size.
    """
    parts = left.shape[0] // summed_rows
    if in_memory(left) or is_sparse(left) or not is_torch_array(left) or parts < 2:
        return left.T @ right
    end = parts * summed_rows
    cut_left, cut_right = (side[:end].unflatten(0, (parts, -1)) for side in (left, right))
    total = (cut_left.mT @ cut_right).sum(dim=0)
    return total.addmm_(left[end:].T, right[end:]) if end < left.shape[0] else total


def with_rows_at(places: Array, rows: Array, count: int) -> Array:
    """Return `count` rows of zeros with the given rows at the given places."""
    xp, device = namespace(rows), array_api_compat.device(rows)
    if isinstance(rows, np.ndarray) or is_torch_array(rows):
        full = xp.zeros((count, *rows.shape[1:]), dtype=rows.dtype, device=device)
        full[places] = rows
        return full
    here = placed_like(np.arange(count)[:, None], rows) == places
    return as_dtype_of(here, rows) @ rows


# Sparse rows are SciPy CSR arrays, or `manyview.engine.torch.SparseRows` with methods of the
# same names.


def rows_of_entries(x: Any) -> Array:
    """Return the row of each entry of sparse rows."""
    if not sp.issparse(x):
        return x.rows_of_entries
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))


def times(x: Any, rows: Array | None, columns: Array | None) -> Any:
    """Return sparse rows multiplied by a number for each row and one for each column.

    Examples
    --------
    >>> x = sp.csr_array([[1.0, 0.0], [2.0, 3.0]])
    >>> times(x, np.array([1.0, 10.0]), np.array([1.0, 5.0])).toarray()
    array([[  1.,   0.],
           [ 20., 150.]])
    """
    if not sp.issparse(x):
        return x.times(rows, columns)
    data = x.data
    if rows is not None:
        data = data * rows[rows_of_entries(x)]
    if columns is not None:
        data = data * columns[x.indices]
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)


def row_sums(x: Any, values: Array) -> Array:
    """Return the sums over rows of values that belong to the entries."""
    if not sp.issparse(x):
        return x.row_sums(values)
    return np.bincount(rows_of_entries(x), weights=values, minlength=x.shape[0])


def column_sums(x: Any, values: Array) -> Array:
    """Return the sums over columns of values that belong to the entries."""
    if not sp.issparse(x):
        return x.column_sums(values)
    return np.bincount(x.indices, weights=values, minlength=x.shape[1])


def uniform_of_rows(rows: Array, seed: int) -> Array:
    """Return a number in [0, 1) for each row that depends on the row's number and the seed only.

    The partition into blocks does not matter: the finaliser of SplitMix64 is applied to each
    row's place in a sequence that the seed selects. Row numbers are unsigned 64-bit integers, or
    signed ones as a tensor.

    Examples
    --------
    >>> import numpy as np
    >>> whole = uniform_of_rows(np.arange(6, dtype=np.uint64), seed=1)
    >>> bool((uniform_of_rows(np.arange(3, 6, dtype=np.uint64), seed=1) == whole[3:]).all())
    True
    """
    start = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    with np.errstate(over="ignore"):
        x = rows * _constant(0x9E3779B97F4A7C15, rows) + _constant(start, rows)
        x = (x ^ _shifted(x, 30)) * _constant(0xBF58476D1CE4E5B9, rows)
        x = (x ^ _shifted(x, 27)) * _constant(0x94D049BB133111EB, rows)
    x = x ^ _shifted(x, 31)
    xp = namespace(rows)
    return xp.astype(_shifted(x, 11), xp.float64) * 2.0**-53


def _constant(value: int, like: Array) -> Array:
    """Return 64 bits in the type of an array; tensors are signed."""
    if is_torch_array(like):
        return value - 2**64 if value >= 2**63 else value
    if isinstance(like, np.ndarray):
        return np.uint64(value)
    return namespace(like).asarray(value, dtype=like.dtype)


def _shifted(x: Array, bits: int) -> Array:
    """Return x shifted to the right, with zeros from the left."""
    shifted = x >> _constant(bits, x)
    # a shift of signed integers repeats the sign bit
    return shifted & (2 ** (64 - bits) - 1) if is_torch_array(x) else shifted
