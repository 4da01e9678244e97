import numpy as np
import pytest
import scipy.sparse as sp

from manyview.graph import select as module
from manyview.graph.select import clearest_clusters, cut, unexplained
from manyview.linalg.partition import unit_rows
from manyview.metrics import clustering_accuracy


def blocks(truth, across, seed=0):
    """A graph with links of weight 1 within clusters, and of some weight across them."""
    rng = np.random.default_rng(seed)
    weights = np.where(truth[:, None] == truth, 1.0, across) * rng.random((truth.size, truth.size))
    return sp.csr_array(np.triu(weights, 1) + np.triu(weights, 1).T)


TRUTH = np.repeat(np.arange(3), 20)
OTHER = np.tile(np.arange(3), 20)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestClearest:
    def test_a_later_graph_is_taken_where_it_is_far_clearer(self, rng):
        labels = clearest_clusters([blocks(OTHER, 0.9), blocks(TRUTH, 0.01)], 3, rng).labels
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_the_first_stays_where_the_later_is_not(self, rng):
        labels = clearest_clusters([blocks(OTHER, 0.1), blocks(TRUTH, 0.1)], 3, rng).labels
        assert clustering_accuracy(OTHER, labels) == 1.0

    def test_pieces_are_not_clusters(self, rng):
        pieces = blocks(np.arange(60) // 10, 0.0)
        labels = clearest_clusters([blocks(TRUTH, 0.5), pieces], 3, rng).labels
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_pieces_as_many_as_clusters_are(self, rng):
        labels = clearest_clusters([blocks(OTHER, 0.9), blocks(TRUTH, 0.0)], 3, rng).labels
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_nor_are_copies_of_a_few_samples(self, rng):
        copies = np.where(np.arange(60) < 50, 0, np.arange(60) // 5)  # two of five, and the rest
        labels = clearest_clusters([blocks(TRUTH, 0.1), blocks(copies, 0.0)], 3, rng).labels
        assert clustering_accuracy(TRUTH, labels) == 1.0

    def test_small_clusters_are_where_the_first_shows_none(self, rng):
        small = np.where(np.arange(60) < 50, 0, np.arange(60) // 5)
        labels = clearest_clusters([blocks(OTHER, 0.9), blocks(small, 0.01)], 3, rng).labels
        assert clustering_accuracy(small, labels) == 1.0

    @pytest.mark.parametrize(
        ("within", "cuts", "taken"),
        [
            (0.8, (0.3, 0.32), True),
            (0.9, (0.3, 0.32), False),
            (0.3, (0.06, 0.08), True),
            (0.4, (0.32, 0.4), False),  # a link leads out 1.4 times as often as it stays
            (0.01, (0.8, 0.9), False),  # as few links hold together as that
            (0.01, (0.0, 0.0), True),
            (0.01, (0.0, 0.1), False),
            (0.01, (1.0, 1.0), True),
        ],
    )
    def test_the_more_links_are_cut_the_clearer_it_has_to_be(self, within, cuts, taken):
        first, later = module.Seen(np.array([0]), 1.0), module.Seen(np.array([1]), within)
        assert later.is_clearer(first, lambda labels: cuts[labels[0]]) == taken

    def test_the_first_columns_count_for_more(self, rng):
        clear = np.repeat(np.eye(2), 20, axis=0)
        spread = np.hstack([clear, rng.standard_normal((40, 1))])
        within = module.Seen.of(unit_rows(spread), 2, rng).within
        both = unexplained(unit_rows(spread), np.repeat([0, 1], 20))
        assert 0.0 < within < 0.5 * both

    @pytest.mark.parametrize(("n_clusters", "n_init"), [(3, 30), (20, 15), (40, 10)])
    def test_k_means_has_the_fewer_starts_the_more_clusters(
        self, rng, monkeypatch, n_clusters, n_init
    ):
        asked = []
        real = module.cluster_rows

        def noted(*args, **options):
            asked.append(options["n_init"])
            return real(*args, **options)

        monkeypatch.setattr(module, "cluster_rows", noted)
        clearest_clusters([blocks(TRUTH, 0.1)], n_clusters, rng)
        assert asked == [n_init]


class TestCut:
    def test_none_of_it_within_pieces_and_all_of_it_by_one_a_sample(self):
        graph = blocks(TRUTH, 0.0)
        assert cut(graph, TRUTH, TRUTH) == pytest.approx(0.0)
        assert cut(graph, np.arange(60), np.arange(60)) == pytest.approx(1.0)

    def test_ends_belong_to_those_who_reach_them_most(self, rng):
        links = np.abs(rng.standard_normal((60, 7)))
        reached = np.stack([links[k == TRUTH].sum(axis=0) for k in range(3)])
        ends = reached.argmax(axis=0)
        expected = [1.0 - reached[k, ends == k].sum() / reached[k].sum() for k in range(3)]
        assert cut(links, TRUTH) == pytest.approx(np.mean(expected))
        assert cut(links, TRUTH) == cut(links, TRUTH, ends)


class TestUnexplained:
    def test_all_of_it_by_a_single_cluster_and_none_by_one_a_row(self, rng):
        rows = rng.standard_normal((10, 3))
        assert unexplained(rows, np.zeros(10, dtype=int)) == pytest.approx(1.0)
        assert unexplained(rows, np.arange(10)) == 0.0

    def test_rows_that_are_all_the_same_leave_nothing(self):
        assert unexplained(np.ones((4, 2)), np.array([0, 0, 1, 1])) == 0.0
