from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from manyview.engine import LocalEngine
from manyview.graph import spectral as module
from manyview.graph.neighbours import find_nearest, harmonic_weights, landmark_search, nearest_of
from manyview.graph.settings import GraphSettings
from manyview.graph.spectral import choose_search, exact_clusters, searches, spectral_labels
from manyview.linalg.partition import clear_weights
from manyview.metrics import clustering_accuracy, score_all
from manyview.views import as_views

from .test_select import TRUTH, blocks

NEAR = GraphSettings(landmark_sizes=((1 / 32, False),))
OTHER = np.tile(np.arange(3), 20)
FEW = np.where(np.arange(60) < 50, 0, np.arange(60) // 5)  # two clusters of five, and the rest


def raw_views(n, *, sparse=False):
    """Two views of samples in three loose groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n)
    views = [
        rng.standard_normal((3, width))[group] + 0.7 * rng.standard_normal((n, width))
        for width in (5, 4)
    ]
    return [sp.csr_array(X * (rng.random(X.shape) < 0.6)) if sparse else X for X in views]


def clear_groups(n=90, *, sparse=False):
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    views = [4 * rng.standard_normal((3, d))[truth] + rng.standard_normal((n, d)) for d in (6, 4)]
    return [sp.csr_array(X) if sparse else X for X in views], truth


def local(views, normalize="rows"):
    return LocalEngine(as_views(list(views)), normalize=normalize)


def labelled(engine, n_clusters, seed=0, **options):
    """Labels, and the unexplained variance."""
    found = spectral_labels(engine, n_clusters, np.random.default_rng(seed), **options)
    return engine.gather("labels"), found


def embed(engine, landmarks, n_clusters, seed=0, settings=NEAR):
    (search,) = searches(engine, landmarks, n_clusters, settings=settings)
    module._embed(engine, search, n_clusters, np.random.default_rng(seed), settings)
    return engine.gather("embedding")


both = pytest.mark.parametrize(
    "settings", [GraphSettings(), GraphSettings(exact_limit=10)], ids=["exact", "landmarks"]
)


class TestLabels:
    @both
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_find_clear_clusters(self, settings, normalize, sparse):
        views, truth = clear_groups(sparse=sparse)
        labels, _ = labelled(local(views, normalize), 3, settings=settings)
        assert adjusted_rand_score(truth, labels) > 0.95

    @both
    @pytest.mark.parametrize("sizes", [(1500, 150, 20), (1950, 30)])
    def test_find_clear_clusters_of_unequal_size(self, settings, sizes):
        rng = np.random.default_rng(0)
        truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        means = 2.5 * rng.standard_normal((2, len(sizes), 10))
        views = [of_view[truth] + rng.standard_normal((truth.size, 10)) for of_view in means]
        labels, _ = labelled(local(views), len(sizes), settings=settings)
        assert adjusted_rand_score(truth, labels) > 0.9

    @both
    @pytest.mark.parametrize("n_clusters", [2, 10])
    def test_unexplained_variance_tells_clusters_from_noise(self, settings, n_clusters):
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((2, 1000, 30))
        means = 3.0 * rng.standard_normal((2, n_clusters, 30))
        clear = noise + means[:, np.arange(1000) % n_clusters]
        assert labelled(local(clear), n_clusters, settings=settings)[1] < 0.05
        assert labelled(local(noise), n_clusters, settings=settings)[1] > 0.3

    @pytest.mark.parametrize("n_views", [2, 3, 4])
    def test_two_opposites_do_not_make_neighbours(self, n_views):
        """Centred views have negative products, and an even number of them a positive one."""
        rng = np.random.default_rng(0)
        truth = np.arange(90) % 2
        views = [
            1.5 * rng.standard_normal(8) * (2 * truth - 1)[:, None] + rng.standard_normal((90, 8))
            for _ in range(n_views)
        ]
        labels, _ = labelled(local(views, "columns"), 2)
        assert adjusted_rand_score(truth, labels) > 0.9


class TestExactClusters:
    """The choice between graphs of several neighbourhood sizes, which are given here."""

    @pytest.fixture
    def labels_of(self, monkeypatch):
        def labels_of(*graphs):
            monkeypatch.setattr(module, "neighbour_graphs", lambda *_, **__: list(graphs))
            clusters, graph = exact_clusters(None, 3, np.random.default_rng(0))
            assert graph is graphs[clusters.number]
            return clusters.labels

        return labels_of

    def test_a_far_clearer_later_graph_is_chosen(self, labels_of):
        labels = labels_of(blocks(OTHER, 0.9), blocks(TRUTH, 0.01))
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_the_first_graph_is_kept_otherwise(self, labels_of):
        labels = labels_of(blocks(OTHER, 0.1), blocks(TRUTH, 0.1))
        assert clustering_accuracy(OTHER, labels) == 1.0

    def test_a_graph_of_more_components_than_clusters_is_left_out(self, labels_of):
        labels = labels_of(blocks(TRUTH, 0.5), blocks(np.arange(60) // 10, 0.0))
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_a_graph_of_as_many_components_is_not(self, labels_of):
        labels = labels_of(blocks(OTHER, 0.9), blocks(TRUTH, 0.0))
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_copies_of_a_few_samples_are_no_clusters(self, labels_of):
        labels = labels_of(blocks(TRUTH, 0.1), blocks(FEW, 0.0))
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_small_clusters_are_found_if_the_first_graph_shows_none(self, labels_of):
        labels = labels_of(blocks(OTHER, 0.9), blocks(FEW, 0.01))
        assert clustering_accuracy(FEW, labels) == 1.0

    @pytest.mark.parametrize(("n_clusters", "n_init"), [(3, 30), (20, 15), (40, 10)])
    def test_k_means_has_fewer_restarts_for_more_clusters(self, monkeypatch, n_clusters, n_init):
        asked = []

        def noted(*args, n_init, **options):
            asked.append(n_init)
            return found(*args, n_init=n_init, **options)

        found = module.clearest_clusters
        monkeypatch.setattr(module, "clearest_clusters", noted)
        exact_clusters(local(raw_views(60)), n_clusters, np.random.default_rng(0))
        assert asked == [n_init]


class TestLandmarks:
    @pytest.mark.parametrize(
        ("n_clusters", "expected"), [(2, 30), (4, 40), (12, 60), (40, 80)], ids="K={}".format
    )
    def test_their_number(self, monkeypatch, n_clusters, expected):
        """The usual one, ten for each cluster, the limit of the exact graph, or two for each."""
        counts = []

        def noted(engine, landmarks, *args, **options):
            counts.append(landmarks[0].x.shape[0])
            return found(engine, landmarks, *args, **options)

        found = module.searches
        monkeypatch.setattr(module, "searches", noted)
        settings = GraphSettings(exact_limit=60, n_landmarks=30, landmarks_per_cluster=10)
        labelled(local(clear_groups(300)[0]), n_clusters, settings=settings)
        assert counts == [expected]

    def test_more_clusters_than_judged_samples(self):
        settings = GraphSettings(
            exact_limit=50, n_landmarks=30, judged_per_landmark=0.1, kmeans_rows=40
        )
        views = np.random.default_rng(0).standard_normal((2, 1000, 5))
        labels, _ = labelled(local(views), 60, settings=settings)
        assert np.unique(labels).size == 60

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("normalize", ["rows", "columns"])
    def test_nearest_of_a_few_samples_are_those_of_all(self, sparse, normalize):
        engine = local(raw_views(60, sparse=sparse), normalize)
        landmarks, some = np.arange(0, 60, 4), np.array([3, 7, 8, 20, 59] * 4)
        search = landmark_search(engine, engine.take(landmarks), 5)
        find_nearest(engine, search)
        few = nearest_of(engine.take(some), search)
        assert (few == engine.gather("near")[some]).all()


class TestEmbedding:
    @pytest.mark.parametrize("sparse", [False, True])
    def test_rows_are_those_of_the_singular_vectors(self, sparse):
        engine = local(raw_views(60, sparse=sparse))
        landmarks = np.arange(0, 60, 4)
        search = landmark_search(engine, engine.take(landmarks), 5, halfway=False)
        find_nearest(engine, search)
        z = np.zeros((60, landmarks.size))
        np.put_along_axis(z, engine.gather("near"), np.tile(harmonic_weights(5), (60, 1)), axis=1)
        z /= z.sum(axis=1, keepdims=True)
        mass = z.sum(axis=0)
        left, values, _ = np.linalg.svd(z[:, mass > 0] / np.sqrt(mass[mass > 0]))
        left = left[:, :5] * clear_weights(values[:6] ** 2, 3)
        expected = left / np.linalg.norm(left, axis=1, keepdims=True)
        found = embed(engine, engine.take(landmarks), 3)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)

    @pytest.mark.parametrize("density", [0.02, 0.5])
    def test_gram_of_few_or_many_links(self, density):
        links = sp.random_array((40, 30), density=density, format="csr", random_state=0)
        z = links.toarray()
        np.testing.assert_allclose(module._gram(links), z.T @ z, atol=1e-12)

    def test_landmarks_without_samples_are_left_out(self):
        many, few = (local([np.repeat(np.eye(2), n, axis=0)]) for n in (20, 3))
        found = embed(few, many.take(np.arange(40)), 4)  # six samples, each with five landmarks
        assert np.isfinite(found).all()
        assert np.abs(found[0] @ found[-1]) < 1e-8


class TestEmbeddingByAFewSamples:
    """The embedding if its eigenvectors are those of a part of the samples."""

    def embedded(self, seed=0, per_landmark=5, kept=32):
        engine = local(raw_views(400))
        settings = GraphSettings(
            landmark_sizes=NEAR.landmark_sizes,
            embedded_per_landmark=per_landmark,
            kept_landmarks=kept,
        )
        rows = embed(engine, engine.take(np.arange(0, 400, 20)), 3, seed, settings)
        assert all(block.state.get("near") is None for block in engine.blocks)
        return rows @ rows.T

    def test_these_are_drawn_at_random(self):
        every = partial(self.embedded, per_landmark=100)
        np.testing.assert_allclose(every(seed=1), every(), atol=1e-10)
        assert np.abs(self.embedded(seed=1) - self.embedded()).max() > 1e-3

    def test_is_the_same_if_neighbours_are_not_stored(self):
        np.testing.assert_allclose(self.embedded(kept=0), self.embedded(), atol=1e-12)

    def test_does_not_depend_on_the_blocks(self, monkeypatch):
        whole = self.embedded()
        monkeypatch.setattr(LocalEngine, "block_rows", (7, 7))
        np.testing.assert_allclose(self.embedded(), whole, atol=1e-10)


def noisy():
    """Clusters of texts, which single words hardly show: near samples are seldom alike."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 4
    words = rng.random((4, 400)) ** 4
    views = [rng.poisson(0.1 * words[y] + 0.05 * rng.random(400)).astype(float) for _ in range(2)]
    return views, y


def digits():
    X, y = (array[:900] for array in load_digits(return_X_y=True))
    images = X.reshape(-1, 8, 8)
    return [X, np.hstack([images.sum(axis=1), images.sum(axis=2)])], y


class TestChoiceOfASearch:
    @pytest.mark.parametrize(("made", "expected"), [(noisy, 0), (digits, 1)])
    def test_finds_the_neighbourhood_size(self, made, expected):
        views, y = made()
        n_clusters = np.unique(y).size
        engine = local(views)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            landmarks = engine.take(np.sort(rng.choice(y.size, y.size // 3, replace=False)))
            candidates = searches(engine, landmarks, n_clusters)
            found = choose_search(engine, candidates, n_clusters, np.random.default_rng(seed))
            alone = choose_search(engine, [found[0]], n_clusters, np.random.default_rng(seed))
            assert found[0] is candidates[expected]
            assert found[1] == pytest.approx(alone[1], rel=0.05)  # k-means has another seed

    def test_copies_of_a_few_samples_are_no_clusters(self):
        rng = np.random.default_rng(0)
        y = np.arange(1200) % 4
        views = [1.3 * rng.normal(size=(4, 10))[y] + rng.normal(size=(1200, 10)) for _ in range(2)]
        rows = np.append(np.arange(1200), np.repeat(rng.choice(1200, 20, replace=False), 12))
        engine = local([X[rows] for X in views])
        for seed in range(4):
            settings = GraphSettings(exact_limit=50, n_landmarks=400)
            labels, _ = labelled(engine, 4, seed, settings=settings)
            assert score_all(y[rows], labels)["ari"] > 0.9

    @pytest.mark.parametrize("made", [noisy, digits])
    def test_is_the_better_one(self, made):
        views, y = made()
        engine = local(views)

        def quality(*sizes):
            settings = GraphSettings(exact_limit=50, n_landmarks=y.size // 3, landmark_sizes=sizes)
            labels, _ = labelled(engine, np.unique(y).size, settings=settings)
            return score_all(y, labels)["nmi_geometric"]

        far, near = GraphSettings().landmark_sizes
        alone = [quality(far), quality(near)]
        assert quality(far, near) >= max(alone) - 0.02
        assert max(alone) > min(alone) + 0.03
