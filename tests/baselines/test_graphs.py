import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from manyview.baselines.graphs import (
    adaptive_graph,
    distance_blocks,
    gram_matrix,
    knn_graph,
    median_width,
    nearest_neighbors,
    normalized_laplacian,
    rbf_kernel,
    squared_distances,
    warn_of_copies,
)


def rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def thinned(n=40, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2))


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def pkn_graph(X, n_neighbors=10):
    return adaptive_graph(nearest_neighbors(X, n_neighbors, beyond=1))


class TestDistances:
    @pytest.mark.parametrize("X", [rows(), thinned(), 1e6 + rows()])
    def test_equal_those_of_scipy(self, X):
        expected = cdist(dense(X), dense(X), "sqeuclidean")
        np.testing.assert_allclose(squared_distances(X), expected, atol=1e-9)

    @pytest.mark.parametrize("X", [rows(), thinned()])
    def test_blocks_add_up_to_the_whole(self, X):
        blocks = list(distance_blocks(X, block_bytes=7 * 8 * 40))
        assert [begin for begin, _ in blocks] == [0, 7, 14, 21, 28, 35]
        whole = np.vstack([block for _, block in blocks])
        np.testing.assert_allclose(whole, squared_distances(X), atol=1e-12)

    def test_well_filled_columns_of_sparse_rows(self):
        mixed = np.hstack([thinned().toarray(), 50 + rows()])
        np.testing.assert_allclose(
            squared_distances(sp.csr_array(mixed)), cdist(mixed, mixed, "sqeuclidean")
        )
        centred = mixed - mixed.mean(axis=0)
        for X in (mixed, sp.csr_array(mixed)):
            np.testing.assert_allclose(gram_matrix(X), centred @ centred.T, atol=1e-10)

    def test_duplicates_are_at_distance_zero(self):
        squares = squared_distances(np.repeat(rows(5) * 1e3 + 7, 3, axis=0))
        same = np.arange(15)[:, None] // 3 == np.arange(15) // 3
        assert (squares[same] == 0).all()
        assert (squares[~same] > 0).all()

    @pytest.mark.parametrize("far", [1e8, 1e12])
    def test_a_distant_row_does_not_change_the_others(self, far):
        X = np.vstack([rows(), np.full((1, 6), far)])
        np.testing.assert_allclose(
            squared_distances(X)[:40, :40], squared_distances(rows()), rtol=1e-6
        )


class TestNearestNeighbors:
    def test_of_tied_rows_the_first_are_taken(self):
        X = np.random.default_rng(0).integers(0, 2, (50, 5)).astype(float)
        expected, _ = nearest_neighbors(X, 6)
        squares = cdist(X, X, "sqeuclidean")
        np.fill_diagonal(squares, np.inf)
        exact = np.argsort(squares, axis=1, kind="stable")[:, :6]
        assert [set(row) for row in expected] == [set(row) for row in exact]
        for other in (sp.csr_array(X), X[:, ::-1], X * (1 / 3)):
            np.testing.assert_array_equal(nearest_neighbors(other, 6)[0], expected)

    def test_more_rows_than_a_block_holds(self):
        X = rows(2100, d=2)  # the distances take 35 MB
        found, squares = nearest_neighbors(X, 3)
        last = cdist(X[-5:], X, "sqeuclidean")
        last[np.arange(5), np.arange(2095, 2100)] = np.inf
        np.testing.assert_array_equal(found[-5:], np.argsort(last, axis=1)[:, :3])
        np.testing.assert_allclose(squares[-5:], np.sort(last, axis=1)[:, :3], atol=1e-12)

    @pytest.mark.parametrize("count", [0, 6, True])
    def test_a_bad_number_of_neighbours_is_rejected(self, count):
        with pytest.raises(ValueError, match=f"n_neighbors={count}"):
            nearest_neighbors(rows(6), count)

    def test_too_few_samples_are_rejected(self):
        with pytest.raises(ValueError, match=r"2 samples.*at least 3"):
            nearest_neighbors(rows(2), 10, beyond=1)
        with pytest.raises(ValueError, match="1 to 4"):
            nearest_neighbors(rows(6), 5, beyond=1)


def views_with_copies(copies=(20, 15, 10)):
    """Return two views with copies of some samples, in random order, and ten distinct samples."""
    rng = np.random.default_rng(0)
    kind = rng.permutation(np.repeat(np.arange(len(copies) + 10), [*copies, *[1] * 10]))
    return [rng.standard_normal((kind.max() + 1, width))[kind] for width in (4, 3)]


class TestWarningOfCopies:
    @staticmethod
    def warn(arrays, n_neighbors, n_clusters=3, beyond=0):
        nearest = [nearest_neighbors(X, n_neighbors, beyond=beyond) for X in arrays]
        warn_of_copies(nearest, n_neighbors, n_clusters)

    def silent(self, *arguments, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.warn(*arguments, **options)

    @pytest.mark.parametrize("beyond", [0, 1])
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_more_copies_than_neighbours(self, kind, beyond):
        arrays = [kind(view) for view in views_with_copies()]
        with pytest.warns(ConvergenceWarning, match=r"19 copies.*n_neighbors=18.*to 19"):
            self.warn(arrays, 18, beyond=beyond)
        self.silent(arrays, 19, beyond=beyond)

    def test_samples_that_differ_in_one_view_are_no_copies(self):
        self.silent([*views_with_copies(), rows(55, 2, seed=1)], 5)
        first, second = np.divmod(np.arange(36), 6)
        self.silent([np.eye(6)[first], np.eye(6)[second]], 3)

    def test_a_view_may_have_more_copies(self):
        first = np.repeat([0, 1], 20)
        with pytest.warns(ConvergenceWarning, match=r"19 copies.*n_neighbors to 39"):
            self.warn([np.eye(2)[first], np.ones((40, 2))], 4, n_clusters=2)

    def test_not_for_one_cluster_nor_for_fewer_distinct_samples_than_clusters(self):
        self.silent(views_with_copies(), 5, n_clusters=1)
        self.silent([np.ones((20, 2))], 5, n_clusters=2)


class TestKernel:
    @pytest.mark.parametrize("n", [2, 3, 4, 5, 12, 41])
    def test_width_is_the_median_of_all_pairs_with_the_diagonal(self, n):
        X = rows(n)
        assert median_width(X) == pytest.approx(np.median(cdist(X, X)))

    def test_width_of_mostly_duplicates_is_that_of_positive_distances(self):
        X = np.zeros((10, 2))
        X[0] = [3, 4]
        assert median_width(X) == 5.0

    def test_equal_rows_are_rejected(self):
        with pytest.raises(ValueError, match="flat"):
            median_width(np.ones((5, 2)), "flat")

    def test_width_of_many_samples_is_that_of_some(self):
        X = rows(200)
        assert median_width(X, max_samples=100) == pytest.approx(median_width(X), rel=0.1)

    @pytest.mark.parametrize("X", [rows(), thinned()])
    def test_kernel_by_definition(self, X):
        distances = cdist(dense(X), dense(X))
        expected = np.exp(-(distances**2) / (2 * np.median(distances) ** 2))
        np.testing.assert_allclose(rbf_kernel(X), expected, atol=1e-12)


class TestNeighbourGraph:
    @pytest.mark.parametrize("X", [rows(), thinned()])
    def test_heat_weights_of_the_nearest(self, X):
        distances = cdist(dense(X), dense(X))
        width = np.median(distances)
        np.fill_diagonal(distances, np.inf)
        near = distances <= np.sort(distances, axis=1)[:, 3:4]
        expected = np.where(near | near.T, np.exp(-(distances**2) / (2 * width**2)), 0)
        graph = knn_graph(X, 4)
        assert sp.issparse(graph)
        np.testing.assert_allclose(graph.toarray(), expected, atol=1e-12)

    def test_equal_rows_have_weights_one(self):
        graph = knn_graph(np.ones((6, 2)), 2)
        assert set(graph.data) == {1.0}
        assert (graph.sum(axis=1) >= 2).all()


class TestAdaptiveGraph:
    def test_weights_by_definition(self):
        X = rows()
        order = np.argsort(squared_distances(X), axis=1)[:, 1:7]
        squares = np.take_along_axis(squared_distances(X), order, axis=1)
        total = 5 * squares[:, 5] - squares[:, :5].sum(axis=1)
        expected = np.zeros((40, 40))
        weights = (squares[:, 5:] - squares[:, :5]) / total[:, None]
        np.put_along_axis(expected, order[:, :5], weights, axis=1)
        np.testing.assert_allclose(expected.sum(axis=1), 1)
        graph = pkn_graph(X, 5).toarray()
        np.testing.assert_allclose(graph, 0.5 * (expected + expected.T), atol=1e-12)

    def test_scale_does_not_matter(self):
        X = rows()
        np.testing.assert_allclose(
            pkn_graph(1e-3 * X).toarray(), pkn_graph(X).toarray(), atol=1e-12
        )

    def test_duplicates_have_equal_weights(self):
        graph = pkn_graph(np.repeat(rows(3), 5, axis=0), 3)
        assert np.isfinite(graph.data).all()
        assert graph.sum() == pytest.approx(15)
        assert (graph.sum(axis=1) >= 0.5).all()


class TestLaplacian:
    def test_sparse_and_dense_agree(self):
        graph = knn_graph(rows(), 5)
        sparse = normalized_laplacian(graph)
        laplacian = normalized_laplacian(graph.toarray())
        assert sp.issparse(sparse)
        np.testing.assert_allclose(sparse.toarray(), laplacian, atol=1e-14)
        values = np.linalg.eigvalsh(laplacian)
        assert values[0] == pytest.approx(0, abs=1e-12)
        assert values[-1] <= 2 + 1e-12
        np.testing.assert_array_equal(laplacian, laplacian.T)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_an_isolated_sample_has_one_on_the_diagonal(self, kind):
        graph = np.array([[0.0, 2, 0], [2, 0, 0], [0, 0, 0]])
        laplacian = dense(normalized_laplacian(kind(graph)))
        np.testing.assert_allclose(laplacian, [[1, -1, 0], [-1, 1, 0], [0, 0, 1]])
