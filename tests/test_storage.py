import json
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from manyview.storage import Form, as_json, whole_file

FORM = Form("manyview.test thing", version=3, what="thing")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.thing"


def write(path, members):
    with path.open("wb") as file:
        np.savez(file, **members)


def header(text):
    return {"header": np.frombuffer(text.encode(), dtype=np.uint8)}


def test_archives_are_read_as_written(path):
    arrays = {"rows": np.arange(3.0), "names": np.array(["a", "ö"])}
    write(path, FORM.members({"iterations": 4, "text": "größer", "none": None}, arrays))
    read, found = FORM.read(path)
    assert read["iterations"] == 4
    assert (read["text"], read["none"]) == ("größer", None)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"X0": np.eye(2)}, "X0"),
        ({"header": np.eye(2)}, "header"),
        (header("[1, 2]"), "header"),
        (header('{"format": "another", "version": 3}'), "'another'"),
        (
            header('{"format": "manyview.test thing", "version": 4}'),
            "version 4",
        ),
        ({"header": np.array([{}], dtype=object)}, r"damaged or not a \.npz archive"),
    ],
)
def test_other_archives_are_rejected(path, members, message):
    write(path, members)
    with pytest.raises(ValueError, match=message):
        FORM.read(path)


@pytest.mark.parametrize("content", [b"", b"sample,label\n", pickle.dumps([1]), b"PK\x03\x04"])
def test_other_files_are_rejected(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged or not a \.npz archive"):
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
def test_values_become_json(value, expected):
    found = as_json(value)
    assert found == expected
    assert json.loads(json.dumps(found)) == expected


def test_an_absent_file_is_rejected(path):
    with pytest.raises(FileNotFoundError):
        FORM.read(path)


def test_replaces_the_file_once_it_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write_half():
        with whole_file(path) as file:
            file.write(b"half of the new")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_leftover_temporary_file_is_overwritten(tmp_path):
    path, temporary = tmp_path / "file", tmp_path / ".file.partial"
    temporary.write_bytes(b"left by another, and longer")
    with whole_file(path, temporary=temporary) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_flushed_before_they_are_renamed(tmp_path, monkeypatch):
    path, sync, seen = tmp_path / "file", os.fsync, []

    def noted(descriptor):
        seen.append(path.exists())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with whole_file(path) as file:
        file.write(b"old")
    assert not seen
    path.unlink()
    with whole_file(path, sync=True) as file:
        file.write(b"new")
    assert seen[0] is False
    assert path.read_bytes() == b"new"


def test_writes_through_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with whole_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind are POSIX's")
def test_permissions_are_those_of_any_new_file(tmp_path):
    with whole_file(tmp_path / "file") as file:
        file.write(b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("linked", [False, True])
def test_a_named_pipe_is_rejected_and_stays(tmp_path, linked):
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match=rf"{path.name} is not a regular file"), whole_file(path):
        pytest.fail("writing began")
    assert pipe.is_fifo()
    assert path.is_symlink() is linked
    assert sorted(tmp_path.iterdir()) == before


def test_impossible_paths_are_rejected_before_writing(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"), whole_file(tmp_path):
        pytest.fail("writing began")
    missing = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing"), whole_file(missing):
        pytest.fail("writing began")
    assert not list(tmp_path.iterdir())
