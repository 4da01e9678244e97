"""Invariance of MMC: what must not change the result."""

from inspect import signature

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import eigsh
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, as_views
from manyview.engine import LocalEngine
from manyview.graph.settings import GraphSettings

from .estimators import blobs, fitted


class TestInvariance:
    def test_same_seed_same_labels(self):
        views, _ = blobs(spread=3.0)
        first, second = fitted(views), fitted(views)
        np.testing.assert_array_equal(first.labels_, second.labels_)
        np.testing.assert_array_equal(first.objective_, second.objective_)

    @pytest.mark.skipif(
        "rng" not in signature(eigsh).parameters, reason="SciPy before 1.17 has its own numbers"
    )
    def test_same_seed_if_samples_are_only_signs(self):
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (120, 1))
        found = [fitted([signs], k=6).labels_ for _ in range(3)]
        for labels in found[1:]:
            np.testing.assert_array_equal(labels, found[0])

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_sparse_or_dense(self, normalize):
        views, truth = blobs(spread=1.5)
        views = [X * (np.abs(X) > 0.5) for X in views]
        options = {"normalize": normalize}
        if normalize == "columns":  # dense ones are compared by distance, sparse ones by angle
            options |= {"init": truth, "indicator": "discrete"}
        dense = fitted(views, **options)
        for form in ("csr", "coo") if normalize == "rows" else ("csc",):
            sparse = fitted([sp.csr_array(X).asformat(form) for X in views], **options)
            np.testing.assert_array_equal(sparse.labels_, dense.labels_)
        mixed = fitted([views[0], sp.csr_array(views[1])], **options)
        np.testing.assert_array_equal(mixed.labels_, dense.labels_)
        np.testing.assert_allclose(mixed.objective_, dense.objective_, rtol=1e-5)

    @pytest.mark.parametrize("n_jobs", [2, -1])
    def test_threads(self, n_jobs):
        views, _ = blobs(spread=1.5)
        one, two = fitted(views), fitted(views, n_jobs=n_jobs)
        np.testing.assert_array_equal(one.labels_, two.labels_)
        np.testing.assert_array_equal(one.predict(views), two.predict(views))

    @settings(max_examples=5)
    @given(seed=st.integers(0, 1000))
    def test_permuting_samples_permutes_labels(self, seed):
        views, _ = blobs(seed=seed % 7)
        order = np.random.default_rng(seed).permutation(90)
        plain, permuted = fitted(views), fitted([X[order] for X in views])
        assert adjusted_rand_score(plain.labels_[order], permuted.labels_) == 1.0

    @settings(max_examples=5)
    @given(seed=st.integers(0, 1000))
    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    def test_permuting_views_and_features_permutes_factors(self, penalty, seed):
        """From a given initialisation; three iterations, as rounding grows with each."""
        views, truth = blobs(seed=seed % 7)
        orders = [np.random.default_rng(seed).permutation(X.shape[1]) for X in views]
        options = {"init": truth, "max_iter": 3, "tol": 0.0, "penalty": penalty}
        plain = fitted(views, **options)
        by_feature = fitted([X[:, o] for X, o in zip(views, orders, strict=True)], **options)
        for W, permuted, order in zip(
            plain.view_factors_, by_feature.view_factors_, orders, strict=True
        ):
            np.testing.assert_allclose(permuted[:-1], W[:-1][order], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(permuted[-1], W[-1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(by_feature.objective_, plain.objective_, rtol=1e-6)

    @pytest.mark.slow
    def test_swapping_views_swaps_factors(self):
        """The order of the views affects the path of the solver, but not its limit."""
        views, truth = blobs(n=45)
        options = {"init": truth, "penalty": "frobenius", "gamma": 0.1}
        options |= {"tol": 1e-6, "max_iter": 3000, "patience": None, "n_jobs": 1}
        plain, swapped = fitted(views, **options), fitted(views[::-1], **options)
        np.testing.assert_array_equal(plain.labels_, swapped.labels_)
        np.testing.assert_allclose(plain.objective_[-1], swapped.objective_[-1], rtol=1e-3)
        np.testing.assert_allclose(
            plain.transform(views), swapped.transform(views[::-1]), atol=2e-3
        )

    def test_single_precision_is_kept_and_agrees(self):
        double, _ = blobs()
        single = [X.astype(np.float32) for X in double]
        one, two = fitted(single), fitted(double)
        assert one.indicator_.dtype == np.float32
        assert one.cluster_factors_.dtype == np.float32
        assert all(W.dtype == np.float32 for W in one.view_factors_)
        assert one.transform(single).dtype == np.float32
        np.testing.assert_array_equal(one.labels_, two.labels_)

    @pytest.mark.parametrize("shift", [0.0, 30.0])
    @pytest.mark.parametrize("gamma", [1e-4, 0.01])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_single_precision_objective_falls(self, indicator, gamma, shift):
        """Also far from the origin, where moments are large compared with their differences."""
        views, _ = blobs(n=300, spread=2.0)
        single = [(X + shift).astype(np.float32) for X in views]
        model = fitted(single, indicator=indicator, gamma=gamma)
        assert (np.diff(model.objective_) <= 1e-6).all()
        F = model.indicator_.astype(np.float64)
        np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-5)

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_objective_and_indicator_far_from_the_origin(self, indicator, normalize):
        views, _ = blobs(n=300, k=5, spread=2.0)
        model = fitted([X + 30.0 for X in views], k=5, indicator=indicator, normalize=normalize)
        F = model.indicator_
        np.testing.assert_allclose(F.T @ F, np.eye(5), atol=1e-9)
        assert (np.diff(model.objective_) <= 1e-9).all()

    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    def test_the_size_of_blocks_does_not_matter(self, init, monkeypatch):
        views, _ = blobs(spread=2.0)
        labels = []
        for rows in (7, 1000):
            monkeypatch.setattr(LocalEngine, "block_rows", (rows, rows))
            labels.append(fitted(views, init=init).labels_)
        np.testing.assert_array_equal(*labels)

    def test_a_missing_view_is_zeros_with_a_bias(self):
        """Whatever its rows hold, a missing view of a sample contributes z = [0, 1] to a fit."""
        views, truth = blobs()
        present = np.ones((90, 2), dtype=bool)
        present[::7, 0] = False
        present[3::7, 1] = False
        emptied = [np.where(present[:, [v]], X, 0.0) for v, X in enumerate(views)]
        rubbish = [np.where(present[:, [v]], X, 99.0) for v, X in enumerate(views)]
        zeros = fitted(emptied, normalize="rows")
        masked = fitted(as_views(rubbish, present=present), normalize="rows")
        np.testing.assert_array_equal(masked.labels_, zeros.labels_)
        np.testing.assert_allclose(masked.objective_, zeros.objective_, rtol=1e-8)
        assert adjusted_rand_score(truth, masked.labels_) > 0.9

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("n_missing", [0, 30])
    def test_a_prediction_replaces_a_missing_view_by_its_mean(self, kind, n_missing):
        """The mean in the fit, where missing views count as zeros."""
        views, _ = blobs()
        known = np.ones((90, 2), dtype=bool)
        known[:n_missing, 1] = False
        model = fitted(as_views([kind(X) for X in views], present=known), normalize=None)
        mean = np.where(known[:, [1]], views[1], 0.0).mean(axis=0)
        present = np.ones((90, 2), dtype=bool)
        present[::2, 1] = False
        filled = [views[0], np.where(present[:, [1]], views[1], mean)]
        rubbish = [views[0], np.where(present[:, [1]], views[1], 99.0)]
        there = as_views([kind(X) for X in rubbish], present=present)
        np.testing.assert_allclose(model.transform(there), model.transform(filled), atol=1e-10)
        np.testing.assert_array_equal(model.predict(there), model.predict(filled))

    def test_one_view_of_three_predicts_the_label(self):
        """Unit rows of positive features have a mean far from zero."""
        rng = np.random.default_rng(0)
        truth = np.repeat(np.arange(4), 60)
        views = [rng.poisson(5 + 4 * rng.random((4, 60))[truth]).astype(float) for _ in range(3)]
        model = fitted(views, 4)
        present = np.zeros((240, 3), dtype=bool)
        present[np.arange(240), np.arange(240) % 3] = True
        labels = model.predict(as_views(views, present=present))
        assert adjusted_rand_score(model.labels_, labels) > 0.9

    @pytest.mark.parametrize("init", ["graph", "kmeans"])
    @pytest.mark.parametrize(
        ("dtype", "scale"),
        [(np.float64, 1e200), (np.float32, 1e-25)],
    )
    @pytest.mark.parametrize("by_landmarks", [False, True])
    def test_units_of_a_view_do_not_matter_for_unit_rows(
        self, by_landmarks, dtype, scale, init, monkeypatch
    ):
        if by_landmarks:
            small = GraphSettings(n_compared=200, n_landmarks=100, compared_per_cluster=0)
            monkeypatch.setattr(MMC, "_graph_settings", small)
        views, truth = blobs(n=300)
        scaled = [(scale * X).astype(dtype) for X in views]
        model = fitted([views[0].astype(dtype), scaled[1]], init=init, max_iter=5)
        assert adjusted_rand_score(truth, model.labels_) > 0.95
        model = fitted(scaled, init=init, max_iter=5)
        assert adjusted_rand_score(truth, model.labels_) > 0.95

    def test_scale_of_the_samples_does_not_matter_for_unit_rows(self):
        views, _ = blobs()
        factor = np.exp(np.random.default_rng(0).uniform(-300, 300, (90, 1)))
        plain, scaled = fitted(views), fitted([X * factor for X in views])
        np.testing.assert_array_equal(plain.labels_, scaled.labels_)
