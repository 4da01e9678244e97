import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import LMVSC
from manyview.baselines import lmvsc as module
from manyview.exceptions import NotEnoughMemoryError, ViewWarning

from .helpers import blobs, scores_on


class TestSolver:
    @pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
    def test_each_sample_is_a_quadratic_programme(self, alpha):
        rng = np.random.default_rng(0)
        X, A = rng.standard_normal((5, 6)), rng.standard_normal((8, 6))
        view = module.problem(X, A, alpha)
        state = module.initial_state(view)
        for _ in range(3000):
            state = module.step(view, state)
        np.testing.assert_allclose(state.Z.sum(axis=1), 1.0)
        assert (state.Z >= 0).all()
        for x, z in zip(X, state.Z, strict=True):
            best = scipy.optimize.minimize(
                lambda z, x=x: np.sum((x - z @ A) ** 2) + alpha * np.sum(z**2),
                np.full(8, 1 / 8),
                bounds=[(0, 1)] * 8,
                constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
                options={"ftol": 1e-12},
            )
            np.testing.assert_allclose(z, best.x, atol=1e-4)

    def test_values_by_definition(self):
        rng = np.random.default_rng(0)
        X, A, Z = (rng.standard_normal(shape) for shape in ((5, 6), (8, 6), (5, 8)))
        expected = ((X - Z @ A) ** 2).sum(axis=1) + 0.3 * (Z**2).sum(axis=1)
        found = module.objectives(module.problem(X, A, 0.3), Z)
        np.testing.assert_allclose(found, expected)

    def test_singular_vectors(self):
        Z = np.random.default_rng(0).random((30, 6))
        left = np.linalg.svd(Z, full_matrices=False)[0][:, :3]
        found = module.left_singular_vectors(Z, 3)
        np.testing.assert_allclose(np.abs(np.sum(left * found, axis=0)), 1.0)
        np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)
        low = module.left_singular_vectors(np.ones((30, 2)), 3)
        np.testing.assert_allclose(np.abs(low), np.outer(np.ones(30), [30**-0.5, 0, 0]))


class TestFit:
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("alpha", [1e-2, 1.0, 1e2])
    def test_objective_does_not_rise(self, normalize, alpha):
        views, _ = blobs(spread=3.0)
        model = LMVSC(3, n_landmarks=20, regularization=alpha, normalize=normalize, random_state=0)
        values = model.fit(views).objective_
        assert (np.diff(values) <= 1e-12 * values[0]).all()

    def test_clear_clusters_are_found(self):
        views, truth = blobs(n=90)
        model = LMVSC(3, n_landmarks=20, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        assert [A.shape for A in model.landmarks_] == [(20, 8), (20, 6), (20, 5)]
        np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(3), atol=1e-9)

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_sparse_views_give_what_dense_ones_give(self, normalize):
        views, _ = blobs()
        model = LMVSC(3, n_landmarks=20, normalize=normalize, random_state=0)
        dense = model.fit(views).labels_
        sparse = clone(model).fit([sp.csr_array(view) for view in views]).labels_
        assert adjusted_rand_score(sparse, dense) == 1.0

    def test_same_seed_same_labels(self):
        views, _ = blobs(spread=4.0)
        first, second = (LMVSC(3, random_state=1).fit(views).labels_ for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_ending_early_is_reported(self):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            LMVSC(3, max_iter=2, random_state=0).fit(blobs(spread=3.0)[0])

    def test_too_many_samples_for_the_memory_are_rejected(self, monkeypatch):
        monkeypatch.setattr("manyview.memory._half_of_memory", lambda: 1e4)
        with pytest.raises(NotEnoughMemoryError, match="LMVSC on 60 samples"):
            LMVSC(3).fit(blobs()[0])


class TestDegenerate:
    def test_duplicates_and_zero_rows(self):
        views, _ = blobs(n=6)
        views = [np.vstack([np.repeat(v, 9, axis=0), np.zeros((9, v.shape[1]))]) for v in views]
        model = LMVSC(4, n_landmarks=10, random_state=0).fit(views)
        assert np.isfinite(model.embedding_).all()
        assert np.unique(model.labels_).size == 4

    def test_a_constant_view_has_no_effect(self):
        views, truth = blobs()
        with pytest.warns(ViewWarning):
            model = LMVSC(3, n_landmarks=20, random_state=0).fit([*views, np.ones((60, 2))])
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    @pytest.mark.parametrize("n", [4, 5])
    def test_few_samples(self, n):
        model = LMVSC(4, random_state=0).fit(blobs(n=n)[0])
        assert set(model.labels_) == {0, 1, 2, 3}

    def test_fewer_landmarks_than_clusters(self):
        model = LMVSC(5, n_landmarks=1, random_state=0).fit(blobs()[0])
        assert np.unique(model.labels_).size == 5


@pytest.mark.data
def test_scores_on_ngs(data_dir):
    acc, nmi = scores_on(data_dir, "ngs", lambda k: LMVSC(k, random_state=0))
    assert acc > 0.95
    assert nmi > 0.88
