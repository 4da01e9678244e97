import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import AMGL
from manyview.baselines.graphs import adaptive_graph, nearest_neighbors, normalized_laplacian
from manyview.datasets import read_views
from manyview.exceptions import ViewWarning

from .helpers import assert_same_space, blobs, mean_scores_on_3sources


def laplacian(view):
    graph = adaptive_graph(nearest_neighbors(view, 10, beyond=1))
    return normalized_laplacian(graph).toarray()


class TestObjective:
    @pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
    def test_does_not_rise(self, spread):
        views, _ = blobs(spread=spread)
        model = AMGL(4, random_state=0).fit(views)
        assert model.objective_.shape == (model.n_iter_,)
        assert (np.diff(model.objective_) <= 1e-9).all()

    def test_by_definition_and_stationary(self):
        views, _ = blobs(spread=3.0)
        model = AMGL(3, tol=1e-14, max_iter=500, random_state=0).fit(views)
        F = model.embedding_
        np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-10)
        laplacians = [laplacian(view) for view in views]
        cuts = np.array([np.trace(F.T @ L @ F) for L in laplacians])
        assert model.objective_[-1] == pytest.approx(np.sqrt(cuts).sum())
        weights = 1 / np.sqrt(cuts)
        np.testing.assert_allclose(model.view_weights_, weights / weights.sum())
        vectors = np.linalg.eigh(sum(w * L for w, L in zip(weights, laplacians, strict=True)))[1]
        assert_same_space(F, vectors[:, :3], atol=1e-5)


class TestEmbedding:
    def test_equal_views_are_one_view_with_equal_weights(self):
        views, _ = blobs(spread=2.0)
        vectors = np.linalg.eigh(laplacian(views[0]))[1]
        model = AMGL(3, random_state=0).fit([views[0]] * 3)
        np.testing.assert_allclose(model.view_weights_, 1 / 3)
        assert_same_space(model.embedding_, vectors[:, :3], atol=1e-8)

    def test_order_of_views_does_not_matter(self):
        views, _ = blobs(spread=3.0)
        first, second = (AMGL(3, random_state=0).fit(each) for each in (views, views[::-1]))
        np.testing.assert_allclose(first.view_weights_, second.view_weights_[::-1])
        assert_same_space(first.embedding_, second.embedding_, atol=1e-7)

    def test_a_noisy_view_weighs_less(self):
        views, truth = blobs(n=120, widths=(8, 6))
        noise = np.random.default_rng(9).standard_normal((120, 30))
        model = AMGL(3, n_init=5, random_state=0).fit([*views, noise])
        assert model.view_weights_.argmin() == 2
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    @pytest.mark.parametrize("n", [90, 600])
    def test_graphs_with_as_many_components_as_clusters_are_recovered(self, n):
        views, truth = blobs(n=n, spread=1e-2)
        model = AMGL(3, n_init=5, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        assert np.isfinite(model.view_weights_).all()
        np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(3), atol=1e-9)

    def test_many_samples_are_solved_by_lanczos(self):
        views, _ = blobs(n=600, spread=3.0)
        model = AMGL(3, tol=1e-12, random_state=0).fit(views)
        combined = sum(
            a * laplacian(view) for a, view in zip(model.view_weights_, views, strict=True)
        )
        assert_same_space(model.embedding_, np.linalg.eigh(combined)[1][:, :3], atol=1e-4)

    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_sparse_views_give_what_dense_ones_give(self, normalize):
        views, _ = blobs(spread=3.0)
        model = AMGL(3, normalize=normalize, random_state=0)
        dense = model.fit(views).embedding_
        sparse = clone(model).fit([sp.csr_array(view) for view in views]).embedding_
        assert_same_space(sparse, dense, atol=1e-7)


class TestEstimator:
    def test_what_is_recorded(self):
        views, truth = blobs()
        model = AMGL(3, unit_embedding=True, n_init=5, random_state=0)
        assert (
            adjusted_rand_score(truth, model.fit_predict(dict(zip("abc", views, strict=True)))) == 1
        )
        assert (model.n_views_, model.n_features_in_) == (3, [8, 6, 5])
        assert model.view_names_ == ["a", "b", "c"]

    def test_same_seed_same_labels(self):
        views, _ = blobs(spread=4.0)
        first, second = (AMGL(3, random_state=1).fit(views).labels_ for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_ending_early_is_reported(self):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            AMGL(3, max_iter=2, random_state=0).fit(blobs(spread=3.0)[0])


class TestDegenerate:
    def test_duplicates_and_zero_rows(self):
        views, _ = blobs(n=6)
        views = [np.vstack([np.repeat(v, 9, axis=0), np.zeros((9, v.shape[1]))]) for v in views]
        with pytest.warns(ConvergenceWarning, match="n_neighbors=4"):
            model = AMGL(3, n_neighbors=4, random_state=0).fit(views)
        assert np.isfinite(model.embedding_).all()
        assert np.isfinite(model.view_weights_).all()
        assert set(model.labels_) == {0, 1, 2}

    def test_blocks_of_many_equal_eigenvalues(self):
        truth = np.repeat([0, 1], 300)
        with pytest.warns(ConvergenceWarning, match="299 copies"):
            model = AMGL(2, random_state=0).fit([np.eye(3)[truth], np.eye(2)[truth]])
        np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(2), atol=1e-9)

    def test_the_warning_of_copies_names_their_number_within_a_view(self):
        rng = np.random.default_rng(0)
        first, second = rng.integers(0, 3, 200), rng.integers(0, 2, 200)
        together = np.bincount(2 * first + second).max() - 1
        within = np.bincount(second).max() - 1
        with pytest.warns(ConvergenceWarning, match=f"{together} copies.* n_neighbors to {within}"):
            AMGL(6, random_state=0).fit([np.eye(3)[first], np.eye(2)[second]])

    def test_one_cluster_needs_one_iteration(self):
        model = AMGL(1, random_state=0).fit(blobs(spread=3.0)[0])
        assert model.n_iter_ == 1
        assert set(model.labels_) == {0}

    def test_a_constant_view(self):
        views, _ = blobs()
        with pytest.warns(ViewWarning):
            model = AMGL(3, random_state=0).fit([*views, np.ones((60, 2))])
        assert np.isfinite(model.embedding_).all()

    @pytest.mark.parametrize("n", [4, 5])
    def test_few_samples(self, n):
        model = AMGL(4, n_neighbors=2, random_state=0).fit(blobs(n=n)[0])
        assert set(model.labels_) == {0, 1, 2, 3}

    def test_too_few_samples_for_the_neighbours(self):
        with pytest.raises(ValueError, match="n_neighbors=10"):
            AMGL(2).fit(blobs(n=11)[0])


@pytest.mark.data
def test_scores_on_3sources(data_dir):
    # measured with an independent implementation of the same specification
    model = AMGL(6, random_state=0).fit(read_views(data_dir / "3sources.npz").views)
    scores = mean_scores_on_3sources(data_dir, lambda views, seed: model.relabelled(seed))
    assert scores == (pytest.approx(0.35, abs=0.04), pytest.approx(0.15, abs=0.05))


@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
def test_a_view_with_equal_rows_has_no_weight_and_no_effect():
    views, _ = blobs(spread=2.0)
    alone = AMGL(3, random_state=0).fit(views)
    beside = AMGL(3, random_state=0).fit([views[0], np.tile([1.0, 2.0], (60, 1)), *views[1:]])
    assert beside.view_weights_[1] == 0.0
    np.testing.assert_array_equal(beside.labels_, alone.labels_)
    np.testing.assert_allclose(np.delete(beside.view_weights_, 1), alone.view_weights_)


def test_at_least_three_iterations():
    views, _ = blobs()
    assert AMGL(3, tol=1.0, random_state=0).fit([views[0]]).n_iter_ == 3
