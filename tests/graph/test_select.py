import numpy as np
import pytest
import scipy.sparse as sp

from manyview.graph.select import Clusters, clearest_clusters, cut, is_clearer, unexplained
from manyview.linalg.partition import unit_rows


def blocks(truth, across, seed=0):
    """A graph with links of weight 1 within clusters, and of some weight across them."""
    rng = np.random.default_rng(seed)
    weights = np.where(truth[:, None] == truth, 1.0, across) * rng.random((truth.size, truth.size))
    return sp.csr_array(np.triu(weights, 1) + np.triu(weights, 1).T)


TRUTH = np.repeat(np.arange(3), 20)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("within", "cuts", "clearer"),
    [
        (0.8, (0.3, 0.32), True),
        (0.9, (0.3, 0.32), False),
        (0.3, (0.06, 0.08), True),
        (0.4, (0.32, 0.4), False),  # the odds of leaving the cluster are 1.4 times as high
        (0.01, (0.8, 0.9), False),  # more than twice as high
        (0.01, (0.0, 0.0), True),
        (0.01, (0.0, 0.1), False),
        (0.01, (1.0, 1.0), True),
    ],
)
def test_clusters_that_cut_more_links_have_to_be_tighter(within, cuts, clearer):
    rows = np.zeros((1, 1))
    first, later = Clusters(0, rows, np.array([0]), 1.0), Clusters(1, rows, np.array([1]), within)
    assert is_clearer(later, first, lambda labels: cuts[labels[0]]) == clearer


def test_the_first_columns_count_for_more(rng):
    rows = unit_rows(np.hstack([np.repeat(np.eye(2), 20, axis=0), rng.standard_normal((40, 1))]))
    found = clearest_clusters([rows], lambda labels: 0.0, 2, rng, n_init=10)
    assert 0.0 < found.unexplained < 0.5 * unexplained(rows, np.repeat([0, 1], 20))


class TestCut:
    def test_is_zero_for_components_and_one_for_single_samples(self):
        graph = blocks(TRUTH, 0.0)
        assert cut(graph, TRUTH, TRUTH) == pytest.approx(0.0)
        assert cut(graph, np.arange(60), np.arange(60)) == pytest.approx(1.0)

    def test_ends_belong_to_the_cluster_that_most_of_their_links_come_from(self, rng):
        links = np.abs(rng.standard_normal((60, 7)))
        reached = np.stack([links[k == TRUTH].sum(axis=0) for k in range(3)])
        ends = reached.argmax(axis=0)
        expected = [1.0 - reached[k, ends == k].sum() / reached[k].sum() for k in range(3)]
        assert cut(links, TRUTH) == pytest.approx(np.mean(expected))
        assert cut(links, TRUTH) == cut(links, TRUTH, ends)


class TestUnexplained:
    def test_is_one_for_a_single_cluster_and_zero_for_single_rows(self, rng):
        rows = rng.standard_normal((10, 3))
        assert unexplained(rows, np.zeros(10, dtype=int)) == pytest.approx(1.0)
        assert unexplained(rows, np.arange(10)) == 0.0

    def test_is_zero_for_equal_rows(self):
        assert unexplained(np.ones((4, 2)), np.array([0, 0, 1, 1])) == 0.0
