"""Views that are torch tensors: what is asked of them, and how their entries are looked at.

Nothing imports torch before a tensor is at hand: a tensor can only come from a caller who did.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "as_tensor_view",
    "blanked_tensor",
    "is_dense_tensor",
    "tensor_dtype",
    "tensor_not_finite",
    "tensor_range",
    "tensor_rows",
]

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
