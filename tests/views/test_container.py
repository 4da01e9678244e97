import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, ShuffleSplit, check_cv, train_test_split
from sklearn.utils import _safe_indexing, indexable, resample, shuffle

from manyview import Views, as_views

VIEWS = as_views({"text": sp.csr_array(np.eye(3)), "image": np.arange(6.0).reshape(3, 2)})


def test_membership_is_by_name_or_identity():
    assert "text" in VIEWS
    assert "sound" not in VIEWS
    assert VIEWS["image"] in VIEWS
    assert VIEWS["image"].copy() not in VIEWS


def test_the_position_of_a_view():
    assert [VIEWS.index(name) for name in VIEWS.names] == [0, 1]
    assert [VIEWS.index(array) for array in VIEWS] == [0, 1]
    for strange in ("sound", np.ones((3, 2)), 1):
        with pytest.raises(ValueError, match="the views are 'text', 'image'"):
            VIEWS.index(strange)
    with pytest.raises(ValueError, match="no 'text'"):
        VIEWS.index("text", 1)


@pytest.mark.parametrize(
    "rows", [2, np.int64(2), [2], np.array([False, False, True]), slice(2, None)]
)
def test_one_sample_can_be_taken_by_any_index(rows):
    taken = VIEWS.take(rows)
    assert taken.n_samples == 1
    assert taken["image"].tolist() == [[4.0, 5.0]]


N = 12
X = np.arange(3.0 * N).reshape(N, 3) ** 2
Y = np.arange(2.0 * N).reshape(N, 2) % 7
PRESENT = np.arange(N)[:, None] % 4 != np.array([0, 1])
MASK = np.arange(N) % 3 > 0
ROWS = {
    "slice": slice(2, 9),
    "slice with a step": slice(None, None, 3),
    "reversed slice": slice(None, 2, -2),
    "array": np.array([7, 0, 7, -1]),
    "reversed array": np.arange(N)[::-1],
    "small unsigned integers": np.array([1, 0, 5], dtype=np.uint8),
    "list": [3, 2],
    "mask": MASK,
    "list of booleans": MASK.tolist(),
    "Series": pd.Series(MASK, index=np.arange(N)[::-1]),
    "nothing": [],
}


def memory_mapped(array, folder):
    path = folder / f"{array.shape[1]}.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def dask_array(array, folder):
    return pytest.importorskip("dask.array").from_array(array, chunks=(5, -1))


def tensor(array, folder):
    return pytest.importorskip("torch").from_numpy(array)


def sparse_tensor(array, folder):
    return tensor(array, folder).to_sparse_csr()


KINDS = {
    "dense": lambda array, folder: array,
    "memory-mapped": memory_mapped,
    "sparse": lambda array, folder: sp.csr_array(array),
    "tensor": tensor,
    "sparse tensor": sparse_tensor,
    "dask": dask_array,
}


def dense(array):
    if hasattr(array, "compute"):
        array = array.compute()
    if hasattr(array, "to_dense"):
        array = array.to_dense()
    return array.toarray() if sp.issparse(array) else np.asarray(array)


def named():
    return as_views({"a": pd.DataFrame(X, columns=list("pqr")), "b": Y}, present=PRESENT)


class TestTableOfSamples:
    """Views have the length, the shape and the rows of their samples."""

    def test_length_and_shape(self):
        views = named()
        assert len(views) == views.n_samples == N
        assert views.shape == (N, views.n_views) == (N, 2)

    @pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
    @pytest.mark.parametrize("bring", KINDS.values(), ids=KINDS)
    @pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
    def test_rows_of_every_kind_of_array(self, rows, bring, tmp_path):
        some = as_views([bring(X, tmp_path), bring(Y, tmp_path)])[rows]
        assert isinstance(some, Views)
        index = np.array(rows, dtype=int) if isinstance(rows, list) and not rows else rows
        for found, array in zip(some, (X, Y), strict=True):
            np.testing.assert_array_equal(dense(found), array[index])

    @pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
    def test_rows_keep_names_ids_and_missing_views(self, rows):
        index = np.array(rows, dtype=int) if isinstance(rows, list) and not rows else rows
        some = named()[rows]
        assert some.names == ("a", "b")
        assert some.named
        assert some.feature_names[0].tolist() == list("pqr")
        assert some.sample_ids.tolist() == np.arange(N)[index].tolist()
        expected = PRESENT[index]
        np.testing.assert_array_equal(
            np.ones_like(expected) if some.present is None else some.present, expected
        )

    @pytest.mark.parametrize("row", [0, np.int64(3), np.array(2), -1])
    def test_an_integer_is_a_view_or_a_sample_and_rejected(self, row):
        with pytest.raises(TypeError, match=rf"views.arrays\[{row}\].*views.take\({row}\)"):
            named()[row]

    def test_columns_are_rejected(self):
        with pytest.raises(TypeError, match="name of a view"):
            named()[:, 0]

    @pytest.mark.parametrize("rows", [[N], [-N - 1], MASK[:-1], [1.0], ["a"], PRESENT, [[1], [2]]])
    def test_other_rows_are_rejected(self, rows):
        with pytest.raises(IndexError):
            named()[rows]

    def test_views_are_found_by_name_and_in_order(self):
        views = named()
        first, second = views
        assert first is views["a"] is views.arrays[0]
        assert dict(views.items()) == {"a": first, "b": second}
        with pytest.raises(TypeError):
            reversed(views)

    def test_views_are_no_array(self):
        with pytest.raises(TypeError, match="'a', 'b'"):
            np.asarray(named())


class TestSplitting:
    """scikit-learn splits Views by samples."""

    def test_train_test_split(self):
        train, test, n_train, n_test = train_test_split(named(), np.arange(N), random_state=0)
        assert (len(train), len(test)) == (9, 3)
        for part, rows in ((train, n_train), (test, n_test)):
            np.testing.assert_array_equal(part["a"], X[rows])
            np.testing.assert_array_equal(part["b"], Y[rows])
            np.testing.assert_array_equal(part.sample_ids, rows)
            expected = PRESENT[rows]
            present = np.ones_like(expected) if part.present is None else part.present
            np.testing.assert_array_equal(present, expected)

    @pytest.mark.parametrize("cv", [KFold(4), ShuffleSplit(3, random_state=0), check_cv(2)])
    def test_splitters(self, cv):
        for found, expected in zip(cv.split(named()), cv.split(X), strict=True):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_utilities(self):
        views = named()
        assert indexable(views, X)[0] is views
        assert len(resample(views, n_samples=5, random_state=0)) == 5
        mixed, numbers = shuffle(views, np.arange(N), random_state=0)
        np.testing.assert_array_equal(mixed["b"], Y[numbers])

    @pytest.mark.parametrize("rows", [slice(2, 5), [1, 4], (1, 4), MASK, MASK.tolist()])
    def test_safe_indexing(self, rows):
        some = _safe_indexing(named(), rows)
        assert isinstance(some, Views)
        index = list(rows) if isinstance(rows, tuple) else rows
        np.testing.assert_array_equal(some["b"], Y[index])
