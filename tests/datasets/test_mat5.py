import io
import struct

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from manyview.datasets.mat5 import check_elements


def saved(variables, **options):
    file = io.BytesIO()
    scipy.io.savemat(file, variables, **options)
    return file.getvalue()


CELL = np.empty((1, 2), dtype=object)
CELL[0, 0], CELL[0, 1] = np.eye(3), sp.csc_array(np.eye(3, 2))


@pytest.mark.parametrize("options", [{}, {"do_compression": True}, {"format": "4"}])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(3.0),
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.array([[True, False]]),
        np.array([[1 + 2j, 3]]),
        np.zeros((0, 3)),
        sp.csc_array(np.eye(4)),
        sp.csc_array(np.eye(4) * 1j),
        "text",
    ],
    ids=str,
)
def test_accepts_what_scipy_writes(value, options):
    check_elements(saved({"x": value, "y": value}, **options))


@pytest.mark.parametrize(
    "value",
    [
        CELL,
        np.empty((0, 0), dtype=object),
        {"field": CELL, "other": {"deep": "text"}},
        np.zeros((2, 2, 2)),
        "naïve 日本",
    ],
    ids=["cell", "empty cell", "struct", "cube", "text"],
)
def test_accepts_what_version_4_cannot_hold(value):
    check_elements(saved({"x": value}))


@pytest.fixture
def content():
    return bytearray(saved({"x": CELL, "y": np.eye(2)}))


def test_every_truncation_inside_an_element_is_told(content):
    boundaries = [128, 136 + struct.unpack_from("<I", content, 132)[0], len(content)]
    for end in range(128, len(content)):
        if end in boundaries:
            check_elements(content[:end])
        else:
            with pytest.raises(ValueError, match="byte"):
                check_elements(content[:end])


@pytest.mark.parametrize("kind", [0, 8, 10, 11, 14, 15, 19, 255])
def test_numbers_of_no_known_type(kind):
    content = bytearray(saved({"x": np.eye(2)}))
    at = content.index(struct.pack("<IId", 9, 32, 1.0))
    struct.pack_into("<I", content, at, kind)
    with pytest.raises(ValueError, match=r"is of type|ends at byte|bytes are left"):
        check_elements(content)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (128, 9, "is of type 9; expected an array"),
        (144, 0, "is of unknown class 0"),
        (144, 99, "is of unknown class 99"),
        (144, 6, "expected 1"),
        (152, 1, "has no dimensions"),
        (160, 3, "has 2 parts; expected 6"),
        (160, 0xFFFFFFFF, "has dimensions"),
    ],
)
def test_damage_is_told_with_its_place(content, at, value, message):
    struct.pack_into("<I", content, at, value)
    with pytest.raises(ValueError, match=message):
        check_elements(content)


def test_too_short_for_a_header():
    with pytest.raises(ValueError, match="the file has 20 bytes; expected a header of 128"):
        check_elements(b"MATLAB 5.0 MAT-file,")
