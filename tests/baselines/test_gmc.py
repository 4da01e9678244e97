import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import GMC
from manyview.baselines import gmc as module
from manyview.baselines.common import scaled_arrays
from manyview.baselines.graphs import nearest_neighbors, squared_distances
from manyview.exceptions import NotEnoughMemoryError, ViewWarning

from .helpers import assert_same_space, blobs, no_convergence_warning, scores_on


def prepared(spread=2.0, n_neighbors=8):
    views, _ = blobs(spread=spread)
    arrays = scaled_arrays(views, "rows")
    near = [nearest_neighbors(X, n_neighbors, beyond=1) for X in arrays]
    candidates = module.Candidates.of(near)
    state = module.initial_state(candidates, 3, 0.1, np.random.default_rng(0))
    return arrays, candidates, state


def full(candidates, U):
    """Return a graph as a matrix, n x n."""
    matrix = np.zeros((U.shape[0],) * 2)
    np.add.at(matrix, (np.arange(U.shape[0])[:, None], candidates.neighbors), U)
    return matrix


class TestUpdates:
    def test_initial_graphs_by_definition(self):
        arrays, candidates, state = prepared()
        squares = squared_distances(arrays[1])
        order = np.argsort(squares, axis=1)[:, 1:10]
        d = np.take_along_axis(squares, order, axis=1)
        expected = np.zeros((60, 60))
        weights = (d[:, 8:] - d[:, :8]) / (8 * d[:, 8:] - d[:, :8].sum(axis=1, keepdims=True))
        np.put_along_axis(expected, order[:, :8], weights, axis=1)
        np.testing.assert_allclose(full(candidates, state.graphs[1]), expected, atol=1e-12)
        mean = np.mean([full(candidates, S) for S in state.graphs], axis=0)
        np.testing.assert_allclose(full(candidates, state.U), mean, atol=1e-12)

    def test_objective_by_definition(self):
        arrays, candidates, state = prepared()
        weights = module.view_weights(state.U, state.graphs)
        graphs, betas = module.updated_graphs(candidates, state.U, weights)
        value = module.objective(candidates, state.U, graphs, betas, 0.7, state.F)
        U = full(candidates, state.U)
        L = np.diag((U + U.T).sum(axis=1) / 2) - (U + U.T) / 2
        expected = 2 * 0.7 * np.trace(state.F.T @ L @ state.F)
        for X, S, beta in zip(arrays, graphs, betas, strict=True):
            S = full(candidates, S)
            expected += np.sum(squared_distances(X) * S) + beta @ (S**2).sum(axis=1)
            expected += np.hypot(np.linalg.norm(U - S), 1e-2)
        assert value == pytest.approx(expected)

    @pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
    def test_no_update_increases_the_objective(self, spread):
        _, candidates, state = prepared(spread)
        rng = np.random.default_rng(0)
        for _ in range(6):
            U, graphs, F, lambda_, _ = state
            weights = module.view_weights(U, graphs)
            new_graphs, betas = module.updated_graphs(candidates, U, weights)
            new_U = module.fused_graph(
                candidates, new_graphs, module.view_weights(U, new_graphs), lambda_, F
            )
            after, value = module.iteration(candidates, state, rng)
            np.testing.assert_array_equal(after.U, new_U)
            steps = [(U, graphs, F), (U, new_graphs, F), (new_U, new_graphs, F)]
            values = [
                module.objective(candidates, U, S, betas, lambda_, F) for U, S, F in steps
            ] + [value]
            # the betas are those at which the new graphs are the minimum
            assert (np.diff(values) <= 1e-9 * abs(values[0])).all()
            state = after

    def test_rows_are_on_the_simplex(self):
        _, candidates, state = prepared()
        for _ in range(4):
            state, _ = module.iteration(candidates, state, np.random.default_rng(0))
            for graph in (state.U, *state.graphs):
                assert graph.min() >= 0
                np.testing.assert_allclose(graph.sum(axis=1), 1.0)
                assert (full(candidates, graph).diagonal() == 0).all()

    def test_projection_to_the_simplex_is_the_nearest_point(self):
        rng = np.random.default_rng(0)
        target = rng.standard_normal((20, 5)) * 10 ** rng.uniform(-3, 8, (20, 1))
        found = module.simplex_projection(target)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        # the gradient has no part along the face, and points out of it elsewhere
        gap = target - found
        shift = np.where(found > 0, gap, -np.inf).max(axis=1, keepdims=True)
        tol = 1e-12 * np.abs(target).max(axis=1, keepdims=True)
        assert (np.where(found > 0, np.abs(gap - shift), 0) <= tol).all()
        assert (gap <= shift + tol).all()


class TestFit:
    def test_clusters_are_the_components(self):
        views, truth = blobs(n=90)
        model = GMC(3, n_neighbors=10, random_state=0).fit(views)
        count, component = sp.csgraph.connected_components(model.affinity_, directed=False)
        assert count == 3
        assert adjusted_rand_score(component, model.labels_) == 1.0
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(3), atol=1e-9)
        assert abs(model.affinity_ - model.affinity_.T).max() == 0

    def test_a_noisy_view_weighs_less(self):
        views, truth = blobs(n=120, widths=(8, 6))
        noise = np.random.default_rng(9).standard_normal((120, 30))
        model = GMC(3, random_state=0).fit([*views, noise])
        assert model.view_weights_.argmin() == 2
        assert model.view_weights_.sum() == pytest.approx(1.0)
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    def test_order_of_views_does_not_matter(self):
        views, _ = blobs(n=90, spread=2.0)
        first, second = (GMC(3, random_state=0).fit(each) for each in (views, views[::-1]))
        np.testing.assert_allclose(first.view_weights_, second.view_weights_[::-1])
        assert adjusted_rand_score(first.labels_, second.labels_) == 1.0

    @pytest.mark.parametrize("normalize", ["zscore", "rows", "columns", None])
    def test_sparse_views_give_what_dense_ones_give(self, normalize):
        views, _ = blobs(spread=1.0)
        model = GMC(3, n_neighbors=8, normalize=normalize, random_state=0)
        with no_convergence_warning():
            dense = model.fit(views)
            sparse = clone(model).fit([sp.csr_array(view) for view in views])
        assert adjusted_rand_score(sparse.labels_, dense.labels_) == 1.0
        assert_same_space(sparse.embedding_, dense.embedding_, atol=1e-7)

    @pytest.mark.parametrize("scale", [1e-100, 1e100])
    def test_standardised_samples_have_no_scale(self, scale):
        views, _ = blobs(spread=2.0)
        plain = GMC(3, random_state=0).fit(views)
        scaled = GMC(3, random_state=0).fit([scale * view for view in views])
        np.testing.assert_array_equal(scaled.labels_, plain.labels_)

    def test_one_view(self):
        views, truth = blobs(n=90, widths=(8,))
        model = GMC(3, random_state=0).fit(views)
        np.testing.assert_array_equal(model.view_weights_, [1.0])
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    def test_ending_early_is_reported_and_gives_all_clusters(self):
        with pytest.warns(ConvergenceWarning, match="components"):
            model = GMC(7, max_iter=1, random_state=0).fit(blobs(spread=3.0)[0])
        assert np.unique(model.labels_).size == 7

    def test_too_many_neighbours_for_the_memory_are_rejected(self, monkeypatch):
        monkeypatch.setattr("manyview.memory._half_of_memory", lambda: 1e4)
        with pytest.raises(NotEnoughMemoryError, match="GMC on 60 samples"):
            GMC(3).fit(blobs()[0])


class TestDegenerate:
    def test_duplicates(self):
        views = [np.repeat(view, 9, axis=0) for view in blobs(n=6)[0]]
        with pytest.warns(ConvergenceWarning):
            model = GMC(3, n_neighbors=4, random_state=0).fit(views)
        assert np.unique(model.labels_).size == 3
        assert np.isfinite(model.embedding_).all()

    def test_more_components_than_clusters(self):
        views, _ = blobs(n=80, k=8, spread=1e-2)
        with pytest.warns(ConvergenceWarning, match="components"):
            model = GMC(3, n_neighbors=4, random_state=0).fit(views)
        assert np.unique(model.labels_).size == 3

    def test_a_constant_view_has_no_weight_and_no_effect(self):
        views, _ = blobs(spread=2.0)
        alone = GMC(3, random_state=0).fit(views)
        constant = np.tile([1.0, 2.0], (60, 1))
        with pytest.warns(ViewWarning):
            beside = GMC(3, random_state=0).fit([views[0], constant, *views[1:]])
        assert beside.view_weights_[1] == 0.0
        np.testing.assert_array_equal(beside.labels_, alone.labels_)

    def test_a_single_feature_is_reported(self):
        views, _ = blobs()
        with pytest.warns(ViewWarning, match="single feature"):
            GMC(3, random_state=0).fit([*views, views[0][:, :1]])

    @pytest.mark.parametrize("n", [4, 5])
    def test_few_samples(self, n):
        with no_convergence_warning():
            model = GMC(4, n_neighbors=2, random_state=0).fit(blobs(n=n)[0])
        assert set(model.labels_) == {0, 1, 2, 3}

    def test_too_few_samples_for_the_neighbours(self):
        with pytest.raises(ValueError, match="n_neighbors=15"):
            GMC(2).fit(blobs(n=16)[0])


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("3sources", (0.692, 0.622)),
        ("bbcsport", (0.807, 0.760)),
        ("ngs", (0.982, 0.939)),
        ("handwritten", (0.882, 0.904)),
        ("100leaves", (0.824, 0.929)),
    ],
)
def test_scores_of_the_paper(data_dir, name, published):
    acc, nmi = scores_on(data_dir, name, lambda k: GMC(k, random_state=0))
    assert acc == pytest.approx(published[0], abs=0.004)
    assert nmi == pytest.approx(published[1], abs=0.01)
