import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from manyview.datasets import read_views, write_views


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
