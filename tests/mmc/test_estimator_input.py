"""Views and parameters that MMC accepts, and those that it rejects by name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold

from manyview import MMC, MultiViewSpectral, as_views

from .estimators import blobs, fitted


class TestShapes:
    @pytest.mark.parametrize("n_views", [1, 3, 12])
    @pytest.mark.parametrize("indicator", ["discrete", "orthogonal"])
    def test_number_of_views(self, n_views, indicator):
        views, truth = blobs(widths=(5,) * n_views)
        model = fitted(views, indicator=indicator)
        assert adjusted_rand_score(truth, model.labels_) > 0.9
        assert np.isfinite(model.objective_).all()

    @pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (5, 5), (6, 1), (7, 6)])
    @pytest.mark.parametrize(
        ("init", "indicator"),
        [("graph", "discrete"), ("kmeans", "orthogonal"), ("random", "discrete")],
    )
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
    @pytest.mark.filterwarnings("ignore:view .* is constant:UserWarning")
    def test_identical_samples(self, init, indicator):
        views = [np.tile([1.0, 2.0, 3.0], (12, 1)), np.tile([1.0, 0.0], (12, 1))]
        model = fitted(views, init=init, indicator=indicator)
        assert np.isfinite(model.objective_).all()
        assert np.unique(model.labels_).size == 3

    @pytest.mark.filterwarnings("ignore:view .* is constant:UserWarning")
    def test_a_constant_view_does_not_matter(self):
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
        # unit rows of one or two features say little, so no method finds all clusters
        scores = []
        for seed in range(3):
            views, truth = blobs(widths=(500, 1, 2), seed=seed)
            concatenated = np.hstack([X / np.linalg.norm(X, axis=1, keepdims=True) for X in views])
            simple = KMeans(3, n_init=10, random_state=0).fit_predict(concatenated)
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
        with pytest.raises(ValueError, match=r"view1.*f1_5"):
            model.predict([frames[0], frames[1].iloc[:, ::-1]])

    def test_integers(self):
        views, _ = blobs()
        counts = [np.round(np.abs(4 * X)).astype(np.int32) for X in views]
        as_float = fitted([X.astype(np.float64) for X in counts])
        np.testing.assert_array_equal(fitted(counts).labels_, as_float.labels_)


class TestErrors:
    views, _ = blobs()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_clusters": 0}, "'n_clusters' parameter of MMC"),
            ({"n_clusters": 2.5}, "'n_clusters' parameter of MMC"),
            ({"n_clusters": 91}, "n_clusters=91"),
            ({"rank": 2}, "rank=2 is less than n_clusters=3"),
            ({"rank": 5, "order": 1}, "rank=5 .*order=1.* at least 6"),
            ({"gamma": -0.1}, "'gamma' parameter of MMC"),
            ({"penalty": "l1"}, "'penalty' parameter of MMC"),
            ({"indicator": "soft"}, "'indicator' parameter"),
            ({"init": "spectral"}, "'init' parameter"),
            ({"init": [0, 1, 2]}, r"init has shape \(3,\)"),
            ({"normalize": "l2"}, "'normalize' parameter"),
            ({"normalize": ["rows"]}, "normalize has 1 entries"),
            ({"normalize": ["rows", "l2"]}, "normalize is 'l2' for view 'view1'"),
            ({"normalize": {"text": "rows"}}, "'text'"),
            ({"max_iter": 0}, "'max_iter' parameter"),
            ({"n_init": 0}, "'n_init' parameter"),
            ({"tol": -1.0}, "'tol' parameter"),
            ({"n_jobs": 0}, "'n_jobs' parameter"),
        ],
    )
    def test_parameters(self, options, message):
        with pytest.raises(ValueError, match=message):
            MMC(**{"n_clusters": 3, **options}).fit(self.views)

    def test_parameters_are_checked_before_the_views(self):
        with pytest.raises(ValueError, match="'n_jobs' parameter of MMC"):
            MMC(3, n_jobs=0).fit("no views")

    def test_one_sample(self):
        with pytest.raises(ValueError, match="1 sample"):
            MMC(1).fit([np.ones((1, 3))])

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            MMC(3).predict(self.views)

    def test_other_views_at_predict(self):
        model = fitted({"a": self.views[0], "b": self.views[1]})
        with pytest.raises(ValueError, match="1 view"):
            model.predict(self.views[:1])
        with pytest.raises(ValueError, match=r"view 'a' has 6 features.* 8"):
            model.predict(self.views[::-1])
        with pytest.raises(ValueError, match="'c'"):
            model.predict({"a": self.views[0], "c": self.views[1]})
        swapped = {"b": self.views[1], "a": self.views[0]}
        np.testing.assert_array_equal(model.predict(swapped), model.predict(self.views))

    @pytest.mark.parametrize(
        ("normalize", "scale"), [(None, 1e80), ("columns", 1e170), ("columns", 1e-170)]
    )
    def test_scales_that_overflow(self, normalize, scale):
        views = [self.views[0], scale * self.views[1]]
        with pytest.raises(ValueError, match="view1"):
            MMC(3, normalize=normalize).fit(views)

    @pytest.mark.parametrize(
        ("dtype", "scale"), [(np.float32, 1e37), (np.float32, 1e-37), (np.float64, 1e-305)]
    )
    def test_scales_at_the_end_of_the_range(self, dtype, scale):
        with pytest.raises(ValueError, match="view0"):
            MMC(3).fit([(scale * X).astype(dtype) for X in self.views])

    def test_scales_that_overflow_at_predict(self):
        model = fitted(self.views, normalize=None)
        with pytest.raises(ValueError, match="view0"):
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

    def test_the_least_rank_of_an_order_leaves_no_view_out(self):
        model = fitted(self.views, rank=6, order=1)
        assert all(factor[:-1].any() for factor in model.view_factors_)

    @pytest.mark.parametrize("init", [[0, "a", None] * 30, [0.0, 1.0, np.nan] * 30])
    def test_labels_with_missing_entries(self, init):
        with pytest.raises(ValueError, match="init"):
            MMC(3, init=np.array(init, dtype=object if None in init else float)).fit(self.views)

    @pytest.mark.parametrize("scale", [1e200, 1e-200])
    def test_an_indicator_of_any_scale(self, scale):
        init = np.random.default_rng(0).standard_normal((90, 3))
        one, two = fitted(self.views, init=init), fitted(self.views, init=scale * init)
        np.testing.assert_array_equal(one.labels_, two.labels_)

    def test_a_failed_fit_keeps_an_earlier_result(self):
        model = fitted(self.views)
        labels = model.labels_
        with pytest.raises(ValueError, match="view0"):
            model.fit([np.full((4, 2), np.inf)])
        assert model.labels_ is labels


def holed(views, rate, seed=0):
    """Return views of which some cells, at random, are unknown."""
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(X.shape) < rate, np.nan, X) for X in views]


class TestUnknownCells:
    views, truth = blobs()

    @pytest.mark.parametrize("rate", [0.2, 0.4])
    def test_groups_on_a_line_are_found_where_means_would_blur_them(self, rate):
        scores = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            truth = rng.integers(3, size=300)
            units = 10.0 ** rng.integers(-3, 4, 2)
            views = holed(
                [(6 * truth[:, None] + rng.standard_normal((300, 2))) * units for _ in range(2)],
                rate,
                seed + 10,
            )
            without = [np.where(np.isnan(X), np.nanmean(X, axis=0), X) for X in views]
            present = np.array([~np.isnan(X).all(axis=1) for X in views]).any(axis=0)
            scores.append(
                [
                    adjusted_rand_score(truth[present], fitted(given).labels_)
                    for given in ([X[present] for X in views], [X[present] for X in without])
                ]
            )
        ours, theirs = np.mean(scores, axis=0)
        assert ours > 0.97
        assert ours > theirs + 0.02

    @pytest.mark.parametrize("normalize", ["rows", "columns", None, "auto"])
    @pytest.mark.filterwarnings("error::RuntimeWarning")
    @pytest.mark.filterwarnings("ignore:view .* is constant:UserWarning")
    @pytest.mark.filterwarnings("ignore:.* are unknown:UserWarning")
    @pytest.mark.parametrize("case", ["constant", "no feature", "single", "few"])
    def test_results_are_finite(self, case, normalize):
        views = [X.copy() for X in self.views]
        views[1][::3, 0] = np.nan
        if case == "constant":
            views[1] = np.where(np.isnan(views[1]), np.nan, np.arange(6.0))
        elif case == "no feature":
            views[1][:, 2] = np.nan
        elif case == "single":
            views[1] = views[1][:, :1]
        else:
            views[0] = holed(views[:1], 0.8)[0]
        model = fitted(views, normalize=normalize, max_iter=5)
        for found in (
            model.objective_,
            model.transform(views),
            model.predict_proba(views),
            model.membership_,
            model.outlier_score_,
            np.asarray(model.view_weights_),
        ):
            assert np.isfinite(found).all()
        assert all(np.isfinite(factor).all() for factor in model.view_factors_)

    @pytest.mark.parametrize(("seen", "new"), [(0.0, 0.2), (0.2, 0.0), (0.2, 0.2)])
    def test_of_the_fit_or_of_new_samples(self, seen, new):
        model = fitted(holed(self.views, seen))
        views = holed(self.views, new, seed=1)
        labels = model.predict(views)
        assert adjusted_rand_score(self.truth, labels) > 0.95
        one_by_one = [model.predict([X[[n]] for X in views])[0] for n in range(5)]
        np.testing.assert_array_equal(one_by_one, labels[:5])

    def test_do_not_enter_means_of_features(self):
        views = [X + 5.0 for X in holed(self.views, 0.3)]
        model = fitted(views)
        assert len(model.profile()) > 0
        for entry in [*model.profile(), *model.explain(1)]:
            for (v, i), difference in zip(entry.places, entry.differences, strict=True):
                inside = model.labels_ == entry.cluster
                assert difference.mean == pytest.approx(np.nanmean(views[v][inside, i]))
                assert difference.others == pytest.approx(np.nanmean(views[v][~inside, i]))
                assert difference.overall == pytest.approx(np.nanmean(views[v][:, i]))

    def test_scikit_learn_splits_samples_with_them(self):
        views = as_views(holed(self.views, 0.2))
        search = GridSearchCV(
            MMC(3, random_state=0),
            {"rank": [10, 20]},
            cv=KFold(3),
            scoring=lambda model, held, _: adjusted_rand_score(
                held.arrays[0][:, 0] > 0, model.predict(held)
            ),
            error_score="raise",
        )
        assert np.isfinite(search.fit(views, self.truth).best_score_)
        assert MMC(3).__sklearn_tags__().input_tags.allow_nan

    @pytest.mark.parametrize("kind", [MMC, MultiViewSpectral])
    def test_are_reported(self, capsys, kind):
        views = [self.views[0], self.views[1].copy()]
        views[1][:9, 0] = np.nan
        kind(3, random_state=0, verbose=1).fit(dict(zip("ab", views, strict=True)))
        assert "unknown cells: b 1.7%\n" in capsys.readouterr().err

    def test_need_the_means_of_the_fit(self):
        model = fitted(self.views)
        model._statistics = None  # as in model files of earlier versions
        with pytest.raises(ValueError, match="unknown cells"):
            model.predict(holed(self.views, 0.2))
        np.testing.assert_array_equal(model.predict(self.views), model.labels_)
