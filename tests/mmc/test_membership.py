import copy
import inspect
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.graph.leave_one_out import LabelJudge
from manyview.graph.settings import GraphSettings
from manyview.metrics import clustering_accuracy
from manyview.mmc.membership import (
    Calibration,
    MembershipSettings,
    Training,
    matched,
)

from .estimators import blobs, fitted, warnings_allowed

SOME = GraphSettings(n_compared=120, outlier_samples=100)


def overlapping(n=600, seed=0):
    """Three clusters of which a tenth of the samples are nearer to another."""
    return make_views(n, 3, (10, 8), separation=2.0, random_state=seed)


def assert_memberships(model, views):
    """The properties that memberships have whatever the data."""
    n, k = model.labels_.size, model.n_clusters
    assert model.membership_.shape == (n, k)
    np.testing.assert_allclose(model.membership_.sum(axis=1), 1.0)
    assert (model.membership_ > 0.0).all()
    own = model.membership_[np.arange(n), model.labels_]
    np.testing.assert_array_equal(model.confidence_, own)
    assert np.isfinite(model.outlier_score_).all()
    assert model.outlier_score_.shape == (n,)
    predicted = model.predict_proba(views)
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)
    np.testing.assert_array_equal(predicted.argmax(axis=1), model.predict(views))


def calibration_error(probability, correct, n_bins=5):
    """Return the mean difference between probability and frequency, over bins of equal size."""
    parts = np.array_split(np.argsort(probability), n_bins)
    return np.mean([abs(probability[part].mean() - correct[part].mean()) for part in parts])


def right(labels, truth, k=3):
    return matched(labels, truth, k) == truth


class TestMemberships:
    @warnings_allowed
    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_sum_to_one_and_agree_with_predict(self, indicator, normalize):
        views, _ = blobs()
        model = fitted(views, indicator=indicator, normalize=normalize)
        assert_memberships(model, views)
        assert (model.membership_.argmax(axis=1) == model.labels_).all()

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    @pytest.mark.parametrize("settings", [GraphSettings(), SOME], ids=["all", "some"])
    def test_are_calibrated(self, settings, indicator, monkeypatch):
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, y = overlapping()
        model = fitted(views, indicator=indicator)
        correct = right(model.labels_, y)
        assert 0.8 < correct.mean() < 0.95
        assert calibration_error(model.confidence_, correct) < 0.1
        assert roc_auc_score(correct, model.confidence_) > 0.7

    def test_of_other_samples_are_calibrated(self):
        views, y = overlapping(900)
        model = fitted(views.take(slice(0, 600)))
        others = views.take(slice(600, 900))
        numbers = np.argmax(
            [[np.sum((model.labels_ == c) & (y[:600] == t)) for t in range(3)] for c in range(3)], 1
        )
        correct = numbers[model.predict(others)] == y[600:]
        probability = model.predict_proba(others).max(axis=1)
        assert calibration_error(probability, correct) < 0.1
        assert roc_auc_score(correct, probability) > 0.7

    def test_of_clear_clusters_are_certain_and_of_noise_are_not(self):
        views, _ = blobs(300)
        assert fitted(views).confidence_.mean() > 0.98
        rng = np.random.default_rng(0)
        noise = [rng.standard_normal((300, 20)) for _ in range(2)]
        assert fitted(noise).confidence_.mean() < 0.65

    def test_are_always_the_same(self):
        views, _ = overlapping(200)
        one, other = fitted(views), fitted(views)
        np.testing.assert_array_equal(one.membership_, other.membership_)
        np.testing.assert_array_equal(one.outlier_score_, other.outlier_score_)

    def test_do_not_change_the_labels(self):
        views, _ = overlapping(200)
        model = fitted(views)
        before = model.labels_.copy()
        assert model.confidence_.shape == (200,)
        np.testing.assert_array_equal(model.labels_, before)

    def test_follow_the_order_of_samples(self):
        views, _ = blobs(150, spread=2.0)
        order = np.random.default_rng(0).permutation(150)
        model = fitted(views)
        other = fitted([X[order] for X in views])
        numbers = matched(other.labels_, model.labels_[order], 3)
        same = numbers == model.labels_[order]
        assert same.mean() > 0.97
        difference = np.abs(other.confidence_ - model.confidence_[order])
        assert np.median(difference[same]) < 0.05


@warnings_allowed
@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
class TestUnusualData:
    @pytest.mark.parametrize("k", [1, 2])
    def test_few_clusters(self, k):
        views, _ = blobs(k=2)
        assert_memberships(fitted(views, k=k), views)

    @pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (10, 5)])
    def test_few_samples(self, n, k):
        views, _ = blobs(n, k=min(n, 2))
        model = fitted(views, k=k)
        assert_memberships(model, views)
        if k > 1:  # three samples prove nothing
            assert model.confidence_.max() <= 1.0 - (1.0 - 1.0 / k) / (n + 1.0) + 1e-12

    def test_clusters_of_one_sample(self):
        views, truth = blobs(40, k=2)
        for X in views:
            X[0] += 100.0
        truth[0] = 2
        model = fitted(views, init=truth)
        assert_memberships(model, views)

    def test_duplicates(self):
        views, _ = blobs(6, k=3, spread=0.0)
        assert_memberships(fitted([np.tile(X, (10, 1)) for X in views]), views)

    def test_identical_samples(self):
        views = [np.ones((20, 3)), np.ones((20, 2))]
        assert_memberships(fitted(views, k=2), views)

    def test_a_constant_view(self):
        views, _ = blobs()
        assert_memberships(fitted([*views, np.ones((90, 2))]), [*views, np.ones((90, 2))])

    def test_one_view(self):
        views, _ = blobs()
        assert_memberships(fitted(views[:1]), views[:1])

    def test_more_clusters_than_a_half_has(self):
        views, _ = blobs(40, k=4)
        assert_memberships(fitted(views, k=30), views)

    @pytest.mark.parametrize("settings", [GraphSettings(), SOME], ids=["all", "some"])
    def test_missing_views(self, settings, monkeypatch):
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, truth = blobs(200)
        present = np.random.default_rng(0).random((200, 2)) < 0.7
        present[~present.any(axis=1), 0] = True
        checked = as_views(views, present=present)
        model = fitted(checked)
        assert_memberships(model, checked)
        assert clustering_accuracy(truth, model.labels_) > 0.9
        assert np.median(model.confidence_) > 0.9

    def test_a_view_that_few_samples_have(self):
        views, _ = blobs(60)
        present = np.ones((60, 2), dtype=bool)
        present[1:, 1] = False
        checked = as_views(views, present=present)
        assert_memberships(fitted(checked), checked)


class TestOutliers:
    def test_labels_without_them(self):
        views, _ = blobs(200, widths=(20, 20))
        rng = np.random.default_rng(0)
        outlier = np.arange(200) % 20 == 0
        for X in views:
            X[outlier] = rng.uniform(-10, 10, (10, 20))
        model = fitted(views, normalize="columns")
        assert roc_auc_score(outlier, model.outlier_score_) > 0.95
        found = model.labels_without_outliers()
        np.testing.assert_array_equal(found == -1, model.outlier_score_ > 3.5)
        assert (found[outlier] == -1).mean() > 0.9
        assert (found[~outlier] == -1).mean() < 0.02
        kept = found != -1
        np.testing.assert_array_equal(found[kept], model.labels_[kept])
        np.testing.assert_array_equal(model.labels_without_outliers(np.inf), model.labels_)

    @pytest.mark.parametrize("threshold", [None, "3", np.nan, [3.5]])
    def test_the_threshold_is_a_number(self, threshold):
        views, _ = blobs()
        with pytest.raises(ValueError, match="threshold="):
            fitted(views).labels_without_outliers(threshold)


class TestLaziness:
    def test_fit_computes_none(self, monkeypatch):
        def fail(self):
            raise AssertionError("computed")

        for name in ("memberships", "view_weights"):
            monkeypatch.setattr(Training, name, fail)
        views, _ = blobs()
        model = fitted(views)
        model.predict(views)
        model.transform(views)
        copy.copy(model)
        inspect.getmembers(model)
        model._repr_html_()
        with pytest.raises(AssertionError, match="computed"):
            _ = model.membership_

    def test_they_are_computed_once(self, monkeypatch):
        count = []
        found = Training.memberships
        monkeypatch.setattr(Training, "memberships", lambda self: [count.append(1), found(self)][1])
        views, _ = blobs()
        model = fitted(views)
        for _ in range(2):
            assert model.membership_ is model.membership_
            model.predict_proba(views)
            assert model.outlier_score_.shape == model.confidence_.shape
        assert len(count) == 1

    def test_the_views_are_let_go(self):
        views, _ = blobs()
        model = fitted(views)
        assert not model._memberships.is_computed
        assert "membership_" not in dir(model)
        assert model.membership_.shape == (90, 3)
        assert model._memberships.is_computed
        assert "membership_" in dir(model)
        assert model._memberships._compute is None

    def test_only_the_halves_are_clustered_anew(self, monkeypatch):
        sizes = []
        found = LabelJudge.best_candidate

        def counted(self, rng):
            sizes.append(self.graphs.sample.size)
            return found(self, rng)

        views, _ = blobs()
        model = fitted(views)
        monkeypatch.setattr(LabelJudge, "best_candidate", counted)
        assert model.membership_.shape == (90, 3)
        assert sizes == [45, 45]

    def test_of_many_samples_some_are_clustered_anew(self):
        views, _ = blobs(200)
        model = fitted(views)
        training = model._memberships._compute.__self__
        settings = MembershipSettings(samples=80, per_cluster=1)
        few = replace(training, settings=settings).memberships()
        assert few.membership.shape == (200, 3)
        assert np.abs(few.membership - model.membership_).mean() < 0.05

    def test_pickles_have_memberships_and_no_views(self):
        views, _ = make_views(400, 2, (500, 500), random_state=0)
        model = fitted(views, k=2)
        pickled = pickle.dumps(model)
        assert len(pickled) < 0.2 * sum(np.asarray(X).nbytes for X in views)
        again = pickle.loads(pickled)
        np.testing.assert_array_equal(again.membership_, model.membership_)
        np.testing.assert_array_equal(again.outlier_score_, model.outlier_score_)
        np.testing.assert_array_equal(again.predict_proba(views), model.predict_proba(views))

    @pytest.mark.parametrize(
        "change",
        [
            lambda X, labels: X.__setitem__((7, 2), X[7, 2] + 1.0),
            lambda X, labels: np.random.default_rng(0).shuffle(X),
            lambda X, labels: X.fill(np.nan),
            lambda X, labels: np.negative(labels, out=labels),
        ],
        ids=["an entry", "the order of samples", "all of a view", "the labels"],
    )
    def test_changes_after_fit_are_noticed(self, change):
        views, _ = blobs()
        model = fitted(views)
        change(views[1], model.labels_)
        for _ in range(2):
            for name in ("membership_", "view_weights_"):
                with pytest.raises(ValueError, match=r"changed after fit.*before you"):
                    getattr(model, name)

    def test_changes_after_the_first_use_do_no_harm(self):
        views, _ = blobs()
        model = fitted(views)
        before = model.membership_
        views[0] += 1.0
        assert model.membership_ is before

    @pytest.mark.parametrize(
        "kept",
        [MMC.to_local, lambda model: pickle.loads(pickle.dumps(model))],
        ids=["local", "pickle"],
    )
    def test_a_model_of_changed_views_is_kept_without_memberships(self, kept):
        views, _ = blobs()
        model = fitted(views)
        others = [X + 0.1 for X in views]
        views[0] *= 2.0
        with pytest.warns(UserWarning, match="without memberships"):
            again = kept(model)
        np.testing.assert_array_equal(again.predict(others), model.predict(others))
        assert not hasattr(again, "membership_")
        with pytest.raises(AttributeError, match="fit again"):
            again.predict_proba(others)

    @pytest.mark.parametrize("name", ["membership_", "confidence_", "outlier_score_"])
    def test_an_unfitted_model_has_none(self, name):
        with pytest.raises(NotFittedError):
            getattr(MMC(2), name)
        with pytest.raises(NotFittedError):
            MMC(2).labels_without_outliers()
        with pytest.raises(NotFittedError):
            MMC(2).predict_proba([np.eye(3)])


class TestCalibration:
    def test_finds_the_slope_and_the_doubt(self):
        rng = np.random.default_rng(0)
        scores = rng.standard_normal((20_000, 4))
        truth = Calibration(2.5, 0.2)
        draws = rng.random((20_000, 1)) > truth.memberships(scores).cumsum(axis=1)
        found = Calibration.of(scores, np.eye(4)[np.minimum(draws.sum(axis=1), 3)])
        assert found.slope == pytest.approx(2.5, rel=0.1)
        assert found.doubt == pytest.approx(0.2, abs=0.03)

    def test_finds_them_from_memberships(self):
        scores = np.random.default_rng(0).standard_normal((500, 3))
        found = Calibration.of(scores, Calibration(4.0, 0.1).memberships(scores))
        assert found.slope == pytest.approx(4.0, rel=0.01)
        assert found.doubt == pytest.approx(0.1, abs=0.005)

    def test_few_samples_leave_doubt(self):
        scores = np.eye(2)[[0, 1, 0]]
        assert Calibration.of(scores, scores).doubt >= 0.25
