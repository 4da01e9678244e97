import io
import struct

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from manyview.datasets import read_views, write_views
from manyview.datasets.matlab import check_elements, read_variables


def test_writes_what_matlab_users_expect(tmp_path):
    path = tmp_path / "set.mat"
    views = {"text": sp.csr_array(np.eye(3, 4, dtype=np.float32)), "image": np.eye(3, 2)}
    write_views(path, views, ["b", "a", "b"])
    found = scipy.io.loadmat(path)
    assert found["X"].shape == (1, 2)
    assert sp.issparse(found["X"][0, 0])
    assert found["X"][0, 0].dtype == np.float64
    assert found["X"][0, 1].shape == (3, 2)
    assert found["Y"].tolist() == [[2], [1], [2]]
    assert [str(name[0]) for name in found["class_names"][:, 0]] == ["a", "b"]


def test_whole_doubles_that_matlab_packed_into_bytes_are_doubles(tmp_path):
    # MATLAB saves double([1 2; 3 4]) as bytes with class double: here the class is patched in
    path = tmp_path / "set.mat"
    scipy.io.savemat(path, {"X1": np.eye(5, 3), "X2": np.eye(5, 3, dtype=np.uint8)})
    content = bytearray(path.read_bytes())
    at = content.index(bytes([6, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0]))
    content[at + 8] = 6
    path.write_bytes(content)
    assert [array.dtype for array in read_views(path).views] == [np.float64, np.float64]


def test_rows_are_contiguous(tmp_path):
    scipy.io.savemat(tmp_path / "set.mat", {"X1": np.eye(4, 3), "X2": np.eye(4, 2)})
    for array in read_views(tmp_path / "set.mat").views:
        assert array.flags.c_contiguous


@pytest.mark.parametrize("options", [{"format": "4"}, {"do_compression": True}])
def test_other_versions(tmp_path, options):
    path = tmp_path / "set.mat"
    variables = {"X1": np.eye(4, 3), "X2": sp.csc_array(np.eye(4, 2)), "gt": [[1, 2, 1, 2]]}
    scipy.io.savemat(path, variables, **options)
    views, y = read_views(path)
    assert views.n_features == [3, 2]
    assert sp.issparse(views["X2"])
    assert y.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("content", [b"", b"MATLAB", b"not a MATLAB file at all", bytes(500)])
def test_what_is_no_matlab_file(tmp_path, content):
    path = tmp_path / "set.mat"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"set\.mat: "):
        read_views(path)


@pytest.mark.parametrize("compress", [True, False])
def test_a_truncated_file(tmp_path, compress):
    path = tmp_path / "set.mat"
    write_views(path, [np.random.default_rng(0).random((20, 10))], compress=compress)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"set\.mat: not a readable MATLAB file"):
        read_views(path)


def test_sparse_indices_out_of_range(tmp_path):
    path = tmp_path / "set.mat"
    scipy.io.savemat(path, {"X1": sp.csc_array(np.eye(4, 3)), "X2": np.eye(4, 3)})
    content = path.read_bytes()
    # type, size and content of the element that holds the row indices
    rows, changed = (np.array([5, 12, 0, 1, last], dtype="<i4") for last in (2, 10**6))
    assert content.count(rows.tobytes()) == 1
    path.write_bytes(content.replace(rows.tobytes(), changed.tobytes()))
    with pytest.raises(ValueError, match=r"set\.mat: not a readable MATLAB file"):
        read_views(path)


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


def test_every_truncation_inside_an_element_is_reported(content):
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
    with pytest.raises(ValueError, match="at byte"):
        check_elements(content)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (128, 9, "is of type 9"),
        (144, 0, "unknown class 0"),
        (144, 99, "unknown class 99"),
        (144, 6, "expected 1"),
        (152, 1, "has no dimensions"),
        (160, 3, "has 2 parts; expected 6"),
        (160, 0xFFFFFFFF, "has dimensions"),
    ],
)
def test_damage_is_reported_with_its_place(content, at, value, message):
    struct.pack_into("<I", content, at, value)
    with pytest.raises(ValueError, match=message):
        check_elements(content)


def test_too_short_for_a_header():
    with pytest.raises(ValueError, match="the file has 20 bytes; expected a header of 128"):
        check_elements(b"MATLAB 5.0 MAT-file,")


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
        (hold_itself, "cell array '/c' contains itself"),
        (null_reference, "set.mat: "),
        (link_outside, "'/X2' is a link; expected the data themselves"),
        (numbers_outside, "'/X2' is stored in another file"),
        (sparse_with(ir=[0, 7]), "indices must be < 3"),
        (sparse_with(ir=[0, 1, 2]), "'/S' is not a valid sparse matrix"),
        (sparse_with(jc=[0, 2, 1]), "set.mat: "),
        (sparse_with(jc=[0.0, 1, 2]), "'/S' is not a valid sparse matrix"),
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
    with pytest.warns(UserWarning, match="'X1' is ignored"):
        assert read_views(path).views.names == ("X2",)


def test_an_hdf5_file_of_another_program(path):
    with h5py.File(path, "w") as file:
        file.create_group("weights")["of"] = np.eye(3)
    with (
        pytest.raises(ValueError, match="no views found among 'weights'"),
        pytest.warns(UserWarning, match="'weights' is ignored"),
    ):
        read_views(path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_truncated_file_mat73(path, write_mat73, part):
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
