import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, as_views, read_model, write_model
from manyview.datasets import make_views, read_views
from manyview.graph.settings import GraphSettings
from manyview.iterate import ProgressBar
from manyview.metrics import clustering_accuracy, normalized_mutual_info

from .estimators import blobs, fitted, warnings_allowed
from .indicators import indicator_of


class TestResult:
    @pytest.mark.parametrize(
        ("indicator", "penalty", "init"),
        [
            ("leave-one-out", "l21", "graph"),
            ("leave-one-out", "frobenius", "kmeans"),
            ("discrete", "l21", "graph"),
            ("discrete", "frobenius", "kmeans"),
            ("orthogonal", "l21", "kmeans"),
            ("orthogonal", "frobenius", "graph"),
        ],
    )
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
    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    def test_fit_predict_is_fit_then_labels(self, indicator):
        views, _ = blobs()
        model = MMC(3, random_state=0, indicator=indicator)
        np.testing.assert_array_equal(model.fit_predict(views), clone(model).fit(views).labels_)

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_predict_agrees_with_labels_on_clear_clusters(self, indicator, normalize):
        views, _ = blobs()
        model = fitted(views, indicator=indicator, normalize=normalize)
        np.testing.assert_array_equal(model.predict(views), model.labels_)

    @pytest.mark.parametrize(
        "normalize", [["rows", "columns"], ("rows", "columns"), {"clinic": "columns"}]
    )
    def test_each_view_can_have_its_own_scaling(self, normalize):
        (words, clinic), truth = blobs()
        views = {"words": words, "clinic": 100.0 + clinic}
        model = fitted(views, normalize=normalize, init=truth)
        assert model.normalize_ == {"words": "rows", "clinic": "columns"}
        standardised = (clinic - clinic.mean(axis=0)) / clinic.std(axis=0)
        unit = words / np.linalg.norm(words, axis=1, keepdims=True)
        by_hand = fitted([unit, standardised], normalize=None, init=truth)
        np.testing.assert_array_equal(model.labels_, by_hand.labels_)
        np.testing.assert_allclose(model.objective_, by_hand.objective_, rtol=1e-8)
        np.testing.assert_array_equal(model.predict(views), by_hand.predict([unit, standardised]))

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_out_of_sample_prediction(self, indicator, normalize):
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
        model = fitted(views, gamma=1e-4, normalize="rows")
        np.testing.assert_allclose(model.transform(views), model.indicator_, atol=0.05)

    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_setting_a_parameter_does_not_change_a_fitted_model(self, normalize):
        views, _ = blobs()
        model = fitted(views, normalize=normalize)
        before = model.transform(views)
        for other in ("rows", "columns", None):
            model.set_params(normalize=other)
            np.testing.assert_array_equal(model.transform(views), before)

    def test_y_is_ignored(self):
        views, truth = blobs()
        with_y = MMC(3, random_state=0, tol=0.1).fit(views, truth).labels_
        np.testing.assert_array_equal(with_y, MMC(3, random_state=0, tol=0.1).fit(views).labels_)


class TestRefit:
    def test_predicts_from_features_that_are_mostly_noise(self):
        """Such as standardised words, for which the usual penalty of a refit is too strong."""
        rng = np.random.default_rng(0)
        truth = np.arange(300) % 3
        words = rng.random((3, 1500)) ** 6
        views = [rng.poisson(0.3 * words[truth] + 0.05).astype(float) for _ in range(2)]
        model = fitted([X[:200] for X in views], normalize="columns")
        assert adjusted_rand_score(truth[:200], model.labels_) > 0.9
        assert adjusted_rand_score(truth[200:], model.predict([X[200:] for X in views])) > 0.9

    def test_predicts_samples_that_differ_little_compared_with_their_size(self):
        views, truth = blobs(n=150)
        views = [X + 600.0 for X in views]
        with pytest.warns(ConvergenceWarning, match="explains little .*normalize='columns'"):
            model = MMC(3, normalize="rows", random_state=0).fit([X[:100] for X in views])
        assert adjusted_rand_score(truth[:100], model.labels_) == 1.0
        assert adjusted_rand_score(truth[100:], model.predict([X[100:] for X in views])) == 1.0

    def test_by_default_such_samples_are_standardised(self):
        views, truth = blobs(n=150)
        views = [X + 600.0 for X in views]
        model = MMC(3, random_state=0).fit([X[:100] for X in views])
        assert adjusted_rand_score(truth[:100], model.labels_) == 1.0
        assert adjusted_rand_score(truth[100:], model.predict([X[100:] for X in views])) == 1.0


class TestInitialisation:
    def test_given_labels_and_indicator(self):
        views, truth = blobs()
        by_labels = fitted(views, init=truth, max_iter=2)
        by_indicator = fitted(views, init=indicator_of(truth, 3), max_iter=2)
        np.testing.assert_allclose(by_labels.objective_, by_indicator.objective_)

    def test_clear_given_labels_are_kept(self):
        views, truth = blobs()
        assert adjusted_rand_score(truth, fitted(views, init=truth).labels_) == 1.0

    @pytest.mark.parametrize("init", ["graph", "random"])
    def test_restarts_after_features_were_dropped(self, init):
        views, _ = blobs(n=200, widths=(60, 40))
        model = fitted(views, init=init, n_init=3, gamma=0.1)
        assert any(not W[:-1].any(axis=1).all() for W in model.view_factors_)

    def test_restarts_do_not_raise_the_objective(self):
        views, _ = blobs(spread=2.5)
        one = fitted(views, init="random", n_init=1)
        many = fitted(views, init="random", n_init=3)
        assert many.objective_[-1] <= one.objective_[-1]

    def test_the_zero_model_raises_a_warning(self):
        views, _ = blobs()
        with pytest.warns(ConvergenceWarning, match=r"gamma=1e\+03"):
            model = MMC(3, gamma=1000.0, random_state=0).fit(views)
        assert np.unique(model.labels_).size == 3
        assert not any(factor.any() for factor in model.view_factors_)  # no feature takes part

    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    @pytest.mark.parametrize(("dtype", "gamma"), [(np.float32, 1e30), (np.float64, 1e308)])
    def test_a_huge_gamma_raises_one_warning(self, gamma, dtype, penalty):
        views = [view.astype(dtype) for view in blobs()[0]]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = MMC(3, gamma=gamma, penalty=penalty, random_state=0).fit(views)
        (warning,) = told
        assert "gamma" in str(warning.message)
        assert not any(factor.any() for factor in model.view_factors_)

    @pytest.mark.parametrize("value", [None, 7.0])
    def test_identical_samples_raise_a_warning_that_does_not_blame_gamma(self, value):
        views = [np.ones((30, 3)), np.zeros((30, 2))]
        if value is not None:  # in rows of missing views
            present = np.arange(30)[:, None] % 5 != np.array([0, 7])
            first = np.where(present[:, [0]], views[0], value)
            views = as_views([first, views[1]], present=present, warn=False)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            MMC(2, random_state=0).fit(views)
        messages = [str(warning.message) for warning in told]
        assert "identical" in messages[-1]
        assert not any("gamma" in message for message in messages)

    def test_values_that_became_infinite_after_the_check_are_rejected(self):
        views = as_views([array.copy() for array in blobs()[0]])
        views.arrays[0][3, 1] = np.inf
        with pytest.raises(ValueError, match="view0"):
            MMC(3).fit(views)

    @pytest.mark.parametrize("gamma", [1e-4, 0.1])
    @pytest.mark.parametrize("n_views", [1, 2, 5])
    def test_usual_gammas_do_not_end_in_the_zero_model(self, gamma, n_views):
        views, truth = blobs(widths=(8,) * n_views)
        model = fitted(views, gamma=gamma)
        prediction = model.transform(views)
        assert np.sum(prediction**2) > 0.1
        assert adjusted_rand_score(truth, model.predict(views)) > 0.9

    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize(
        ("indicator", "penalty", "dtype"),
        [
            ("discrete", "l21", np.float64),
            pytest.param("discrete", "frobenius", np.float32, marks=pytest.mark.slow),
            ("orthogonal", "l21", np.float32),
            pytest.param("orthogonal", "frobenius", np.float64, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize("gamma", [0.0, 1e4])
    def test_any_gamma_is_finite_and_the_objective_falls(self, gamma, dtype, penalty, indicator):
        options = {"gamma": gamma, "penalty": penalty, "indicator": indicator, "max_iter": 8}
        narrow = [np.random.default_rng(v).random((100, 1)).astype(dtype) for v in range(2)]
        few, _ = blobs(60, dtype=dtype)
        for views, rank in ((few, 90), (narrow, 20)):
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


class TestLeaveOneOut:
    """The default indicator: labels that other samples predict."""

    def test_given_labels_are_mended(self):
        views, truth = blobs(n=180)
        wrong = np.where(np.arange(180) % 5 == 0, (truth + 1) % 3, truth)
        np.testing.assert_array_equal(fitted(views, init=wrong).labels_, truth)

    def test_iterations_do_not_move_them(self):
        views, _ = blobs(spread=4.0)
        one, many = fitted(views, max_iter=1), fitted(views, max_iter=20, tol=0.0, patience=None)
        assert many.n_iter_ > 1
        np.testing.assert_array_equal(one.labels_, many.labels_)

    def test_a_view_that_disagrees_does_not_spoil_the_others(self):
        # by the product of the views alone, samples are near that agree in both
        views, truth = make_views(200, 2, (20, 15), separation=6.0, random_state=0)
        rng = np.random.default_rng(0)
        other = np.eye(40)[rng.integers(40, size=200)] + 0.01 * rng.standard_normal((200, 40))
        assert adjusted_rand_score(truth, fitted([*views, other], 2).labels_) > 0.95

    def test_samples_with_missing_views(self):
        views, truth = make_views(240, 3, (20, 15), separation=8.0, random_state=0)
        present = np.random.default_rng(0).random((240, 2)) < 0.8
        present[~present.any(axis=1), 0] = True
        model = fitted(as_views(list(views), present=present))
        assert adjusted_rand_score(truth, model.labels_) > 0.95

    @pytest.mark.parametrize("init", ["graph", "kmeans", "random"])
    def test_more_samples_than_are_compared(self, monkeypatch, init):
        few = GraphSettings(n_compared=100, compared_per_cluster=0, scaling_samples=100)
        monkeypatch.setattr(MMC, "_graph_settings", few)
        views, truth = make_views(1200, 3, (20, 15), separation=7.0, random_state=0)
        model = fitted(views.take(np.arange(1000)), init=init)
        score = adjusted_rand_score(truth[:1000], model.labels_)
        assert score > 0.98 or init == "random"
        assert np.unique(model.labels_).size == 3
        agree = adjusted_rand_score(model.predict(views.take(np.arange(1000, 1200))), truth[1000:])
        assert agree > 0.95 or init == "random"


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

    def test_clusters_of_products_are_found(self):
        views, truth = make_views(600, 2, (8, 8), structure="interaction", random_state=0)
        assert clustering_accuracy(truth, MMC(2, random_state=0).fit_predict(views)) > 0.95
        beside = np.hstack([np.asarray(X) for X in views])
        kmeans = KMeans(2, n_init=10, random_state=0).fit_predict(beside)
        assert clustering_accuracy(truth, kmeans) < 0.6

    def test_they_are_predicted_by_products_only(self):
        views, truth = make_views(900, 2, (8, 8), structure="interaction", random_state=0)
        seen, new = views.take(np.arange(600)), views.take(np.arange(600, 900))

        def accuracy(take, **options):
            model = fitted(take(seen), k=2, init=truth[:600], **options)
            return clustering_accuracy(truth[600:], model.predict(take(new)))

        assert accuracy(list) > 0.95
        assert accuracy(list, order=1) < 0.65
        assert accuracy(lambda given: [np.hstack(list(given))]) < 0.65


class TestEarlyStopping:
    def test_iterations_end_when_the_clusters_do_not_change(self):
        views, truth = blobs()
        model = fitted(views, init=truth, patience=3)
        assert model.n_iter_ == 3
        assert fitted(views, init=truth, patience=None).n_iter_ > 3

    def test_dropped_features_do_not_affect_predictions(self):
        """Of all features, these and no others."""
        views, _ = make_views(200, 3, (40, 30), n_noise_views=1, random_state=0)
        model = fitted(views, gamma=0.3, patience=None, normalize=None)
        kept = np.concatenate([np.any(W[:-1], axis=1) for W in model.view_factors_])
        assert not kept.all()
        alone = np.split(np.eye(kept.size), np.cumsum(model.n_features_in_)[:-1], axis=1)
        nothing = [np.zeros((1, width)) for width in model.n_features_in_]
        differ = ~np.isclose(model.transform(alone), model.transform(nothing), rtol=1e-10, atol=0)
        used = np.any(differ, axis=1)
        np.testing.assert_array_equal(used, kept)


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
        last = err.splitlines()[-1]
        assert last == f"MMC [{24 * '#'}] done, objective {model.objective_[-1]:.6g}"

    def test_stages_come_before_the_iterations(self, caplog):
        with caplog.at_level("DEBUG", "manyview"):
            fitted(blobs()[0])
        stages = [f"MMC: {name}" for name in ("scaling", "neighbours", "candidates", "iterations")]
        assert caplog.messages[:4] == stages
        assert caplog.messages[4].startswith("MMC 1/100")

    def test_not_converged(self):
        with pytest.warns(ConvergenceWarning, match="max_iter=1"):
            MMC(3, max_iter=1, random_state=0).fit(blobs()[0])

    def test_interrupt_leaves_a_fitted_estimator(self, monkeypatch):
        views, _ = blobs()

        def interrupt(self, done, word):
            if done == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(ProgressBar, "step", interrupt)
        with pytest.warns(ConvergenceWarning, match="interrupted: .* 2 iterations"):
            model = MMC(3, random_state=0, tol=0.0).fit(views)
        assert model.n_iter_ == 2
        assert model.predict(views).shape == (90,)

    def test_interrupt_in_a_later_restart_keeps_the_best_so_far(self, monkeypatch):
        views, _ = blobs()
        steps = []

        def interrupt(self, done, word):
            steps.append(done)
            if done > 2 * 100:  # in the third restart
                raise KeyboardInterrupt

        monkeypatch.setattr(ProgressBar, "step", interrupt)
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model = MMC(3, init="random", n_init=5, random_state=0, tol=0.1).fit(views)
        assert steps[-1] == 201
        assert model.labels_.shape == (90,)


@pytest.mark.data
class TestRealData:
    def test_news_in_three_sources(self, data_dir):
        views, y = read_views(data_dir / "3sources.npz")
        model = fitted(views, k=6)
        assert all(sp.issparse(X) for X in views)
        assert adjusted_rand_score(y, model.labels_) > 0.3
        assert set(model.normalize_.values()) == {"log"}
        model = fitted(views, k=6, normalize="rows")
        assert adjusted_rand_score(y, model.labels_) > 0.3
        kept = [np.count_nonzero(W[:-1].any(axis=1)) for W in model.view_factors_]
        assert sum(kept) < 0.5 * sum(views.n_features)

    def test_missing_views(self, data_dir):
        views, y = read_views(data_dir / "3sources_all416_incomplete.npz")
        assert views.present is not None
        assert not views.present.all()
        model = fitted(views, k=6)
        assert adjusted_rand_score(y, model.labels_) > 0.3


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["fox", "cnn"])
def test_held_out_samples_are_predicted_and_images_are_dropped(data_dir, name):
    """Most image features say nothing about the topic; the others predict held-out samples."""
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


class TestAutomaticNumberOfClusters:
    def test_the_recommended_number_is_fitted(self):
        views, _ = make_views(150, 3, (8, 6), random_state=0)
        model = MMC("auto", random_state=0, n_jobs=1).fit(views)
        assert model.n_clusters_ == model.choice_.n_clusters == 3
        assert model.n_clusters == "auto"
        assert model.indicator_.shape == (150, 3)
        again = clone(model)
        assert again.get_params()["n_clusters"] == "auto"
        assert not hasattr(again, "n_clusters_")
        assert (again.fit(views).labels_ == model.labels_).all()

    def test_given_numbers_are_kept(self):
        views, _ = make_views(60, 3, (8, 6), random_state=0)
        model = MMC(2, random_state=0).fit(views)
        assert (model.n_clusters_, model.choice_) == (2, None)

    def test_model_files_keep_the_number(self, tmp_path):
        views, _ = make_views(150, 3, (8, 6), random_state=0)
        model = MMC("auto", random_state=0).fit(views)
        write_model(tmp_path / "a.model", model)
        again = read_model(tmp_path / "a.model")
        assert (again.n_clusters, again.n_clusters_) == ("auto", 3)

    def test_noise_raises(self):
        rng = np.random.default_rng(0)
        noise = [rng.standard_normal((150, 8)) for _ in range(2)]
        with pytest.raises(ValueError, match=r"no clusters found.*number of clusters"):
            MMC("auto", random_state=0).fit(noise)

    @pytest.mark.parametrize("n_clusters", ["many", 2.5, 0])
    def test_other_values_are_rejected(self, n_clusters):
        views, _ = make_views(60, 3, (8, 6), random_state=0)
        with pytest.raises(ValueError, match="n_clusters"):
            MMC(n_clusters).fit(views)

    def test_labels_and_few_samples_need_a_number(self):
        views, y = make_views(60, 3, (8, 6), random_state=0)
        with pytest.raises(ValueError, match="n_clusters='auto' with labels as init"):
            MMC("auto", init=y).fit(views)
        with pytest.raises(ValueError, match="n_clusters='auto' with 15 samples"):
            MMC("auto").fit(views.take(range(15)))
