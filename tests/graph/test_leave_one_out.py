import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import LocalEngine, engine_for
from manyview.graph.leave_one_out import Judged, LabelJudge, judge_labels
from manyview.graph.settings import ALL_ORDERS, FAR_PRODUCT, GraphSettings
from manyview.metrics import clustering_accuracy

SOME = GraphSettings(n_compared=120, n_landmarks=60)
both = pytest.mark.parametrize("settings", [GraphSettings(), SOME], ids=["all", "some"])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def engine_of(views, normalize="rows"):
    return engine_for(as_views(views, warn=False), normalize=normalize)


def judged(views, labels, n_clusters=None, *, seed=0, normalize="rows", **options):
    """Return the labels after the rounds, and their error."""
    engine = engine_of(views, normalize)
    n_clusters = n_clusters or int(labels.max()) + 1
    with engine.running():
        if labels is not None:
            engine.scatter("labels", labels)
        error = judge_labels(
            engine,
            n_clusters,
            np.random.default_rng(seed),
            initial=labels is None,
            **options,
        )
        return engine.gather("labels"), error


def with_errors(labels, part, rng):
    """Return labels of which a random part is replaced by random ones."""
    wrong = rng.random(labels.size) < part
    return np.where(wrong, rng.integers(labels.max() + 1, size=labels.size), labels)


class TestGivenLabels:
    @both
    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_wrong_ones_are_mended(self, rng, settings, normalize, sparse):
        views, y = make_views(300, 3, (20, 15), separation=8.0, random_state=0)
        views = [sp.csr_array(X) if sparse else X for X in views]
        found, error = judged(
            views, with_errors(y, 0.4, rng), normalize=normalize, settings=settings
        )
        np.testing.assert_array_equal(y, found)
        assert error < 0.1

    @both
    def test_wrong_ones_of_clusters_in_products_are_mended(self, rng, settings):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        found, _ = judged(views, with_errors(y, 0.3, rng), settings=settings)
        assert clustering_accuracy(y, found) > 0.95

    def test_only_products_predict_these(self):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        as_given = GraphSettings(rounds=0)
        assert judged(views, y, settings=as_given)[1] < 0.5
        assert judged(views, y, order=1, settings=as_given)[1] > 0.95

    def test_of_a_single_view(self, rng):
        views, y = make_views(200, 3, (20,), separation=8.0, random_state=0)
        np.testing.assert_array_equal(y, judged(views, with_errors(y, 0.3, rng))[0])

    def test_right_ones_stay(self):
        views, y = make_views(300, 4, (20, 15), separation=6.0, random_state=0)
        np.testing.assert_array_equal(judged(views, y)[0], y)

    @both
    @pytest.mark.parametrize("n_clusters", [2, 12, 35])
    def test_no_cluster_is_emptied(self, rng, settings, n_clusters):
        views = [rng.standard_normal((180, 5)), rng.standard_normal((180, 3))]
        found, _ = judged(views, np.arange(180) % n_clusters, settings=settings)
        assert np.unique(found).size == n_clusters

    def test_a_cluster_of_one_sample_is_not_emptied(self):
        views, y = make_views(200, 3, (20, 15), separation=8.0, random_state=0)
        y[0] = 3
        assert np.unique(judged(views, y)[0]).size == 4

    def test_of_every_sample_alone(self, rng):
        views = [rng.standard_normal((12, 4)), rng.standard_normal((12, 3))]
        found, _ = judged(views, np.arange(12))
        assert np.unique(found).size == 12

    def test_of_equal_samples(self):
        found, _ = judged([np.ones((10, 3)), np.ones((10, 2))], np.arange(10) % 2)
        assert set(found) == {0, 1}

    @pytest.mark.parametrize("view", [np.ones((200, 4)), np.zeros((200, 1))])
    def test_a_constant_view_does_no_harm(self, rng, view):
        views, y = make_views(200, 3, (20, 15), separation=8.0, random_state=0)
        found, _ = judged([*views, view], with_errors(y, 0.3, rng))
        np.testing.assert_array_equal(found, y)

    @both
    def test_of_samples_that_miss_views(self, rng, settings):
        views, y = make_views(240, 3, (20, 15), separation=8.0, random_state=0)
        present = rng.random((240, 2)) < 0.8
        present[~present.any(axis=1), 0] = True
        arrays = [np.where(present[:, [v]], X, 1e3) for v, X in enumerate(views)]
        engine = engine_for(as_views(arrays, present=present), normalize="rows")
        with engine.running():
            engine.scatter("labels", with_errors(y, 0.3, rng))
            judge_labels(engine, 3, rng, initial=False, settings=settings)
            found = engine.gather("labels")
        assert clustering_accuracy(y, found) > 0.98


class TestInitialLabels:
    @both
    def test_find_clear_clusters(self, settings):
        views, y = make_views(300, 3, (20, 15), separation=6.0, random_state=0)
        found, error = judged(views, None, 3, settings=settings)
        assert clustering_accuracy(y, found) > 0.98
        assert error < 0.2

    def test_find_clusters_in_products_by_another_graph_than_the_first(self):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        found, _ = judged(views, None, 2)
        first, _ = judged(views, None, 2, settings=GraphSettings(graphs=(ALL_ORDERS,)))
        assert clustering_accuracy(y, found) > 0.9
        assert clustering_accuracy(y, first) < 0.7

    def test_a_graph_that_is_not_clearer_does_not_replace_the_first(self):
        views, _ = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        never = GraphSettings(graphs=(ALL_ORDERS, FAR_PRODUCT), clearly=0.0)
        found, _ = judged(views, None, 2, settings=never)
        first, _ = judged(views, None, 2, settings=GraphSettings(graphs=(ALL_ORDERS,)))
        assert clustering_accuracy(first, found) > 0.99  # k-means has another seed

    def test_a_view_that_disagrees_does_not_spoil_the_others(self, rng):
        # by the product of the views alone, samples are near that agree in both
        views, y = make_views(200, 2, (20, 15), separation=6.0, random_state=0)
        other = np.eye(40)[rng.integers(40, size=200)] + 0.01 * rng.standard_normal((200, 40))
        assert clustering_accuracy(y, judged([*views, other], None, 2)[0]) > 0.98

    def test_one_of_three_views_is_noise(self, rng):
        views, y = make_views(300, 4, (20, 15), separation=5.0, random_state=0)
        noise = rng.standard_normal((300, 25))
        assert clustering_accuracy(y, judged([*views, noise], None, 4)[0]) > 0.98

    def test_their_error_tells_clusters_from_noise(self, rng):
        noise = rng.standard_normal((2, 400, 30))
        clear = noise + 3.0 * rng.standard_normal((2, 4, 30))[:, np.arange(400) % 4]
        assert judged(list(clear), None, 4)[1] < 0.1 < 0.3 < judged(list(noise), None, 4)[1]

    @both
    def test_are_reproducible_and_do_not_depend_on_the_blocks(self, settings, monkeypatch):
        views, _ = make_views(300, 4, (8, 6), separation=2.0, random_state=0)
        found, _ = judged(views, None, 4, settings=settings)
        again, _ = judged(views, None, 4, settings=settings)
        monkeypatch.setattr(LocalEngine, "block_rows", (37, 37))
        monkeypatch.setattr(LocalEngine, "chunk", 11)
        in_blocks, _ = judged(views, None, 4, settings=settings)
        np.testing.assert_array_equal(found, again)
        np.testing.assert_array_equal(found, in_blocks)

    def test_do_not_depend_on_the_order_of_the_samples(self, rng):
        views, _ = make_views(300, 4, (8, 6), separation=3.0, random_state=0)
        order = rng.permutation(300)
        found, _ = judged(views, None, 4)
        shuffled, _ = judged([X[order] for X in views], None, 4)
        assert adjusted_rand_score(found[order], shuffled) > 0.98

    @pytest.mark.parametrize(("unclear", "chosen"), [(0.09, "first"), (0.01, "by kernel")])
    def test_nearly_all_samples_in_one_cluster_only_by_the_kernel(
        self, rng, monkeypatch, unclear, chosen
    ):
        even, one_cluster = np.arange(60) % 3, np.repeat([0, 1, 2], [58, 1, 1])
        first = Judged(even, 0.5, unclear=0.1)
        by_graph = Judged(one_cluster, 0.1, unclear=0.001)
        by_kernel = Judged(one_cluster, 0.1, unclear=unclear)
        engine = engine_of([rng.standard_normal((60, 4)) for _ in range(2)])
        judge = LabelJudge(engine, 3, rng)
        graphs = len(judge.graphs.candidates())
        results = iter([first, *[by_graph] * (graphs - 1), by_kernel])
        monkeypatch.setattr(judge, "_judged", lambda clusters: next(results))
        assert judge.best_candidate(rng) is {"first": first, "by kernel": by_kernel}[chosen]


class TestManySamples:
    """A random part of the samples is judged; regressions label the others."""

    @pytest.mark.parametrize("n_compared", [30, 100])
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    def test_all_are_labelled(self, n_compared, normalize):
        views, y = make_views(2000, 4, (20, 15), separation=7.0, random_state=0)
        settings = GraphSettings(n_compared=n_compared, compared_per_cluster=0)
        found, _ = judged(views, None, 4, normalize=normalize, settings=settings)
        assert clustering_accuracy(y, found) > 0.99

    def test_the_judged_ones_keep_their_labels(self, rng):
        views, _ = make_views(400, 3, (8, 6), separation=1.0, random_state=0)
        engine = engine_of(views)
        judge = LabelJudge(engine, 3, rng, settings=GraphSettings(n_compared=100))
        assert not judge.graphs.complete
        labels = rng.integers(3, size=100)  # which the regressions would not repeat
        judge.label_all(labels)
        np.testing.assert_array_equal(engine.gather("labels")[judge.graphs.sample], labels)

    def test_clusters_without_a_judged_sample_are_not_emptied(self, rng):
        views, y = make_views(400, 3, (20, 15), separation=8.0, random_state=0)
        given = with_errors(y, 0.2, rng)
        given[:3] = [3, 4, 5]
        settings = GraphSettings(n_compared=40, compared_per_cluster=0)
        found, _ = judged(views, given, settings=settings)
        assert np.unique(found).size == 6
        assert clustering_accuracy(y[3:], found[3:]) > 0.95


@pytest.mark.parametrize(
    ("parts", "n_samples"), [([0.8, 0.05, 0.05, 0.05, 0.05], 200), ([0.55] + [0.05] * 9, 1000)]
)
def test_a_large_cluster_beside_small_ones_stays_whole(parts, n_samples):
    rng = np.random.default_rng(1)
    truth = rng.choice(len(parts), n_samples, p=parts)
    views = [
        10.0 * rng.standard_normal((len(parts), width))[truth]
        + rng.standard_normal((n_samples, width))
        for width in (5, 4)
    ]
    labels = MMC(len(parts), random_state=0).fit_predict(views)
    assert adjusted_rand_score(truth, labels) > 0.98


class TestScores:
    @both
    def test_are_about_one_for_the_own_cluster_and_zero_for_others(self, settings, rng):
        views, y = make_views(300, 3, (20, 15), separation=8.0, random_state=0)
        engine = engine_of(views)
        with engine.running():
            scores = LabelJudge(engine, 3, rng, settings=settings).scores(y)
        assert scores.shape == (300, 3)
        np.testing.assert_array_equal(scores.argmax(axis=1), y)
        np.testing.assert_allclose(scores, np.eye(3)[y], atol=0.6)

    @both
    def test_leave_the_label_of_their_sample_out(self, settings):
        views, y = make_views(300, 3, (20, 15), separation=8.0, random_state=0)
        wrong = np.where(np.arange(300) < 10, (y + 1) % 3, y)
        engine = engine_of(views)
        with engine.running():
            judge = LabelJudge(engine, 3, np.random.default_rng(0), settings=settings)
            scores = judge.scores(wrong)
        np.testing.assert_array_equal(scores[:10].argmax(axis=1), y[:10])


class TestSeveralNumbersOfClusters:
    """A judge serves several numbers of clusters, and other samples."""

    def test_for_more_clusters_it_is_as_one_made_for_them(self):
        views, _ = make_views(150, 3, (8, 6), random_state=0)
        engine = engine_of(views)
        with engine.running():
            few, many = (LabelJudge(engine, number, np.random.default_rng(0)) for number in (2, 4))
            shared = few.for_clusters(4)
            first, second = (
                judge.first_candidate(np.random.default_rng(1)) for judge in (many, shared)
            )
        assert shared.graphs.sizes == many.graphs.sizes < few.graphs.sizes
        assert (first[0].labels == second[0].labels).all()
        assert first[1] == pytest.approx(second[1])
        assert first[0].eigengap == pytest.approx(second[0].eigengap, abs=1e-3)

    @both
    def test_labels_are_extended_to_other_samples(self, settings):
        views, y = make_views(300, 3, (8, 6), random_state=0)
        own, others = np.arange(0, 300, 2), np.arange(1, 300, 2)
        engine = engine_of(views.take(own))
        with engine.running():
            judge = LabelJudge(engine, 2, np.random.default_rng(0), settings=settings)
        if judge.graphs.complete:
            scaled = engine_of(views.take(others))
            with scaled.running():
                three, two = judge.extended(scaled, [y[own], y[own] % 2])
            assert clustering_accuracy(y[others], three) > 0.95
            assert clustering_accuracy(y[others] % 2, two) > 0.95

    def test_the_error_of_labels_is_small_if_they_can_be_predicted(self, rng):
        views, y = make_views(150, 3, (8, 6), random_state=0)
        engine = engine_of(views)
        with engine.running():
            judge = LabelJudge(engine, 3, rng)
        assert judge.error_of(y) < 0.2 < 0.8 < judge.error_of(rng.permutation(y))
