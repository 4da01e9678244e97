"""Whether the heaps of an HDF5 file, where strings of any length lie, hang together.

HDF5 walks through a heap object by object and does not end where a damaged file states that free
space has no size.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

__all__ = ["check_heaps"]

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
