"""The layouts in which multi-view data sets are passed around, in both kinds of MATLAB file."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from manyview.datasets import read_views

N = 6
LABELS = np.array([3, 1, 2, 3, 1, 2])
CODES = [2, 0, 1, 2, 0, 1]


def matrix(n_rows, n_columns, seed=0):
    return np.random.default_rng(seed).random((n_rows, n_columns))


def cell(items, shape=(1, -1)):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


A, B, C = matrix(N, 4, 1), matrix(N, 3, 2), matrix(N, 5, 3)


@pytest.fixture(params=["5", "7.3"])
def read(tmp_path, request, write_mat73):
    write = scipy.io.savemat if request.param == "5" else write_mat73

    def write_and_read(**variables):
        write(tmp_path / "set.mat", variables)
        return read_views(tmp_path / "set.mat")

    return write_and_read


def assert_views(data, *expected):
    assert data.views.n_views == len(expected)
    for array, other in zip(data.views, expected, strict=True):
        np.testing.assert_array_equal(array.toarray() if sp.issparse(array) else array, other)


@pytest.mark.parametrize("name", ["X", "data", "fea", "views", "x", "Data", "anything"])
@pytest.mark.parametrize("shape", [(1, -1), (-1, 1)])
def test_a_cell_array(read, name, shape):
    data = read(**{name: cell([A, B], shape), "Y": LABELS[:, None]})
    assert_views(data, A, B)
    assert not data.views.named
    assert data.y.tolist() == CODES
    assert data.class_names.tolist() == ["1", "2", "3"]


def test_a_cell_array_before_other_matrices(read):
    data = read(X=cell([A, B]), W=matrix(N, 9), Y=LABELS, parameters=cell(["text"]))
    assert_views(data, A, B)


def test_cell_arrays_of_settings_are_no_views(read):
    settings = cell([np.array([[0.1]]), np.array([[5.0]])])
    folds = cell([np.array([[1, 2, 3]]), np.array([[4, 5, 6]])])
    bases = cell([matrix(4, 2), matrix(3, 2)])
    assert_views(read(a=settings, b=folds, c=bases, X1=A, X2=B, Y=LABELS), A, B)
    assert_views(read(a=settings, b=folds, c=bases, color=A, shape=B, Y=LABELS), A, B)


def test_a_cell_array_in_cell_arrays(read):
    assert_views(read(X=cell([cell([cell([A]), cell([B])])]), Y=LABELS), A, B)


@pytest.mark.parametrize("names", [("X1", "X2"), ("x1", "x2"), ("view1", "view2"), ("V_1", "V_2")])
def test_numbered_variables(read, names):
    data = read(**dict(zip(names[::-1], (B, A), strict=True)), gt=LABELS)
    assert_views(data, A, B)
    assert data.views.names == names
    assert data.views.named


def test_numbers_are_not_sorted_as_words(read):
    data = read(X10=C, X9=B, X1=A, n=5)
    assert data.views.names == ("X1", "X9", "X10")
    assert data.y is None


def test_any_matrices_with_as_many_rows(read):
    data = read(color=A, shape=B, k=3, basis=matrix(4, 2), split=np.ones((N, 1)))
    assert_views(data, A, B)
    assert data.views.names == ("color", "shape")


def test_any_matrices_with_a_side_of_the_samples(read):
    data = read(color=A, shape=B.T, basis=matrix(4, 2), basis2=matrix(4, 3), truth=LABELS)
    assert_views(data, A, B)


def test_a_single_matrix(read):
    assert_views(read(X=A, Y=LABELS), A)


def test_x_and_y_can_be_two_views(read):
    data = read(X=A, Y=B, gt=LABELS)
    assert_views(data, A, B)
    assert data.y.tolist() == CODES
    assert_views(read(X=A, Y=B), A, B)


class TestOrientation:
    def test_columns_as_samples(self, read):
        assert_views(read(X=cell([A.T, B.T]), Y=LABELS), A, B)

    def test_each_view_has_its_own(self, read):
        assert_views(read(X=cell([A.T, B]), Y=LABELS), A, B)
        assert_views(read(X1=A, X2=B.T, Y=LABELS), A, B)

    def test_square_views_have_samples_in_rows(self, read):
        square = matrix(N, N)
        assert_views(read(X=cell([square, A.T]), Y=LABELS), square, A)

    def test_without_labels_rows_are_samples(self, read):
        same = matrix(4, 9), matrix(4, 9, 1)
        assert_views(read(X=cell(same)), *same)

    def test_without_labels_columns_are_samples_when_only_they_agree(self, read):
        assert_views(read(X=cell([A.T, B.T])), A, B)

    def test_sparse_stays_sparse(self, read):
        sparse = sp.csc_array(np.eye(4, N))
        data = read(X=cell([sparse, B]), Y=LABELS)
        assert sp.issparse(data.views.arrays[0])
        assert_views(data, np.eye(N, 4), B)


class TestLabels:
    @pytest.mark.parametrize("name", ["Y", "y", "gt", "truth", "gnd", "label", "labels", "GND"])
    @pytest.mark.parametrize("shape", [(N, 1), (1, N)])
    def test_names_and_shapes(self, read, name, shape):
        data = read(X=cell([A, B]), **{name: LABELS.reshape(shape)})
        assert data.y.tolist() == CODES
        assert data.y.dtype == np.int64

    @pytest.mark.parametrize(
        ("labels", "names"),
        [
            ([-1, 1, -1, 1, 1, 1], ["-1", "1"]),
            ([0, 1, 0, 1, 1, 1], ["0", "1"]),
            ([0.5, 2, 0.5, 2, 2, 2], ["0.5", "2.0"]),
            (np.array([0, 1, 0, 1, 1, 1], dtype=bool), ["0", "1"]),
            (cell(["cat", "dog", "cat", "dog", "dog", "dog"], (-1, 1)), ["cat", "dog"]),
            (np.array(["cat", "horse", "cat", "horse", "horse", "horse"]), ["cat", "horse"]),
            (cell([np.array([[n]]) for n in (7, 8, 7, 8, 8, 8)]), ["7", "8"]),
            (sp.csc_array([[1], [2], [1], [2], [2], [2]]), ["1", "2"]),
        ],
    )
    def test_kinds(self, read, labels, names):
        data = read(X=cell([A, B]), Y=labels)
        assert data.y.tolist() == [0, 1, 0, 1, 1, 1]
        assert data.class_names.tolist() == names

    @pytest.mark.parametrize("kind", [np.float64, bool, sp.csc_array])
    @pytest.mark.parametrize("turned", [False, True])
    def test_one_hot(self, read, kind, turned):
        one_hot = np.eye(3)[CODES]
        one_hot = one_hot.T if turned else one_hot
        labels = sp.csc_array(one_hot) if kind is sp.csc_array else one_hot.astype(kind)
        data = read(X=cell([A.T, B]), Y=labels)
        assert_views(data, A, B)
        assert data.y.tolist() == CODES
        assert data.class_names.tolist() == ["1", "2", "3"]

    def test_one_for_each_view(self, read):
        data = read(X=cell([A, B]), Y=cell([LABELS[:, None], LABELS[:, None]]))
        assert data.y.tolist() == CODES

    def test_views_that_disagree_are_reported(self, read):
        with pytest.warns(UserWarning, match="the labels in 'Y' differ"):
            data = read(X=cell([A, B]), Y=cell([LABELS[:, None], LABELS[::-1, None]]))
        assert data.y.tolist() == CODES

    def test_several_classes_a_sample_are_left_out_and_are_no_view(self, read):
        several = np.ones((N, 2))
        several[0] = 0
        with pytest.warns(UserWarning, match=r"variable 'Y' \(6 x 2 float64\) is ignored"):
            data = read(color=A, shape=B, Y=several)
        assert_views(data, A, B)
        assert data.y is None

    def test_names_of_classes(self, read):
        names = cell(["ant", "bee", "cow"])
        assert read(X=cell([A, B]), Y=LABELS, class_names=names).class_names[0] == "ant"
        data = read(X=cell([A, B]), Y=LABELS - 1, class_names=names)
        assert data.y.tolist() == CODES
        assert data.class_names.tolist() == ["ant", "bee", "cow"]

    def test_names_that_do_not_fit_the_labels_are_not_used(self, read):
        data = read(X=cell([A, B]), Y=LABELS, class_names=cell(["ant", "bee"]))
        assert data.class_names.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "no views found among nothing"),
        ({"k": 3, "note": "text"}, r"no views found among 'k' \(1 x 1 .*\), 'note'"),
        ({"X": cell([A, B]), "Y": LABELS[:5]}, "view 'view0' has shape .* and 'Y' holds 5 labels"),
        ({"X": cell([A, B[:5]])}, "view 'view1' has 5 rows, view 'view0' has 6"),
        ({"X": cell([A, "text"])}, "element 2 of cell array 'X' is .*expected a matrix"),
        ({"X": cell([A, np.zeros((2, 2, 2))])}, "element 2 of cell array 'X'"),
        ({"X": cell([A, B]), "Y": LABELS * np.nan}, "the label of sample 0 is nan"),
        ({"X1": A, "X2": B + np.inf}, "view 'X2' holds infinity at row 0, column 0"),
        ({"X1": A, "X2": B * 1j}, "complex.*; expected real"),
        ({"U": A, "W": matrix(4, 3)}, "'U' .*'W' .*different numbers of rows"),
        ({"X": cell([A, B]), "view_names": cell(["a"] * 3)}, "3 names for 2 views"),
        ({"X": cell([A, B]), "present": np.ones((2, 2))}, r"present has shape \(2, 2\)"),
    ],
)
def test_errors_name_the_file_and_the_fault(read, tmp_path, variables, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(**variables)
    assert str(caught.value).startswith(f"{tmp_path / 'set.mat'}: ")
