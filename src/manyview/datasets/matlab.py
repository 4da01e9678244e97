"""Reader and writer of MATLAB files, versions 5 and 7.3.

Whether the elements of a MATLAB 5 file hang together.

SciPy trusts the types and sizes that such a file states, and a damaged one can crash the
interpreter. Compressed elements carry a checksum, which SciPy's decompression verifies; the
others are walked through here, tag by tag, without reading the numbers.

MATLAB files of version 7.3, which are HDF5 files, as SciPy loads older ones.

MATLAB writes columns first, so that every array comes transposed. A sparse matrix is a group of
``data``, ``ir`` and ``jc``; a cell array holds references to its items in the group ``#refs#``;
characters are numbers of 16 bits. The attribute ``MATLAB_class`` tells them apart; other programs
leave it out, and their arrays of numbers are taken to be transposed as well.
"""

from __future__ import annotations

import math
import mmap
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io
import scipy.sparse as sp

from manyview.datasets.dataset import Dataset, extra
from manyview.datasets.hdf5 import attribute, content, is_group, member, opened, text
from manyview.datasets.layouts import find_dataset
from manyview.exceptions import warn_user
from manyview.storage import whole_file
from manyview.views.checks import check_compressed

__all__ = [
    "check_elements",
    "read_matlab",
    "read_variables",
    "write_matlab",
]


_HEADER = 128
_FLAGS = 16
_INT32 = {5, 6}
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
_TEXT = {16, 17, 18}
_CELL, _CHAR, _SPARSE, _NUMERIC, _CLASSES = 1, 4, 5, range(6, 16), range(1, 19)
_COMPLEX = 0x08


@dataclass(frozen=True)
class _Element:
    kind: int
    start: int
    end: int


def check_elements(buffer: Any) -> None:
    """Raise ValueError where an element of a MATLAB 5 file is not what its place asks for.

    Parameters
    ----------
    buffer : bytes-like
        The whole file.

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
    # version 4 has no such elements, and its first four bytes hold a zero
    if 0 in buffer[:4]:
        return
    if len(buffer) < _HEADER:
        raise ValueError(f"the file has {len(buffer)} bytes; expected a header of {_HEADER}")
    order = "<" if bytes(buffer[126:128]) == b"IM" else ">"
    for element in _elements(buffer, order, _HEADER, len(buffer)):
        if element.kind == _MATRIX:
            _check_matrix(buffer, order, element)
        elif element.kind != _COMPRESSED:
            raise _unexpected(element, "an array")


def _check_matrix(buffer: Any, order: str, matrix: _Element) -> None:
    # an element without content is an empty array
    if matrix.start == matrix.end:
        return
    if matrix.end - matrix.start < _FLAGS:
        raise _unexpected(matrix, "an array with flags")
    flags = struct.unpack_from(order + "I", buffer, matrix.start + 8)[0]
    array_class, is_complex = flags & 0xFF, bool(flags >> 8 & _COMPLEX)
    if array_class not in _CLASSES:
        raise ValueError(f"the array at byte {matrix.start} is of unknown class {array_class}")
    inside = list(_elements(buffer, order, matrix.start + _FLAGS, matrix.end))
    if array_class in (_CELL, _CHAR, _SPARSE) or array_class in _NUMERIC:
        _check_content(buffer, order, matrix, inside, array_class, is_complex)
    for element in inside:
        if element.kind == _MATRIX:
            _check_matrix(buffer, order, element)
        elif element.kind not in _NUMBERS | _TEXT:
            raise _unexpected(element, "numbers, text or an array")


def _check_content(
    buffer: Any,
    order: str,
    matrix: _Element,
    inside: list[_Element],
    array_class: int,
    is_complex: bool,
) -> None:
    """Check that an array holds its dimensions, its name and as many parts as its class asks."""
    if len(inside) < 2 or inside[0].kind not in _INT32:
        raise ValueError(f"the array at byte {matrix.start} has no dimensions or no name")
    size = inside[0].end - inside[0].start
    shape = struct.unpack_from(f"{order}{size // 4}i", buffer, inside[0].start)
    if size % 4 or len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"the array at byte {matrix.start} has dimensions {shape}")
    parts = inside[2:]
    if array_class == _CELL:
        expected, kinds = math.prod(shape), {_MATRIX}
    elif array_class == _SPARSE:
        expected, kinds = 4 if is_complex else 3, _NUMBERS
    elif array_class == _CHAR:
        expected, kinds = 1, _NUMBERS | _TEXT
    else:
        expected, kinds = 2 if is_complex else 1, _NUMBERS
    if len(parts) != expected:
        raise ValueError(
            f"the array at byte {matrix.start} has {len(parts)} parts; expected {expected}"
        )
    for part in parts:
        if part.kind not in kinds:
            raise _unexpected(part, "another type")


def _elements(buffer: Any, order: str, at: int, end: int) -> Iterator[_Element]:
    while at < end:
        if at + 8 > end:
            raise ValueError(f"{end - at} bytes are left at byte {at}; expected an element")
        word, size = struct.unpack_from(order + "II", buffer, at)
        # a small element has its size in the upper half of the first word, and four bytes of room
        small = word >> 16
        start = at + 4 if small else at + 8
        stop = start + (small or size)
        if stop > (at + 8 if small else end):
            raise ValueError(f"the element at byte {at} ends at byte {stop} of {end}")
        kind = word & 0xFFFF
        yield _Element(kind, start, stop)
        padded = kind not in (_MATRIX, _COMPRESSED)
        at = start + -(-(stop - start) // 8) * 8 if padded and not small else max(stop, at + 8)


def _unexpected(element: _Element, expected: str) -> ValueError:
    return ValueError(
        f"the element at byte {element.start} is of type {element.kind}; expected {expected}"
    )


_NUMBERS_MAT73: dict[str, Any] = {
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
        if is_group(item) or kind not in (*_NUMBERS_MAT73, "char", "cell"):
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
    return array.astype(_NUMBERS_MAT73[kind], copy=False)


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
    data = _numbers(data, kind if kind in _NUMBERS_MAT73 else "double", group.name)
    if pointers.ndim != 1 or not pointers.size or pointers.dtype.kind not in "iu":
        raise ValueError(f"{group.name!r}: 'jc' is no list of whole numbers")
    if rows.shape != data.shape or rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"{group.name!r}: 'ir' has shape {rows.shape}, 'data' {data.shape}")
    parts = (data, rows.astype(np.int64), pointers.astype(np.int64))
    array = sp.csc_array(parts, shape=(n_rows, len(pointers) - 1))
    check_compressed(array)
    return array


_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER_MATLAB = 512


def read_matlab(path: Path) -> Dataset:
    """Read a MATLAB file; see :func:`manyview.datasets.read_views`."""
    with path.open("rb") as file:
        start = file.read(_HEADER_MATLAB + len(_HDF5))
    if start.startswith(_HDF5) or start[_HEADER_MATLAB:] == _HDF5:
        return find_dataset(read_variables(path), path.stem)
    return find_dataset(_read_version_5(path), path.stem)


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


def _read_version_5(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                check_elements(buffer)
            with warnings.catch_warnings():
                # SciPy warns of a damaged variable and puts the message in its place
                warnings.filterwarnings("error", message="Unreadable variable")
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                # mat_dtype: MATLAB packs whole doubles into bytes, and they are doubles still
                variables = scipy.io.loadmat(file, mat_dtype=True)
            for value in variables.values():
                _check_sparse(value)
        except np.exceptions.ComplexWarning as error:
            raise ValueError("a variable holds complex numbers; expected real ones") from error
        # a damaged file fails in as many ways as there are bytes in it
        except Exception as error:
            raise ValueError(
                f"not a readable MATLAB file ({type(error).__name__}: {error})"
            ) from error
    return {key: value for key, value in variables.items() if not key.startswith("__")}


def _check_sparse(value: Any) -> None:
    if sp.issparse(value):
        # version 4 keeps coordinates, which SciPy does check
        if value.format != "coo":
            check_compressed(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
        for item in value.ravel():
            _check_sparse(item)


def _storable(array: Any) -> Any:
    # MATLAB has sparse doubles only, and no half precision
    if sp.issparse(array) or array.dtype == np.float16:
        return array.astype(np.float64)
    return array


def _cell(items: Any, shape: tuple[int, int]) -> npt.NDArray[np.object_]:
    cell = np.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        cell[at] = str(item) if isinstance(item, str) else item
    return cell.reshape(shape)
