import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import rmkmc as module
from manyview.baselines.rmkmc import RMKMC, distances_to_centres, weighted_centres
from manyview.datasets import make_views
from manyview.exceptions import ViewWarning

from .helpers import mean_scores_on_3sources


def noisy(n=80, widths=(6, 4), seed=0):
    """Return views without clusters, which need several iterations."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, d)) for d in widths]


def objective(model, views):
    lengths = [
        np.linalg.norm(X - F[model.labels_], axis=1).sum()
        for X, F in zip(views, model.cluster_centers_, strict=True)
    ]
    return model.view_weights_**model.exponent @ lengths


def assert_never_rises(values):
    assert (np.diff(values) <= 1e-9 * values[0]).all()


class TestResult:
    def test_clear_clusters_are_found(self):
        views, y = make_views(150, 3, separation=12.0, random_state=0)
        scores = [
            adjusted_rand_score(y, RMKMC(3, init="pp", random_state=seed).fit(views).labels_)
            for seed in range(5)
        ]
        assert max(scores) == 1.0

    @pytest.mark.parametrize("init", ["random", "pp"])
    def test_attributes(self, init):
        views = noisy()
        model = RMKMC(3, init=init, random_state=0)
        assert model.fit({"a": views[0], "b": views[1]}) is model
        assert set(model.labels_) == {0, 1, 2}
        assert [F.shape for F in model.cluster_centers_] == [(3, 6), (3, 4)]
        assert model.view_weights_.sum() == pytest.approx(1.0)
        assert (model.view_weights_ > 0).all()
        assert model.objective_.shape == (model.n_iter_,)
        assert model.n_features_in_ == [6, 4]
        assert model.view_names_ == ["a", "b"]
        assert not hasattr(model, "predict")

    def test_objective_is_that_of_the_attributes(self):
        views = [X + 5.0 for X in noisy()]
        model = RMKMC(4, random_state=0).fit(views)
        assert model.objective_[-1] == pytest.approx(objective(model, views), rel=1e-5)

    def test_view_weights_are_the_best_for_their_sums(self):
        views = noisy()
        model = RMKMC(3, exponent=1.7, random_state=0).fit(views)
        best = objective(model, views)
        weights = model.view_weights_
        for shift in (-0.01, 0.01):
            model.view_weights_ = weights + np.array([shift, -shift])
            assert objective(model, views) > best

    def test_an_outlier_has_less_influence_than_in_k_means(self):
        rng = np.random.default_rng(0)
        view = rng.standard_normal((60, 3))
        view[0] = 1000.0
        centre = RMKMC(1, random_state=0).fit([view]).cluster_centers_[0]
        assert np.abs(centre).max() < 1.0 < view.mean()

    def test_same_seed_same_labels(self):
        views = noisy()
        model = RMKMC(4, random_state=3).fit(views)
        again = clone(model).fit(views)
        np.testing.assert_array_equal(model.labels_, again.labels_)
        np.testing.assert_array_equal(model.objective_, again.objective_)

    def test_verbose_shows_progress(self, capsys):
        RMKMC(2, random_state=0, verbose=1).fit(noisy())
        assert "RMKMC" in capsys.readouterr().err


class TestObjective:
    @pytest.mark.parametrize("exponent", [1.02, 10**0.1, 10**0.5, 10**1.9])
    @pytest.mark.parametrize("init", ["random", "pp"])
    def test_never_rises(self, exponent, init):
        for seed in range(4):
            views = noisy(widths=(6, 4, 30), seed=seed)
            model = RMKMC(7, exponent=exponent, init=init, random_state=seed).fit(views)
            assert_never_rises(model.objective_)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_never_rises_when_empty_clusters_are_refilled(self, monkeypatch):
        # with few distinct samples and many clusters most initialisations lose some
        seeded = []
        dense_row = module._dense_row
        monkeypatch.setattr(
            module, "_dense_row", lambda rows, n: (seeded.append(n), dense_row(rows, n))[1]
        )
        for seed in range(8):
            views = [np.round(X, 0) for X in noisy(n=40, widths=(2, 2), seed=seed)]
            model = RMKMC(12, random_state=seed).fit(views)
            assert_never_rises(model.objective_)
            assert set(model.labels_) == set(range(12))
        assert seeded

    def test_stopping_early_is_reported(self):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model = RMKMC(4, max_iter=2, random_state=0).fit(noisy())
        assert model.n_iter_ == 2


class TestLimits:
    def test_distances_to_centres_without_weights_are_lloyds_steps(self):
        view = noisy(n=120)[0]
        kmeans = KMeans(4, n_init=1, tol=0.0, random_state=0).fit(view)
        centres = weighted_centres(view, kmeans.labels_, np.ones(120), 4)
        distances = distances_to_centres(view, (view**2).sum(axis=1), centres)
        np.testing.assert_array_equal(distances.argmin(axis=1), kmeans.labels_)
        assert distances.min(axis=1).sum() == pytest.approx(kmeans.inertia_)

    def test_a_large_exponent_makes_the_weights_equal(self):
        model = RMKMC(3, exponent=500.0, random_state=0).fit(noisy())
        np.testing.assert_allclose(model.view_weights_, 0.5, atol=1e-3)

    @pytest.mark.parametrize("exponent", [1.02, 1.0 + 1e-9])
    def test_an_exponent_near_1_takes_the_view_of_the_smallest_distances(self, exponent):
        views = noisy(widths=(6, 6))
        model = RMKMC(3, exponent=exponent, random_state=0).fit([views[0], 0.5 * views[1]])
        np.testing.assert_allclose(model.view_weights_, [0.0, 1.0], atol=1e-6)

    def test_one_view_has_all_the_weight(self):
        assert RMKMC(3, random_state=0).fit(noisy()[:1]).view_weights_ == pytest.approx([1.0])

    def test_one_cluster_and_as_many_as_samples(self):
        views = noisy(n=6)
        assert set(RMKMC(1, random_state=0).fit(views).labels_) == {0}
        assert set(RMKMC(6, random_state=0).fit(views).labels_) == set(range(6))


class TestInvariance:
    @pytest.mark.parametrize("factor", [1e-8, 1e8])
    def test_a_common_scale_changes_nothing(self, factor):
        views = noisy()
        plain = RMKMC(4, random_state=0).fit(views)
        scaled = RMKMC(4, random_state=0).fit([factor * X for X in views])
        np.testing.assert_array_equal(plain.labels_, scaled.labels_)
        np.testing.assert_allclose(plain.view_weights_, scaled.view_weights_, rtol=1e-9)
        np.testing.assert_allclose(factor * plain.objective_, scaled.objective_, rtol=1e-9)

    def test_the_order_of_views_changes_nothing(self):
        views = noisy()
        plain = RMKMC(4, random_state=0).fit(views)
        turned = RMKMC(4, random_state=0).fit(views[::-1])
        np.testing.assert_array_equal(plain.labels_, turned.labels_)

    def test_moving_a_view_far_off_changes_nothing(self):
        views = noisy()
        plain = RMKMC(4, random_state=0).fit(views)
        moved = RMKMC(4, random_state=0).fit([views[0] + 1e6, views[1]])
        np.testing.assert_array_equal(plain.labels_, moved.labels_)

    @pytest.mark.parametrize("init", ["random", "pp"])
    def test_sparse_views_give_the_labels_of_dense_ones(self, init, monkeypatch):
        views = [np.maximum(X, 0.0) for X in noisy(n=60, widths=(30, 20))]
        dense = RMKMC(4, init=init, random_state=0).fit(views)
        toarray = sp.csr_array.toarray

        def small_only(self, *args, **options):
            assert self.shape[0] <= 4, "a sparse view was made dense"
            return toarray(self, *args, **options)

        monkeypatch.setattr(sp.csr_array, "toarray", small_only)
        sparse = RMKMC(4, init=init, random_state=0).fit([sp.csr_array(X) for X in views])
        np.testing.assert_array_equal(dense.labels_, sparse.labels_)
        np.testing.assert_allclose(dense.objective_, sparse.objective_, rtol=1e-9)
        for ours, theirs in zip(dense.cluster_centers_, sparse.cluster_centers_, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)

    def test_the_views_stay_as_they_are(self):
        views = [noisy()[0], sp.csr_array(noisy()[1])]
        before = [X.copy() for X in views]
        RMKMC(3, random_state=0).fit(views)
        np.testing.assert_array_equal(views[0], before[0])
        assert (views[1] != before[1]).nnz == 0

    def test_single_precision(self):
        views = noisy()
        model = RMKMC(3, random_state=0).fit([X.astype(np.float32) for X in views])
        np.testing.assert_array_equal(model.labels_, RMKMC(3, random_state=0).fit(views).labels_)


class TestDegenerate:
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("value", [0.0, 0.1, 7.3])
    def test_a_constant_view_takes_no_part(self, convert, value):
        views = noisy()
        with pytest.warns(ViewWarning):
            model = RMKMC(3, random_state=0).fit([*views, convert(np.full((80, 5), value))])
        assert model.view_weights_[2] == 0.0
        np.testing.assert_array_equal(model.labels_, RMKMC(3, random_state=0).fit(views).labels_)

    @pytest.mark.parametrize("init", ["random", "pp"])
    def test_constant_views_only(self, init):
        with (
            pytest.warns(ConvergenceWarning),
            pytest.warns(ViewWarning),
        ):
            model = RMKMC(3, init=init, random_state=0).fit([np.ones((10, 2)), np.zeros((10, 3))])
        assert set(model.labels_) == {0, 1, 2}
        np.testing.assert_allclose(model.view_weights_, 0.5)
        np.testing.assert_array_equal(model.objective_, 0.0)

    @pytest.mark.parametrize("init", ["random", "pp"])
    def test_duplicates_and_zero_rows(self, init):
        views = [np.repeat(X, 4, axis=0) for X in noisy(n=5)]
        views[0][:8] = 0.0
        model = RMKMC(3, init=init, random_state=0).fit(views)
        assert set(model.labels_) == set(range(3))
        assert_never_rises(model.objective_)

    @pytest.mark.parametrize("init", ["random", "pp"])
    def test_fewer_distinct_samples_than_clusters(self, init):
        views = [np.repeat(X, 4, axis=0) for X in noisy(n=5)]
        with pytest.warns(ConvergenceWarning):
            model = RMKMC(8, init=init, random_state=0).fit(views)
        assert set(model.labels_) == set(range(8))
        # every sample is its own centre, and only the smoothing remains
        assert model.objective_[-1] < 1e-4

    def test_few_samples(self):
        views = noisy(n=8)
        model = RMKMC(7, random_state=0).fit(views)
        assert set(model.labels_) == set(range(7))
        assert_never_rises(model.objective_)

    def test_squares_beyond_the_range_are_rejected(self):
        views = noisy()
        with pytest.raises(ValueError, match="view1"):
            RMKMC(3).fit([views[0], views[1] * 1e200])

    @pytest.mark.parametrize(
        "options", [{"exponent": 1.0}, {"init": "kmeans"}, {"max_iter": 0}, {"normalize": "l1"}]
    )
    def test_parameters_out_of_range(self, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            RMKMC(3, **options).fit(noisy())

    def test_normalized_rows_are_those_of_the_centres(self):
        views = noisy()
        units = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in views]
        model = RMKMC(3, normalize="rows", random_state=0).fit(views)
        by_hand = RMKMC(3, random_state=0).fit(units)
        np.testing.assert_array_equal(model.labels_, by_hand.labels_)
        np.testing.assert_allclose(model.cluster_centers_[0], by_hand.cluster_centers_[0])


@pytest.mark.data
def test_scores_on_3sources(data_dir):
    scores = mean_scores_on_3sources(
        data_dir, lambda views, seed: RMKMC(6, random_state=seed).fit_predict(views)
    )
    assert scores == (pytest.approx(0.45, abs=0.04), pytest.approx(0.34, abs=0.05))


def test_an_empty_cluster_takes_over_the_sample_that_fits_worst():
    view = module._prepared(np.array([[0.0], [1.0], [2.0], [3.0], [30.0]]))
    centres = np.array([[0.0], [500.0]]) - view.offset
    labels, squares = module._assign([view], [centres], [np.ones(5)], np.ones(1))
    np.testing.assert_array_equal(labels, [0, 0, 0, 0, 1])
    assert squares[0][4] == 0.0
    np.testing.assert_allclose(centres[1] + view.offset, [30.0])


def test_the_view_of_small_norms_gets_the_weight():
    views = noisy()
    for scale in (1e-3, 1e3):
        weights = RMKMC(3, random_state=0).fit([views[0], scale * views[1]]).view_weights_
        assert (weights[1] > 0.5) == (scale < 1)
