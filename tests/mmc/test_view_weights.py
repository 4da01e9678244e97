import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import engine_for
from manyview.graph.leave_one_out import LabelJudge
from manyview.graph.settings import GraphSettings
from manyview.mmc.membership import Training
from manyview.mmc.view_weights import ViewWeights, WeightSettings, view_weights_of

from .estimators import blobs, fitted, warnings_allowed

SOME = GraphSettings(n_compared=120)
both = pytest.mark.parametrize("settings", [GraphSettings(), SOME], ids=["all", "some"])


def weights_of(views, labels, order=None, settings=WeightSettings()):  # noqa: B008
    checked = as_views(views, warn=False)
    engine = engine_for(checked, normalize="rows")
    with engine.running():
        return view_weights_of(
            engine,
            checked.names,
            labels,
            int(labels.max()) + 1,
            np.random.default_rng(0),
            order=order,
            graph_settings=GraphSettings(),
            settings=settings,
        )


def assert_parts(weights, k, n_views):
    """The properties that weights have whatever the data."""
    assert weights.added.shape == weights.alone.shape == (k + 1, n_views)
    assert weights.explained.shape == (k + 1,)
    for part in (weights.added, weights.alone, weights.explained):
        assert ((part >= 0.0) & (part <= 1.0)).all()
    assert (weights.added <= weights.explained[:, None]).all()


def centred_at(centres, labels, rng):
    return centres[labels] + 0.5 * rng.standard_normal((labels.size, centres.shape[1]))


class TestWhatTheySay:
    @both
    @pytest.mark.parametrize("sparse", [False, True])
    def test_noise_has_none(self, settings, sparse, monkeypatch):
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, _ = make_views(300, 3, (20, 20), n_noise_views=1, separation=3.0, random_state=0)
        weights = fitted([sp.csr_array(X) if sparse else X for X in views]).view_weights_
        assert_parts(weights, 3, 3)
        assert weights.added[:, 2].max() < 0.02
        assert weights.alone[:, 2].max() < 0.05
        assert weights.added[-1, :2].min() > 0.02
        assert weights.alone[:, :2].min() > 0.4

    def test_a_view_that_alone_has_a_cluster_carries_it(self):
        rng, labels = np.random.default_rng(0), np.arange(300) % 3
        centres = 4.0 * np.eye(6)
        views = [
            centred_at(centres[[0, 1, 1]], labels, rng),
            centred_at(centres[[1, 1, 0]], labels, rng),
        ]
        weights = weights_of(views, labels)
        # the first cluster is in the first view only, and the last in the second
        assert weights.added[0, 0] > 0.5 > 0.1 > weights.added[0, 1]
        assert weights.added[2, 1] > 0.5 > 0.1 > weights.added[2, 0]
        assert weights.alone[0, 0] > 0.7 > 0.4 > weights.alone[0, 1]
        assert weights.added[1].min() > 0.2  # the second needs both

    @both
    def test_clusters_in_products_need_both_views(self, settings, monkeypatch):
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, _ = make_views(
            600, 2, (6, 6), structure="interaction", n_noise_views=1, random_state=0
        )
        weights = fitted(views, k=2).view_weights_
        assert weights.added[:, :2].min() > 0.8
        assert weights.added[:, 2].max() < 0.02
        assert weights.alone.max() < 0.02

    def test_without_products_of_views_they_do_not_explain_these(self):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        assert weights_of(views, y).explained[-1] > 0.9
        assert weights_of(views, y, order=1).explained[-1] < 0.1

    def test_a_copy_of_a_view_leaves_little_to_each(self):
        views, y = make_views(300, 3, (20,), random_state=0)
        once, twice = weights_of(list(views), y), weights_of([*views, *views], y)
        assert once.added[-1, 0] == once.alone[-1, 0] == once.explained[-1] > 0.7
        np.testing.assert_allclose(twice.alone[-1], once.alone[-1, 0])
        assert twice.added.max() < 0.1

    def test_equal_views_have_equal_weights(self):
        rng, labels = np.random.default_rng(0), np.arange(2000) % 5
        centres = 0.2 * rng.standard_normal((5, 50))
        added = weights_of([centred_at(centres, labels, rng) for _ in range(3)], labels).added[-1]
        assert added.max() - added.min() < 0.02 < added.min()

    def test_labels_at_random_are_not_explained(self):
        views, _ = make_views(300, 3, (8, 6), random_state=0)
        weights = weights_of(views, np.random.default_rng(0).integers(3, size=300))
        assert weights.explained.max() < 0.03
        assert weights.alone.max() < 0.03

    @pytest.mark.parametrize("order", [None, 1])
    def test_what_all_explain_is_by_the_error_that_judges_labels(self, order):
        views, y = make_views(200, 3, (8, 6, 4), separation=3.0, random_state=0)
        engine = engine_for(views, normalize="rows")
        with engine.running():
            judge = LabelJudge(engine, 3, np.random.default_rng(0), order=order)
        ridges = WeightSettings(ridges=GraphSettings().ridges)
        found = weights_of(views, y, order, ridges)
        assert found.explained[-1] == pytest.approx(1.0 - judge.error_of(y), abs=1e-6)

    def test_of_many_samples_some_say_the_same(self):
        views, y = make_views(3000, 3, (8, 6), separation=3.0, random_state=0)
        few = weights_of(views, y, settings=WeightSettings(samples=600))
        every = weights_of(views, y, settings=WeightSettings(samples=3000))
        np.testing.assert_allclose(few.added, every.added, atol=0.05)
        np.testing.assert_allclose(few.alone, every.alone, atol=0.05)

    def test_a_cluster_that_a_random_sample_would_miss_is_explained(self):
        rng, labels = np.random.default_rng(0), np.arange(3000) % 2
        labels[:6] = 2
        views = [centred_at(6.0 * np.eye(8)[:3], labels, rng) for _ in range(2)]
        settings = WeightSettings(samples=200)
        assert weights_of(views, labels, settings=settings).explained[2] > 0.5


@warnings_allowed
@pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
class TestUnusualData:
    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete", "orthogonal"])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_every_indicator_and_scaling(self, indicator, normalize):
        weights = fitted(blobs()[0], indicator=indicator, normalize=normalize).view_weights_
        assert_parts(weights, 3, 2)
        assert weights.explained.min() > 0.7

    @pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (3, 2), (3, 3), (10, 5), (40, 30)])
    def test_few_samples(self, n, k):
        assert_parts(fitted(blobs(n, k=min(n, 2))[0], k=k).view_weights_, k, 2)

    def test_one_cluster_leaves_nothing_to_explain(self):
        assert not fitted(blobs()[0], k=1).view_weights_.explained.any()

    def test_identical_samples(self):
        assert_parts(fitted([np.ones((20, 3)), np.ones((20, 2))], k=2).view_weights_, 2, 2)

    def test_a_constant_view_has_none(self):
        weights = fitted([*blobs()[0], np.ones((90, 2))]).view_weights_
        assert weights.added[:, 2].max() < 0.02
        assert weights.alone[:, 2].max() < 1e-6

    def test_a_view_that_half_of_the_samples_miss_explains_less(self):
        views, _ = blobs(200, spread=1.0)
        present = np.ones((200, 2), dtype=bool)
        present[::2, 0] = False
        whole = fitted(views).view_weights_
        some = fitted(as_views(views, present=present)).view_weights_
        assert_parts(some, 3, 2)
        assert some.alone[-1, 0] < 0.7 * whole.alone[-1, 0]
        assert some.alone[-1, 1] == pytest.approx(whole.alone[-1, 1], abs=0.1)


class TestLaziness:
    def test_each_result_is_computed_alone_and_once(self, monkeypatch):
        calls = []
        for name in ("memberships", "view_weights"):
            found = getattr(Training, name)
            monkeypatch.setattr(
                Training,
                name,
                lambda self, name=name, found=found: [calls.append(name), found(self)][1],
            )
        model = fitted(blobs()[0])
        assert "view_weights_" not in dir(model)
        assert calls == []
        assert model.view_weights_ is model.view_weights_
        assert calls == ["view_weights"]
        assert "view_weights_" in dir(model)
        assert "membership_" not in dir(model)
        assert model.membership_.shape == (90, 3)
        assert calls == ["view_weights", "memberships"]

    def test_pickles_and_local_copies_have_them(self):
        model = fitted(blobs()[0])
        for other in (pickle.loads(pickle.dumps(model)), model.to_local()):
            np.testing.assert_array_equal(other.view_weights_.added, model.view_weights_.added)

    def test_an_unfitted_model_has_none(self):
        with pytest.raises(NotFittedError):
            _ = MMC(2).view_weights_


class TestViewWeights:
    weights = ViewWeights(
        ("<text>", "image"),
        np.array([[0.1, 0.2], [0.3, 0.0], [0.2, 0.1]]),
        np.array([[0.5, 0.6], [0.7, 0.0], [0.6, 0.3]]),
        np.array([0.9, 0.8, 0.85]),
    )

    def test_is_an_array(self):
        array = np.asarray(self.weights)
        np.testing.assert_array_equal(array, self.weights.added)
        assert np.asarray(self.weights, dtype=np.float32).dtype == np.float32
        array[0, 0] = 9.0  # not that of the weights
        assert self.weights[0, 0] == 0.1
        np.testing.assert_array_equal(self.weights[-1], [0.2, 0.1])

    def test_frames_have_a_row_for_each_cluster_and_one_for_all(self):
        frame = self.weights.to_frame()
        assert frame.index.tolist() == [0, 1, "overall"]
        assert frame.loc["overall", "<text>"] == 0.2
        assert self.weights.to_frame("alone").loc[1, "<text>"] == 0.7
        with pytest.raises(ValueError, match="'both'"):
            self.weights.to_frame("both")

    def test_prints_as_a_table(self):
        lines = repr(self.weights).split("\n")
        assert lines[0].split() == ["added", "(alone)", "<text>", "image", "all", "views"]
        assert lines[-1].split() == ["overall", "20%", "(60%)", "10%", "(30%)", "85%"]
        assert len({len(line) for line in lines}) == 1
        html = self.weights._repr_html_()
        assert "&lt;text&gt;" in html
        assert html.count("<tr>") == 4
