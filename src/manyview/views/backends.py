"""Arrays of NumPy, SciPy, torch and Dask behind one set of functions.

Neither torch nor Dask is imported before one of its arrays is at hand: such an array can only come
from a caller who has imported the package.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = [
    "Place",
    "absent_view",
    "as_tensor_view",
    "blank_rows",
    "check_collection",
    "dtype_of",
    "first_nonfinite",
    "is_dense_tensor",
    "is_within",
    "place_of",
    "tensor_rows",
    "value_range",
]

Place: TypeAlias = Literal["numpy", "torch", "dask"]

_TENSOR_TYPE = re.compile("bool|uint8|int(8|16|32|64)|float(16|32|64)")


def place_of(array: Any) -> Place:
    """Return which package holds an array."""
    roots = {base.__module__.partition(".")[0] for base in type(array).__mro__}
    if "torch" in roots and hasattr(array, "layout"):
        return "torch"
    if "dask" in roots and hasattr(array, "chunks"):
        return "dask"
    return "numpy"


def dtype_of(array: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of an array's entries; object for tensor types NumPy does not have."""
    kind: Any = array.dtype
    if place_of(array) == "torch":
        name = str(kind).removeprefix("torch.")
        kind = name if _TENSOR_TYPE.fullmatch(name) else object
        if name == "bfloat16":  # which has the range of float32
            kind = np.float32
    dtype: np.dtype[Any] = np.dtype(kind)
    return dtype


# Smallest and largest entry


def value_range(array: Any, *, chunk_bytes: int = 1 << 24) -> tuple[float, float]:
    """Return the smallest and the largest entry, both NaN if any entry is NaN.

    The zeros of a sparse array count. Dense NumPy arrays, which may be memory-mapped, are read in
    chunks of `chunk_bytes`.
    """
    place = place_of(array)
    if place == "dask":
        import dask

        parts = array.to_delayed().ravel()
        ranges = dask.compute(*(dask.delayed(value_range)(part) for part in parts))
        lows, highs = zip(*ranges, strict=True)
        return float(np.min(lows)), float(np.max(highs))
    if place == "torch":
        sparse = not is_dense_tensor(array)
        values = array.values() if sparse else array
        count = values.numel()
        low, high = (float(bound) for bound in values.aminmax()) if count else (0.0, 0.0)
    else:
        sparse = sp.issparse(array)
        values = array.data if sparse else array
        count = values.size
        low, high = _dense_range(values, chunk_bytes) if count else (0.0, 0.0)
    if sparse and count < array.shape[0] * array.shape[1]:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def _dense_range(array: npt.NDArray[Any], chunk_bytes: int) -> tuple[float, float]:
    # NumPy compares half-precision numbers slowly
    dtype = np.float32 if array.dtype == np.float16 else array.dtype
    step = max(1, chunk_bytes // max(1, array[:1].nbytes))
    lows, highs = [], []
    for start in range(0, array.shape[0], step):
        chunk = array[start : start + step].astype(dtype, copy=False)
        # min and max propagate NaN, so that one pass checks for finite values as well
        lows.append(chunk.min())
        highs.append(chunk.max())
    return float(np.min(lows)), float(np.max(highs))


def first_nonfinite(array: Any) -> tuple[tuple[int, ...], float]:
    """Return row and column of the first entry that is not finite, and the entry.

    The array is one of NumPy, SciPy or torch that has such an entry.
    """
    if place_of(array) == "torch":
        return _first_nonfinite_of_tensor(array)
    if sp.issparse(array):
        at = int(np.flatnonzero(~np.isfinite(array.data))[0])
        row = int(np.searchsorted(array.indptr, at, side="right")) - 1
        return (row, int(array.indices[at])), float(array.data[at])
    row = next(n for n in range(array.shape[0]) if not np.isfinite(array[n]).all())
    column = int(np.flatnonzero(~np.isfinite(array[row]))[0])
    return (row, column), float(array[row, column])


def _first_nonfinite_of_tensor(tensor: Any) -> tuple[tuple[int, int], float]:
    import torch

    if not is_dense_tensor(tensor):
        at = int((~tensor.values().isfinite()).nonzero()[0])
        row = int(torch.searchsorted(tensor.crow_indices(), at, right=True)) - 1
        return (row, int(tensor.col_indices()[at])), float(tensor.values()[at])
    # by the extremes of each row: a mask of all entries may be too large for the device
    low, high = tensor.aminmax(dim=1)
    row = int((~(low.isfinite() & high.isfinite())).nonzero()[0])
    column = int((~tensor[row].isfinite()).nonzero()[0])
    return (row, column), float(tensor[row, column])


# Rows of samples without a view


def absent_view(like: Any, n_features: int, dtype: np.dtype[Any]) -> Any:
    """Return a view that no sample has, as the rows of another view of these samples."""
    shape = (int(like.shape[0]), n_features)
    place = place_of(like)
    if place == "torch":
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype.name), device=like.device)
    if place == "dask":
        import dask.array as da

        return da.zeros(shape, chunks=(like.chunks[0], (n_features,)), dtype=dtype)
    return sp.csr_array(shape, dtype=dtype)


def is_within(bounds: tuple[float, float], size: float) -> bool:
    """Return whether numbers between two bounds are no larger than `size`; False for NaN."""
    return -size <= bounds[0] and bounds[1] <= size


def blank_rows(array: Any, here: npt.NDArray[np.bool_], size: float) -> Any:
    """Return an array with zeros in the rows that are not `here`.

    The array itself is returned if these rows hold no entries larger than `size`. Chunks of a Dask
    array are always blanked, each when it is computed.
    """
    place = place_of(array)
    if place == "dask":
        import dask.array as da

        mask = da.from_array(here[:, None], chunks=(array.chunks[0], (1,)))
        return da.map_blocks(_blanked, array, mask, dtype=array.dtype, meta=array._meta)
    if place == "torch":
        return _blanked_tensor(array, here, size)
    parts: Iterable[Any]
    if sp.issparse(array):
        parts = [array.data[np.repeat(~here, np.diff(array.indptr))]]
    else:
        # a few rows at a time: a view on disk may be larger than memory
        missing = np.flatnonzero(~here)
        parts = (array[rows] for rows in np.array_split(missing, missing.size // 512 + 1))
    harmless = all(is_within(value_range(part), size) for part in parts)
    return array if harmless else _blanked(array, here[:, None])


def _blanked(array: Any, here: npt.NDArray[np.bool_]) -> Any:
    zero = array.dtype.type(0)
    if not sp.issparse(array):
        return np.where(here, array, zero)
    rows = sp.csr_array(array)
    kept = np.repeat(here[:, 0], np.diff(rows.indptr))
    parts = (np.where(kept, rows.data, zero), rows.indices, rows.indptr)
    return sp.csr_array(parts, shape=rows.shape)


def _blanked_tensor(tensor: Any, here: npt.NDArray[np.bool_], size: float) -> Any:
    import torch

    missing = torch.from_numpy(~here).to(tensor.device)
    if is_dense_tensor(tensor):
        if is_within(value_range(tensor[missing]), size):
            return tensor
        return torch.where(missing[:, None], tensor.new_zeros(()), tensor)
    pointers, columns, values = tensor.crow_indices(), tensor.col_indices(), tensor.values()
    missing = torch.repeat_interleave(missing, pointers.diff())
    if is_within(value_range(values[missing]), size):
        return tensor
    values = torch.where(missing, values.new_zeros(()), values)
    return torch.sparse_csr_tensor(
        pointers, columns, values, size=tensor.shape, check_invariants=False
    )


# torch tensors


def is_dense_tensor(tensor: Any) -> bool:
    """Return whether a tensor is dense."""
    return str(tensor.layout) == "torch.strided"


def as_tensor_view(name: str, tensor: Any) -> Any:
    """Return a tensor detached from autograd, dense or in CSR layout."""
    if tensor.device.type == "meta":
        raise ValueError(f"view {name!r} is a tensor on the meta device, which holds no numbers")
    if dtype_of(tensor).kind == "O":
        raise ValueError(
            f"view {name!r} holds {tensor.dtype}; expected real numbers of a type that torch "
            "computes with, such as torch.float32"
        )
    tensor = tensor.detach()
    if is_dense_tensor(tensor) or tensor.ndim != 2:
        return tensor
    layout = str(tensor.layout).removeprefix("torch.")
    if layout not in ("sparse_csr", "sparse_csc", "sparse_coo"):
        raise TypeError(
            f"view {name!r} is a tensor of layout {layout}; expected a dense tensor or a sparse "
            "one in CSR, CSC or COO layout"
        )
    import torch

    try:
        # torch follows indices unchecked: one out of range would read other memory
        with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants(True):
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            parts: tuple[Any, ...]
            if layout == "sparse_csr":
                parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
                return torch.sparse_csr_tensor(*parts, size=tensor.shape)
            if layout == "sparse_csc":
                parts = (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
                tensor = torch.sparse_csc_tensor(*parts, size=tensor.shape)
            else:
                parts = (tensor._indices(), tensor._values())
                tensor = torch.sparse_coo_tensor(*parts, size=tensor.shape).coalesce()
            return tensor.to_sparse_csr()
    except RuntimeError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"view {name!r} is a broken sparse tensor: {first}") from error


def tensor_rows(tensor: Any, index: Any) -> Any:
    """Return some rows of a tensor, dense or in CSR layout."""
    if isinstance(index, slice) and (index.step or 1) < 0:  # which torch does not have
        index = np.arange(tensor.shape[0])[index].copy()
    if is_dense_tensor(tensor):
        return tensor[index]
    import torch

    chosen = torch.arange(tensor.shape[0])[index].to(tensor.device)
    pointers = tensor.crow_indices()
    counts = pointers.diff()[chosen]
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    # position of every entry: the first of its row plus an offset
    offsets = torch.arange(int(ends[-1]), device=tensor.device)
    entries = offsets + torch.repeat_interleave(pointers[chosen] - ends[:-1], counts)
    parts = (ends.to(pointers.dtype), tensor.col_indices()[entries], tensor.values()[entries])
    return torch.sparse_csr_tensor(*parts, size=(len(chosen), tensor.shape[1]))


# Dask arrays


def check_collection(name: str, array: Any) -> None:
    """Raise unless the chunks of a Dask array have NumPy types and known sizes."""
    if not isinstance(array.dtype, np.dtype):
        raise TypeError(
            f"view {name!r} is a Dask array whose chunks hold {array.dtype}; expected chunks of "
            "NumPy or SciPy CSR arrays"
        )
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"view {name!r} is a Dask array with unknown chunk sizes, as after filtering or from "
            "a DataFrame; call its compute_chunk_sizes() first"
        )
