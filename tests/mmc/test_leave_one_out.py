import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import engine_for
from manyview.metrics import clustering_accuracy
from manyview.mmc.leave_one_out import LeaveOneOutSettings, Ridge, judge_labels


def kernel_of(rng, n=30, n_features=4):
    X = rng.standard_normal((n, n_features))
    return np.prod([1.0 + X[:, [d]] @ X[:, [d]].T for d in range(n_features)], axis=0)


def indicator(labels, k):
    F = np.eye(k)[labels]
    return F / np.sqrt(F.sum(axis=0))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestRidge:
    def test_leave_one_out_predictions_are_those_of_fits_without_the_sample(self, rng):
        K, F = kernel_of(rng), indicator(np.arange(30) % 3, 3)
        ridge = Ridge.of(K, K, ridges=(0.1,))
        found, error = ridge.leave_one_out(F)
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            alpha = np.linalg.solve(K[np.ix_(rest, rest)] + ridge.ridge * np.eye(29), F[rest])
            np.testing.assert_allclose(found[i], K[i, rest] @ alpha, atol=1e-6)
        variance = np.sum((F - F.mean(axis=0)) ** 2)
        assert error == pytest.approx(np.sum((found - F) ** 2) / variance)

    def test_coefficients_predict_other_samples(self, rng):
        K, F = kernel_of(rng), indicator(np.arange(20) % 2, 2)
        known = K[:20, :20]
        ridge = Ridge.of(known, known, ridges=(0.1,))
        ridge.leave_one_out(F)
        expected = K[20:, :20] @ np.linalg.solve(known + ridge.ridge * np.eye(20), F)
        np.testing.assert_allclose(K[20:, :20] @ ridge.coefficients(F), expected, atol=1e-6)

    def test_the_ridge_with_the_smallest_error_is_chosen(self, rng):
        K, F = kernel_of(rng), indicator(rng.integers(2, size=30), 2)
        grid = (1e-3, 1.0, 1e3)
        alone = [Ridge.of(K, K, ridges=(ridge,)).leave_one_out(F)[1] for ridge in grid]
        assert Ridge.of(K, K, ridges=grid).leave_one_out(F)[1] == pytest.approx(min(alone))

    def test_a_kernel_of_few_dimensions(self):
        K = np.ones((5, 5))  # a constant predicts the mean of the others
        F = indicator(np.array([0, 0, 0, 1, 1]), 2)
        found, _ = Ridge.of(K, K, ridges=(1e-12,)).leave_one_out(F)
        np.testing.assert_allclose(found, (F.sum(axis=0) - F) / 4, atol=1e-6)


def judged(views, labels, *, others=(), seed=0, **settings):
    """Return the labels after the rounds, and their error."""
    engine = engine_for(as_views(views), normalize="rows")
    with engine.running():
        engine.scatter("labels", labels)
        error = judge_labels(
            engine,
            int(labels.max()) + 1,
            np.random.default_rng(seed),
            others=others,
            settings=LeaveOneOutSettings(**settings),
        )
        return engine.gather("labels"), error


def with_errors(labels, part, rng):
    """Return labels of which a random part is replaced by random ones."""
    wrong = rng.random(labels.size) < part
    return np.where(wrong, rng.integers(labels.max() + 1, size=labels.size), labels)


class TestJudgeLabels:
    @pytest.mark.parametrize("n_samples", [10_000, 120], ids=["all", "a sample"])
    def test_wrong_labels_are_mended(self, rng, n_samples):
        views, y = make_views(300, 3, (20, 15), separation=8.0, random_state=0)
        found, _ = judged(views, with_errors(y, 0.4, rng), n_samples=n_samples)
        assert adjusted_rand_score(y, found) == 1.0

    def test_wrong_labels_of_clusters_in_products_are_mended(self, rng):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        found, _ = judged(views, with_errors(y, 0.4, rng))
        assert clustering_accuracy(y, found) > 0.98

    @pytest.mark.parametrize("n_samples", [10_000, 60], ids=["all", "a sample"])
    def test_no_cluster_is_emptied(self, rng, n_samples):
        views = [rng.standard_normal((80, 5)), rng.standard_normal((80, 3))]
        found, error = judged(views, np.arange(80) % 12, n_samples=n_samples, n_landmarks=20)
        assert np.unique(found).size == 12
        assert error > 0.5

    def test_the_labels_with_the_smallest_error_are_kept(self, rng):
        views, y = make_views(200, 3, (20, 15), separation=8.0, random_state=0)
        arbitrary = rng.permutation(y)
        _, of_arbitrary = judged(views, arbitrary, rounds=1)
        found, error = judged(views, arbitrary, others=[y], rounds=1)
        assert error < of_arbitrary
        assert adjusted_rand_score(y, found) == 1.0

    def test_the_same_clusters_keep_their_numbers(self, rng):
        views, y = make_views(200, 3, (20, 15), separation=8.0, random_state=0)
        found, _ = judged(views, y, others=[(y + 1) % 3, (y + 2) % 3])
        np.testing.assert_array_equal(found, y)

    def test_one_view(self, rng):
        views, y = make_views(200, 3, (20,), separation=8.0, random_state=0)
        assert adjusted_rand_score(y, judged(views, with_errors(y, 0.3, rng))[0]) == 1.0

    @pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
    def test_equal_samples(self):
        found, _ = judged([np.ones((10, 3)), np.ones((10, 2))], np.arange(10) % 2)
        assert set(found) == {0, 1}


def fitted(views, k=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(k, indicator="leave-one-out", **({"random_state": 0} | options)).fit(views)


class TestEstimator:
    def test_the_objective_never_rises_and_new_samples_are_predicted(self):
        views, y = make_views(300, 3, (20, 15), separation=6.0, random_state=0)
        model = fitted(views.take(slice(200)))
        assert (np.diff(model.objective_) <= 0).all()
        assert adjusted_rand_score(y[200:], model.predict(views.take(slice(200, 300)))) > 0.95

    def test_given_labels_are_mended(self, rng):
        views, y = make_views(200, 3, (20, 15), separation=8.0, random_state=0)
        assert adjusted_rand_score(y, fitted(views, init=with_errors(y, 0.3, rng)).labels_) == 1.0

    def test_samples_with_missing_views(self, rng):
        views, y = make_views(240, 3, (20, 15), separation=8.0, random_state=0)
        present = rng.random((240, 2)) < 0.8
        present[~present.any(axis=1), 0] = True
        model = fitted(as_views(list(views), present=present))
        assert adjusted_rand_score(y, model.labels_) > 0.95

    def test_a_view_that_disagrees_does_not_spoil_the_others(self, rng):
        # by the product of the views alone, samples are near that agree in both
        views, y = make_views(200, 2, (20, 15), separation=6.0, random_state=0)
        other = np.eye(40)[rng.integers(40, size=200)] + 0.01 * rng.standard_normal((200, 40))
        model = fitted([*views, other], 2)
        assert adjusted_rand_score(y, model.labels_) > 0.95

    def test_the_same_seed_has_the_same_labels(self):
        views, _ = make_views(200, 4, (8, 6), separation=2.0, random_state=0)
        first, second = fitted(views, 4), fitted(views, 4)
        np.testing.assert_array_equal(first.labels_, second.labels_)
