import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from manyview.baselines import graphs
from manyview.baselines import graphs as distances
from manyview.baselines.graphs import gram_matrix, nearest_rows, squared_distances


def rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def thinned(n=40, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2))


class TestWidth:
    @pytest.mark.parametrize("n", [2, 3, 4, 5, 12, 41])
    def test_median_of_all_pairs_with_the_diagonal(self, n):
        X = rows(n)
        assert graphs.median_width(X) == pytest.approx(np.median(cdist(X, X)))

    def test_found_block_by_block(self, monkeypatch):
        expected = graphs.median_width(rows())
        monkeypatch.setattr(distances, "_BLOCK_BYTES", 3 * 8 * 40)
        assert graphs.median_width(rows()) == pytest.approx(expected)

    def test_mostly_duplicates_fall_back_on_positive_distances(self):
        X = np.zeros((10, 2))
        X[0] = [3, 4]
        assert graphs.median_width(X) == 5.0

    def test_equal_rows_are_refused_by_name(self):
        with pytest.raises(ValueError, match=r"'flat'.*equal"):
            graphs.median_width(np.ones((5, 2)), "flat")

    def test_many_samples_are_stood_for_by_some(self, monkeypatch):
        X = rows(200)
        whole = graphs.median_width(X)
        monkeypatch.setattr(graphs, "_WIDTH_SAMPLES", 100)
        assert graphs.median_width(X) == pytest.approx(whole, rel=0.1)


class TestKernel:
    @pytest.mark.parametrize("X", [rows(), thinned()])
    def test_kernel_by_definition(self, X):
        dense = X.toarray() if sp.issparse(X) else X
        apart = cdist(dense, dense)
        expected = np.exp(-(apart**2) / (2 * np.median(apart) ** 2))
        np.testing.assert_allclose(graphs.rbf_kernel(X), expected, atol=1e-12)


class TestNeighbourGraph:
    @pytest.mark.parametrize("X", [rows(), thinned()])
    def test_heat_weights_of_the_nearest(self, X, monkeypatch):
        monkeypatch.setattr(distances, "_BLOCK_BYTES", 7 * 8 * 40)
        dense = X.toarray() if sp.issparse(X) else X
        apart = cdist(dense, dense)
        width = np.median(apart)
        np.fill_diagonal(apart, np.inf)
        near = apart <= np.sort(apart, axis=1)[:, 3:4]
        expected = np.where(near | near.T, np.exp(-(apart**2) / (2 * width**2)), 0)
        graph = graphs.knn_graph(X, 4)
        assert sp.issparse(graph)
        np.testing.assert_allclose(graph.toarray(), expected, atol=1e-12)

    def test_equal_rows_have_weights_one(self):
        graph = graphs.knn_graph(np.ones((6, 2)), 2)
        assert set(graph.data) == {1.0}
        assert (graph.sum(axis=1) >= 2).all()

    @pytest.mark.parametrize("count", [0, 6, 9])
    def test_too_many_neighbours(self, count):
        with pytest.raises(ValueError, match=f"n_neighbors={count}"):
            graphs.knn_graph(rows(6), count)

    @pytest.mark.parametrize("graph", [graphs.knn_graph, graphs.pkn_graph])
    def test_a_truth_value_is_no_number_of_neighbours(self, graph):
        with pytest.raises(ValueError, match="n_neighbors=True; expected a whole number"):
            graph(rows(6), True)

    def test_too_few_samples_for_any_number_of_neighbours(self):
        with pytest.raises(ValueError, match=r"received 2 samples; .* needs at least 3"):
            graphs.pkn_graph(rows(2), 10)


class TestAdaptiveGraph:
    def test_weights_before_symmetry_sum_to_one(self):
        X = rows()
        squares = np.sort(distances.squared_distances(X), axis=1)[:, 1:7]
        weights = (squares[:, 5:] - squares[:, :5]) / (5 * squares[:, 5] - squares[:, :5].sum(1))[
            :, None
        ]
        np.testing.assert_allclose(weights.sum(axis=1), 1)
        graph = graphs.pkn_graph(X, 5)
        assert graph.sum() == pytest.approx(40)
        assert abs(graph - graph.T).max() == 0
        nearest = np.argsort(distances.squared_distances(X)[0])[1]
        back = graphs.pkn_graph(X, 5)[0, nearest]
        assert back >= 0.5 * weights[0, 0] - 1e-12

    def test_scale_does_not_matter(self):
        X = rows()
        np.testing.assert_allclose(
            graphs.pkn_graph(1e-3 * X).toarray(), graphs.pkn_graph(X).toarray(), atol=1e-12
        )

    def test_duplicates_share_their_weight(self):
        X = np.repeat(rows(3), 5, axis=0)
        graph = graphs.pkn_graph(X, 3)
        assert np.isfinite(graph.data).all()
        assert graph.sum() == pytest.approx(15)
        assert (graph.sum(axis=1) >= 0.5).all()

    def test_one_more_neighbour_must_exist(self):
        with pytest.raises(ValueError, match="expected 1 to 4"):
            graphs.pkn_graph(rows(6), 5)


class TestLaplacian:
    def test_sparse_and_dense_agree(self):
        graph = graphs.knn_graph(rows(), 5)
        sparse = graphs.normalized_laplacian(graph)
        dense = graphs.normalized_laplacian(graph.toarray())
        assert sp.issparse(sparse)
        np.testing.assert_allclose(sparse.toarray(), dense, atol=1e-14)
        values = np.linalg.eigvalsh(dense)
        assert values[0] == pytest.approx(0, abs=1e-12)
        assert values[-1] <= 2 + 1e-12
        np.testing.assert_array_equal(dense, dense.T)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_a_sample_of_no_degree_has_one_on_the_diagonal(self, kind):
        graph = np.array([[0.0, 2, 0], [2, 0, 0], [0, 0, 0]])
        laplacian = graphs.normalized_laplacian(kind(graph))
        laplacian = laplacian.toarray() if sp.issparse(laplacian) else laplacian
        np.testing.assert_allclose(laplacian, [[1, -1, 0], [-1, 1, 0], [0, 0, 1]])


def rows_distances(n=40, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def thinned_distances(n=40, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2))


@pytest.mark.parametrize("X", [rows_distances(), thinned_distances(), 1e6 + rows_distances()])
def test_those_of_scipy(X):
    dense = X.toarray() if sp.issparse(X) else X
    np.testing.assert_allclose(squared_distances(X), cdist(dense, dense, "sqeuclidean"), atol=1e-9)


def test_well_filled_columns_of_sparse_rows():
    mixed = np.hstack([thinned_distances().toarray(), 50 + rows_distances()])
    np.testing.assert_allclose(
        squared_distances(sp.csr_array(mixed)), cdist(mixed, mixed, "sqeuclidean")
    )
    centred = mixed - mixed.mean(axis=0)
    for X in (mixed, sp.csr_array(mixed)):
        np.testing.assert_allclose(gram_matrix(X), centred @ centred.T, atol=1e-10)


def test_duplicates_are_at_distance_zero():
    X = np.repeat(rows_distances(5) * 1e3 + 7, 3, axis=0)
    squares = squared_distances(X)
    same = np.arange(15)[:, None] // 3 == np.arange(15) // 3
    assert (squares[same] == 0).all()
    assert (squares[~same] > 0).all()


@pytest.mark.parametrize("far", [1e8, 1e12])
def test_one_row_far_off_does_not_blur_the_others(far):
    X = np.vstack([rows_distances(), np.full((1, 6), far)])
    np.testing.assert_allclose(
        squared_distances(X)[:40, :40], squared_distances(rows_distances()), rtol=1e-6
    )


def test_of_neighbours_that_tie_the_first_ones_are_taken():
    X = np.random.default_rng(0).integers(0, 2, (50, 5)).astype(float)
    expected, _ = nearest_rows(X, 6)
    squares = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(squares, np.inf)
    exact = np.argsort(squares, axis=1, kind="stable")[:, :6]
    assert [set(row) for row in expected] == [set(row) for row in exact]
    for other in (sp.csr_array(X), X[:, ::-1], X * (1 / 3)):
        np.testing.assert_array_equal(nearest_rows(other, 6)[0], expected)
