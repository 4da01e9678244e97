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
    "tensor_dtype",
    "tensor_has_equal_rows",
    "tensor_not_finite",
    "tensor_range",
    "tensor_rows",
]

_BYTES_LOOKED_AT = 1 << 24  # at a time
_TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def tensor_dtype(tensor: Any) -> np.dtype[Any]:
    """Return the type of a tensor's entries as NumPy names it; of objects if it has no name.

    NumPy does not know bfloat16, whose range is that of float32.
    """
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return np.dtype(np.float32)
    return np.dtype(name if name in _TYPES else object)


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
    dense = str(tensor.layout) == "torch.strided"
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

    if str(tensor.layout) != "torch.strided":
        at = int((~tensor.values().isfinite()).nonzero()[0])
        row = int(torch.searchsorted(tensor.crow_indices(), at, right=True)) - 1
        return (row, int(tensor.col_indices()[at])), float(tensor.values()[at])
    step = _rows_looked_at(tensor)
    for begin in range(0, tensor.shape[0], step):
        bad = (~tensor[begin : begin + step].isfinite()).nonzero()
        if len(bad) > 0:
            row, column = begin + int(bad[0, 0]), int(bad[0, 1])
            return (row, column), float(tensor[row, column])
    raise AssertionError("no such entry")


def tensor_has_equal_rows(tensor: Any, here: npt.NDArray[np.bool_] | None) -> bool:
    """Return whether every row of a dense tensor that is here is the same; False of sparse ones."""
    import torch

    if str(tensor.layout) != "torch.strided":
        return False  # taken, not known
    there = None if here is None else torch.from_numpy(np.flatnonzero(here)).to(tensor.device)
    count = int(tensor.shape[0]) if there is None else int(there.numel())

    def rows(begin: int, end: int) -> Any:
        return tensor[begin:end] if there is None else tensor[there[begin:end]]

    if count < 2:
        return True
    # rows differ early or, if at all, late
    step, first = _rows_looked_at(tensor), rows(0, 1)
    parts = ((0, 2), *((begin, begin + step) for begin in range(0, count, step)))
    return all(bool((rows(*bounds) == first).all()) for bounds in parts)


def _rows_looked_at(tensor: Any) -> int:
    return max(1, int(_BYTES_LOOKED_AT // max(1, tensor.shape[1] * tensor.element_size())))


def tensor_rows(tensor: Any, index: Any) -> Any:
    """Return some rows of a tensor, dense or in CSR layout."""
    if str(tensor.layout) == "torch.strided":
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
    if str(tensor.layout) == "torch.strided":
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
