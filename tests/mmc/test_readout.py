import numpy as np

from manyview import MMC
from manyview.datasets import make_views
from manyview.mmc.readout import CentreReadout, LargestReadout


class TestLargest:
    def test_predictions_that_are_smaller_all_over_say_the_same(self):
        prediction = np.random.default_rng(0).standard_normal((50, 4))
        labels = LargestReadout().labels(prediction)
        assert (labels == prediction.argmax(axis=1)).all()
        assert (LargestReadout().labels(0.01 * prediction) == labels).all()

    def test_is_what_predict_does_with_transform(self):
        views, _ = make_views(n_samples=120, n_clusters=3, random_state=0)
        model = MMC(3, random_state=0).fit(views.take(slice(0, 80)))
        others = views.take(slice(80, 120))
        assert (model.predict(others) == model.transform(others).argmax(axis=1)).all()

    def test_new_samples_find_small_clusters(self):
        views, y = make_views(n_samples=1200, n_clusters=3, random_state=0)
        rng = np.random.default_rng(0)
        keep = np.sort(
            np.concatenate(
                [rng.permutation(np.flatnonzero(y == k))[:n] for k, n in enumerate((300, 60, 20))]
            )
        )
        train, rest = keep[::2], keep[1::2]
        labels = MMC(3, random_state=0).fit(views.take(train)).predict(views.take(rest))
        found = {k: np.bincount(labels[y[rest] == k]).argmax() for k in range(3)}
        assert len(set(found.values())) == 3


class TestCentre:
    def test_nearest_centre_after_the_rotation(self):
        rotation = np.array([[0.0, 1.0], [-1.0, 0.0]])
        centres = np.array([[1.0, 0.0], [0.0, 1.0]])
        prediction = centres @ rotation.T
        assert CentreReadout(rotation, centres).labels(1.2 * prediction).tolist() == [0, 1]
