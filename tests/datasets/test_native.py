import numpy as np
import pytest
import scipy.sparse as sp

from manyview.datasets import read_views


@pytest.fixture
def parts():
    """Members of a small native file: a dense view and a sparse one."""
    sparse = sp.csr_array(np.array([[0, 1.0, 2], [0, 0, 0], [3, 0, 0]], dtype=np.float32))
    return {
        "n_views": np.array(2),
        "view_names": np.array(["dense", "sparse"]),
        "X0": np.arange(6, dtype=np.uint8).reshape(3, 2),
        "X1_data": sparse.data,
        "X1_indices": sparse.indices,
        "X1_indptr": sparse.indptr.astype(np.int64),
        "X1_shape": np.array(sparse.shape),
        "terms1": np.array(["a", "b", "c"]),
        "y": np.array([1, 0, 1]),
        "class_names": np.array(["cat", "dog"]),
        "present": np.array([[True, True], [True, False], [True, True]]),
    }


@pytest.fixture
def read(tmp_path):
    def write_and_read(parts):
        np.savez(tmp_path / "set.npz", **parts)
        return read_views(tmp_path / "set.npz")

    return write_and_read


def test_reads_every_part(parts, read):
    data = read(parts)
    assert data.name == "set"
    assert data.views.names == ("dense", "sparse")
    np.testing.assert_array_equal(data.views["dense"], parts["X0"])
    assert data.views["dense"].dtype == np.uint8
    assert sp.issparse(data.views["sparse"])
    assert data.views["sparse"].dtype == np.float32
    assert data.views["sparse"].toarray().tolist() == [[0, 1, 2], [0, 0, 0], [3, 0, 0]]
    assert data.views.feature_names[0] is None
    assert data.views.feature_names[1].tolist() == ["a", "b", "c"]
    assert data.views.present.tolist() == parts["present"].tolist()
    assert data.y.tolist() == [1, 0, 1]
    assert data.class_names.tolist() == ["cat", "dog"]


def test_rows_of_samples_that_miss_a_view_may_hold_anything(parts, read):
    parts["X0"] = parts["X0"].astype(np.float32)
    parts["X0"][1] = np.nan
    parts["present"] = np.array([[True, True], [False, True], [True, True]])
    assert not read(parts).views["dense"][1].any()


def test_the_views_alone_will_do(parts, read):
    for key in ("view_names", "terms1", "y", "class_names", "present"):
        del parts[key]
    data = read(parts)
    assert data.views.names == ("view0", "view1")
    assert not data.views.named
    assert data.views.present is None
    assert data.y is None
    assert data.class_names is None


def test_other_keys_are_ignored_even_objects(parts, read):
    parts["doc_ids"] = np.array(["x", "y", "z"])
    parts["notes"] = np.array([{"not": "unpickled"}], dtype=object)
    assert read(parts).views.n_samples == 3


def test_image_feature_names_stand_in_for_terms(parts, read):
    parts["image_feature_names0"] = np.array(["red", "blue"])
    parts["image_feature_names1"] = np.array(["not", "these", "ones"])
    names = read(parts).views.feature_names
    assert names[0].tolist() == ["red", "blue"]
    assert names[1].tolist() == ["a", "b", "c"]


def test_classes_without_names_are_named_by_their_labels(parts, read):
    del parts["class_names"]
    parts["y"] = np.array([7, -1, 7])
    data = read(parts)
    assert data.y.tolist() == [1, 0, 1]
    assert data.class_names.tolist() == ["-1", "7"]


def test_class_names_without_classes_name_nothing(parts, read):
    del parts["y"]
    assert read(parts).class_names is None


def test_names_may_be_bytes(parts, read):
    parts["class_names"] = np.array(["café", "dog"]).astype("U4")
    parts["view_names"] = np.array([b"dense", b"sparse"])
    data = read(parts)
    assert data.views.names == ("dense", "sparse")
    assert data.class_names.tolist() == ["café", "dog"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_views": None}, "key 'n_views' is missing; found X0, X1_data"),
        ({"n_views": None}, "; manyview.datasets.write_views(path, {name: array, ...}) writes"),
        ({"n_views": np.array(0)}, "n_views is array(0); expected a whole number"),
        ({"n_views": np.array([1, 2])}, "expected a whole number of at least 1"),
        ({"n_views": np.array("two")}, "expected a whole number of at least 1"),
        ({"n_views": np.array(3)}, "view 2 is missing; expected either key 'X2' or the CSR"),
        ({"X0": None}, "view 0 is missing; expected either key 'X0'"),
        ({"X1_indptr": None}, "view 1 is missing; expected either key 'X1'"),
        ({"X0": np.zeros(3)}, "view 'dense' has 1 dimension(s)"),
        ({"X0": np.eye(4, 2)}, "view 'sparse' has 3 rows, view 'dense' has 4"),
        ({"X0": np.full((3, 2), np.inf)}, "view 'dense' holds infinity"),
        ({"X0": np.array([["a", "b"]] * 3)}, "view 'dense' holds <U1; expected real numbers"),
        ({"X0": np.array([[{}, {}]] * 3)}, "key 'X0' is an array of Python objects"),
        (
            {"y": np.array(["cat", "dog", "cat"], dtype=object)},
            "save it as strings or numbers: y.astype(str) or y.astype(float)",
        ),
        ({"X1_indices": np.array([0, 1, 3])}, "view 1 is not a valid sparse matrix"),
        ({"X1_indices": np.array([0, 1, -1])}, "view 1 is not a valid sparse matrix"),
        ({"X1_indices": np.array([0.0, 1, 2])}, "not integers"),
        ({"X1_indptr": np.array([0, 5, 3, 3])}, "view 1 is not a valid sparse matrix"),
        ({"X1_indptr": np.array([0, 9, 9, 0])}, "view 1 is not a valid sparse matrix"),
        ({"X1_shape": np.array(3)}, "view 1 is not a valid sparse matrix"),
        ({"X1_shape": np.array([3, 2**70], dtype=object)}, "key 'X1_shape' is an array of"),
        ({"view_names": np.array(["one"])}, "1 names for 2 views"),
        ({"view_names": np.array(["same", "same"])}, "the views are named ['same', 'same']"),
        (
            {"terms1": np.array(["a"])},
            "view 'sparse' has 3 features and feature names",
        ),
        ({"y": np.array([0, 1])}, "labels have shape (2,); expected one for each of 3"),
        ({"y": np.array([0, 1, 2])}, "labels range from 0 to 2"),
        ({"y": np.array([0, np.nan, 1])}, "the label of sample 1 is nan"),
        (
            {"sample_ids": np.array(["a", "b", "a"])},
            "id 'a' is in row 1 and in row 3; expected one",
        ),
        ({"doc_ids": np.array([7, 7, 8])}, "id '7' is in row 1 and in row 2; expected one row"),
        ({"present": np.ones((2, 2), bool)}, "present has shape (2, 2)"),
        ({"present": np.zeros((3, 2), bool)}, "sample 0 is present in no view"),
    ],
)
def test_errors_name_the_file_and_the_fault(parts, read, tmp_path, changes, message):
    parts.update(changes)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        read({key: value for key, value in parts.items() if value is not None})
    assert str(caught.value).startswith(f"{tmp_path / 'set.npz'}: ")
    assert message in str(caught.value)
    assert "pickle" not in str(caught.value)  # an option of NumPy's, which nobody can set here


def test_what_is_advised_of_objects_will_do(parts, read):
    labels = np.array(["cat", "dog", "cat"], dtype=object)
    del parts["class_names"]
    assert read({**parts, "y": labels.astype(str)}).class_names.tolist() == ["cat", "dog"]
    assert read({**parts, "X0": parts["X0"].astype(object).astype(float)}).views.n_samples == 3


@pytest.mark.parametrize("content", [b"", b"PK", b"not an archive", bytes(1000)])
def test_what_is_no_archive(tmp_path, content):
    path = tmp_path / "set.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"set\.npz: not a readable \.npz archive") as caught:
        read_views(path)
    assert "pickle" not in str(caught.value)


def test_a_single_array(tmp_path):
    with (tmp_path / "set.npz").open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(ValueError, match=r"set\.npz: holds a single array"):
        read_views(tmp_path / "set.npz")


def test_a_pickle_is_not_loaded(tmp_path):
    import pickle

    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the file ran code",))

    (tmp_path / "set.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match=r"set\.npz: not a readable"):
        read_views(tmp_path / "set.npz")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_samples", "widths", "n_classes"),
    [
        ("3sources", 169, [3560, 3631, 3068], 6),
        ("3sources_all416_incomplete", 416, [3560, 3631, 3068], 6),
        ("fox", 1523, [996, 2711], 4),
        ("cnn", 2107, [996, 1686], 7),
        ("bbcsport", 544, [3183, 3203], 5),
        ("handwritten", 2000, [240, 76, 216, 47, 64, 6], 10),
        ("msrcv1", 210, [24, 576, 512, 256, 254], 7),
        ("ngs", 500, [2000, 2000, 2000], 5),
        ("orl", 400, [512, 59, 864, 254], 40),
        ("webkb203", 203, [1703, 230, 230], 4),
        ("bdgp", 2500, [1750, 79], 5),
    ],
)
def test_real_data_sets(data_dir, name, n_samples, widths, n_classes):
    data = read_views(data_dir / f"{name}.npz")
    assert data.views.n_samples == len(data.y) == n_samples
    assert data.views.n_features == widths
    assert sorted(set(data.y)) == list(range(n_classes))
    assert len(data.class_names) == n_classes
    assert data.name == name


@pytest.mark.data
def test_real_names_and_presence(data_dir):
    views = read_views(data_dir / "fox.npz").views
    assert views.names == ("image", "text")
    assert views.feature_names[0][0] == "RGBDominantColor_0"
    assert len(views.feature_names[1]) == 2711
    incomplete = read_views(data_dir / "3sources_all416_incomplete.npz").views
    assert incomplete.names == ("bbc", "guardian", "reuters")
    assert incomplete.present.shape == (416, 3)
    assert not incomplete.present.all()
    assert not read_views(data_dir / "ngs.npz").views.named
