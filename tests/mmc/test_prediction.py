import numpy as np

from manyview import MMC
from manyview.mmc.prediction import CentreReadout, LargestReadout


class TestLargestReadout:
    def test_the_scale_of_predictions_does_not_matter(self):
        prediction = np.random.default_rng(0).standard_normal((50, 4))
        labels = LargestReadout().labels(prediction)
        assert (labels == prediction.argmax(axis=1)).all()
        assert (LargestReadout().labels(0.01 * prediction) == labels).all()

    def test_is_what_predict_does_with_transform(self):
        model, others = self.fitted_to_texts()
        prediction = model.transform(others)
        assert (model.predict(others) == prediction.argmax(axis=1)).all()

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
        model = MMC(4, random_state=0).fit([X[:200] for X in views])
        return model, [X[200:] for X in views]


class TestCentreReadout:
    def test_nearest_centre_after_the_map_to_the_indicator(self):
        to_indicator = np.array([[0.0, 1.0], [-1.0, 0.0]])
        centres = np.array([[1.0, 0.0], [0.0, 1.0]])
        prediction = centres @ to_indicator.T
        assert CentreReadout(to_indicator, centres).labels(1.2 * prediction).tolist() == [0, 1]
