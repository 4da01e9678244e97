import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from manyview.baselines.distances import gram_matrix, nearest_rows, squared_distances


def rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def thinned(n=40, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2))


@pytest.mark.parametrize("X", [rows(), thinned(), 1e6 + rows()])
def test_those_of_scipy(X):
    dense = X.toarray() if sp.issparse(X) else X
    np.testing.assert_allclose(squared_distances(X), cdist(dense, dense, "sqeuclidean"), atol=1e-9)


def test_well_filled_columns_of_sparse_rows():
    mixed = np.hstack([thinned().toarray(), 50 + rows()])
    np.testing.assert_allclose(
        squared_distances(sp.csr_array(mixed)), cdist(mixed, mixed, "sqeuclidean")
    )
    centred = mixed - mixed.mean(axis=0)
    for X in (mixed, sp.csr_array(mixed)):
        np.testing.assert_allclose(gram_matrix(X), centred @ centred.T, atol=1e-10)


def test_duplicates_are_at_distance_zero():
    X = np.repeat(rows(5) * 1e3 + 7, 3, axis=0)
    squares = squared_distances(X)
    same = np.arange(15)[:, None] // 3 == np.arange(15) // 3
    assert (squares[same] == 0).all()
    assert (squares[~same] > 0).all()


@pytest.mark.parametrize("far", [1e8, 1e12])
def test_one_row_far_off_does_not_blur_the_others(far):
    X = np.vstack([rows(), np.full((1, 6), far)])
    np.testing.assert_allclose(squared_distances(X)[:40, :40], squared_distances(rows()), rtol=1e-6)


def test_of_neighbours_that_tie_the_first_ones_are_taken():
    X = np.random.default_rng(0).integers(0, 2, (50, 5)).astype(float)
    expected, _ = nearest_rows(X, 6)
    squares = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(squares, np.inf)
    exact = np.argsort(squares, axis=1, kind="stable")[:, :6]
    assert [set(row) for row in expected] == [set(row) for row in exact]
    for other in (sp.csr_array(X), X[:, ::-1], X * (1 / 3)):
        np.testing.assert_array_equal(nearest_rows(other, 6)[0], expected)
