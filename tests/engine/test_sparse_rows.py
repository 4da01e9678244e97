import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
SparseRows = pytest.importorskip("manyview.engine.sparse_rows").SparseRows


def thin(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.standard_normal((n, 9)) * (rng.random((n, 9)) < 0.4))


def rows():
    return SparseRows.from_scipy(thin(), torch.device("cpu"))


def test_there_and_back():
    assert (rows().to_scipy() != thin()).nnz == 0
    np.testing.assert_array_equal(rows().toarray().numpy(), thin().toarray())


def test_products():
    X, other = thin().toarray(), thin(20, seed=1)
    right = np.random.default_rng(0).standard_normal((60, 3))
    np.testing.assert_allclose((rows().T @ torch.from_numpy(right)).numpy(), X.T @ right)
    there = SparseRows.from_scipy(other, torch.device("cpu"))
    np.testing.assert_allclose((rows() @ there.T).numpy(), X @ other.toarray().T)


def test_products_of_two_are_made_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr("manyview.engine.sparse_rows._DENSE_ENTRIES", 30)
    X = thin().toarray()
    np.testing.assert_allclose((rows() @ rows().T).numpy(), X @ X.T)


def test_parts():
    X, places = thin().toarray(), np.array([5, 0, 5])
    taken = rows().take(torch.from_numpy(places))
    np.testing.assert_array_equal(taken.toarray().numpy(), X[places])
    np.testing.assert_array_equal(rows()[slice(4, 9)].toarray().numpy(), X[4:9])


def test_an_empty_row_and_no_entries():
    empty = SparseRows.from_scipy(sp.csr_array((3, 4)), torch.device("cpu"))
    assert not (empty @ torch.ones(4, 2, dtype=torch.float64)).any()
    assert not (empty.T @ torch.ones(3, 2, dtype=torch.float64)).any()
