import numpy as np
import pytest
from sklearn.datasets import load_iris

from manyview import MMC
from manyview.datasets import make_views
from manyview.metrics import normalized_mutual_info
from manyview.mmc.objective import Moments
from manyview.mmc.prediction import CentreReadout, CosineReadout

from .indicators import indicator_of


def readout_of(B, F, clusters):
    return CosineReadout.of(Moments(B.T @ B, B.T @ F), clusters)


class TestCosineReadout:
    def test_cosines_with_the_means_of_clusters(self):
        rng = np.random.default_rng(0)
        labels = rng.permutation(np.repeat(np.arange(4), (40, 30, 20, 10)))
        B, clusters = rng.standard_normal((100, 6)), rng.standard_normal((4, 6))
        P = B @ clusters.T
        means = np.array([P[labels == k].mean(axis=0) for k in range(4)])
        within = (P - means[labels]).T @ (P - means[labels])
        metric = np.linalg.inv(within + 0.03 * np.trace(P.T @ P) / 4 * np.eye(4))
        lengths = np.sqrt(np.einsum("ij,jk,ik->i", means, metric, means))
        found = readout_of(B, indicator_of(labels, 4), clusters).labels(P)
        np.testing.assert_array_equal(found, (P @ metric @ means.T / lengths).argmax(axis=1))

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    def test_scales_do_not_matter(self, scale):
        rng = np.random.default_rng(0)
        F = indicator_of(np.arange(50) % 4, 4)
        B, clusters = rng.standard_normal((50, 5)), rng.standard_normal((4, 5))
        labels = readout_of(B, F, clusters).labels(B @ clusters.T)
        scaled = readout_of(scale * B, F, clusters)
        np.testing.assert_array_equal(scaled.labels(B @ clusters.T), labels)

    def test_a_cluster_between_two_others(self):
        rng = np.random.default_rng(0)
        labels = np.arange(150) % 3
        B = np.column_stack([np.ones(150), labels + 0.1 * rng.standard_normal(150)])
        F = indicator_of(labels, 3)
        clusters = np.linalg.lstsq(B, F)[0].T  # linear regression
        P = B @ clusters.T
        assert np.mean(P.argmax(axis=1) == labels) < 0.8
        np.testing.assert_array_equal(readout_of(B, F, clusters).labels(P), labels)

    @pytest.mark.parametrize("sizes", [(50, 50, 50), (120, 25, 5)])
    def test_is_the_largest_entry_if_the_model_explains_the_indicator(self, sizes):
        rng = np.random.default_rng(0)
        F = indicator_of(np.repeat(np.arange(3), sizes), 3)
        others = rng.standard_normal((500, 3))
        found = readout_of(F, F, np.eye(3)).labels(others)
        np.testing.assert_array_equal(found, others.argmax(axis=1))

    def test_a_zero_model(self):
        F = indicator_of(np.arange(30) % 3, 3)
        zero = readout_of(np.zeros((30, 3)), F, np.eye(3))
        assert zero.labels(np.zeros((5, 3))).tolist() == [0] * 5

    @pytest.mark.parametrize("penalty", ["l21", "frobenius"])
    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    def test_a_fit_compares_with_the_predictions_of_its_samples(self, indicator, penalty):
        views, _ = make_views(200, 3, (6, 5), random_state=0)
        model = MMC(3, indicator=indicator, penalty=penalty, random_state=0).fit(views)
        expected = readout_of(model.transform(views), model.indicator_, np.eye(3))
        np.testing.assert_allclose(model._predictor.readout.weights, expected.weights, rtol=1e-6)

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    def test_agrees_with_labels_on_iris(self, indicator):
        X, _ = load_iris(return_X_y=True)
        views = [X[:, :2], X[:, 2:]]
        model = MMC(3, indicator=indicator, random_state=0).fit(views)
        assert np.mean(model.predict(views) == model.labels_) > 0.95

    def test_new_samples_of_clusters_on_a_line(self):
        rng = np.random.default_rng(0)
        y = np.arange(800) % 5
        views = [np.outer(y, rng.standard_normal(3)) * 5 for _ in range(2)]
        views = [X + 0.5 * rng.standard_normal(X.shape) for X in views]
        model = MMC(5, normalize="columns", random_state=0).fit([X[:600] for X in views])
        found = model.predict([X[600:] for X in views])
        assert normalized_mutual_info(y[600:], found) > 0.95

    def test_the_criterion_of_the_discrete_step_would_miss_small_clusters(self):
        model, others = self.fitted_to_texts()
        prediction, sizes = model.transform(others), np.bincount(model.labels_)
        sums = np.sqrt(sizes)  # as if the model explained all
        gains = (sums + prediction) / np.sqrt(sizes + 1.0) - sums / np.sqrt(sizes)
        found, missed = model.predict(others), gains.argmax(axis=1)
        largest = sizes.argmax()
        assert np.sum(found == largest) < 0.8 * np.sum(missed == largest)

    def fitted_to_texts(self):
        """A model of few words with clusters of unequal size, and as many out-of-sample texts."""
        rng = np.random.default_rng(0)
        y = rng.permutation(np.repeat(np.arange(4), (200, 100, 50, 50)))
        words = rng.random((4, 300)) ** 4
        views = [rng.poisson(0.2 * words[y] + 0.05).astype(float) for _ in range(2)]
        model = MMC(4, normalize="rows", random_state=0).fit([X[:200] for X in views])
        return model, [X[200:] for X in views]


class TestCentreReadout:
    def test_nearest_centre_after_the_map_to_the_indicator(self):
        to_indicator = np.array([[0.0, 1.0], [-1.0, 0.0]])
        centres = np.array([[1.0, 0.0], [0.0, 1.0]])
        prediction = centres @ to_indicator.T
        assert CentreReadout(to_indicator, centres).labels(1.2 * prediction).tolist() == [0, 1]
