import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.graph import regression
from manyview.graph import spectral as module
from manyview.graph.neighbours import harmonic_weights
from manyview.graph.settings import ALL_ORDERS, FAR_PRODUCT, NEAR_PRODUCT, GraphOf, GraphSettings
from manyview.graph.spectral import AffinityGraphs, spectral_labels, unexplained
from manyview.metrics import clustering_accuracy
from manyview.views import as_views

SUM = GraphOf(0.0, 1.0)
SOME = GraphSettings(n_compared=60, compared_per_cluster=0)
both = pytest.mark.parametrize("settings", [GraphSettings(), SOME], ids=["all", "some"])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def clear_groups(n=150, *, sparse=False, n_views=2):
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    widths = (6, 4, 5)[:n_views]
    views = [4 * rng.standard_normal((3, d))[truth] + rng.standard_normal((n, d)) for d in widths]
    return [sp.csr_array(X) if sparse else X for X in views], truth


def local(views, normalize="rows", present=None):
    return LocalEngine(as_views(list(views), present=present, warn=False), normalize=normalize)


def labelled(engine, n_clusters, seed=0, **options):
    """Labels, and the unexplained variance."""
    found, _ = spectral_labels(engine, n_clusters, np.random.default_rng(seed), **options)
    return engine.gather("labels"), found


def graphs_of(views, n_clusters=3, seed=0, **options):
    return AffinityGraphs(local(views), n_clusters, np.random.default_rng(seed), **options)


class TestLabels:
    @both
    @pytest.mark.parametrize("normalize", ["rows", "columns", None])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_find_clear_clusters(self, settings, normalize, sparse):
        views, truth = clear_groups(sparse=sparse)
        labels, _ = labelled(local(views, normalize), 3, settings=settings)
        assert adjusted_rand_score(truth, labels) > 0.95

    @pytest.mark.parametrize("n_compared", [5000, 600])
    @pytest.mark.parametrize("sizes", [(1500, 150, 20), (1950, 30)])
    def test_find_clear_clusters_of_unequal_size(self, n_compared, sizes):
        rng = np.random.default_rng(0)
        truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        means = 2.5 * rng.standard_normal((2, len(sizes), 10))
        views = [of_view[truth] + rng.standard_normal((truth.size, 10)) for of_view in means]
        settings = GraphSettings(n_compared=n_compared)
        labels, _ = labelled(local(views), len(sizes), settings=settings)
        assert adjusted_rand_score(truth, labels) > 0.9

    @pytest.mark.parametrize("n_compared", [5000, 500])
    @pytest.mark.parametrize("n_clusters", [2, 10])
    def test_unexplained_variance_tells_clusters_from_noise(self, n_compared, n_clusters, rng):
        noise = rng.standard_normal((2, 1000, 30))
        means = 3.0 * rng.standard_normal((2, n_clusters, 30))
        clear = noise + means[:, np.arange(1000) % n_clusters]
        settings = GraphSettings(n_compared=n_compared)
        assert labelled(local(clear), n_clusters, settings=settings)[1] < 0.05
        assert labelled(local(noise), n_clusters, settings=settings)[1] > 0.3

    @pytest.mark.parametrize("graph", [ALL_ORDERS, FAR_PRODUCT])
    @pytest.mark.parametrize("n_views", [2, 3, 4])
    def test_two_opposites_do_not_make_neighbours(self, n_views, graph):
        """Centred views have negative products, and an even number of them a positive one."""
        rng = np.random.default_rng(0)
        truth = np.arange(90) % 2
        views = [
            1.5 * rng.standard_normal(8) * (2 * truth - 1)[:, None] + rng.standard_normal((90, 8))
            for _ in range(n_views)
        ]
        labels, _ = labelled(local(views, "columns"), 2, graph=graph)
        assert adjusted_rand_score(truth, labels) > 0.9

    @both
    def test_copies_of_a_few_samples_are_no_clusters(self, settings, rng):
        y = np.arange(300) % 4
        views = [3.0 * rng.normal(size=(4, 10))[y] + rng.normal(size=(300, 10)) for _ in range(2)]
        rows = np.append(np.arange(300), np.repeat(rng.choice(300, 5, replace=False), 12))
        labels, _ = labelled(local([X[rows] for X in views]), 4, settings=settings)
        assert adjusted_rand_score(y[rows], labels) > 0.9

    @both
    @pytest.mark.parametrize("n_clusters", [1, 2, 58, 59])
    def test_none_is_empty(self, settings, n_clusters, rng):
        views = [rng.standard_normal((59 if settings is not SOME else 400, 5)) for _ in range(2)]
        labels, _ = labelled(local(views), n_clusters, settings=settings)
        assert np.unique(labels).size == n_clusters

    @both
    def test_equal_samples_fill_all(self, settings):
        labels, _ = labelled(local([np.ones((100, 3)), np.ones((100, 2))]), 4, settings=settings)
        assert np.unique(labels).size == 4

    @both
    def test_constant_views_change_nothing(self, settings):
        views, truth = clear_groups()
        labels, _ = labelled(local([*views, np.ones((150, 3))]), 3, settings=settings)
        assert adjusted_rand_score(truth, labels) > 0.95


class TestGraphs:
    """Which graph shows which clusters."""

    def test_of_all_orders_finds_them_beside_views_of_noise(self, rng):
        views, y = make_views(300, 4, (20, 15), separation=5.0, random_state=0)
        labels, _ = labelled(local([*views, rng.standard_normal((300, 20))]), 4)
        assert clustering_accuracy(y, labels) > 0.98

    def test_of_all_orders_finds_them_beside_a_view_that_says_something_else(self, rng):
        views, y = make_views(400, 2, (20, 15), separation=6.0, random_state=0)
        other = 3.0 * rng.standard_normal((25, 10))[rng.integers(25, size=400)]
        views = [*views, other + 0.3 * rng.standard_normal(other.shape)]
        accuracies = [
            clustering_accuracy(y, labelled(local(views), 2, graph=graph)[0])
            for graph in (ALL_ORDERS, SUM)
        ]
        assert min(accuracies) > 0.98

    def test_of_the_product_finds_those_in_products(self):
        views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
        accuracies = [
            clustering_accuracy(y, labelled(local(views), 2, graph=graph)[0])
            for graph in (FAR_PRODUCT, SUM)
        ]
        assert accuracies[0] > 0.9
        assert accuracies[1] < 0.7


class TestAffinityGraphs:
    @pytest.mark.parametrize("graph", [ALL_ORDERS, FAR_PRODUCT, NEAR_PRODUCT, SUM])
    def test_weights_are_those_of_nearest_samples(self, graph):
        graphs = graphs_of(clear_groups(n_views=3)[0])
        wanted = np.zeros((150, 150))
        for number, near in enumerate(graphs.near):
            share = graph.product if number == 0 else graph.views / 3
            for size in graph.sizes:
                count = graphs.sizes[size]
                links = np.zeros((150, 150))
                np.put_along_axis(links, near[:, :count], harmonic_weights(count)[None], axis=1)
                wanted += share * links / len(graph.sizes)
        found = graphs.affinity(graph).toarray()
        np.testing.assert_allclose(found, wanted + wanted.T, atol=1e-12)

    def test_neighbourhoods_are_relative_to_half_of_an_average_cluster(self):
        views = clear_groups(600)[0]
        settings = GraphSettings(sizes=(1.0, 0.25), fewest_neighbours=5)
        assert graphs_of(views, 3, settings=settings).sizes == [100, 25]
        assert graphs_of(views, 3, neighbourhood=0.1, settings=settings).sizes == [10, 5]
        assert graphs_of([X[:4] for X in views], 2, settings=settings).sizes == [3, 3]

    def test_equal_sizes_count_once(self):
        views = clear_groups(30)[0]
        graphs = graphs_of(views, 3)
        assert graphs.sizes == [5, 5]
        assert abs(graphs.affinity(FAR_PRODUCT) - graphs.affinity(NEAR_PRODUCT)).max() == 0.0

    @pytest.mark.parametrize("n_views", [1, 3])
    def test_votes_are_means_over_other_samples(self, n_views):
        views = clear_groups(n_views=n_views)[0]
        graphs = graphs_of(views)
        votes = [each @ np.eye(len(views[0])) for each in graphs.votes()]
        assert len(votes) == (1 if n_views == 1 else n_views + 1)
        for shares in votes:
            np.testing.assert_allclose(shares.sum(axis=1), 1.0)
            np.testing.assert_array_equal(shares > 0, shares.T > 0)
            assert shares.min() >= 0.0
            assert not shares.diagonal().any()

    def test_a_single_view_is_the_product(self):
        graphs = graphs_of(clear_groups(n_views=1)[0])
        assert abs(graphs.affinity(ALL_ORDERS) - graphs.affinity(GraphOf(1.0, 0.0))).max() == 0.0
        assert abs(graphs.affinity(SUM)).max() > 0.0

    @pytest.mark.parametrize(
        ("n_clusters", "expected"), [(2, 30), (4, 40), (12, 60), (40, 80)], ids="K={}".format
    )
    def test_number_of_compared_samples(self, n_clusters, expected):
        """The usual one, ten for each cluster, the most, or two for each cluster."""
        settings = GraphSettings(n_compared=30, compared_per_cluster=10, most_compared=60)
        graphs = graphs_of(clear_groups(300)[0], n_clusters, settings=settings)
        assert graphs.sample.size == expected == np.unique(graphs.sample).size
        assert not graphs.complete
        assert [kernel.shape[0] for kernel in graphs._kernels] == [expected] * 3

    def test_few_samples_are_all_compared(self):
        graphs = graphs_of(clear_groups(60)[0], settings=SOME)
        assert graphs.complete
        np.testing.assert_array_equal(graphs.sample, np.arange(60))

    def test_compared_samples_are_drawn_from_all(self):
        first, second = (graphs_of(clear_groups(3000)[0], seed=s, settings=SOME) for s in (0, 1))
        assert set(first.sample) != set(second.sample)
        assert 20 < np.sum(first.sample < 1500) < 40


class TestManySamples:
    """The graph is that of a random part; regressions extend its embedding to the others."""

    def embedded(self, seed=0, **options):
        rng = np.random.default_rng(0)
        views = [rng.standard_normal((3, d))[np.arange(400) % 3] for d in (5, 4)]
        engine = local([X + 0.7 * rng.standard_normal(X.shape) for X in views])
        _, graph = spectral_labels(engine, 3, np.random.default_rng(seed), settings=SOME, **options)
        assert graph is None
        return engine.gather("embedding")

    def test_embedding_has_unit_rows(self):
        np.testing.assert_allclose(np.linalg.norm(self.embedded(), axis=1), 1.0)

    def test_does_not_depend_on_the_blocks(self, monkeypatch):
        whole = self.embedded()
        monkeypatch.setattr(LocalEngine, "block_rows", (7, 7))
        monkeypatch.setattr(LocalEngine, "chunk", 3)
        np.testing.assert_allclose(self.embedded(), whole, atol=1e-10)

    def test_compared_samples_are_drawn_at_random(self):
        first, second = self.embedded(), self.embedded(seed=1)
        assert np.abs(first @ first.T - second @ second.T).max() > 1e-3

    def test_the_embedding_of_compared_samples_is_nearly_that_of_their_graph(self):
        views, _ = clear_groups(400)
        engine = local(views)
        spectral_labels(engine, 3, np.random.default_rng(0), settings=SOME)
        rng = np.random.default_rng(0)
        graphs = AffinityGraphs(engine, 3, rng, settings=SOME)
        rows = graphs.clusters(ALL_ORDERS, 3, rng).embedding
        found = engine.take_state("embedding", graphs.sample)
        assert np.mean(np.sum(rows * found, axis=1)) > 0.95

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("normalize", ["rows", "columns"])
    def test_missing_views(self, sparse, normalize):
        views, truth = clear_groups(400)
        present = np.random.default_rng(0).random((400, 2)) < 0.7
        present[~present.any(axis=1)] = True
        for v in range(2):
            views[v][~present[:, v]] = 0.0
        engine = local([sp.csr_array(X) if sparse else X for X in views], normalize, present)
        labels, _ = labelled(engine, 3, settings=SOME)
        assert clustering_accuracy(truth, labels) > 0.95

    def test_no_array_is_as_large_as_all_pairs(self, monkeypatch):
        """Kernels are those of a chunk with the landmarks."""
        largest = 0

        def noted(*args):
            nonlocal largest
            found = kernels_of(*args)
            largest = max(largest, *(kernel.size for kernel in found))
            return found

        kernels_of = regression.kernels_of
        monkeypatch.setattr(regression, "kernels_of", noted)
        monkeypatch.setattr(LocalEngine, "chunk", 50)
        labelled(local(clear_groups(3000)[0]), 3, settings=SOME)
        assert 0 < largest <= 50 * 60


def test_k_means_has_fewer_restarts_for_more_clusters(monkeypatch):
    asked = []

    def noted(*args, n_init, **options):
        asked.append(n_init)
        return cluster_rows(*args, n_init=n_init, **options)

    cluster_rows = module.cluster_rows
    monkeypatch.setattr(module, "cluster_rows", noted)
    for n_clusters in (3, 20, 40):
        settings = GraphSettings(embedding_restarts=(10, 30))
        labelled(local(clear_groups(60)[0]), n_clusters, settings=settings)
    assert asked == [30, 15, 10]


class TestUnexplained:
    def test_is_one_for_a_single_cluster_and_zero_for_single_rows(self, rng):
        rows = rng.standard_normal((10, 3))
        assert unexplained(rows, np.zeros(10, dtype=int)) == pytest.approx(1.0)
        assert unexplained(rows, np.arange(10)) == 0.0

    def test_is_zero_for_equal_rows(self):
        assert unexplained(np.ones((4, 2)), np.array([0, 0, 1, 1])) == 0.0

    def test_empty_clusters_do_not_count(self, rng):
        rows, labels = rng.standard_normal((10, 3)), np.arange(10) % 2
        assert unexplained(rows, 3 * labels) == pytest.approx(unexplained(rows, labels))
