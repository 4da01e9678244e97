import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, as_views
from manyview.datasets import make_views, read_views
from manyview.engine import local
from manyview.linalg import lanczos
from manyview.linalg.partition import indicator_of
from manyview.metrics import clustering_accuracy, normalized_mutual_info
from manyview.mmc import estimator as module
from manyview.mmc import init as starts

warnings_allowed = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def blobs(n=90, widths=(8, 6), k=3, seed=0, spread=0.5, dtype=np.float64):
    """Well-separated clusters in every view."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    views = [
        (3 * rng.standard_normal((k, d))[truth] + spread * rng.standard_normal((n, d))).astype(
            dtype
        )
        for d in widths
    ]
    return views, truth


def fitted(views, k=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(k, random_state=0, **options).fit(views)


class TestResult:
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    @pytest.mark.parametrize("init", ["graph", "kmeans"])
    def test_clear_clusters_are_found(self, indicator, penalty, init):
        views, truth = blobs()
        model = fitted(views, indicator=indicator, penalty=penalty, init=init)
        assert adjusted_rand_score(truth, model.labels_) > 0.95

    def test_attributes(self):
        views, _ = blobs()
        model = fitted({"a": views[0], "b": views[1]}, rank=7)
        assert model.labels_.shape == (90,)
        assert set(model.labels_) == {0, 1, 2}
        assert model.indicator_.shape == (90, 3)
        np.testing.assert_allclose(model.indicator_.T @ model.indicator_, np.eye(3), atol=1e-9)
        assert [W.shape for W in model.view_factors_] == [(9, 7), (7, 7)]
        assert model.cluster_factors_.shape == (3, 7)
        assert model.objective_.shape == (model.n_iter_,)
        assert (np.diff(model.objective_) <= 1e-9).all()
        assert model.n_views_ == 2
        assert model.n_features_in_ == [8, 6]
        assert model.view_names_ == ["a", "b"]
        assert list(model.get_feature_names_out()) == ["mmc0", "mmc1", "mmc2"]

    def test_discrete_indicator_is_that_of_the_labels(self):
        views, _ = blobs()
        model = fitted(views)
        np.testing.assert_allclose(model.indicator_, indicator_of(model.labels_, 3))

    def test_default_rank_is_at_least_n_clusters(self):
        views, _ = blobs(n=100, k=30)
        assert fitted(views, k=30, max_iter=1).cluster_factors_.shape == (30, 60)

    @warnings_allowed
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_fit_predict_is_fit_then_labels(self, indicator):
        views, _ = blobs()
        model = MMC(3, random_state=0, indicator=indicator)
        np.testing.assert_array_equal(model.fit_predict(views), clone(model).fit(views).labels_)

    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_predict_agrees_with_labels_on_clear_clusters(self, indicator, normalize):
        views, _ = blobs()
        model = fitted(views, indicator=indicator, normalize=normalize)
        np.testing.assert_array_equal(model.predict(views), model.labels_)

    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_samples_never_seen(self, indicator, normalize):
        views, truth = blobs(n=180)
        model = fitted([X[:120] for X in views], indicator=indicator, normalize=normalize)
        new = [X[120:] for X in views]
        assert adjusted_rand_score(truth[120:], model.predict(new)) > 0.9
        assert model.transform(new).shape == (60, 3)
        # one by one or together is the same
        alone = [model.predict([X[n : n + 1] for X in new])[0] for n in range(5)]
        np.testing.assert_array_equal(alone, model.predict(new)[:5])

    def test_transform_on_training_views_is_near_the_indicator(self):
        views, _ = blobs()
        model = fitted(views, gamma=1e-4)
        np.testing.assert_allclose(model.transform(views), model.indicator_, atol=0.05)

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_a_parameter_set_later_leaves_a_fitted_one_as_it_is(self, normalize):
        views, _ = blobs()
        model = fitted(views, normalize=normalize)
        before = model.transform(views)
        for other in ("rows", "columns", None):
            model.set_params(normalize=other)
            np.testing.assert_array_equal(model.transform(views), before)

    def test_y_takes_no_part(self):
        views, truth = blobs()
        with_y = MMC(3, random_state=0, tol=0.1).fit(views, truth).labels_
        np.testing.assert_array_equal(with_y, MMC(3, random_state=0, tol=0.1).fit(views).labels_)


class TestPredictor:
    def test_serves_features_that_are_mostly_noise(self):
        """As standardised words are: what is usual for unit rows leaves nothing of the model."""
        rng = np.random.default_rng(0)
        truth = np.arange(300) % 3
        words = rng.random((3, 1500)) ** 6
        views = [rng.poisson(0.3 * words[truth] + 0.05).astype(float) for _ in range(2)]
        model = fitted([X[:200] for X in views], normalize="columns")
        assert adjusted_rand_score(truth[:200], model.labels_) > 0.9
        assert adjusted_rand_score(truth[200:], model.predict([X[200:] for X in views])) > 0.9

    def test_serves_samples_that_differ_little_beside_their_size(self):
        views, truth = blobs(n=150)
        views = [X + 600.0 for X in views]
        with pytest.warns(ConvergenceWarning, match="say next to nothing .*count the samples"):
            model = MMC(3, random_state=0).fit([X[:100] for X in views])
        assert adjusted_rand_score(truth[:100], model.labels_) == 1.0
        assert adjusted_rand_score(truth[100:], model.predict([X[100:] for X in views])) == 1.0


class TestInvariance:
    def test_same_seed_same_labels(self):
        views, _ = blobs(spread=3.0)
        first, second = fitted(views), fitted(views)
        np.testing.assert_array_equal(first.labels_, second.labels_)
        np.testing.assert_array_equal(first.objective_, second.objective_)

    @pytest.mark.skipif(not lanczos._TAKES_NUMBERS, reason="SciPy before 1.17 has its own numbers")
    def test_same_seed_where_samples_say_no_more_than_a_sign(self):
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (120, 1))
        found = [fitted([signs], k=6).labels_ for _ in range(3)]
        for labels in found[1:]:
            np.testing.assert_array_equal(labels, found[0])

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_sparse_or_dense(self, normalize):
        views, _ = blobs(spread=1.5)
        views = [X * (np.abs(X) > 0.5) for X in views]
        dense = fitted(views, normalize=normalize)
        for form in ("csr", "csc", "coo"):
            sparse = fitted([sp.csr_array(X).asformat(form) for X in views], normalize=normalize)
            np.testing.assert_array_equal(sparse.labels_, dense.labels_)
        mixed = fitted([views[0], sp.csr_array(views[1])], normalize=normalize)
        np.testing.assert_array_equal(mixed.labels_, dense.labels_)
        np.testing.assert_allclose(mixed.objective_, dense.objective_, rtol=1e-5)

    @pytest.mark.parametrize("n_jobs", [2, -1])
    def test_threads(self, n_jobs):
        views, _ = blobs(spread=1.5)
        one, two = fitted(views), fitted(views, n_jobs=n_jobs)
        np.testing.assert_array_equal(one.labels_, two.labels_)
        np.testing.assert_array_equal(one.predict(views), two.predict(views))

    @settings(max_examples=10)
    @given(seed=st.integers(0, 1000))
    def test_permuting_samples_permutes_labels(self, seed):
        views, _ = blobs(seed=seed % 7)
        order = np.random.default_rng(seed).permutation(90)
        plain, permuted = fitted(views), fitted([X[order] for X in views])
        assert adjusted_rand_score(plain.labels_[order], permuted.labels_) == 1.0

    @settings(max_examples=10)
    @given(seed=st.integers(0, 1000))
    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    def test_permuting_views_and_features_permutes_factors(self, penalty, seed):
        """From a given start; three sweeps, as rounding grows with each."""
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

    def test_swapping_views_swaps_factors(self):
        """The views take turns, so that their order enters the path, but not where it leads."""
        views, truth = blobs()
        options = {"init": truth, "penalty": "frobenius", "gamma": 0.01}
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
        """Also far from the origin, where moments are large beside their differences."""
        views, _ = blobs(n=600, spread=2.0)
        single = [(X + shift).astype(np.float32) for X in views]
        model = fitted(single, indicator=indicator, gamma=gamma)
        assert (np.diff(model.objective_) <= 1e-6).all()
        F = model.indicator_.astype(np.float64)
        np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-5)

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_objective_and_indicator_hold_far_from_the_origin(self, indicator, normalize):
        views, _ = blobs(n=600, k=5, spread=2.0)
        model = fitted([X + 30.0 for X in views], k=5, indicator=indicator, normalize=normalize)
        F = model.indicator_
        np.testing.assert_allclose(F.T @ F, np.eye(5), atol=1e-9)
        assert (np.diff(model.objective_) <= 1e-9).all()

    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    def test_how_rows_are_put_into_blocks_does_not_matter(self, init, monkeypatch):
        views, _ = blobs(spread=2.0)
        labels = []
        for rows in (7, 1000):
            monkeypatch.setattr(local, "_BLOCK_ROWS", (rows, rows))
            labels.append(fitted(views, init=init).labels_)
        np.testing.assert_array_equal(*labels)

    def test_a_lacking_view_is_zeros_with_a_bias(self):
        """Whatever the rows hold: in a fit, a sample that lacks a view contributes z = [0, 1]."""
        views, truth = blobs()
        present = np.ones((90, 2), dtype=bool)
        present[::7, 0] = False
        present[3::7, 1] = False
        emptied = [np.where(present[:, [v]], X, 0.0) for v, X in enumerate(views)]
        rubbish = [np.where(present[:, [v]], X, 99.0) for v, X in enumerate(views)]
        zeros = fitted(emptied)
        masked = fitted(as_views(rubbish, present=present))
        np.testing.assert_array_equal(masked.labels_, zeros.labels_)
        np.testing.assert_allclose(masked.objective_, zeros.objective_, rtol=1e-8)
        assert adjusted_rand_score(truth, masked.labels_) > 0.9

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("n_lacked", [0, 30])
    def test_a_prediction_takes_the_mean_of_a_view_that_lacks(self, kind, n_lacked):
        """Of what the fit saw of it: nothing where samples lacked it there."""
        views, _ = blobs()
        known = np.ones((90, 2), dtype=bool)
        known[:n_lacked, 1] = False
        model = fitted(as_views([kind(X) for X in views], present=known), normalize=None)
        mean = np.where(known[:, [1]], views[1], 0.0).mean(axis=0)
        present = np.ones((90, 2), dtype=bool)
        present[::2, 1] = False
        filled = [views[0], np.where(present[:, [1]], views[1], mean)]
        rubbish = [views[0], np.where(present[:, [1]], views[1], 99.0)]
        there = as_views([kind(X) for X in rubbish], present=present)
        np.testing.assert_allclose(model.transform(there), model.transform(filled), atol=1e-10)
        np.testing.assert_array_equal(model.predict(there), model.predict(filled))

    def test_a_view_of_a_sample_says_more_than_that_it_lacks_the_other(self):
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
        [(np.float64, 1e200), (np.float64, 1e-200), (np.float32, 1e25), (np.float32, 1e-25)],
    )
    @pytest.mark.parametrize("by_landmarks", [False, True])
    def test_units_of_a_view_do_not_matter_for_unit_rows(
        self, by_landmarks, dtype, scale, init, monkeypatch
    ):
        if by_landmarks:
            monkeypatch.setattr(starts, "EXACT_LIMIT", 200)
            monkeypatch.setattr(starts, "N_LANDMARKS", 100)
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


class TestShapes:
    @pytest.mark.parametrize("n_views", [1, 2, 3, 12])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_number_of_views(self, n_views, indicator):
        views, truth = blobs(widths=(5,) * n_views)
        model = fitted(views, indicator=indicator)
        assert adjusted_rand_score(truth, model.labels_) > 0.9
        assert np.isfinite(model.objective_).all()

    @pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (5, 5), (6, 1), (7, 6)])
    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_few_samples(self, n, k, init, indicator):
        rng = np.random.default_rng(0)
        views = [rng.standard_normal((n, 4)), rng.standard_normal((n, 3))]
        model = fitted(views, k=k, init=init, indicator=indicator)
        assert model.labels_.shape == (n,)
        if indicator == "discrete":
            assert np.unique(model.labels_).size == k
        assert np.isfinite(model.transform(views)).all()

    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.filterwarnings("ignore:every sample of view:UserWarning")
    def test_all_samples_alike(self, init, indicator):
        views = [np.tile([1.0, 2.0, 3.0], (12, 1)), np.tile([1.0, 0.0], (12, 1))]
        model = fitted(views, init=init, indicator=indicator)
        assert np.isfinite(model.objective_).all()
        assert np.unique(model.labels_).size == 3

    @pytest.mark.filterwarnings("ignore:every sample of view:UserWarning")
    def test_a_constant_view_takes_no_part(self):
        views, truth = blobs(widths=(8,))
        for constant in (np.zeros((90, 3)), np.full((90, 3), 5.0)):
            model = fitted([*views, constant])
            assert adjusted_rand_score(truth, model.labels_) > 0.95

    def test_zero_rows(self):
        views, _ = blobs()
        for X in views:
            X[:5] = 0.0
        model = fitted(views)
        assert np.isfinite(model.transform(views)).all()

    def test_wide_and_narrow(self):
        # samples of unit length in one or two features tell little: no method gets all right
        scores = []
        for seed in range(6):
            views, truth = blobs(widths=(500, 1, 2), seed=seed)
            side_by_side = np.hstack([X / np.linalg.norm(X, axis=1, keepdims=True) for X in views])
            simple = KMeans(3, n_init=10, random_state=0).fit_predict(side_by_side)
            scores.append(
                [
                    adjusted_rand_score(truth, fitted(views).labels_),
                    adjusted_rand_score(truth, simple),
                ]
            )
        ours, theirs = np.mean(scores, axis=0)
        assert ours > theirs - 0.05

    def test_strided_and_fortran_views(self):
        views, _ = blobs()
        odd = [np.asfortranarray(views[0]), np.repeat(views[1], 2, axis=1)[:, ::2]]
        np.testing.assert_array_equal(fitted(odd).labels_, fitted(views).labels_)

    def test_memory_map(self, tmp_path):
        views, _ = blobs()
        paths = [tmp_path / f"{v}.npy" for v in range(2)]
        for path, X in zip(paths, views, strict=True):
            np.save(path, X)
        mapped = [np.load(path, mmap_mode="r") for path in paths]
        np.testing.assert_array_equal(fitted(mapped).labels_, fitted(views).labels_)

    def test_frames(self):
        views, _ = blobs()
        frames = [
            pd.DataFrame(X, columns=[f"f{v}_{d}" for d in range(X.shape[1])])
            for v, X in enumerate(views)
        ]
        model = fitted(frames)
        np.testing.assert_array_equal(model.labels_, fitted(views).labels_)
        assert list(model.feature_names_in_[1]) == list(frames[1].columns)
        with pytest.raises(ValueError, match="view 'view1': feature 0 is named 'f1_5'"):
            model.predict([frames[0], frames[1].iloc[:, ::-1]])

    def test_integers(self):
        views, _ = blobs()
        counts = [np.round(np.abs(4 * X)).astype(np.int32) for X in views]
        as_float = fitted([X.astype(np.float64) for X in counts])
        np.testing.assert_array_equal(fitted(counts).labels_, as_float.labels_)


class TestStarts:
    def test_given_labels_and_indicator(self):
        views, truth = blobs()
        by_labels = fitted(views, init=truth, max_iter=2)
        by_indicator = fitted(views, init=indicator_of(truth, 3), max_iter=2)
        np.testing.assert_allclose(by_labels.objective_, by_indicator.objective_)

    def test_a_clear_start_stays(self):
        views, truth = blobs()
        assert adjusted_rand_score(truth, fitted(views, init=truth).labels_) == 1.0

    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    def test_several_starts_after_features_were_dropped(self, init):
        views, _ = blobs(n=200, widths=(60, 40))
        model = fitted(views, init=init, n_init=3, gamma=0.1)
        assert any(not W[:-1].any(axis=1).all() for W in model.view_factors_)

    @pytest.mark.parametrize(
        ("init", "limit", "expected"),
        [
            ("graph", 90, True),
            ("graph", 89, False),
            ("kmeans", 90, False),
            ("random", 90, False),
            (np.arange(90) % 3, 90, False),
        ],
    )
    def test_labels_are_held_where_an_exact_graph_gave_them(
        self, monkeypatch, init, limit, expected
    ):
        asked, real = [], module.indicator_named

        def watched(name, *, holds):
            asked.append(holds)
            return real(name, holds=holds)

        monkeypatch.setattr(module, "indicator_named", watched)
        monkeypatch.setattr(starts, "EXACT_LIMIT", limit)
        fitted(blobs()[0], init=init)
        assert asked == [expected]

    def test_several_starts_end_no_higher_than_the_first(self):
        views, _ = blobs(spread=2.5)
        one = fitted(views, init="random", n_init=1)
        many = fitted(views, init="random", n_init=6)
        assert many.objective_[-1] <= one.objective_[-1]

    def test_the_zero_model_is_warned_of(self):
        views, _ = blobs()
        with pytest.warns(ConvergenceWarning, match=r"gamma=1e\+03 is too large.*smaller gamma"):
            model = MMC(3, gamma=1000.0, random_state=0).fit(views)
        assert np.unique(model.labels_).size == 3
        assert not any(factor.any() for factor in model.view_factors_)  # no feature takes part

    def test_of_views_that_say_nothing_no_gamma_is_blamed(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            MMC(2, random_state=0).fit([np.ones((30, 3)), np.zeros((30, 2))])
        messages = [str(warning.message) for warning in told]
        assert messages[-1] == "no view tells one sample from another: the labels say nothing"
        assert not any("gamma" in message for message in messages)

    def test_rows_that_went_bad_since_they_were_checked_are_refused(self):
        views = as_views([array.copy() for array in blobs()[0]])
        views[0][3, 1] = np.nan
        with pytest.raises(ValueError, match="view 'view0' has entries that are not finite"):
            MMC(3).fit(views)

    @pytest.mark.parametrize("gamma", [1e-4, 1e-3, 0.01, 0.1])
    @pytest.mark.parametrize("n_views", [1, 2, 3, 5])
    def test_usual_gammas_do_not_end_in_the_zero_basin(self, gamma, n_views):
        views, truth = blobs(widths=(8,) * n_views)
        model = fitted(views, gamma=gamma)
        prediction = model.transform(views)
        assert np.sum(prediction**2) > 0.1
        assert adjusted_rand_score(truth, model.predict(views)) > 0.9

    @pytest.mark.filterwarnings("ignore:.*carries nothing")
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("gamma", [0.0, 1e-12, 1e-8, 10.0, 1e4])
    def test_any_gamma_is_finite_and_falls(self, gamma, dtype, penalty, indicator):
        options = {"gamma": gamma, "penalty": penalty, "indicator": indicator, "max_iter": 15}
        narrow = [np.random.default_rng(v).random((100, 1)).astype(dtype) for v in range(2)]
        few, _ = blobs(60, dtype=dtype)
        for views, rank in ((few, 20), (few, 90), (narrow, 20)):
            model = fitted(views, rank=rank, **options)
            assert np.isfinite(model.transform(views)).all()
            assert np.isfinite(model.objective_).all()
            assert (np.diff(model.objective_) <= 0.0).all()

    @pytest.mark.parametrize("k", [19, 20])
    def test_as_many_clusters_as_samples_stay_orthonormal(self, k):
        rng = np.random.default_rng(0)
        views = [rng.standard_normal((20, 3)), rng.standard_normal((20, 2))]
        F = fitted(views, k=k, indicator="orthogonal").indicator_
        np.testing.assert_allclose(F.T @ F, np.eye(k), atol=1e-9)


class TestErrors:
    views, _ = blobs()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_clusters": 0}, "'n_clusters' parameter of MMC must be an int in the range"),
            ({"n_clusters": 2.5}, "'n_clusters' parameter of MMC"),
            ({"n_clusters": 91}, "n_clusters=91 is more than the 90 samples"),
            ({"rank": 2}, "rank=2 is less than n_clusters=3: the prediction has at most that rank"),
            ({"gamma": -0.1}, "'gamma' parameter of MMC must be a float in the range"),
            ({"penalty": "l1"}, "'penalty' parameter of MMC must be a str among"),
            ({"indicator": "soft"}, "'indicator' parameter"),
            ({"init": "spectral"}, "'init' parameter"),
            ({"init": [0, 1, 2]}, r"init has shape \(3,\)"),
            ({"normalize": "l2"}, "'normalize' parameter"),
            ({"max_iter": 0}, "'max_iter' parameter"),
            ({"n_init": 0}, "'n_init' parameter"),
            ({"tol": -1.0}, "'tol' parameter"),
        ],
    )
    def test_parameters(self, options, message):
        with pytest.raises(ValueError, match=message):
            MMC(**{"n_clusters": 3, **options}).fit(self.views)

    def test_one_sample(self):
        with pytest.raises(ValueError, match=r"received 1 sample\(s\)"):
            MMC(1).fit([np.ones((1, 3))])

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            MMC(3).predict(self.views)

    def test_other_views_at_predict(self):
        model = fitted({"a": self.views[0], "b": self.views[1]})
        with pytest.raises(ValueError, match=r"received 1 view\(s\)"):
            model.predict(self.views[:1])
        with pytest.raises(ValueError, match="view 'a' has 6 features; fit saw 8"):
            model.predict(self.views[::-1])
        with pytest.raises(ValueError, match="received views named 'a', 'c'"):
            model.predict({"a": self.views[0], "c": self.views[1]})
        swapped = {"b": self.views[1], "a": self.views[0]}
        np.testing.assert_array_equal(model.predict(swapped), model.predict(self.views))

    @pytest.mark.parametrize(
        ("normalize", "scale"), [(None, 1e80), ("columns", 1e170), ("columns", 1e-170)]
    )
    def test_scales_that_overflow(self, normalize, scale):
        views = [self.views[0], scale * self.views[1]]
        with pytest.raises(
            ValueError, match=r"view 'view1' has entries of size .*normalize='rows'"
        ):
            MMC(3, normalize=normalize).fit(views)

    @pytest.mark.parametrize(
        ("dtype", "scale"), [(np.float32, 1e37), (np.float32, 1e-37), (np.float64, 1e-305)]
    )
    def test_scales_at_the_end_of_the_range(self, dtype, scale):
        with pytest.raises(ValueError, match=r"view 'view0' has entries of size .*; rescale them$"):
            MMC(3).fit([(scale * X).astype(dtype) for X in self.views])

    def test_scales_that_overflow_at_predict(self):
        model = fitted(self.views, normalize=None)
        with pytest.raises(ValueError, match="view 'view0' has entries of size"):
            model.predict([1e200 * X for X in self.views])

    def test_double_precision_at_predict_after_single_at_fit(self):
        model = fitted([X.astype(np.float32) for X in self.views])
        labels = model.predict([1e60 * X for X in self.views])
        np.testing.assert_array_equal(labels, model.labels_)

    def test_predict_after_set_output(self):
        model = fitted(self.views)
        expected = model.predict(self.views)
        model.set_output(transform="pandas")
        assert list(model.transform(self.views).columns) == ["mmc0", "mmc1", "mmc2"]
        np.testing.assert_array_equal(model.predict(self.views), expected)

    @pytest.mark.parametrize("kind", [list, lambda frames: {"a": frames[0], "b": frames[1]}])
    def test_frames_keep_their_index(self, kind):
        names = [f"sample {n}" for n in range(90)]
        frames = [pd.DataFrame(X, index=names).add_prefix("f") for X in self.views]
        model = fitted(kind(frames))
        assert isinstance(model.transform(kind(frames)), np.ndarray)
        expected = model.transform(kind(frames))
        found = model.set_output(transform="pandas").transform(kind(frames))
        assert found.index.tolist() == names
        assert list(found.columns) == ["mmc0", "mmc1", "mmc2"]
        np.testing.assert_array_equal(found, expected)
        beside = [frames[0].to_numpy(), frames[1]]
        assert (
            fitted(beside).set_output(transform="pandas").transform(beside).index.tolist() == names
        )

    @pytest.mark.parametrize("init", [[0, "a", None] * 30, [0.0, 1.0, np.nan] * 30])
    def test_labels_that_are_none(self, init):
        with pytest.raises(ValueError, match="init holds labels"):
            MMC(3, init=np.array(init, dtype=object if None in init else float)).fit(self.views)

    @pytest.mark.parametrize("scale", [1e200, 1e-200])
    def test_an_indicator_of_any_scale(self, scale):
        init = np.random.default_rng(0).standard_normal((90, 3))
        one, two = fitted(self.views, init=init), fitted(self.views, init=scale * init)
        np.testing.assert_array_equal(one.labels_, two.labels_)

    def test_a_failed_fit_leaves_an_earlier_one(self):
        model = fitted(self.views)
        labels = model.labels_
        with pytest.raises(ValueError, match="holds NaN"):
            model.fit([np.full((4, 2), np.nan)])
        assert model.labels_ is labels


class TestOrder:
    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    @pytest.mark.parametrize("order", [1, 2])
    def test_no_column_has_features_of_more_views(self, order, penalty):
        views, truth = blobs(widths=(6, 5, 4))
        model = fitted(views, order=order, penalty=penalty, max_iter=5)
        carrying = np.sum([np.any(W[:-1], axis=0) for W in model.view_factors_], axis=0)
        assert carrying.max() == order
        assert np.unique(carrying).size == 1
        assert (np.diff(model.objective_) <= 1e-9).all()
        assert adjusted_rand_score(truth, model.labels_) > 0.9

    def test_the_full_order_is_the_default(self):
        views, _ = blobs()
        np.testing.assert_array_equal(fitted(views, order=2).objective_, fitted(views).objective_)

    def test_clusters_of_products_are_found_by_products_only(self):
        views, truth = make_views(600, 2, (8, 8), structure="interaction", random_state=0)
        beside = np.hstack([np.asarray(X) for X in views])
        assert clustering_accuracy(truth, MMC(2, random_state=0).fit_predict(views)) > 0.95
        assert clustering_accuracy(truth, fitted(views, k=2, order=1).labels_) < 0.6
        assert clustering_accuracy(truth, fitted([beside], k=2).labels_) < 0.6
        kmeans = KMeans(2, n_init=10, random_state=0).fit_predict(beside)
        assert clustering_accuracy(truth, kmeans) < 0.6


class TestSettling:
    def test_sweeps_end_when_the_clusters_do_not_change(self):
        views, truth = blobs()
        model = fitted(views, init=truth, patience=3)
        assert model.n_iter_ == 3
        assert fitted(views, init=truth, patience=None).n_iter_ > 3

    def test_features_that_were_dropped_stay_so(self):
        views, _ = make_views(200, 3, (40, 30), n_noise_views=1, random_state=0)
        model = fitted(views, gamma=0.1, patience=None)
        for sparse, refitted in zip(model.view_factors_, model._predictor.views, strict=True):
            np.testing.assert_array_equal(np.any(refitted, axis=1), np.any(sparse, axis=1))
        assert any((~np.any(W, axis=1)).any() for W in model.view_factors_)


class TestProgress:
    def test_silent_by_default(self, capsys):
        fitted(blobs()[0])
        assert capsys.readouterr() == ("", "")

    def test_a_bar_with_the_objective(self, capsys):
        model = fitted(blobs()[0], verbose=1)
        out, err = capsys.readouterr()
        assert out == ""
        assert "MMC [" in err
        assert f"objective {model.objective_[0]:.6g}" in err

    def test_not_converged(self):
        with pytest.warns(ConvergenceWarning, match="still falling after max_iter=1 sweeps"):
            MMC(3, max_iter=1, random_state=0).fit(blobs()[0])

    def test_interrupt_leaves_a_fitted_estimator(self, monkeypatch):
        views, _ = blobs()

        def interrupt(self, done, word):
            if done == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(module.ProgressBar, "step", interrupt)
        with pytest.warns(ConvergenceWarning, match="interrupted: .* that of 2 sweeps"):
            model = MMC(3, random_state=0, tol=0.0).fit(views)
        assert model.n_iter_ == 2
        assert model.predict(views).shape == (90,)

    @pytest.mark.parametrize("where", ["start", "factors"])
    def test_interrupt_in_a_later_start_keeps_the_best_so_far(self, monkeypatch, where):
        views, _ = blobs()
        calls = []
        real = module._STARTS["random"] if where == "start" else module.start_factors

        def interrupting(*args, **options):
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return real(*args, **options)

        if where == "start":
            monkeypatch.setitem(module._STARTS, "random", interrupting)
        else:
            monkeypatch.setattr(module, "start_factors", interrupting)
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model = MMC(3, init="random", n_init=5, random_state=0, tol=0.1).fit(views)
        assert len(calls) == 3
        assert model.labels_.shape == (90,)


@pytest.mark.data
class TestRealData:
    def test_news_in_three_sources(self, data_dir):
        from manyview.datasets import read_views

        views, y = read_views(data_dir / "3sources.npz")
        model = fitted(views, k=6)
        assert all(sp.issparse(X) for X in views)
        assert adjusted_rand_score(y, model.labels_) > 0.3
        kept = [np.count_nonzero(W[:-1].any(axis=1)) for W in model.view_factors_]
        assert sum(kept) < 0.5 * sum(views.n_features)

    def test_samples_that_lack_a_view(self, data_dir):
        from manyview.datasets import read_views

        views, y = read_views(data_dir / "3sources_all416_incomplete.npz")
        assert views.present is not None
        assert not views.present.all()
        model = fitted(views, k=6)
        assert adjusted_rand_score(y, model.labels_) > 0.3


@pytest.mark.data
@pytest.mark.parametrize("name", ["fox", "cnn"])
def test_held_out_samples_are_told_and_images_are_dropped(data_dir, name):
    """Most image features say nothing of the topic; what is left tells samples not seen."""
    views, truth = read_views(data_dir / f"{name}.npz")
    k = np.unique(truth).size
    whole = fitted(views, k=k)
    images = np.any(whole.view_factors_[0][:-1], axis=1)
    assert views.names[0] == "image"
    assert images.mean() < 0.2
    order = np.random.default_rng(0).permutation(len(truth))
    seen, held = np.sort(order[: int(0.7 * order.size)]), np.sort(order[int(0.7 * order.size) :])
    found = fitted(views.take(seen), k=k).predict(views.take(held))
    expected = normalized_mutual_info(truth, whole.labels_)
    assert normalized_mutual_info(truth[held], found) > expected - 0.03
