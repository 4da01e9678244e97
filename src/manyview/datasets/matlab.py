"""MATLAB files: versions 4 to 7 by SciPy, version 7.3, which is HDF5, by h5py."""

from __future__ import annotations

import math
import mmap
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets.dataset import Dataset, compressed, extra
from manyview.datasets.hdf5 import attribute, content, is_group, member, opened, text
from manyview.datasets.layouts import is_cell, recognise_layout
from manyview.exceptions import warn_user
from manyview.storage import whole_file
from manyview.views.checks import check_compressed

__all__ = ["check_elements", "read_matlab", "read_variables", "write_matlab"]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_USER_BLOCK = 512  # of text, with which MATLAB begins an HDF5 file


def read_matlab(path: Path) -> Dataset:
    """Read a MATLAB file; see :func:`manyview.datasets.read_views`."""
    with path.open("rb") as file:
        start = file.read(_USER_BLOCK + len(_HDF5))
    is_hdf5 = start.startswith(_HDF5) or start[_USER_BLOCK:] == _HDF5
    return recognise_layout((read_variables if is_hdf5 else _read_version_5)(path), path.stem)


def write_matlab(path: Path, dataset: Dataset, *, compress: bool) -> None:
    """Write a MATLAB file; see :func:`manyview.datasets.write_views`."""
    views = dataset.views
    variables: dict[str, Any] = {
        "X": _cell([_storable(array) for array in views], (1, -1)),
        "view_names": _cell(views.names, (1, -1)),
    }
    if any(names is not None for names in views.feature_names):
        terms = [_cell([] if names is None else names, (-1, 1)) for names in views.feature_names]
        variables["terms"] = _cell(terms, (1, -1))
    if views.present is not None:
        variables["present"] = views.present
    if dataset.y is not None:
        # MATLAB counts from 1
        variables["Y"] = (dataset.y + 1).astype(np.float64)[:, None]
        variables["class_names"] = _cell(dataset.class_names, (-1, 1))
    if dataset.sample_ids is not None:
        variables["sample_ids"] = _cell(dataset.sample_ids, (-1, 1))
    with whole_file(path) as file:
        scipy.io.savemat(file, variables, do_compression=compress)


def _storable(array: Any) -> Any:
    # sparse matrices are double in MATLAB, and there is no half precision
    return array.astype(np.float64) if sp.issparse(array) or array.dtype == np.float16 else array


def _cell(items: Any, shape: tuple[int, int]) -> npt.NDArray[np.object_]:
    cell = np.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        cell[at] = str(item) if isinstance(item, str) else item
    return cell.reshape(shape)


def _read_version_5(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                check_elements(buffer)
            with warnings.catch_warnings():
                # SciPy replaces a damaged variable by a message and warns
                warnings.filterwarnings("error", message="Unreadable variable")
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                # mat_dtype: MATLAB packs whole doubles into bytes; they are still doubles
                variables = scipy.io.loadmat(file, mat_dtype=True)
            for value in variables.values():
                _check_sparse(value)
        except np.exceptions.ComplexWarning as error:
            raise ValueError("a variable holds complex numbers; expected real numbers") from error
        # a damaged file can raise almost any exception
        except Exception as error:
            raise ValueError(f"not a readable MATLAB file ({error!r})") from error
    return {key: value for key, value in variables.items() if not key.startswith("__")}


def _check_sparse(value: Any) -> None:
    if is_cell(value):
        for item in value.ravel():
            _check_sparse(item)
    # version 4 stores coordinates, which SciPy checks itself
    elif sp.issparse(value) and value.format != "coo":
        check_compressed(value)


# Elements of version 5 to 7, and classes of arrays
_HEADER, _FLAGS = 128, 16
_MATRIX, _COMPRESSED, _COMPLEX = 14, 15, 0x0800
_INTEGERS, _NUMBERS, _TEXT = {5, 6}, {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}, {16, 17, 18}
_CELL, _STRUCTS, _CHAR, _SPARSE, _CLASSES = 1, {2, 3, 16, 17, 18}, 4, 5, range(1, 19)


def check_elements(buffer: Any) -> None:
    """Raise ValueError if the elements of a MATLAB 5 file are inconsistent.

    SciPy trusts the types and sizes in such a file, and a damaged one can crash the interpreter.
    Compressed elements have a checksum, which SciPy verifies. The tags of all others are checked
    here, without reading the numbers.

    Examples
    --------
    >>> import io, scipy.io
    >>> file = io.BytesIO()
    >>> scipy.io.savemat(file, {"x": [1.0, 2.0]})
    >>> check_elements(file.getvalue())
    >>> check_elements(file.getvalue()[:-8])
    Traceback (most recent call last):
    ...
    ValueError: the element at byte 128 ends at byte 200 of 192
    """
    # version 4 has no such elements, and its first four bytes contain a zero
    if 0 in buffer[:4]:
        return
    if len(buffer) < _HEADER:
        raise ValueError(f"the file has {len(buffer)} bytes; expected a header of {_HEADER}")
    order = "<" if bytes(buffer[126:128]) == b"IM" else ">"
    _check_elements(buffer, order, _HEADER, len(buffer), {_MATRIX, _COMPRESSED})


def _check_elements(
    buffer: Any, order: str, at: int, end: int, allowed: set[int]
) -> list[tuple[int, int, int]]:
    """Check all elements between two bytes, and return the type, start and end of each."""
    found = []
    while at < end:
        if at + 8 > end:
            raise ValueError(f"{end - at} bytes are left at byte {at}; expected an element")
        word, size = struct.unpack_from(order + "II", buffer, at)
        # a small element has its size in the upper half of the first word, and four bytes of room
        kind, small = word & 0xFFFF, word >> 16
        start = at + 4 if small else at + 8
        stop = start + (small or size)
        if stop > (at + 8 if small else end):
            raise ValueError(f"the element at byte {at} ends at byte {stop} of {end}")
        if kind not in allowed:
            raise ValueError(f"the element at byte {at} is of type {kind}; expected {allowed}")
        # an element without content is an empty array
        if kind == _MATRIX and start < stop:
            _check_array(buffer, order, start, stop)
        found.append((kind, start, stop))
        is_padded = kind not in (_MATRIX, _COMPRESSED)
        at = start + -(-(stop - start) // 8) * 8 if is_padded and not small else max(stop, at + 8)
    return found


def _check_array(buffer: Any, order: str, start: int, end: int) -> None:
    if end - start < _FLAGS:
        raise ValueError(f"the array at byte {start} has no flags")
    (flags,) = struct.unpack_from(order + "I", buffer, start + 8)
    array_class = flags & 0xFF
    if array_class not in _CLASSES:
        raise ValueError(f"the array at byte {start} has the unknown class {array_class}")
    every_type = _NUMBERS | _TEXT | {_MATRIX}
    elements = _check_elements(buffer, order, start + _FLAGS, end, every_type)
    if array_class in _STRUCTS:  # whose parts vary, as those of functions and objects do
        return
    if len(elements) < 2 or elements[0][0] not in _INTEGERS:
        raise ValueError(f"the array at byte {start} has no dimensions or no name")
    (_, at, stop), _, *parts = elements
    shape = struct.unpack_from(f"{order}{(stop - at) // 4}i", buffer, at)
    if (stop - at) % 4 or len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"the array at byte {start} has dimensions {shape}")
    is_complex = bool(flags & _COMPLEX)
    n_parts, types = {
        _CELL: (math.prod(shape), {_MATRIX}),
        _CHAR: (1, _NUMBERS | _TEXT),
        _SPARSE: (3 + is_complex, _NUMBERS),
    }.get(array_class, (1 + is_complex, _NUMBERS))
    if len(parts) != n_parts or not types.issuperset(kind for kind, *_ in parts):
        raise ValueError(
            f"the array at byte {start} has {len(parts)} parts; expected {n_parts} of {types}"
        )


# Version 7.3. MATLAB stores columns first, so that HDF5 shows every array transposed. A sparse
# matrix is a group of `data`, `ir` and `jc`; a cell array holds references to its items; characters
# are numbers of 16 bits. The attribute `MATLAB_class` tells them apart. Files of other programs
# often do not have it, and their arrays of numbers are read in the same way.
_NUMBER_CLASSES = {"double": "f8", "single": "f4", "logical": "?"} | {
    f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True)
class _Unread:
    """A struct, function or object, of which only the class is kept, for messages."""

    dtype: str
    size: int = 0


_BEING_READ = _Unread("being read")


def read_variables(path: Path) -> dict[str, Any]:
    """Read the variables of a MATLAB file of version 7.3, in the form of scipy.io.loadmat."""
    with opened(path, "MATLAB file of version 7.3") as file:
        read: dict[int, Any] = {}
        items = {name: member(file, name) for name in file if not name.startswith("#")}
        return {name: _value(item, read) for name, item in items.items()}


def _value(item: Any, read: dict[int, Any]) -> Any:
    """Return the value of an item. Each is read once, as cell arrays may share items."""
    key = extra("h5py", "reading HDF5").h5o.get_info(item.id).addr
    if key not in read:
        read[key] = _BEING_READ
        read[key] = _read_item(item, read)
    elif read[key] is _BEING_READ:
        raise ValueError(f"cell array {item.name!r} contains itself")
    return read[key]


def _read_item(item: Any, read: dict[int, Any]) -> Any:
    kind = text(attribute(item, "MATLAB_class")) or _class_of(item)
    if "MATLAB_sparse" in item.attrs:
        return _sparse(item, kind)
    if is_group(item) or kind not in (*_NUMBER_CLASSES, "char", "cell"):
        if not kind:
            warn_user(f"{item.name[1:]!r} is ignored: it is not an array of numbers")
        return _Unread(kind or "no MATLAB class")
    array = content(item)
    if array.ndim == 1:  # MATLAB has no vectors
        array = array[None]
    if attribute(item, "MATLAB_empty", 0):
        # the content of an empty array is its shape
        array = np.empty(tuple(int(side) for side in array.ravel())[::-1], dtype=array.dtype)
        if array.size:
            raise ValueError(f"{item.name!r} is marked as empty but has shape {array.T.shape}")
    if kind == "char":
        return _characters(array.T, item.name)
    if kind != "cell":
        return _numbers(array.T, kind, item.name)
    cell = np.empty(array.T.shape, dtype=object)
    for at, reference in np.ndenumerate(array.T):
        cell[at] = _value(item.file[reference], read)
    return cell


def _class_of(item: Any) -> str:
    """Return the class of an array of numbers without the attribute, "" for other items."""
    if is_group(item) or item.dtype.kind not in "fiub":
        return ""
    if item.dtype.kind == "f":
        return "double" if item.dtype.itemsize > 4 else "single"
    return "logical" if item.dtype.kind == "b" else str(item.dtype.newbyteorder("="))


def _numbers(array: npt.NDArray[Any], kind: str, name: str) -> npt.NDArray[Any]:
    if array.dtype.names == ("real", "imag"):
        return np.asarray(array["real"] + 1j * array["imag"])
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name!r} is of class {kind} and holds {array.dtype}; expected numbers")
    return array.astype(_NUMBER_CLASSES[kind], copy=False)


def _characters(array: npt.NDArray[Any], name: str) -> Strings:
    if array.dtype.kind not in "iu" or array.ndim != 2:
        raise ValueError(f"{name!r} holds {array.dtype} of shape {array.shape}; expected text")
    # SciPy also returns an empty string as an array without elements
    rows = [row.tobytes().decode("utf-16-le") for row in array.astype("<u2", order="C") if row.size]
    return np.asarray(rows, dtype=np.str_)


def _sparse(group: Any, kind: str) -> Any:
    n_rows = int(attribute(group, "MATLAB_sparse"))
    pointers = content(member(group, "jc"))
    # MATLAB leaves out the other two if there are no entries
    data = content(member(group, "data")) if "data" in group else np.empty(0)
    rows = content(member(group, "ir")) if "ir" in group else np.empty(0, dtype=np.int64)
    data = _numbers(data, kind if kind in _NUMBER_CLASSES else "double", group.name)
    shape = (n_rows, pointers.size - 1)
    return compressed(sp.csc_array, repr(group.name), data, rows, pointers, shape)
