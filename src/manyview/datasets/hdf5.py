"""Safe access to HDF5 files.

HDF5 trusts what a file states. The checks here keep a damaged file from hanging or crashing the
interpreter, and a malicious one from reading other files.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.datasets.dataset import extra, first_few

__all__ = ["attribute", "check_heaps", "content", "is_group", "listed", "member", "opened", "text"]

# signature of a global heap, its version and three zero bytes
_HEAP = b"GCOL\x01\x00\x00\x00"
_HEADER = 16
# a few bytes can state the shape of an array that no memory holds
_MOST_EXPANDED = 200
_LARGE = 2 * 10**9


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Any]:
    """Open an HDF5 file that should be a `kind`. Failures inside become ValueErrors."""
    h5py = extra("h5py", f"reading a {kind}")
    # before HDF5 opens the file, so that a missing permission is reported as such
    check_heaps(path)
    try:
        # locks are not available on some network and read-only file systems
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except ValueError:
        raise
    # a damaged file can raise almost any exception
    except Exception as error:
        raise ValueError(f"not a readable {kind} ({error!r})") from error


def check_heaps(path: Path) -> None:
    """Raise ValueError if free space in a global heap has size 0.

    Strings of variable length lie in such heaps. HDF5 steps through a heap from object to object,
    and never ends if a step has length 0.
    """
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            start = buffer.find(_HEAP)
            while start >= 0 and start + _HEADER <= len(buffer):
                (length,) = struct.unpack_from("<Q", buffer, start + 8)
                end, at = min(start + length, len(buffer)), start + _HEADER
                while at + _HEADER <= end:
                    number, size = struct.unpack_from("<H6xQ", buffer, at)
                    if number == 0 and size == 0:
                        raise ValueError(f"the heap at byte {start} is damaged at byte {at}")
                    # free space counts its header; an object counts neither header nor padding
                    at += size if number == 0 else _HEADER + -(-size // 8) * 8
                start = buffer.find(_HEAP, start + 1)


def member(group: Any, name: str) -> Any:
    """Return a member of a group. Links, which may lead to other files, are rejected."""
    link = group.get(name, getlink=True)
    full_name = f"{str(group.name).rstrip('/')}/{name}"
    if link is None:
        raise ValueError(f"{full_name!r} is missing; found {listed(group)}")
    if not isinstance(link, extra("h5py", "reading HDF5").HardLink):
        raise ValueError(f"{full_name!r} is a link; expected the data themselves")
    return group[name]


def content(dataset: Any) -> npt.NDArray[Any]:
    """Return a dataset as an array. Datasets stored in other files are rejected."""
    if is_group(dataset):
        raise ValueError(f"{dataset.name!r} is a group; expected an array")
    if dataset.shape is None:
        raise ValueError(f"{dataset.name!r} is empty; expected an array")
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{dataset.name!r} is stored in another file; expected the data here")
    _check_type(dataset.dtype, dataset.name)
    size, stored = dataset.size * dataset.dtype.itemsize, dataset.id.get_storage_size()
    if size > max(_LARGE, _MOST_EXPANDED * stored):
        raise ValueError(
            f"{dataset.name!r} expands from {stored} to {size} bytes; expected at most "
            f"{_MOST_EXPANDED} times as many"
        )
    return np.asarray(dataset[()])


def attribute(item: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of a group or dataset, or `default`."""
    if name not in item.attrs:
        return default
    _check_type(item.attrs.get_id(name).dtype, f"{item.name}, attribute {name}")
    return item.attrs[name]


def _check_type(dtype: Any, name: str) -> None:
    # h5py crashes on sequences of variable length that a damaged file makes of strings
    h5py = extra("h5py", "reading HDF5")
    if dtype.kind == "O" and not (h5py.check_string_dtype(dtype) or h5py.check_ref_dtype(dtype)):
        raise ValueError(f"{name!r} has an unsupported type; expected numbers or strings")


def is_group(item: Any) -> bool:
    """Return True for a group, False for a dataset."""
    return isinstance(item, extra("h5py", "reading HDF5").Group)


def text(value: Any) -> str:
    """Return the value of an attribute as a string, "" if it is not one.

    Examples
    --------
    >>> text(np.bytes_(b"double")), text(np.array([b"cell"])), text(3)
    ('double', 'cell', '')
    """
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, str) else ""


def listed(group: Any) -> str:
    """Return the names of the members of a group, for a message."""
    return first_few(sorted(group), 10) or "nothing"
