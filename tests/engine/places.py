"""Views brought to where an engine works on them, and results brought back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyview.engine.arrays import to_numpy

__all__ = ["PLACES", "fetched"]


def _local(X: Any) -> Any:
    return X


def _torch(X: Any) -> Any:
    import torch

    if sp.issparse(X):
        csr = sp.csr_array(X)
        parts = (torch.from_numpy(part) for part in (csr.indptr, csr.indices, csr.data))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
            return torch.sparse_csr_tensor(*parts, size=csr.shape, check_invariants=True)
    return torch.from_numpy(X)


def _cuda(X: Any) -> Any:
    return _torch(X).to("cuda")


def _dask(X: Any) -> Any:
    import dask.array as da

    if sp.issparse(X):
        rows = (37, X.shape[1])
        return da.from_array(sp.csr_array(X), chunks=rows, asarray=False)
    return da.from_array(X, chunks=(37, X.shape[1]))


def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


PLACES: dict[str, Callable[[Any], Any]] = {"local": _local, "torch": _torch, "dask": _dask}
if _has_gpu():
    PLACES["cuda"] = _cuda


def fetched(array: Any) -> np.ndarray:
    """Return an array from anywhere as one of NumPy."""
    return np.asarray(array.compute()) if hasattr(array, "compute") else to_numpy(array)
