import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import OPMC
from manyview.baselines import opmc as module
from manyview.exceptions import NotEnoughMemoryError, ViewWarning

from .helpers import blobs, scores_on


def prepared(spread=3.0, k=4):
    views, _ = blobs(widths=(8, 6, 3), spread=spread)
    arrays = [module.View(X, (X**2).sum(axis=1)) for X in views]
    return views, arrays, module.initial_state(arrays, k, np.random.default_rng(0))


class TestIteration:
    def test_factors_by_definition(self):
        views, arrays, state = prepared()
        for X, view, C in zip(views, arrays, state.coefficients, strict=True):
            new_C, W = module.updated_factors(view, state.labels, C)
            np.testing.assert_allclose(W @ W.T, np.eye(min(4, X.shape[1])), atol=1e-12)
            misfit = np.linalg.norm(X - (C @ W)[state.labels])
            rng = np.random.default_rng(0)
            for _ in range(20):
                other = np.linalg.qr(W.T + 0.1 * rng.standard_normal(W.T.shape))[0].T
                assert np.linalg.norm(X - (C @ other)[state.labels]) >= misfit
            means = np.array([X[state.labels == k].mean(axis=0) for k in range(4)])
            np.testing.assert_allclose(new_C, means @ W.T)

    def test_objective_by_definition(self):
        views, arrays, state = prepared()
        state, value = module.iteration(arrays, state)
        expected = sum(
            np.sum((X - centres[state.labels]) ** 2)
            for X, centres in zip(views, state.centres, strict=True)
        )
        assert value == pytest.approx(expected)

    @pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
    @pytest.mark.parametrize("normalize", ["zscore", "rows", "columns", None])
    def test_objective_does_not_rise(self, spread, normalize):
        views, _ = blobs(spread=spread)
        for k in (2, 7, 30):  # with 30 clusters some become empty on the way
            model = OPMC(k, n_init=1, normalize=normalize, random_state=0).fit(views)
            assert (np.diff(model.objective_) <= 1e-9 * model.objective_[0]).all()
            assert np.unique(model.labels_).size == k


class TestFit:
    def test_clear_clusters_are_found(self):
        views, truth = blobs(n=90)
        model = OPMC(3, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0
        assert [centres.shape for centres in model.cluster_centers_] == [(3, 8), (3, 6), (3, 5)]

    def test_objective_is_that_of_k_means_on_the_concatenated_views(self):
        views, _ = blobs(spread=2.0)
        model = OPMC(3, normalize=None, n_init=30, tol=0.0, max_iter=500, random_state=0)
        inertia = KMeans(3, n_init=30, random_state=0).fit(np.hstack(views)).inertia_
        assert model.fit(views).objective_[-1] == pytest.approx(inertia, rel=1e-6)

    def test_more_initialisations_do_not_fit_worse(self):
        views, _ = blobs(spread=4.0)
        one, ten = (OPMC(5, n_init=n, random_state=0).fit(views).objective_[-1] for n in (1, 10))
        assert ten <= one

    def test_same_seed_same_labels(self):
        views, _ = blobs(spread=4.0)
        first, second = (OPMC(3, random_state=1).fit(views).labels_ for _ in range(2))
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("normalize", ["zscore", "rows", "columns", None])
    def test_sparse_views_give_what_dense_ones_give(self, normalize):
        views, _ = blobs(spread=3.0)
        model = OPMC(3, normalize=normalize, random_state=0)
        dense = model.fit(views).labels_
        sparse = clone(model).fit([sp.csr_array(view) for view in views]).labels_
        np.testing.assert_array_equal(sparse, dense)

    def test_ending_early_is_reported(self):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            OPMC(3, max_iter=2, random_state=0).fit(blobs(spread=3.0)[0])

    def test_sparse_views_that_become_too_large_are_rejected(self, monkeypatch):
        monkeypatch.setattr("manyview.memory._half_of_memory", lambda: 1e3)
        views = [sp.csr_array(view) for view in blobs()[0]]
        with pytest.raises(NotEnoughMemoryError, match="zscore"):
            OPMC(3).fit(views)
        OPMC(3, normalize="rows", random_state=0).fit(views)


class TestDegenerate:
    def test_duplicates_and_zero_rows(self):
        views, _ = blobs(n=6)
        views = [np.vstack([np.repeat(v, 9, axis=0), np.zeros((9, v.shape[1]))]) for v in views]
        model = OPMC(4, random_state=0).fit(views)
        assert np.unique(model.labels_).size == 4

    def test_a_constant_view_has_no_effect(self):
        views, truth = blobs()
        with pytest.warns(ViewWarning):
            model = OPMC(3, random_state=0).fit([*views, np.ones((60, 2))])
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    @pytest.mark.parametrize("n", [4, 5])
    def test_few_samples(self, n):
        model = OPMC(4, random_state=0).fit(blobs(n=n)[0])
        assert set(model.labels_) == {0, 1, 2, 3}

    @pytest.mark.parametrize("scale", [1e-100, 1e100])
    def test_extreme_scales(self, scale):
        views, truth = blobs(n=90)
        model = OPMC(3, normalize=None, random_state=0).fit([scale * view for view in views])
        assert adjusted_rand_score(truth, model.labels_) == 1.0


@pytest.mark.data
def test_scores_on_ngs(data_dir):
    acc, nmi = scores_on(data_dir, "ngs", lambda k: OPMC(k, random_state=0))
    assert acc > 0.94
    assert nmi > 0.86
