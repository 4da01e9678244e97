import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview import as_views
from manyview.baselines import SEC
from manyview.baselines import sec as module
from manyview.baselines.common import concatenated
from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.datasets import read_views
from manyview.exceptions import NotEnoughMemoryError, ViewWarning
from manyview.linalg.partition import cluster_rows

from .helpers import assert_same_space, blobs, mean_scores_on_3sources


def misfit_by_definition(X, gamma):
    """Primal form of L_g."""
    n, d = X.shape
    centred = X - X.mean(axis=0)
    inner = np.linalg.inv(centred.T @ centred + gamma * np.eye(d))
    return np.eye(n) - 1 / n - centred @ inner @ centred.T


def misfit(X, gamma):
    return module.misfit_matrix(*module._spectrum(X, by_features=False), gamma)


class TestMisfit:
    @pytest.mark.parametrize("width", [5, 100])
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_primal_and_dual_agree(self, width, kind):
        X = 3 + np.random.default_rng(0).standard_normal((30, width))
        np.testing.assert_allclose(misfit(kind(X), 0.3), misfit_by_definition(X, 0.3), atol=1e-9)

    @pytest.mark.parametrize("gamma", [1e-10, 1.0, 1e8])
    @pytest.mark.parametrize("width", [5, 100])
    def test_spectrum_and_null_vector(self, gamma, width):
        X = 3 + np.random.default_rng(0).standard_normal((30, width))
        for data in (X, sp.csr_array(X)):
            L_g = misfit(data, gamma)
            values = np.linalg.eigvalsh(L_g)
            assert values[0] > -1e-10
            assert values[-1] < 1 + 1e-10
            assert np.abs(L_g.sum(axis=1)).max() < 1e-12

    @pytest.mark.parametrize("width", [5, 100])
    def test_a_common_offset_changes_nothing(self, width):
        X = np.random.default_rng(0).standard_normal((30, width))
        np.testing.assert_allclose(misfit(1e6 + X, 0.3), misfit(X, 0.3), atol=1e-6)

    @pytest.mark.parametrize("width", [5, 100])
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_constant_columns_explain_nothing(self, width, kind):
        X = kind(np.full((30, width), 0.1))
        np.testing.assert_array_equal(misfit(X, 1e-12), np.eye(30) - 1 / 30)


class TestEmbedding:
    @pytest.mark.parametrize("widths", [(8, 6), (50, 60)])
    def test_minimises_the_objective(self, widths):
        views, _ = blobs(widths=widths)
        model = SEC(3, mu=0.7, gamma=2.0, random_state=0).fit(views)
        X, F = concatenated(views), model.embedding_
        np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-10)
        L = normalized_laplacian(knn_graph(X)).toarray()

        def objective(F, W, b):
            residual = X @ W + b - F
            return np.trace(F.T @ L @ F) + 0.7 * ((residual**2).sum() + 2.0 * (W**2).sum())

        value = objective(F, model.coef_, model.intercept_)
        assert model.objective_ == pytest.approx([value])
        total = np.linalg.eigvalsh(L + 0.7 * misfit_by_definition(X, 2.0))[:3].sum()
        assert value == pytest.approx(total)
        rng = np.random.default_rng(0)
        for _ in range(5):
            W = model.coef_ + 1e-3 * rng.standard_normal(model.coef_.shape)
            assert objective(F, W, model.intercept_) > value
            b = model.intercept_ + 1e-3 * rng.standard_normal(3)
            assert objective(F, model.coef_, b) > value

    def test_without_the_linear_function_it_is_spectral_clustering(self):
        views, _ = blobs(spread=2.0)
        L = normalized_laplacian(knn_graph(concatenated(views))).toarray()
        vectors = np.linalg.eigh(L)[1][:, :3]
        F = SEC(3, mu=0.0, random_state=0).fit(views).embedding_
        assert_same_space(F, vectors, atol=1e-8)

    def test_with_large_weights_it_is_relaxed_kmeans(self):
        views, _ = blobs(spread=2.0)
        X = concatenated(views)
        U = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0]
        expected = np.column_stack([np.full(60, 60**-0.5), U[:, :2]])
        F = SEC(3, mu=1e10, gamma=1e5, random_state=0).fit(views).embedding_
        assert_same_space(F, expected, atol=1e-3)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("n", [120, 600])
    def test_solutions_by_samples_and_by_features_agree(self, kind, n):
        X = kind(concatenated(blobs(n=n, spread=1.5)[0]))
        laplacian = normalized_laplacian(knn_graph(X))
        (F, W, value), (other_F, other_W, other) = (
            embed(X, laplacian, 3, 1.0, 1.0, np.random.default_rng(0))
            for embed in (module._embed_by_samples, module._embed_by_features)
        )
        assert_same_space(F, other_F)
        assert_same_space(X @ W, X @ other_W, atol=1e-6)
        assert value == pytest.approx(other)

    def test_more_features_than_samples_and_no_penalty_leave_spectral_clustering(self):
        views, _ = blobs(n=40, widths=(60, 70), spread=3.0)
        plain, inert = (SEC(3, mu=mu, gamma=1e-10).fit(views) for mu in (0.0, 1.0))
        assert_same_space(inert.embedding_, plain.embedding_, atol=1e-6)


class TestLabels:
    @pytest.mark.parametrize("assign", ["kmeans", "rotation"])
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_clear_clusters_are_found_and_predicted(self, assign, normalize, kind):
        views, truth = blobs(n=150)
        model = SEC(3, mu=10.0, assign=assign, normalize=normalize, n_init=5, random_state=0).fit(
            [kind(view[:100]) for view in views]
        )
        assert adjusted_rand_score(truth[:100], model.labels_) > 0.95
        unseen = [kind(view[100:]) for view in views]
        assert adjusted_rand_score(truth[100:], model.predict(unseen)) > 0.95
        assert model.transform(unseen).shape == (50, 3)

    def test_a_sample_is_embedded_independently_of_the_others(self):
        views, _ = blobs()
        model = SEC(3, normalize="columns", random_state=0).fit(views)
        alone = model.transform([view[:1] for view in views])
        np.testing.assert_allclose(alone, model.transform(views)[:1])

    @pytest.mark.parametrize("method", ["predict", "transform"])
    def test_out_of_sample_data_may_not_miss_a_view(self, method):
        views, _ = blobs()
        model = SEC(3, random_state=0).fit(views)
        present = np.ones((60, 3), dtype=bool)
        present[4, 1] = False
        with pytest.raises(ValueError, match="SEC"):
            getattr(model, method)(as_views(views, present=present))

    def test_same_seed_same_labels_and_clone(self):
        views, _ = blobs(spread=3.0)
        model = SEC(3, random_state=3)
        first, second = model.fit(views).labels_, clone(model).fit(views).labels_
        np.testing.assert_array_equal(first, second)

    def test_what_is_recorded(self):
        views, _ = blobs(widths=(8, 6))
        model = SEC(3, random_state=0).fit({"a": views[0], "b": views[1]})
        assert (model.n_views_, model.n_features_in_, model.n_iter_) == (2, [8, 6], 1)
        assert model.coef_.shape == (14, 3)
        assert list(model.get_feature_names_out()) == ["sec0", "sec1", "sec2"]


class TestDegenerate:
    def test_duplicates_and_zero_rows(self):
        views, _ = blobs(n=20)
        views = [
            np.vstack([np.repeat(view, 3, axis=0), np.zeros((3, view.shape[1]))]) for view in views
        ]
        for normalize in (None, "rows", "columns"):
            model = SEC(3, n_neighbors=4, normalize=normalize, random_state=0).fit(views)
            assert np.isfinite(model.embedding_).all()
            assert set(model.labels_) == {0, 1, 2}

    def test_as_many_neighbours_as_copies_keep_these_together(self):
        rng = np.random.default_rng(0)
        first, second = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
        views, kind = [np.eye(3)[first], np.eye(2)[second]], 2 * first + second
        copies = int(np.bincount(kind).max()) - 1
        with pytest.warns(ConvergenceWarning, match=rf"n_neighbors to {copies}\b"):
            SEC(6, random_state=0).fit(views)
        model = SEC(6, n_neighbors=copies, random_state=0).fit(views)
        assert adjusted_rand_score(kind, model.labels_) == 1.0

    @pytest.mark.parametrize("n", [4, 5])
    def test_few_samples(self, n):
        views, _ = blobs(n=n)
        model = SEC(4, n_neighbors=2, random_state=0).fit(views)
        assert set(model.labels_) == {0, 1, 2, 3}

    def test_a_disconnected_graph(self):
        views, truth = blobs(n=60, spread=1e-3)
        model = SEC(3, n_init=5, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(3), atol=1e-9)

    def test_a_constant_view_changes_nothing(self):
        views, _ = blobs()
        expected = SEC(3, random_state=0).fit(views)
        with pytest.warns(ViewWarning):
            model = SEC(3, random_state=0).fit([*views, np.full((60, 2), 5.0)])
        assert_same_space(model.embedding_, expected.embedding_, atol=1e-8)

    def test_nothing_but_a_constant_view(self):
        with (
            pytest.warns(ConvergenceWarning),
            pytest.warns(ViewWarning),
        ):
            model = SEC(2, n_neighbors=3, random_state=0).fit([np.ones((8, 2))])
        assert np.isfinite(model.embedding_).all()
        assert np.abs(model.coef_).max() == 0

    def test_too_few_samples_for_the_neighbours(self):
        with pytest.raises(ValueError, match="n_neighbors=10"):
            SEC(2).fit(blobs(n=10)[0])

    @pytest.mark.parametrize(
        "bad",
        [{"gamma": 0.0}, {"mu": -1.0}, {"mu": 1e308}, {"assign": "guess"}, {"n_neighbors": True}],
    )
    def test_parameters_are_checked(self, bad):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SEC(2, **bad).fit(blobs()[0])

    def test_the_largest_mu_is_finite(self):
        views, truth = blobs()
        model = SEC(3, mu=1e300, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    def test_memory_is_checked_beforehand(self):
        with pytest.raises(NotEnoughMemoryError, match="SEC"):
            SEC(2).fit([sp.eye_array(10**6, format="csr")])


@pytest.mark.data
def test_scores_on_3sources(data_dir):
    # measured with an independent implementation of the same specification
    model = SEC(6, random_state=0).fit(read_views(data_dir / "3sources.npz").views)
    scores = mean_scores_on_3sources(data_dir, lambda views, seed: model.relabelled(seed))
    assert scores == (pytest.approx(0.32, abs=0.04), pytest.approx(0.32, abs=0.04))


@pytest.mark.parametrize("mu", [0.0, 1e-10, 1.0])
def test_a_graph_with_many_components(mu):
    views, truth = blobs(n=640, widths=(5, 5), k=20, spread=0.02)
    X = concatenated(views)
    laplacian = normalized_laplacian(knn_graph(X))
    rng = np.random.default_rng(0)
    F, _, _ = module._embed_by_features(X, laplacian, 20, mu, 1.0, rng)
    labels, _ = cluster_rows(F, 20, rng, n_init=5)
    assert adjusted_rand_score(truth, labels) == 1.0


def test_many_samples_are_solved_by_features():
    views, truth = blobs(n=3001, widths=(4, 3))
    model = SEC(3, n_init=5, random_state=0).fit(views)
    assert adjusted_rand_score(truth, model.labels_) == 1.0


def test_rotation_undoes_a_rotation():
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=50)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    labels, rotation = module.rotate_to_labels(np.eye(4)[truth] @ turn, rng, n_init=3)
    assert adjusted_rand_score(truth, labels) == 1.0
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(4), atol=1e-12)


def test_transform_uses_the_scaling_of_fit():
    views, _ = blobs()
    model = SEC(3, normalize="columns", random_state=0).fit(views)
    before = model.transform(views)
    np.testing.assert_array_equal(model.set_params(normalize=None).transform(views), before)


def test_frames_keep_their_index():
    frame = pd.DataFrame(np.random.default_rng(0).random((30, 4))).add_prefix("f")
    frame.index = [f"sample {n}" for n in range(30)]
    model = SEC(2, random_state=0).set_output(transform="pandas").fit([frame, frame**2])
    assert model.transform([frame, frame**2]).index.tolist() == frame.index.tolist()
