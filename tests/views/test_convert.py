import re
import warnings
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyview import MMC
from manyview.datasets import make_views
from manyview.views import Views, as_views, check_scale

X = np.arange(12.0).reshape(4, 3)
Y = np.arange(8.0).reshape(4, 2)


class TestAccepted:
    @pytest.mark.parametrize("container", [list, tuple])
    def test_sequence(self, container):
        views = as_views(container([X, Y]))
        assert views.names == ("view0", "view1")
        assert views.n_features == [3, 2]
        assert views.n_samples == 4
        assert not views.named

    def test_dict_names_the_views(self):
        views = as_views({"text": X, "image": Y})
        assert views.names == ("text", "image")
        assert views["image"] is Y
        assert views.arrays[0] is X
        with pytest.raises(KeyError, match=r"no view 'sound'; the views are 'text', 'image'"):
            views["sound"]

    def test_views_keep_their_arrays(self):
        views = as_views([X, Y])
        assert all(a is b for a, b in zip(as_views(views), views, strict=True))

    def test_validation_reads_every_view_once(self):
        da = pytest.importorskip("dask.array")
        computed = []

        def counted(chunk):
            computed.append(chunk.shape)
            return chunk

        array = da.from_array(X, chunks=(2, 3)).map_blocks(counted, dtype=float, meta=X[:0])
        check_scale(as_views([array]), "rows")
        assert computed == [(2, 3), (2, 3)]

    @pytest.mark.parametrize(
        ("dtypes", "expected"),
        [
            ((np.float32, np.float32), np.float32),
            ((np.float32, np.float64), np.float64),
            ((np.uint8, np.float16), np.float32),
            ((bool, np.float32), np.float32),
            ((np.int64, np.float32), np.float64),
        ],
    )
    def test_precision_is_the_least_that_holds_the_views(self, dtypes, expected):
        assert as_views([X.astype(dtypes[0]), Y.astype(dtypes[1])]).dtype == expected

    @pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
    @pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
    def test_sparse_of_any_format_becomes_csr(self, form, kind):
        (array,) = as_views([kind(X).asformat(form)])
        assert isinstance(array, sp.csr_array)
        np.testing.assert_array_equal(array.toarray(), X)

    def test_sparse_duplicates_are_added_in_a_copy(self):
        given = sp.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
        (array,) = as_views([given])
        assert given.nnz == 3
        assert array.nnz == 2
        np.testing.assert_array_equal(array.toarray(), [[0, 2, 0], [1, 0, 0]])

    def test_csr_shares_its_data(self):
        given = sp.csr_array(X)
        (array,) = as_views([given])
        assert np.shares_memory(array.data, given.data)

    def test_frames_keep_feature_names(self):
        views = as_views([pd.DataFrame(X, columns=["a", "b", "c"]), Y])
        np.testing.assert_array_equal(views.feature_names[0], ["a", "b", "c"])
        assert views.feature_names[1] is None

    def test_nullable_and_sparse_frames(self):
        frame = pd.DataFrame({"a": [1, 2], "b": [0, 3]})
        (nullable,) = as_views([frame.convert_dtypes()])
        np.testing.assert_array_equal(nullable, frame)
        (sparse,) = as_views([frame.astype(pd.SparseDtype(np.float64, 0.0))])
        assert sp.issparse(sparse)
        np.testing.assert_array_equal(sparse.toarray(), frame)

    def test_memory_map_is_not_copied(self, tmp_path):
        path = tmp_path / "view.npy"
        np.save(path, X)
        mapped = np.load(path, mmap_mode="r")
        (array,) = as_views([mapped])
        assert np.shares_memory(array, mapped)

    def test_lists_of_lists(self):
        assert as_views([[[1, 2], [3, 4]]]).n_features == [2]

    def test_take(self):
        views = as_views({"a": X, "b": sp.csr_array(Y)}, present=[[1, 1], [1, 0], [0, 1], [1, 1]])
        some = views.take([2, 0])
        np.testing.assert_array_equal(some["a"], X[[2, 0]])
        np.testing.assert_array_equal(some["b"].toarray(), Y[[2, 0]])
        np.testing.assert_array_equal(some.present, [[False, True], [True, True]])
        assert views.take(slice(1, 3)).n_samples == 2
        assert views.take([]).n_samples == 0
        assert views.take(views.present.all(axis=1)).present is None

    @pytest.mark.parametrize("rows", [[2, 0, 2], slice(1, 3), [True, False, False, True], []])
    @pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
    def test_take_of_tensors(self, rows):
        torch = pytest.importorskip("torch")
        sparse = np.where(X % 3 == 0, X, 0.0)
        views = as_views([torch.from_numpy(Y), torch.from_numpy(sparse).to_sparse_csr()])
        some = views.take(rows)
        index = rows if rows else np.array([], dtype=int)
        np.testing.assert_array_equal(some.arrays[0], Y[index])
        np.testing.assert_array_equal(some.arrays[1].to_dense(), sparse[index])

    def test_all_zero_row_is_legal(self):
        as_views([np.vstack([X, np.zeros(3)])])


NAN = X.copy()
NAN[2, 1] = np.nan
INF = sp.csr_array(np.where(X == 7.0, np.inf, X))

REJECTED = {
    "no views": ([], "no views"),
    "one array": (X, r"single ndarray of shape \(4, 3\)"),
    "one sparse array": (sp.csr_array(X), r"single csr_array of shape \(4, 3\)"),
    "one frame": (pd.DataFrame(X), r"single DataFrame"),
    "a string": ("fox.npz", "received str"),
    "a data set": (make_views(9, 2, (2, 2)), r"received a Dataset; .* its \.views"),
    "None as view": ([X, None], "view 'view1' is None"),
    "one-dimensional": ([X, X[0]], r"view 'view1' .* shape \(3,\)"),
    "three-dimensional": ({"image": X[None]}, r"view 'image' has 3 dimension\(s\)"),
    "scalar": ([5.0], r"view 'view0' has 0 dimension\(s\)"),
    "rows differ": ({"image": X[:3], "text": Y}, "view 'text' has 4 rows, view 'image' has 3"),
    "NaN in sparse": ([Y, sp.csr_array(NAN)], "view 'view1' holds NaN at row 2, column 1"),
    "infinity behind NaN": (
        [np.where(X == 6, np.inf, NAN)],
        "view 'view0' holds infinity at row 2, column 0",
    ),
    "a sample of NaN": ([NAN * NAN[:, [1]]], "sample 2 is present in no view"),
    "infinity in sparse": ({"s": INF}, "view 's' holds infinity at row 2, column 1"),
    "text": ([np.array([["a", "b"]])], "view 'view0' holds <U1"),
    "object": ([np.array([[1, "b"]], dtype=object)], "view 'view0' holds 'b' at row 0, column 1"),
    "complex": ([X * 1j], "view 'view0' holds complex128"),
    "dates": ([np.array([["2020-01-01"]], dtype="M8[D]")], "view 'view0'"),
    "ragged": ([[[1, 2], [3]]], "view 'view0' is ragged"),
    "no features": ([X, np.empty((4, 0))], r"view 'view1' has no features"),
    "no samples": ([np.empty((0, 3))], "view 'view0' has no rows"),
    "equal names": ({1: X, "1": Y}, "'1', '1'"),
    "unchecked Views": (Views((INF,), ("a",), (None,)), "view 'a' holds infinity"),
}


@pytest.mark.parametrize("case", REJECTED, ids=str)
def test_rejected(case):
    views, message = REJECTED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        as_views(views)


def test_frames_must_agree_on_their_index():
    first = pd.DataFrame(X, index=list("abcd"))
    second = pd.DataFrame(Y, index=list("abdc"))
    with pytest.raises(ValueError, match="row 2 is 'c' in 'p' and 'd' in 'q'"):
        as_views({"p": first, "q": second})
    as_views({"p": first, "array": Y, "q": pd.DataFrame(Y, index=list("abcd"))})


def test_indexes_of_other_types_that_hold_the_same_agree():
    days = pd.date_range("2020", periods=4, tz="UTC")
    letters = list("abab")
    for one, other in (
        (pd.Index(range(4), dtype="Int64"), pd.RangeIndex(4)),
        (days, days.tz_convert("Europe/Berlin")),
        (pd.CategoricalIndex(letters), pd.CategoricalIndex(letters, categories=list("bac"))),
        (pd.Index([np.nan, 1.0, 2.0, 3.0]), pd.Index([np.nan, 1, 2, 3], dtype=object)),
    ):
        as_views([pd.DataFrame(X, index=one), pd.DataFrame(Y, index=other)])
    pairs = pd.MultiIndex.from_product([range(2), range(2)])
    with pytest.raises(ValueError, match=r"row 0 is \(0, 0\) in 'view0' and 0 in 'view1'"):
        as_views([pd.DataFrame(X, index=pairs), pd.DataFrame(Y)])


def test_a_broken_sparse_array_is_rejected():
    broken = sp.csr_array(X)
    broken.indices[3] = 99
    with pytest.raises(ValueError, match="view 's' is a broken sparse array"):
        as_views({"s": broken})


def test_too_few_samples():
    with pytest.raises(ValueError, match="view0"):
        as_views([X[:1]], min_samples=2)


@pytest.mark.parametrize(
    "array",
    [
        np.full((4, 2), 0.5),
        sp.csr_array((4, 2)),
        np.zeros((4, 1)),
        np.tile([1.0, 2.0], (4, 1)),
        sp.csr_array(np.tile([1.0, 0.0], (4, 1))),
    ],
)
def test_constant_view_is_warned_of(array):
    with pytest.warns(UserWarning, match="view 'view1' is constant"):
        as_views([X, array])


def test_a_single_sample_is_not_called_constant():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_views([np.ones((1, 3))])


class TestPresent:
    def test_other_shapes_are_rejected(self):
        with pytest.raises(ValueError, match=r"present has shape \(4,\).* \(4, 2\)"):
            as_views([X, Y], present=np.ones(4, dtype=bool))

    @pytest.mark.parametrize("value", [0.5, None, "yes"])
    def test_other_values_are_rejected(self, value):
        with pytest.raises(ValueError, match="present holds"):
            as_views([X, Y], present=np.full((4, 2), value))

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    def test_rows_of_missing_views_may_hold_anything(self, form):
        present = np.ones((4, 2), dtype=bool)
        present[1, 0] = False
        garbage = X.copy()
        garbage[1] = np.nan
        given = form(garbage)
        views = as_views([given, Y], present=present)
        array = views.arrays[0].toarray() if sp.issparse(views.arrays[0]) else views.arrays[0]
        assert not array[1].any()
        np.testing.assert_array_equal(array[[0, 2, 3]], X[[0, 2, 3]])
        if form is sp.csr_array:
            with pytest.raises(ValueError, match="holds NaN at row 1, column 0"):
                as_views([given, Y])

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("held", [np.inf, 9.96921e36])
    def test_rows_of_missing_views_are_not_scaled(self, form, held):
        garbage = X.astype(np.float32)
        garbage[1] = held
        present = [[1, 1], [0, 1], [1, 1], [1, 1]]
        views = as_views([form(garbage), Y.astype(np.float32)], present=present)
        for normalize in ("rows", "columns", None):
            check_scale(views, normalize)
        assert views.arrays[0].dtype == np.float32

    def test_harmless_rows_cost_no_copy(self):
        present = [[1, 1], [0, 1], [1, 1], [1, 1]]
        assert as_views([X, Y], present=present).arrays[0] is X

    def test_a_mask_of_complete_views_is_dropped(self):
        assert as_views([X, Y], present=np.ones((4, 2))).present is None

    def test_every_sample_has_a_view(self):
        present = np.ones((4, 2), dtype=bool)
        present[3] = False
        with pytest.raises(ValueError, match="sample 3 is present in no view"):
            as_views([X, Y], present=present)


def test_a_view_that_no_sample_has_is_warned_of():
    rng = np.random.default_rng(0)
    arrays = {"text": rng.random((4, 3)), "image": rng.random((4, 2))}
    with pytest.warns(UserWarning, match="no sample has view 'image'"):
        as_views(arrays, present=np.array([[True, False]] * 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_views(arrays, present=np.array([[True, False]] * 4), warn=False)
        as_views(arrays, present=np.array([[True, False], [True, True]] * 2))


class TestPresentAsFrame:
    views = MappingProxyType({"a": pd.DataFrame(X, index=list("pqrs")), "b": Y})
    present = pd.DataFrame({"b": [1, 1, 1, 0], "a": [1, 0, 1, 1]}, index=list("pqrs")) == 1

    @pytest.mark.parametrize("dtype", [bool, "boolean", object, float])
    def test_columns_name_the_views(self, dtype):
        views = as_views(self.views, present=self.present.astype(dtype))
        assert views.present.tolist() == [[1, 1], [0, 1], [1, 1], [1, 0]]

    def test_without_names_they_are_taken_by_place(self):
        views = as_views(list(self.views.values()), present=self.present)
        assert views.present.tolist() == [[1, 1], [1, 0], [1, 1], [0, 1]]

    def test_other_names_are_rejected(self):
        with pytest.raises(ValueError, match="present has columns 'b', 'c'"):
            as_views(self.views, present=self.present.rename(columns={"a": "c"}))

    def test_other_samples_are_rejected(self):
        with pytest.raises(ValueError, match="'present'"):
            as_views(self.views, present=self.present.iloc[::-1])

    @pytest.mark.parametrize("value", [None, pd.NA, "yes", 2])
    def test_other_values_are_rejected(self, value):
        present = self.present.astype(object)
        present.iloc[0, 0] = value
        with pytest.raises(ValueError, match="present holds"):
            as_views(self.views, present=present)


FRAMES = {"a": pd.DataFrame(X, index=list("wxyz")), "b": Y}


class TestSampleIds:
    """Views keep the index of their DataFrames."""

    def test_of_the_first_frame(self):
        assert as_views(FRAMES).sample_ids.tolist() == list("wxyz")
        assert as_views(FRAMES)[1:3].sample_ids.tolist() == list("xy")
        assert as_views([X, Y]).sample_ids is None

    def test_are_compared_with_those_of_present(self):
        present = pd.DataFrame(np.eye(4)[:, :2] < 1, index=list("wxyz"), columns=["a", "b"])
        assert as_views(as_views(FRAMES), present=present).present.sum() == 6
        with pytest.raises(ValueError, match="'present'"):
            as_views(as_views(FRAMES), present=present[::-1])

    def test_ids_of_a_file_are_not(self):
        views = replace(as_views([X, Y]), sample_ids=np.array(list("wxyz")))
        present = pd.DataFrame(np.eye(4)[:, :2] < 1)
        assert as_views(views, present=present).present.sum() == 6


@dataclass
class Annotated:
    X: object
    obs_names: pd.Index
    var_names: pd.Index
    isbacked: bool = False

    @property
    def shape(self):
        return self.X.shape


@dataclass
class Modalities:
    mod: dict
    obs_names: pd.Index
    axis: int = 0
    shape: tuple = (0, 0)
    var_names: tuple = ()
    isbacked: bool = False


def annotated(samples, width, kind=np.asarray, seed=0):
    values = np.random.default_rng(seed).random((len(samples), width))
    return Annotated(
        kind(values), pd.Index(list(samples)), pd.Index([f"g{d}" for d in range(width)])
    )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_annotated_matrices_are_views(kind):
    first, second = annotated("abcd", 3, kind), annotated("abcd", 2, seed=1)
    views = as_views([first, second])
    np.testing.assert_array_equal(
        views.arrays[0].toarray() if sp.issparse(views.arrays[0]) else views.arrays[0],
        first.X.toarray() if sp.issparse(first.X) else first.X,
    )
    np.testing.assert_array_equal(views.arrays[1], second.X)
    assert [list(names) for names in views.feature_names] == [["g0", "g1", "g2"], ["g0", "g1"]]


def test_annotated_matrices_must_have_the_same_samples():
    with pytest.raises(ValueError, match="row 1 is 'b' in 'rna' and 'c' in 'p'"):
        as_views({"rna": annotated("abc", 3), "p": annotated("acb", 3)})


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_modalities_are_aligned(kind):
    rna, protein = annotated("abcd", 3, kind), annotated("dbe", 2, kind, seed=1)
    views = as_views(Modalities({"rna": rna, "protein": protein}, pd.Index(list("abcde"))))
    assert views.names == ("rna", "protein")
    assert views.present.tolist() == [[1, 0], [1, 1], [1, 0], [1, 1], [0, 1]]
    dense = [x.toarray() if sp.issparse(x) else x for x in views]
    given = [np.asarray(sp.csr_array(m.X).toarray()) for m in (rna, protein)]
    np.testing.assert_array_equal(dense[0], [*given[0], np.zeros(3)])
    np.testing.assert_array_equal(dense[1], [[0, 0], given[1][1], [0, 0], given[1][0], given[1][2]])


def test_modalities_with_all_samples_are_not_copied():
    rna = annotated("abc", 3)
    views = as_views(Modalities({"rna": rna, "atac": annotated("abc", 2)}, rna.obs_names))
    assert views.present is None
    assert np.shares_memory(views["rna"], rna.X)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (annotated("abc", 3), "received a single Annotated of shape (3, 3)"),
        (Modalities({"rna": annotated("aba", 3)}, pd.Index(list("ab"))), "named 'a'"),
        (Modalities({"rna": annotated("ab", 3)}, pd.Index(["a"])), "has a sample 'b' that is not"),
        (Modalities({"rna": annotated("ab", 3)}, pd.Index(list("ab")), axis=1), "axis=1"),
        (
            [Modalities({"rna": annotated("ab", 3)}, pd.Index(list("ab")))],
            "view 'view0' is a MuData object",
        ),
        ([Annotated(None, pd.Index(["a"]), pd.Index(["g"]))], "view 'view0'"),
        ([Annotated(0, pd.Index(["a"]), pd.Index(["g"]), isbacked=True)], "to_memory()"),
    ],
)
def test_invalid_objects_are_rejected(views, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        as_views(views)


def test_mmc_fits_and_keeps_the_names_of_samples():
    samples = [f"cell{n}" for n in range(40)]
    rna, protein = annotated(samples, 6), annotated(samples[5:], 4, seed=1)
    cells = Modalities({"rna": rna, "protein": protein}, rna.obs_names)
    model = MMC(2, random_state=0).set_output(transform="pandas").fit(cells)
    assert model.view_names_ == ["rna", "protein"]
    assert model.transform(cells).index.tolist() == samples


def test_missing_modalities_stay_missing():
    rna, protein = annotated("abcd", 3), annotated("dbe", 2, seed=1)
    cells = Modalities({"rna": rna, "protein": protein}, pd.Index(list("abcde")))
    for mask in (np.ones((5, 2)), [[1, 1], [1, 1], [1, 1], [1, 0], [1, 1]]):
        views = as_views(cells, present=mask)
        expected = np.array([[1, 0], [1, 1], [1, 0], [1, 1], [0, 1]]) * np.asarray(mask)
        assert views.present.tolist() == expected.tolist()


def test_dask_modalities_are_not_reordered():
    da = pytest.importorskip("dask.array")
    rna, protein = annotated("abcd", 3, da.from_array), annotated("dbe", 2, da.from_array)
    with pytest.raises(TypeError, match="view 'rna' is a Dask array"):
        as_views(Modalities({"rna": rna, "protein": protein}, pd.Index(list("abcde"))))
    same = Modalities({"rna": rna}, rna.obs_names)
    assert as_views(same).place == "dask"


def test_x_is_read_once():
    class Counted(Annotated):
        reads = 0

        def __getattribute__(self, name):
            if name == "X":
                Counted.reads += 1
            return super().__getattribute__(name)

    rna = annotated("abcd", 3)
    counted = Counted(rna.X, rna.obs_names, rna.var_names)
    Counted.reads = 0
    as_views([counted])
    assert Counted.reads == 1


@pytest.mark.parametrize(
    ("package", "kind", "message"),
    [
        ("polars.lazyframe.frame", "LazyFrame", r"collect\(\)"),
        ("pyarrow.lib", "Table", r"to_pandas\(\)"),
        ("anndata._core.sparse_dataset", "CSRDataset", r"to_memory\(\)"),
        ("zarr.core.array", "Array", r"dask\.array\.from_zarr"),
        ("h5py._hl.dataset", "Dataset", r"dask\.array\.from_array"),
    ],
)
def test_lazy_data_are_rejected_with_a_remedy(package, kind, message):
    item = type(kind, (), {"__module__": package, "shape": (3, 2)})()
    with pytest.raises(TypeError, match=f"view 'view1' is .*{message}"):
        as_views([np.eye(3), item])


def test_lazy_dask_objects_are_rejected():
    dask, frames = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match="from_delayed"):
        as_views([dask.delayed(np.eye)(3)])
    with pytest.raises(TypeError, match=r"to_dask_array\(lengths=True\)"):
        as_views([frames.from_pandas(pd.DataFrame(np.eye(3)), npartitions=1)])
