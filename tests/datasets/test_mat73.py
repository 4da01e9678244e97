"""What is special to version 7.3; test_layouts.py reads every layout in both versions."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from manyview.datasets import read_views
from manyview.datasets.mat73 import read_variables


def cell(*items):
    array = np.empty((1, len(items)), dtype=object)
    array[0, :] = items
    return array


@pytest.fixture
def path(tmp_path):
    return tmp_path / "set.mat"


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c16"]
)
def test_arrays_come_back_as_they_were(path, write_mat73, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    write_mat73(path, {"X": array})
    read = read_variables(path)["X"]
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("dtype", [float, bool])
@pytest.mark.parametrize("dense", [np.eye(3, 4), np.zeros((3, 4)), np.ones((1, 1))])
def test_sparse_matrices(path, write_mat73, dense, dtype):
    write_mat73(path, {"X": sp.csc_array(dense.astype(dtype))})
    read = read_variables(path)["X"]
    assert sp.issparse(read)
    assert dense.any() is np.False_ or read.dtype == dtype
    np.testing.assert_array_equal(read.toarray(), dense)


@pytest.mark.parametrize("string", ["abc", "", "é𝄞"])
def test_characters(path, write_mat73, string):
    write_mat73(path, {"c": cell(string)})
    assert "".join(read_variables(path)["c"][0, 0]) == string


def test_empty_arrays_have_their_shape(path, write_mat73):
    write_mat73(path, {"X": np.empty((0, 3)), "c": np.empty((0, 2), dtype=object)})
    read = read_variables(path)
    assert read["X"].shape == (0, 3)
    assert read["c"].shape == (0, 2)


def test_items_that_cells_share_are_read_once(path, write_mat73):
    # twenty levels of a cell that holds the one below twice: a million items if read one by one
    write_mat73(path, {"X": np.eye(2)})
    with h5py.File(path, "r+") as file:
        below = file["X"]
        for level in range(20):
            below = file.create_dataset(
                f"c{level}", data=np.array([[below.ref], [below.ref]], dtype=h5py.ref_dtype)
            )
            below.attrs["MATLAB_class"] = np.bytes_("cell")
    value = read_variables(path)["c19"]
    assert value[0, 0] is value[0, 1]


def test_structs_and_objects_are_named_and_do_not_disturb(path, write_mat73):
    write_mat73(path, {"X": cell(np.eye(3), np.eye(3, 2)), "gt": [1, 2, 1]})
    with h5py.File(path, "r+") as file:
        file.create_group("options").attrs["MATLAB_class"] = np.bytes_("struct")
        file.create_group("#subsystem#")
    assert read_views(path).y.tolist() == [0, 1, 0]
    with h5py.File(path, "r+") as file:
        del file["X"]
    with pytest.raises(ValueError, match=r"no views found among .*'options' \(struct\)"):
        read_views(path)


def broken(path, change):
    with h5py.File(path, "r+") as file:
        change(file)


def hold_itself(file):
    made = file.create_dataset("c", (1, 1), dtype=h5py.ref_dtype)
    made.attrs["MATLAB_class"] = np.bytes_("cell")
    made[0, 0] = made.ref


def null_reference(file):
    made = file.create_dataset("c", (1, 1), dtype=h5py.ref_dtype)
    made.attrs["MATLAB_class"] = np.bytes_("cell")


def link_outside(file):
    file["X2"] = h5py.ExternalLink("elsewhere.h5", "/X")


def numbers_outside(file):
    made = file.create_dataset("X2", (3, 3), dtype="f8", external=[("elsewhere", 0, 72)])
    made.attrs["MATLAB_class"] = np.bytes_("double")


def sparse_with(**parts):
    def change(file):
        del file["S"]
        made = file.create_group("S")
        made.attrs["MATLAB_class"], made.attrs["MATLAB_sparse"] = np.bytes_("double"), np.uint64(3)
        for name, value in ({"data": [1.0, 1], "ir": [0, 1], "jc": [0, 1, 2]} | parts).items():
            made[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (hold_itself, "cell array '/c' holds itself"),
        (null_reference, "set.mat: "),
        (link_outside, "'/X2' is a link; expected the data themselves"),
        (numbers_outside, "'/X2' has its numbers in another file"),
        (sparse_with(ir=[0, 7]), "indices must be < 3"),
        (sparse_with(ir=[0, 1, 2]), r"'/S': 'ir' has shape \(3,\), 'data' \(2,\)"),
        (sparse_with(jc=[0, 2, 1]), "set.mat: "),
        (sparse_with(jc=[0.0, 1, 2]), "'jc' is no list of whole numbers"),
        (sparse_with(data=[b"a", b"b"]), "'/S' is of class double and holds"),
    ],
)
def test_what_does_not_hang_together(path, write_mat73, change, message):
    write_mat73(path, {"X": cell(np.eye(3)), "S": sp.csc_array(np.eye(3))})
    broken(path, change)
    with pytest.raises(ValueError, match=message) as caught:
        read_views(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", ">i4", "u1", "?"])
def test_arrays_that_another_program_wrote_in_the_same_layout(path, dtype):
    X = np.random.default_rng(0).integers(2, size=(8, 3)).astype(dtype)
    with h5py.File(path, "w") as file:
        file["X1"], file["X2"], file["y"] = X.T, np.eye(8), np.arange(8) % 2
    found = read_views(path)
    assert found.views.names == ("X1", "X2")
    np.testing.assert_array_equal(found.views.arrays[0], X)
    np.testing.assert_array_equal(found.y, np.arange(8) % 2)


def test_what_another_program_wrote_otherwise_is_warned_of(path):
    with h5py.File(path, "w") as file:
        file.create_group("X1")["data"] = np.ones(3)
        file["X2"] = np.eye(8)
    with pytest.warns(UserWarning, match="'X1' is left out: it is no array of numbers"):
        assert read_views(path).views.names == ("X2",)


def test_an_hdf5_file_of_another_program(path):
    with h5py.File(path, "w") as file:
        file.create_group("weights")["of"] = np.eye(3)
    with (
        pytest.raises(ValueError, match="no views found among 'weights'"),
        pytest.warns(UserWarning, match="'weights' is left out"),
    ):
        read_views(path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_truncated_file(path, write_mat73, part):
    write_mat73(path, {"X": cell(np.eye(30))})
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ValueError, match=r"set\.mat: not a readable MATLAB file of version 7\.3"):
        read_views(path)


def test_a_missing_extra_is_named(path, write_mat73, monkeypatch):
    write_mat73(path, {"X": cell(np.eye(3))})
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ImportError, match=r"needs h5py: pip install 'manyview\[io\]'"):
        read_views(path)
