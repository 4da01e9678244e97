"""What looks like a view and is none yet, and what to hand over in its place."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse_others"]

# by the package of its type and the type's name, or any name
_INSTEAD = {
    ("dask", "DataFrame"): "a Dask DataFrame; hand over its to_dask_array(lengths=True)",
    ("dask_expr", "DataFrame"): "a Dask DataFrame; hand over its to_dask_array(lengths=True)",
    ("dask", "Delayed"): "a result that is not computed; use dask.array.from_delayed",
    ("polars", "LazyFrame"): "a frame that is not computed; hand over its collect()",
    ("pyarrow", ""): "of pyarrow; hand over its to_pandas()",
    ("anndata", "CSRDataset"): "on disk; hand over its to_memory()",
    ("anndata", "CSCDataset"): "on disk; hand over its to_memory()",
    ("anndata", "_CSRDataset"): "on disk; hand over its to_memory()",
    ("anndata", "_CSCDataset"): "on disk; hand over its to_memory()",
    ("zarr", ""): "of zarr on disk, which would be read whole; hand it over as "
    "dask.array.from_zarr(...), or read it with [:] if it fits into memory",
    ("h5py", ""): "of h5py on disk, which would be read whole; hand it over as "
    "dask.array.from_array(...), or read it with [:] if it fits into memory",
}


def refuse_others(name: str, item: Any) -> None:
    """Raise TypeError for what is known to hold a view, and would not do as it is."""
    kind = type(item)
    root = kind.__module__.partition(".")[0]
    told = _INSTEAD.get((root, kind.__name__)) or _INSTEAD.get((root, ""))
    if told is not None:
        raise TypeError(f"view {name!r} is {told}")
