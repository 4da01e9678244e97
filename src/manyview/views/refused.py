"""What looks like a view and is none yet, and what to hand over in its place."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse_others"]

_DASK_FRAME = "a Dask DataFrame; hand over its to_dask_array(lengths=True)"
_BACKED = "on disk; hand over its to_memory()"
_STORED = (
    "of {} on disk, which would be read whole; hand it over as dask.array.{}(...), or read it "
    "with [:] if it fits into memory"
)

# by the package of its type and the type's name, or any name
_INSTEAD = {
    ("dask", "DataFrame"): _DASK_FRAME,
    ("dask_expr", "DataFrame"): _DASK_FRAME,
    ("dask", "Delayed"): "a result that is not computed; use dask.array.from_delayed",
    ("polars", "LazyFrame"): "a frame that is not computed; hand over its collect()",
    ("pyarrow", ""): "of pyarrow; hand over its to_pandas()",
    ("anndata", "CSRDataset"): _BACKED,
    ("anndata", "CSCDataset"): _BACKED,
    ("zarr", ""): _STORED.format("zarr", "from_zarr"),
    ("h5py", ""): _STORED.format("h5py", "from_array"),
}


def refuse_others(name: str, item: Any) -> None:
    """Raise TypeError for what is known to hold a view, and would not do as it is."""
    kind = type(item)
    root = kind.__module__.partition(".")[0]
    told = _INSTEAD.get((root, kind.__name__.lstrip("_"))) or _INSTEAD.get((root, ""))
    if told is not None:
        raise TypeError(f"view {name!r} is {told}")
