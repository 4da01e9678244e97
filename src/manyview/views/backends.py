"""Views held by torch or Dask.

Where the rows of a view are: in this process, on the device of a tensor, in a Dask collection.

Nothing heavy is imported: an array of torch or Dask can only come from a caller who did.

Views that are torch tensors: what is asked of them, and how their entries are looked at.

Nothing imports torch before a tensor is at hand: a tensor can only come from a caller who did.

Views that are Dask arrays: chunks of NumPy or SciPy CSR arrays, wherever they are.

Nothing of Dask is imported before it is needed: such a view can only come from a caller who did.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = [
    "Place",
    "as_tensor_view",
    "blanked_collection",
    "blanked_tensor",
    "check_collection",
    "dtype_of",
    "is_dense_tensor",
    "place_of",
    "tensor_dtype",
    "tensor_not_finite",
    "tensor_range",
    "tensor_rows",
    "value_range",
]


Place: TypeAlias = Literal["numpy", "torch", "dask"]


def place_of(array: Any) -> Place:
    """Return where an array is, by the package that its type comes from."""
    roots = {base.__module__.partition(".")[0] for base in type(array).__mro__}
    if "torch" in roots and hasattr(array, "layout"):
        return "torch"
    if "dask" in roots and hasattr(array, "chunks"):
        return "dask"
    return "numpy"


def dtype_of(array: Any) -> np.dtype[Any]:
    """Return the type of an array's entries as NumPy names it."""
    if place_of(array) == "torch":
        return tensor_dtype(array)
    dtype: np.dtype[Any] = np.dtype(array.dtype)
    return dtype


def value_range(array: Any) -> tuple[float, float]:
    """Return the least and the largest entry, both NaN where one is; zeros of sparse ones count."""
    place = place_of(array)
    if place == "torch":
        return tensor_range(array)
    if place == "dask":
        return _collection_range(array)
    return _range(array)


def _range(array: Any) -> tuple[float, float]:
    if sp.issparse(array):
        low, high = _range(array.data)
        if array.nnz < array.shape[0] * array.shape[1]:
            low, high = min(low, 0.0), max(high, 0.0)
        return low, high
    if array.size == 0:
        return 0.0, 0.0
    if array.dtype == np.float16:
        return _half_range(array)
    # min and max propagate NaN, so that one pass tells finiteness and constancy
    return float(array.min()), float(array.max())


def _half_range(array: npt.NDArray[np.float16]) -> tuple[float, float]:
    """Return the least and the largest entry by their bits, which NumPy compares faster.

    As numbers with a sign, bits of positive entries are in order and above those of negative
    ones; as numbers without, bits of negative entries are in reverse order and above the others.
    """
    signed, unsigned = array.view(np.int16), array.view(np.uint16)
    any_negative, any_positive = signed.min() < 0, signed.max() >= 0
    low = (unsigned.max() if any_negative else unsigned.min()).view(np.float16)
    high = (signed.max() if any_positive else unsigned.min()).view(np.float16)
    if np.isnan(low) or np.isnan(high):
        return np.nan, np.nan
    return float(low), float(high)


def _collection_range(array: Any) -> tuple[float, float]:
    import dask

    ranges = dask.compute(*(dask.delayed(_range)(part) for part in array.to_delayed().ravel()))
    lows, highs = zip(*ranges, strict=True)
    return float(np.min(lows)), float(np.max(highs))


_TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def tensor_dtype(tensor: Any) -> np.dtype[Any]:
    """Return the type of a tensor's entries as NumPy names it; of objects if it has no name.

    NumPy does not know bfloat16, whose range is that of float32.
    """
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return np.dtype(np.float32)
    return np.dtype(name if name in _TYPES else object)


def is_dense_tensor(tensor: Any) -> bool:
    """Return whether a tensor holds all of its entries."""
    return str(tensor.layout) == "torch.strided"


def as_tensor_view(name: str, tensor: Any) -> Any:
    """Return a tensor outside of any graph, dense or in CSR layout.

    Raises
    ------
    TypeError, ValueError
        If it holds no numbers, or numbers in a type or layout that cannot be worked on.
    """
    if tensor.device.type == "meta":
        raise ValueError(f"view {name!r} is a tensor on the meta device: it holds no numbers")
    if tensor_dtype(tensor).kind == "O":
        raise ValueError(
            f"view {name!r} holds {tensor.dtype}; expected real numbers of a type that torch "
            "computes with, such as torch.float32"
        )
    tensor = tensor.detach()
    layout = str(tensor.layout).removeprefix("torch.")
    if layout == "strided" or tensor.ndim != 2:
        return tensor
    if layout not in ("sparse_csr", "sparse_csc", "sparse_coo"):
        raise TypeError(
            f"view {name!r} is a tensor of layout {layout}; expected a dense tensor or a sparse "
            "one in CSR, CSC or COO layout"
        )
    return _csr(name, tensor, layout)


def _csr(name: str, tensor: Any, layout: str) -> Any:
    import torch

    try:
        # an index out of range would be read as memory
        with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants(True):
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            if layout == "sparse_csr":
                parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
                return torch.sparse_csr_tensor(*parts, size=tensor.shape)
            if layout == "sparse_csc":
                parts = (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
                tensor = torch.sparse_csc_tensor(*parts, size=tensor.shape)
            else:
                places, values = tensor._indices(), tensor._values()
                tensor = torch.sparse_coo_tensor(places, values, size=tensor.shape).coalesce()
            return tensor.to_sparse_csr()
    except RuntimeError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"view {name!r} is a broken sparse tensor: {first}") from error


def tensor_range(tensor: Any) -> tuple[float, float]:
    """Return the least and the largest entry, both NaN where one is; zeros of sparse ones count."""
    dense = is_dense_tensor(tensor)
    values = tensor.detach() if dense else tensor.detach().values()
    if values.numel() == 0:
        return 0.0, 0.0
    low, high = (float(bound) for bound in values.aminmax())
    if not dense and values.numel() < tensor.shape[0] * tensor.shape[1]:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def tensor_not_finite(tensor: Any) -> tuple[tuple[int, int], float]:
    """Return the place of the first entry that is not finite, and the entry; there is one."""
    import torch

    if not is_dense_tensor(tensor):
        at = int((~tensor.values().isfinite()).nonzero()[0])
        row = int(torch.searchsorted(tensor.crow_indices(), at, right=True)) - 1
        return (row, int(tensor.col_indices()[at])), float(tensor.values()[at])
    # by the bounds of each row, as a mask of all entries may be too large for the device
    low, high = tensor.aminmax(dim=1)
    row = int((~(low.isfinite() & high.isfinite())).nonzero()[0])
    column = int((~tensor[row].isfinite()).nonzero()[0])
    return (row, column), float(tensor[row, column])


def tensor_rows(tensor: Any, index: Any) -> Any:
    """Return some rows of a tensor, dense or in CSR layout."""
    if is_dense_tensor(tensor):
        return tensor[index]
    import torch

    chosen = torch.arange(tensor.shape[0])[index].to(tensor.device)
    pointers = tensor.crow_indices()
    counts = pointers.diff()[chosen]
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    # the place of every entry: that of its row's first, and how far it is behind it
    behind = torch.arange(int(ends[-1]), device=tensor.device)
    places = behind + torch.repeat_interleave(pointers[chosen] - ends[:-1], counts)
    parts = (ends.to(pointers.dtype), tensor.col_indices()[places], tensor.values()[places])
    return torch.sparse_csr_tensor(*parts, size=(len(chosen), tensor.shape[1]))


def blanked_tensor(
    tensor: Any, here: npt.NDArray[np.bool_], is_harmless: Callable[[Any], bool]
) -> Any:
    """Return the tensor, a copy with zeros if what rows that are not here hold does harm."""
    import torch

    lacking = torch.from_numpy(~here).to(tensor.device)
    if is_dense_tensor(tensor):
        if is_harmless(tensor[lacking]):
            return tensor
        return torch.where(lacking[:, None], tensor.new_zeros(()), tensor)
    pointers, columns, values = tensor.crow_indices(), tensor.col_indices(), tensor.values()
    lacking = torch.repeat_interleave(lacking, pointers.diff())
    if is_harmless(values[lacking]):
        return tensor
    values = torch.where(lacking, values.new_zeros(()), values)
    return torch.sparse_csr_tensor(
        pointers, columns, values, size=tensor.shape, check_invariants=False
    )


def check_collection(name: str, array: Any) -> None:
    """Raise unless the chunks are of NumPy's types and their sizes are known."""
    if not isinstance(array.dtype, np.dtype):
        raise TypeError(
            f"view {name!r} is a Dask array whose chunks hold {array.dtype}; expected chunks of "
            "NumPy or SciPy CSR arrays"
        )
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"view {name!r} is a Dask array whose chunk sizes are not known, as after filtering "
            "or from a DataFrame; call its compute_chunk_sizes() first"
        )


def blanked_collection(array: Any, here: npt.NDArray[np.bool_]) -> Any:
    """Return the array with zeros in the rows that are not here, made as each chunk is."""
    import dask.array as da

    mask = da.from_array(here[:, None], chunks=(array.chunks[0], (1,)))
    return da.map_blocks(_blanked, array, mask, dtype=array.dtype, meta=array._meta)


def _blanked(chunk: Any, here: npt.NDArray[np.bool_]) -> Any:
    if not sp.issparse(chunk):
        return np.where(here, chunk, np.zeros((), chunk.dtype))
    rows = sp.csr_array(chunk)
    lacking = np.repeat(~here[:, 0], np.diff(rows.indptr))
    data = np.where(lacking, 0, rows.data)
    return sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
