"""MATLAB files of version 7.3, which are HDF5 files, as SciPy loads older ones.

MATLAB writes columns first, so that every array comes transposed. A sparse matrix is a group of
``data``, ``ir`` and ``jc``; a cell array holds references to its items in the group ``#refs#``;
characters are numbers of 16 bits. The attribute ``MATLAB_class`` tells them apart; other programs
leave it out, and their arrays of numbers are taken to be transposed as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.datasets.extras import extra
from manyview.datasets.hdf5 import attribute, content, is_group, member, opened, text
from manyview.views.compressed import check_compressed
from manyview.warn import warn_user

__all__ = ["read_variables"]

_NUMBERS: dict[str, Any] = {
    "double": np.float64,
    "single": np.float32,
    "logical": np.bool_,
    **{
        f"{sign}int{bits}": np.dtype(f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}


def read_variables(path: Path) -> dict[str, Any]:
    """Read the variables of a MATLAB file of version 7.3.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to object
        Matrices as arrays, sparse ones as CSC, cell arrays as arrays of objects and characters as
        arrays of strings. A variable of any other class is only named.
    """
    with opened(path, "MATLAB file of version 7.3") as file:
        variables = {name: member(file, name) for name in file if not name.startswith("#")}
        values = _Values(file)
        return {name: values.of(item) for name, item in variables.items()}


class _Values:
    """The values of the objects of a file, each read once: cell arrays may share items."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._read: dict[int, Any] = {}

    def of(self, item: Any) -> Any:
        key = extra("h5py", "reading HDF5").h5o.get_info(item.id).addr
        if key not in self._read:
            self._read[key] = _UNFINISHED
            self._read[key] = self._value(item)
        elif self._read[key] is _UNFINISHED:
            raise ValueError(f"cell array {item.name!r} holds itself")
        return self._read[key]

    def _value(self, item: Any) -> Any:
        kind = text(attribute(item, "MATLAB_class")) or _class_of(item)
        if "MATLAB_sparse" in item.attrs:
            return _sparse(item, kind)
        if is_group(item) or kind not in (*_NUMBERS, "char", "cell"):
            if not kind:
                warn_user(f"{item.name[1:]!r} is left out: it is no array of numbers")
            return _Other(kind or "of no MATLAB class")
        array = content(item)
        if array.ndim == 1:  # MATLAB has none
            array = array[None]
        if attribute(item, "MATLAB_empty", 0):
            # in place of its content, an empty array has its dimensions
            array = np.empty(tuple(int(side) for side in array.ravel())[::-1], dtype=array.dtype)
            if array.size:
                raise ValueError(f"{item.name!r} is marked as empty and has shape {array.T.shape}")
        if kind == "char":
            return _strings(array.T)
        if kind == "cell":
            return self._cell(array.T)
        return _numbers(array.T, kind, item.name)

    def _cell(self, references: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        cell = np.empty(references.shape, dtype=object)
        for at, reference in np.ndenumerate(references):
            cell[at] = self.of(self._file[reference])
        return cell


def _class_of(item: Any) -> str:
    """Return the class of an array of numbers that says none, else an empty string."""
    if is_group(item) or item.dtype.kind not in "fiub":
        return ""
    if item.dtype.kind == "f":
        return "double" if item.dtype.itemsize > 4 else "single"
    return "logical" if item.dtype.kind == "b" else str(item.dtype.newbyteorder("="))


@dataclass(frozen=True)
class _Other:
    """A struct, a function or an object: views are not looked for there, messages name it."""

    dtype: str
    size: int = 0


_UNFINISHED = _Other("value that is being read")


def _numbers(array: npt.NDArray[Any], kind: str, name: str) -> npt.NDArray[Any]:
    if array.dtype.names == ("real", "imag"):
        return np.asarray(array["real"] + 1j * array["imag"])
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name!r} is of class {kind} and holds {array.dtype}; expected numbers")
    return array.astype(_NUMBERS[kind], copy=False)


def _strings(array: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    if array.dtype.kind not in "iu" or array.ndim != 2:
        raise ValueError(f"characters are {array.dtype} of shape {array.shape}")
    rows = array.astype("<u2").reshape(array.shape)
    # as from SciPy, no characters are no string; a cell array makes "" of it
    return np.asarray(
        [row.tobytes().decode("utf-16-le") for row in rows if row.size], dtype=np.str_
    )


def _sparse(group: Any, kind: str) -> Any:
    n_rows = int(attribute(group, "MATLAB_sparse"))
    pointers = content(member(group, "jc"))
    # without entries, MATLAB leaves out both of the others
    data = content(member(group, "data")) if "data" in group else np.empty(0)
    rows = content(member(group, "ir")) if "ir" in group else np.empty(0, dtype=np.int64)
    data = _numbers(data, kind if kind in _NUMBERS else "double", group.name)
    if pointers.ndim != 1 or not pointers.size or pointers.dtype.kind not in "iu":
        raise ValueError(f"{group.name!r}: 'jc' is no list of whole numbers")
    if rows.shape != data.shape or rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"{group.name!r}: 'ir' has shape {rows.shape}, 'data' {data.shape}")
    parts = (data, rows.astype(np.int64), pointers.astype(np.int64))
    array = sp.csc_array(parts, shape=(n_rows, len(pointers) - 1))
    check_compressed(array)
    return array
