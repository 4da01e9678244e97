"""Safe access to HDF5 files.

Whether the heaps of an HDF5 file, where strings of any length lie, hang together.

HDF5 walks through a heap object by object and does not end where a damaged file states that free
space has no size.
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

from manyview.datasets.dataset import extra

__all__ = ["attribute", "check_heaps", "content", "is_group", "listed", "member", "opened", "text"]


# signature, version 1 and three bytes of zero, which keep numbers from being taken for a heap
_START = b"GCOL\x01\x00\x00\x00"
_HEADER = 16


def check_heaps(path: Path) -> None:
    """Raise ValueError where a heap of an HDF5 file has free space of no size.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "damaged.h5"
    ...     written = path.write_bytes(_START + struct.pack("<QQQ", 32, 0, 0))
    ...     check_heaps(path)
    Traceback (most recent call last):
    ...
    ValueError: the heap at byte 0 is damaged at byte 16
    """
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            at = buffer.find(_START)
            while at >= 0:
                _check_heap(buffer, at)
                at = buffer.find(_START, at + 1)


def _check_heap(buffer: Any, start: int) -> None:
    if start + _HEADER > len(buffer):
        return
    end = min(start + struct.unpack_from("<Q", buffer, start + 8)[0], len(buffer))
    at = start + _HEADER
    while at + _HEADER <= end:
        number, size = struct.unpack_from("<H6xQ", buffer, at)
        if number == 0 and size == 0:
            raise ValueError(f"the heap at byte {start} is damaged at byte {at}")
        # the size of free space counts its header, that of an object neither header nor padding
        at += size if number == 0 else _HEADER + -(-size // 8) * 8


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Any]:
    """Open an HDF5 file; whatever fails inside is a ValueError that says so.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        What the file should be, for messages.
    """
    h5py = extra("h5py", f"reading a {kind}")
    # first of all, since HDF5 says "unable to open" of a file that may not be read as well
    check_heaps(path)
    try:
        # a lock cannot be had on some network and read-only file systems
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except ValueError:
        raise
    # a damaged file fails in as many ways as there are bytes in it
    except Exception as error:
        raise ValueError(f"not a readable {kind} ({type(error).__name__}: {error})") from error


def member(group: Any, name: str) -> Any:
    """Return what a group holds under a name, never what lies in another file."""
    h5py = extra("h5py", "reading HDF5")
    link = group.get(name, getlink=True)
    if link is None:
        raise ValueError(f"{_inside(group, name)!r} is missing; found {listed(group)}")
    if not isinstance(link, h5py.HardLink):
        raise ValueError(f"{_inside(group, name)!r} is a link; expected the data themselves")
    return group[name]


def content(dataset: Any) -> npt.NDArray[Any]:
    """Return all of a dataset; datasets that keep their numbers in other files are refused."""
    if is_group(dataset):
        raise ValueError(f"{dataset.name!r} is a group; expected an array")
    if dataset.shape is None:
        raise ValueError(f"{dataset.name!r} is empty; expected an array")
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{dataset.name!r} has its numbers in another file; expected them here")
    _check_type(dataset.dtype, dataset.name)
    return np.asarray(dataset[()])


def attribute(item: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of a group or dataset, ``default`` where it has none of this name."""
    if name not in item.attrs:
        return default
    _check_type(item.attrs.get_id(name).dtype, f"{item.name}, attribute {name}")
    return item.attrs[name]


def _check_type(dtype: Any, name: str) -> None:
    # h5py crashes on sequences of variable length that a damaged file makes of strings
    h5py = extra("h5py", "reading HDF5")
    if dtype.kind == "O" and not (h5py.check_string_dtype(dtype) or h5py.check_ref_dtype(dtype)):
        raise ValueError(f"{name!r} is of a type that is not read; expected numbers or strings")


def is_group(item: Any) -> bool:
    """Whether an item of an HDF5 file is a group."""
    return isinstance(item, extra("h5py", "reading HDF5").Group)


def text(value: Any) -> str:
    """Return an attribute that holds a string as one, "" where it holds anything else.

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
    """Return what a group holds, for a message."""
    return ", ".join(repr(name) for name in sorted(group)[:10]) or "nothing"


def _inside(group: Any, name: str) -> str:
    return f"{str(group.name).rstrip('/')}/{name}"
