import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from manyview import as_views
from manyview.datasets import Dataset, load_digits_views, make_views, read_views, write_views
from manyview.datasets import native as native_module
from manyview.datasets.files import find_dataset, sources_of
from manyview.exceptions import ViewWarning

NATIVE_TYPES = ["u1", "i2", "i8", "f2", "f4", "f8", "?"]
# MATLAB has no half precision, and its sparse matrices are doubles
MATLAB_TYPES = ["u1", "i2", "i8", "f4", "f8", "?"]
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@st.composite
def datasets(draw, dtypes):
    """A small Dataset with any parts, never with a view whose samples are all the same."""
    n = draw(st.integers(2, 6))
    n_views = draw(st.integers(1, 3))
    arrays, feature_names = [], []
    for _ in range(n_views):
        dtype, width = np.dtype(draw(st.sampled_from(dtypes))), draw(st.integers(2, 4))
        finite = {"allow_nan": False, "allow_infinity": False}
        elements = hnp.from_dtype(dtype, **(finite if dtype.kind == "f" else {}))
        array = draw(hnp.arrays(dtype, (n, width), elements=elements))
        array[0, 0], array[1, 0] = 0, 1
        can_be_sparse = dtype != np.float16
        arrays.append(sp.csr_array(array) if can_be_sparse and draw(st.booleans()) else array)
        names = draw(st.none() | st.lists(NAMES, min_size=width, max_size=width))
        feature_names.append(None if names is None else np.array(names, dtype=str))
    view_names = draw(st.none() | st.lists(NAMES, min_size=n_views, max_size=n_views, unique=True))
    present = draw(st.none() | hnp.arrays(bool, (n, n_views)))
    if present is not None:
        present[:, 0] = present[:2] = True  # what the first two hold is not the same
    views = as_views(
        arrays if view_names is None else dict(zip(view_names, arrays, strict=True)),
        present=present,
    )
    classes = draw(st.none() | st.lists(NAMES, min_size=1, max_size=3))
    y = None if classes is None else np.array([i % len(classes) for i in range(n)], np.int64)
    class_names = None if classes is None else np.array(classes, dtype=str)
    return Dataset(replace(views, feature_names=tuple(feature_names)), y, class_names)


def assert_same(written, read, *, sparse_doubles=False):
    assert read.views.names == written.views.names
    assert read.views.named == written.views.named
    for a, b in zip(written.views, read.views, strict=True):
        assert sp.issparse(a) == sp.issparse(b)
        assert b.dtype == (np.float64 if sparse_doubles and sp.issparse(a) else a.dtype)
        dense = [array.toarray() if sp.issparse(array) else array for array in (a, b)]
        np.testing.assert_array_equal(*dense)
    for a, b in zip(written.views.feature_names, read.views.feature_names, strict=True):
        assert (a is None) == (b is None)
        assert a is None or a.tolist() == b.tolist()
    for a, b in (
        (written.views.present, read.views.present),
        (written.y, read.y),
        (written.class_names, read.class_names),
    ):
        assert (a is None) == (b is None)
        assert a is None or a.tolist() == b.tolist()


@pytest.mark.parametrize("compress", [True, False])
class TestRoundTrip:
    @given(data=datasets(NATIVE_TYPES))
    def test_a_native_file_keeps_everything(self, tmp_path_factory, compress, data):
        path = tmp_path_factory.getbasetemp() / f"round_trip_{compress}.npz"
        write_views(path, data, compress=compress)
        assert_same(data, read_views(path))

    @given(data=datasets(MATLAB_TYPES))
    def test_a_matlab_file_keeps_all_but_the_type_of_sparse_views(
        self, tmp_path_factory, compress, data
    ):
        path = tmp_path_factory.getbasetemp() / f"round_trip_{compress}.mat"
        write_views(path, data, compress=compress)
        assert_same(data, read_views(path), sparse_doubles=True)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".NPZ", ".Mat"])
@pytest.mark.parametrize("as_path", [str, lambda path: path])
def test_suffixes_and_kinds_of_path(tmp_path, suffix, as_path):
    path = as_path(tmp_path / f"digits{suffix}")
    data = load_digits_views(n_samples=20)
    write_views(path, data)
    read = read_views(path)
    assert read.name == "digits"
    assert_same(data, read)


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
class TestBoth:
    def test_half_precision(self, tmp_path, suffix):
        half = np.array([[0.5, 1], [2, 3]], dtype=np.float16)
        write_views(tmp_path / f"set{suffix}", [half])
        (array,) = read_views(tmp_path / f"set{suffix}").views
        assert array.dtype == (np.float16 if suffix == ".npz" else np.float64)
        np.testing.assert_array_equal(array, half)

    def test_frames_give_names_and_labels(self, tmp_path, suffix):
        frame = pd.DataFrame({"weight": [1.0, 2.0, 3.0], "height": [4.0, 5.0, 6.0]})
        y = pd.Series(["dog", "cat", "dog"], dtype="category")
        write_views(tmp_path / f"set{suffix}", {"body": frame}, y)
        data = read_views(tmp_path / f"set{suffix}")
        assert data.views.feature_names[0].tolist() == ["weight", "height"]
        assert data.y.tolist() == [1, 0, 1]
        assert data.class_names.tolist() == ["cat", "dog"]

    def test_labels_without_names_are_numbered_and_named(self, tmp_path, suffix):
        write_views(tmp_path / f"set{suffix}", [np.eye(3)], [5, 3, 5])
        data = read_views(tmp_path / f"set{suffix}")
        assert data.y.tolist() == [1, 0, 1]
        assert data.class_names.tolist() == ["3", "5"]

    def test_labels_given_beside_a_dataset_replace_its_own(self, tmp_path, suffix):
        write_views(tmp_path / f"set{suffix}", make_views(3, 2, random_state=0), ["x", "y", "x"])
        assert read_views(tmp_path / f"set{suffix}").class_names.tolist() == ["x", "y"]

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, suffix, monkeypatch):
        path = tmp_path / f"set{suffix}"
        write_views(path, [np.eye(3)])
        before = path.read_bytes()

        def fail(file, *args, **kwargs):
            file.write(b"half")
            raise OSError("no space left on device")

        monkeypatch.setattr(native_module.np, "savez_compressed", fail)
        monkeypatch.setattr("scipy.io.savemat", fail)
        with pytest.raises(OSError, match="no space left"):
            write_views(path, [np.eye(4)])
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_bad_views_leave_the_old_file(self, tmp_path, suffix):
        path = tmp_path / f"set{suffix}"
        write_views(path, [np.eye(3)])
        before = path.read_bytes()
        with pytest.raises(ValueError, match="view 'view1' has 2 rows"):
            write_views(path, [np.eye(3), np.eye(2)])
        assert path.read_bytes() == before

    def test_a_constant_view_is_written_and_read_with_a_warning(self, tmp_path, suffix):
        path = tmp_path / f"set{suffix}"
        with pytest.warns(ViewWarning, match="'flat'"):
            write_views(path, {"flat": np.ones((3, 2))})
        with pytest.warns(ViewWarning, match="'flat'"):
            assert read_views(path).views.names == ("flat",)

    @pytest.mark.slow
    def test_damage_is_reported_or_harmless(self, tmp_path, suffix):
        """Any truncation and any changed byte ends in a Dataset or in a ValueError."""
        path, damaged = tmp_path / f"set{suffix}", tmp_path / f"damaged{suffix}"
        rng = np.random.default_rng(0)
        views = {"dense": rng.random((4, 3)), "sparse": sp.csr_array(np.eye(4, 5))}
        write_views(path, views, ["a", "b", "a", "b"], compress=False)
        content = path.read_bytes()
        told = []
        for at in rng.permutation(len(content))[:300]:
            changed = bytearray(content)
            changed[at] ^= 1 << rng.integers(8)
            for version in (content[:at], bytes(changed)):
                damaged.write_bytes(version)
                try:
                    assert isinstance(read_views(damaged), Dataset)
                except ValueError as error:
                    told.append(str(error))
                except UserWarning:
                    # a view that the damage made constant
                    continue
        assert len(told) > 300
        assert all(message.startswith(f"{damaged}: ") for message in told)


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_views_elsewhere_are_rejected(tmp_path, suffix):
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    for view, place in ((torch.ones(3, 2) / 3, "torch"), (da.eye(3), "dask")):
        with pytest.raises(TypeError, match=f"received views of {place}; expected NumPy"):
            write_views(tmp_path / f"views{suffix}", as_views([view], warn=False))
    assert not list(tmp_path.iterdir())


def test_the_index_of_frames_is_kept(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=["a", "b", "c"])
    write_views(tmp_path / "named.npz", [frame, frame**2])
    assert read_views(tmp_path / "named.npz").sample_ids.tolist() == ["a", "b", "c"]
    write_views(tmp_path / "counted.npz", [frame.reset_index(drop=True)])
    assert read_views(tmp_path / "counted.npz").sample_ids is None


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_what_could_not_be_read_for_its_ids_is_not_written(tmp_path, suffix):
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=["a", "b", "a"])
    message = "id 'a' is in row 1 and in row 3"
    for views in ([frame], Dataset(as_views([frame]), sample_ids=np.array(["a", "b", "a"]))):
        with pytest.raises(ValueError, match=message):
            write_views(tmp_path / f"set{suffix}", views)
    assert not list(tmp_path.iterdir())


def test_class_names_need_labels(tmp_path):
    with pytest.raises(ValueError, match="received class_names without y"):
        write_views(tmp_path / "set.npz", [np.eye(3)], class_names=["a"])
    assert not list(tmp_path.iterdir())


def test_labels_of_another_length(tmp_path):
    with pytest.raises(ValueError, match="expected one for each of 3 samples"):
        write_views(tmp_path / "set.npz", [np.eye(3)], [0, 1])


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.npz"):
        read_views(tmp_path / "nowhere.npz")


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere to write set\.npz in"):
        write_views(tmp_path / "nowhere" / "set.npz", [np.eye(3)])


def test_a_folder(tmp_path):
    folder = tmp_path / "set.npz"
    folder.mkdir()
    with pytest.raises(
        ValueError, match=r"set\.npz: the folder contains no files; expected \.csv, \.tsv or"
    ):
        read_views(folder)
    with pytest.raises(
        IsADirectoryError, match=r"set\.npz is a folder; expected the name of a file"
    ):
        write_views(folder, [np.eye(3)])


@pytest.mark.parametrize("name", ["set.xyz", "set"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path, name):
    with pytest.raises(ValueError, match=r"suffix.*; expected \.npz or \.mat"):
        write_views(tmp_path / name, [np.eye(3)])
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"suffix.*; expected \.npz or \.mat or \.h5mu"):
        read_views(tmp_path / name)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    path = tmp_path / "set.npz"
    write_views(path, [np.eye(3)])
    path.chmod(0)
    with pytest.raises(PermissionError):
        read_views(path)


class TestNames:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MANYVIEW_DATA", str(tmp_path))
        monkeypatch.setenv("MANYVIEW_CACHE", str(tmp_path / "cache"))
        write_views(tmp_path / "easy.npz", [np.eye(3)])
        return tmp_path

    def test_a_name_is_a_file_of_the_data_folder_or_a_bundled_set(self, folder):
        assert find_dataset("easy").views.n_samples == 3
        assert find_dataset(str(folder / "easy.npz")).name == "easy"
        assert find_dataset("digits").views.n_samples == 1797
        assert sources_of("easy") == [folder / "easy.npz"]

    def test_an_unknown_name_lists_the_known_ones_and_the_nearest(self, folder, monkeypatch):
        with pytest.raises(ValueError, match=r"did you mean easy\?.*fox.*digits"):
            find_dataset("eassy")
        monkeypatch.setenv("MANYVIEW_DATA", str(folder / "nowhere"))
        with pytest.raises(ValueError, match="nowhere is not a folder"):
            find_dataset("easy")

    def test_names_of_columns_are_only_for_files(self):
        with pytest.raises(ValueError, match="'easy'"):
            find_dataset("easy", classes="y")


@pytest.mark.data
@pytest.mark.parametrize("suffix", [".npz", ".mat"])
@pytest.mark.parametrize("name", ["webkb203", "3sources_all416_incomplete", "msrcv1"])
def test_real_data_keep_all_they_had(data_dir, tmp_path, name, suffix):
    data = read_views(data_dir / f"{name}.npz")
    write_views(tmp_path / f"copy{suffix}", data)
    assert_same(data, read_views(tmp_path / f"copy{suffix}"), sparse_doubles=suffix == ".mat")
