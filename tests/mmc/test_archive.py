import json
import pickle
from fractions import Fraction

import numpy as np
import pytest

from manyview.mmc.archive import Form, as_json

FORM = Form("manyview.test thing", version=3, what="thing")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.thing"


def write(path, members):
    with path.open("wb") as file:
        np.savez(file, **members)


def header(text):
    return {"header": np.frombuffer(text.encode(), dtype=np.uint8)}


def test_what_is_written_is_read(path):
    arrays = {"rows": np.arange(3.0), "names": np.array(["a", "ö"])}
    write(path, FORM.members({"sweeps": 4, "told": "größer", "none": None}, arrays))
    told, found = FORM.read(path)
    assert told["sweeps"] == 4
    assert (told["told"], told["none"]) == ("größer", None)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"X0": np.eye(2)}, r"an archive of \['X0'\], no thing"),
        ({"header": np.eye(2)}, "its header is none of a thing"),
        (header("[1, 2]"), "its header is none of a thing"),
        (header('{"format": "another", "version": 3}'), "the form 'another', version 3"),
        (
            header('{"format": "manyview.test thing", "version": 4}'),
            "version 4; expected 'manyview.test thing', 3",
        ),
        ({"header": np.array([{}], dtype=object)}, r"damaged or no \.npz archive"),
    ],
)
def test_an_archive_of_something_else(path, members, told):
    write(path, members)
    with pytest.raises(ValueError, match=told):
        FORM.read(path)


@pytest.mark.parametrize("content", [b"", b"sample,label\n", pickle.dumps([1]), b"PK\x03\x04"])
def test_what_is_no_archive(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged or no \.npz archive"):
        FORM.read(path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int32(3), 3),
        (np.float32(0.5), 0.5),
        (Fraction(1, 4), 0.25),
        (np.bool_(True), True),
        (np.str_("rows"), "rows"),
        (None, None),
        (np.random.RandomState(0), None),
    ],
)
def test_parameters_as_json_has_them(value, expected):
    found = as_json(value)
    assert found == expected
    assert json.loads(json.dumps(found)) == expected


def test_where_there_is_none(path):
    with pytest.raises(FileNotFoundError):
        FORM.read(path)
