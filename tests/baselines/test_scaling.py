import numpy as np
import pytest
import scipy.sparse as sp

from manyview import as_views
from manyview.baselines.scaling import beside, column_scales, scaled_arrays
from manyview.engine import engine_for


def counts(seed=0, n=30, d=7):
    array = np.random.default_rng(seed).poisson(0.7, (n, d))
    array[3] = 0
    return array


@pytest.mark.parametrize("normalize", [None, "rows", "columns"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
def test_sparse_and_dense_agree_and_are_double(normalize, dtype):
    array = counts().astype(dtype)
    dense, sparse = scaled_arrays([array, sp.csr_array(array)], normalize)
    assert dense.dtype == sparse.dtype == np.float64
    assert sp.issparse(sparse) == (normalize != "columns")
    np.testing.assert_allclose(sparse.toarray() if sp.issparse(sparse) else sparse, dense)


def test_nothing_is_scaled_or_copied_without_need():
    array = np.ones((4, 2))
    assert scaled_arrays([array], None)[0] is array


@pytest.mark.parametrize("size", [1.0, 1e-305, 1e-200, 1e200])
def test_rows_have_unit_length_and_zero_rows_stay(size):
    for kind in (np.asarray, sp.csr_array):
        scaled = scaled_arrays([kind(counts() * size)], "rows")[0]
        lengths = np.sqrt((scaled * scaled).sum(axis=1))
        np.testing.assert_allclose(lengths, (counts() > 0).any(axis=1))


@pytest.mark.parametrize("size", [1e-200, 1e200])
@pytest.mark.parametrize("normalize", [None, "columns"])
def test_sizes_whose_squares_cannot_be_written_are_refused_by_name(size, normalize):
    views = as_views({"a": counts(), "b": counts() * size})
    with pytest.raises(ValueError, match="'b' has entries of size"):
        scaled_arrays(views, normalize)
    with pytest.raises(ValueError, match="'b' has entries of size"):
        column_scales(views)


@pytest.mark.parametrize(
    ("kind", "dtype", "size"),
    [
        (np.asarray, np.float16, 2e3),
        (np.asarray, np.float16, 1e-4),
        (np.asarray, np.float32, 1e30),
        (sp.csr_array, np.float32, 1e30),
    ],
)
def test_columns_are_measured_in_double_precision(kind, dtype, size):
    array = (counts() * size).astype(dtype)
    scale, expected = (column_scales([kind(a)])[0] for a in (array, array.astype(np.float64)))
    np.testing.assert_array_equal(scale.mean, expected.mean)
    np.testing.assert_array_equal(scale.deviation, expected.deviation)


def test_columns_are_standardised_and_constant_ones_zero():
    array = np.column_stack([counts(), np.full(30, 0.1)])
    scaled = scaled_arrays([array], "columns")[0]
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [1] * 7 + [0], atol=1e-12)


def test_other_samples_are_scaled_by_the_columns_of_the_first():
    array = counts().astype(float)
    scales = column_scales([sp.csr_array(array)])
    whole = scaled_arrays([array], "columns")[0]
    np.testing.assert_allclose(scaled_arrays([array[:5]], "columns", scales)[0], whole[:5])


def test_the_input_stays_as_it_is():
    array = counts().astype(float)
    sparse = sp.csr_array(array)
    for normalize in ("rows", "columns"):
        scaled_arrays([array, sparse], normalize)
    np.testing.assert_array_equal(array, counts())
    np.testing.assert_array_equal(sparse.toarray(), counts())


def test_beside_is_sparse_if_a_view_is():
    array = counts().astype(float)
    both = np.hstack([array, array])
    np.testing.assert_array_equal(beside([array, array]), both)
    mixed = beside([array, sp.csr_array(array)])
    assert sp.issparse(mixed)
    np.testing.assert_array_equal(mixed.toarray(), both)
    assert beside([array]) is array


def test_unknown_scaling_is_refused():
    with pytest.raises(ValueError, match="'whole'"):
        scaled_arrays([np.ones((2, 2))], "whole")


@pytest.mark.parametrize("apart", [1e-9, 1e-6])
def test_a_feature_is_constant_where_it_is_to_mmc(apart):
    array = 1000.0 + apart * np.array([[-1.0], [1.0], [1.0], [-1.0]])
    engine = engine_for(as_views([array]), normalize="columns")
    scaled = scaled_arrays([array], "columns")[0]
    assert (
        (engine.standardising(0).width[0] == 0) == (np.abs(scaled).max() < 0.5) == (apart == 1e-9)
    )
