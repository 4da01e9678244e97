"""Views that are Dask arrays: chunks of NumPy or SciPy CSR arrays, wherever they are.

Nothing of Dask is imported before it is needed: such a view can only come from a caller who did.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["blanked_collection", "check_collection"]


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
