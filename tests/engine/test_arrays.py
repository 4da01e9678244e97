import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

from manyview.engine.arrays import (
    column_sums,
    largest,
    row_sums,
    rows_of_entries,
    times,
    uniform_of_rows,
)


@pytest.mark.parametrize("count", [1, 5, 40, 97])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_largest_entries_stand_in_order(count, dtype):
    rows = np.random.default_rng(0).normal(size=(13, 97)).astype(dtype)
    np.testing.assert_array_equal(largest(rows, count), np.argsort(-rows, axis=1)[:, :count])


def test_rows_without_a_finite_entry_have_largest_ones():
    rows = np.full((3, 64), -np.inf)
    rows[1, 5] = np.inf
    found = largest(rows, 3)
    assert found[1, 0] == 5
    assert all(np.unique(row).size == 3 for row in found)


@pytest.mark.parametrize("count", [1, 3, 30])
def test_largest_of_equal_entries_are_different_ones(count):
    rows = np.random.default_rng(0).integers(0, 3, size=(50, 64)).astype(float)
    rows[0] = 1.0
    found = largest(rows, count)
    assert all(np.unique(row).size == count for row in found)
    expected = -np.sort(-rows, axis=1)[:, :count]
    np.testing.assert_array_equal(np.take_along_axis(rows, found, axis=1), expected)


X = sp.random_array((12, 7), density=0.4, format="csr", random_state=0)
DENSE = X.toarray()


@pytest.fixture(params=["scipy", "torch"])
def place(request):
    """The rows, and what brings arrays to where they are."""
    if request.param == "scipy":
        return X, np.asarray
    torch = pytest.importorskip("torch")
    from manyview.engine.torch import SparseRows

    return SparseRows.from_scipy(X, "cpu"), torch.as_tensor


def test_the_row_of_each_entry(place):
    x, _ = place
    np.testing.assert_array_equal(rows_of_entries(x), DENSE.nonzero()[0])


@pytest.mark.parametrize("of_rows", [False, True])
@pytest.mark.parametrize("of_columns", [False, True])
def test_rows_and_columns_are_multiplied(place, of_rows, of_columns):
    x, placed = place
    rng = np.random.default_rng(0)
    rows, columns = rng.standard_normal(12), rng.standard_normal(7)
    found = times(x, placed(rows) if of_rows else None, placed(columns) if of_columns else None)
    expected = DENSE * (rows[:, None] if of_rows else 1.0) * (columns if of_columns else 1.0)
    np.testing.assert_allclose(np.asarray(found.toarray()), expected)
    np.testing.assert_array_equal(X.toarray(), DENSE)


def test_sums(place):
    x, _ = place
    np.testing.assert_allclose(np.asarray(row_sums(x, x.data**2)), (DENSE**2).sum(axis=1))
    np.testing.assert_allclose(np.asarray(column_sums(x, x.data)), DENSE.sum(axis=0))


def test_numbers_are_uniform_and_seeds_differ():
    rows = np.arange(20_000, dtype=np.uint64)
    first, second = uniform_of_rows(rows, 0), uniform_of_rows(rows, 1)
    for numbers in (first, second):
        assert scipy.stats.kstest(numbers, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.03
    assert abs(np.corrcoef(first[2:], second[2:])[0, 1]) < 0.03


def test_seeds_are_not_shifts_of_each_other():
    rows = np.arange(1000, dtype=np.uint64)
    assert not np.isin(uniform_of_rows(rows, 0), uniform_of_rows(rows, 1)).any()
