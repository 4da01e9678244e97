"""Whether the elements of a MATLAB 5 file hang together.

SciPy trusts the types and sizes that such a file states, and a damaged one can crash the
interpreter. Compressed elements carry a checksum, which SciPy's decompression verifies; the
others are walked through here, tag by tag, without reading the numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["check_elements"]

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
