"""The parts of AnnData and MuData files: matrices and the columns of data frames.

How they are written is fixed and published, and few kinds are needed here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.datasets.hdf5 import attribute, content, is_group, member, text
from manyview.views import Array
from manyview.views.compressed import check_compressed

__all__ = ["column", "index", "matrix"]

_SPARSE = {"csr_matrix": sp.csr_array, "csc_matrix": sp.csc_array}
_LEGACY = {"csr": sp.csr_array, "csc": sp.csc_array}


def matrix(item: Any) -> Array:
    """Return a dense or sparse matrix."""
    if not is_group(item):
        array = content(item)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{item.name!r} holds {array.dtype} of shape {array.shape}; "
                "expected a matrix of numbers"
            )
        return array
    kind = _SPARSE.get(text(attribute(item, "encoding-type")))
    if kind is None:
        kind = _LEGACY.get(text(attribute(item, "h5sparse_format")))
    if kind is None:
        raise ValueError(
            f"{item.name!r} is encoded as {text(attribute(item, 'encoding-type'))!r}; "
            f"expected an array or one of {', '.join(map(repr, _SPARSE))}"
        )
    shape = attribute(item, "shape", attribute(item, "h5sparse_shape"))
    data, indices, indptr = (content(member(item, part)) for part in ("data", "indices", "indptr"))
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or np.shape(shape) != (2,):
        raise ValueError(f"{item.name!r} is no sparse matrix: its indices or shape are no integers")
    parts = (data, indices.astype(np.int64), indptr.astype(np.int64))
    array = kind(parts, shape=(int(shape[0]), int(shape[1])))
    check_compressed(array)
    return array


def index(frame: Any) -> npt.NDArray[np.str_]:
    """Return the index of a data frame, which names its rows."""
    if not is_group(frame):
        raise ValueError(f"{frame.name!r} is no data frame; it may be of a version before 0.7")
    values, missing = column(frame, text(attribute(frame, "_index")) or "_index")
    if missing.any():
        raise ValueError(f"the index of {frame.name!r} has no name for row {missing.argmax()}")
    return np.asarray([str(value) for value in values.tolist()], dtype=np.str_)


def column(frame: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return a column of a data frame, and which of its values are missing."""
    item = member(frame, name)
    if is_group(item):
        if "codes" in item:
            return _categorical(content(member(item, "codes")), member(item, "categories"))
        if "values" in item and "mask" in item:
            values, missing = _plain(member(item, "values"))
            return values, missing | content(member(item, "mask")).astype(bool)
        kind = text(attribute(item, "encoding-type"))
        raise ValueError(f"column {item.name!r} is encoded as {kind!r}, which is not read")
    if "categories" in item.attrs:
        # before version 0.8 of AnnData, the categories of all columns stood together
        return _categorical(content(item), member(member(frame, "__categories"), name))
    return _plain(item)


def _categorical(codes: Any, categories: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    names, _ = _plain(categories)
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or (codes >= len(names)).any():
        raise ValueError(f"{categories.name!r} has {len(names)} categories, codes go beyond them")
    missing = codes < 0
    if not len(names):
        return np.zeros(len(codes)), missing
    return names[np.where(missing, 0, codes)], missing


def _plain(dataset: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    array = content(dataset)
    if array.ndim != 1 or array.dtype.kind not in "OSUfiub":
        raise ValueError(f"{dataset.name!r} holds {array.dtype} of shape {array.shape}")
    if array.dtype.kind in "OS":
        array = np.asarray([_string(value) for value in array.tolist()], dtype=np.str_)
    return array, np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)


def _string(value: Any) -> str:
    if not isinstance(value, bytes | str):
        raise ValueError(f"received {value!r}; expected a string")
    return value.decode("utf-8") if isinstance(value, bytes) else value
