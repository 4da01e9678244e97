import numpy as np
import pytest
import scipy.sparse as sp

from manyview.engine.entries import column_sums, row_sums, rows_of_entries, times

X = sp.random_array((12, 7), density=0.4, format="csr", rng=0)
DENSE = X.toarray()


@pytest.fixture(params=["scipy", "torch"])
def place(request):
    """The rows, and what brings arrays to where they are."""
    if request.param == "scipy":
        return X, np.asarray
    torch = pytest.importorskip("torch")
    from manyview.engine.sparse_rows import SparseRows

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
