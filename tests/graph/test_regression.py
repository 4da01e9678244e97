import numpy as np
import pytest

from manyview.engine import LocalEngine
from manyview.graph.neighbours import comparison_with
from manyview.graph.regression import (
    Prediction,
    Ridge,
    coefficients_of,
    mean_prediction,
    predicted_rows,
    relative_error,
    shares,
)
from manyview.views import as_views


def kernel_of(rng, n=30, n_features=4):
    X = rng.standard_normal((n, n_features))
    return np.prod([1.0 + X[:, [d]] @ X[:, [d]].T for d in range(n_features)], axis=0)


def indicator(labels, k):
    F = np.eye(k)[labels]
    return F / np.sqrt(F.sum(axis=0))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestLeaveOneOut:
    def test_predictions_are_those_of_fits_without_the_sample(self, rng):
        K, F = kernel_of(rng), indicator(np.arange(30) % 3, 3)
        ridge = Ridge.of(K, np.arange(30), ridges=(0.1,))
        found = ridge.leave_one_out(F)
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            alpha = np.linalg.solve(K[np.ix_(rest, rest)] + ridge.ridges[0] * np.eye(29), F[rest])
            np.testing.assert_allclose(found.rows[i], K[i, rest] @ alpha, atol=1e-6)
        assert found.error == pytest.approx(relative_error(found.rows, F))

    def test_of_landmarks_they_are_those_of_regressions_on_features(self, rng):
        K, F, landmarks = kernel_of(rng), indicator(np.arange(30) % 3, 3), np.arange(4, 24, 3)
        ridge = Ridge.of(K[:, landmarks], landmarks, ridges=(0.1,))
        found = ridge.leave_one_out(F)
        features = K[:, landmarks] @ np.linalg.cholesky(
            np.linalg.inv(K[np.ix_(landmarks, landmarks)])
        )
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            X = features[rest]
            weights = np.linalg.solve(X.T @ X + ridge.ridges[0] * np.eye(landmarks.size), X.T)
            np.testing.assert_allclose(found.rows[i], features[i] @ weights @ F[rest], atol=1e-6)

    def test_the_ridge_with_the_smallest_error_is_chosen(self, rng):
        K, F = kernel_of(rng), indicator(rng.integers(2, size=30), 2)
        grid, every = (1e-3, 1.0, 1e3), np.arange(30)
        alone = [Ridge.of(K, every, ridges=(part,)).leave_one_out(F).error for part in grid]
        found = Ridge.of(K, every, ridges=grid).leave_one_out(F)
        assert found.error == pytest.approx(min(alone))
        assert found.ridge == np.argmin(alone)

    @pytest.mark.parametrize("near", [0, 2, 4])
    def test_a_search_near_a_ridge_takes_the_best_of_its_neighbours(self, rng, near):
        K, F = kernel_of(rng), indicator(rng.integers(2, size=30), 2)
        grid, every = (1e-4, 1e-2, 1.0, 1e2, 1e4), np.arange(30)
        alone = [Ridge.of(K, every, ridges=(part,)).leave_one_out(F).error for part in grid]
        around = range(max(near - 1, 0), min(near + 2, 5))
        found = Ridge.of(K, every, ridges=grid).leave_one_out(F, near=near)
        assert found.ridge == min(around, key=lambda number: alone[number])

    def test_a_kernel_of_one_dimension(self):
        K = np.ones((5, 5))  # a constant predicts the mean of the others
        F = indicator(np.array([0, 0, 0, 1, 1]), 2)
        found = Ridge.of(K, np.arange(5), ridges=(1e-12,)).leave_one_out(F)
        np.testing.assert_allclose(found.rows, (F.sum(axis=0) - F) / 4, atol=1e-6)

    def test_a_sample_unlike_all_others_is_not_predicted_by_itself(self):
        K = np.eye(6)
        F = indicator(np.arange(6) % 2, 2)
        found = Ridge.of(K, np.arange(6), ridges=(1e-3,)).leave_one_out(F)
        np.testing.assert_allclose(found.rows, 0.0, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_equal_samples_and_the_precision_of_the_kernel(self, rng, dtype):
        K = kernel_of(rng, 40)
        twice = np.repeat(np.arange(40), 2)
        F = indicator(np.arange(80) % 2, 2)  # both copies differ, so nothing can be predicted
        found = Ridge.of(K[np.ix_(twice, twice)].astype(dtype), np.arange(80), ridges=(1e-3, 1.0))
        prediction = found.leave_one_out(F)
        assert np.isfinite(prediction.rows).all()
        assert prediction.error > 0.9

    def test_its_scale_does_not_matter(self, rng):
        K, F = kernel_of(rng), indicator(np.arange(30) % 3, 3)
        first, second = (Ridge.of(s * K, np.arange(30), ridges=(0.01, 1.0)) for s in (1.0, 1e6))
        np.testing.assert_allclose(
            first.leave_one_out(F).rows, second.leave_one_out(F).rows, atol=1e-6
        )


def test_coefficients_predict_other_samples(rng):
    K, F = kernel_of(rng), indicator(np.arange(20) % 2, 2)
    known = K[:20, :20]
    ridge = Ridge.of(known, np.arange(20), ridges=(0.1,))
    expected = K[20:, :20] @ np.linalg.solve(known + ridge.ridges[0] * np.eye(20), F)
    np.testing.assert_allclose(K[20:, :20] @ ridge.coefficients(F, 0), expected, atol=1e-6)


class TestMeanPrediction:
    def test_better_predictions_count_more(self):
        weights = shares([Prediction(None, 0.2), Prediction(None, 0.6)])
        assert weights == pytest.approx([2 / 3, 1 / 3])

    def test_predictions_worse_than_the_mean_hardly_count(self):
        weights = shares([Prediction(None, 0.5), Prediction(None, 1.5)])
        assert sum(weights) == pytest.approx(1.0)
        assert 0.0 < weights[1] < 0.01

    def test_of_useless_predictions_is_their_plain_mean(self, rng):
        F = indicator(np.arange(12) % 3, 3)
        first, second = (Prediction(rng.random((12, 3)), error) for error in (1.2, 7.0))
        found = mean_prediction([first, second], F)
        np.testing.assert_allclose(found.rows, (first.rows + second.rows) / 2)
        assert found.error == relative_error(found.rows, F)

    def test_errors_are_relative_to_the_variance(self):
        F = indicator(np.array([0, 0, 0, 1, 1]), 2)
        assert relative_error(F, F) == 0.0
        assert relative_error(np.tile(F.mean(axis=0), (5, 1)), F) == pytest.approx(1.0)

    def test_a_single_cluster_has_no_variance(self):
        F = indicator(np.zeros(5, dtype=int), 1)
        assert relative_error(F, F) == 0.0


class TestPredictedRows:
    @pytest.fixture
    def engine(self, rng, monkeypatch):
        monkeypatch.setattr(LocalEngine, "block_rows", (40, 40))
        monkeypatch.setattr(LocalEngine, "chunk", 7)
        return LocalEngine(as_views([rng.standard_normal((90, d)) for d in (6, 4)]), normalize=None)

    def test_are_the_sum_over_the_kernels(self, engine, rng):
        rows = engine.take(np.arange(90))
        unit = [view.x / np.linalg.norm(view.x, axis=1, keepdims=True) for view in rows]
        landmarks = np.arange(0, 90, 9)
        first, second = (1.0 + X @ X[landmarks].T for X in unit)
        coefficients = [rng.standard_normal((10, 3)) for _ in range(3)]
        comparison = comparison_with(engine, [view.take(landmarks) for view in rows])
        found = [predicted_rows(block, comparison, coefficients) for block in engine.blocks]
        kernels = (first * second, first, second)
        expected = sum(kernel @ part for kernel, part in zip(kernels, coefficients, strict=True))
        np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-12)

    def test_coefficients_of_all_regressions_are_weighted_by_what_they_explain(self, rng):
        kernels = [kernel_of(rng), kernel_of(rng)]
        F = indicator(np.arange(30) % 3, 3)
        ridges = [Ridge.of(kernel, np.arange(30), ridges=(0.1, 1.0)) for kernel in kernels]
        found = coefficients_of(ridges, F, np.dtype(np.float32))
        predictions = [ridge.leave_one_out(F) for ridge in ridges]
        for part, share, ridge, prediction in zip(
            found, shares(predictions), ridges, predictions, strict=True
        ):
            assert part.dtype == np.float32
            expected = share * ridge.coefficients(F, prediction.ridge)
            np.testing.assert_allclose(part, expected, rtol=1e-4, atol=1e-5)
