import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg.partition import (
    clear_embedding,
    clear_weights,
    cluster_rows,
    effective_clusters,
    graph_embedding,
    has_collapsed,
    unit_rows,
    without_empty,
)


@given(labels=st.lists(st.integers(0, 4), min_size=5, max_size=30))
def test_no_cluster_stays_empty_and_few_samples_move(labels):
    labels = np.array(labels)
    mended = without_empty(labels, 5)
    missing = 5 - np.unique(labels).size
    assert np.unique(mended).size == 5
    assert np.count_nonzero(mended != labels) == missing


@pytest.mark.parametrize(
    ("sizes", "before", "lost"),
    [
        ((299, 1), (150, 150), True),
        ((200, 100), (150, 150), False),
        ((98, 1, 1), (30, 30, 40), True),
        ((50, 48, 1, 1), (25, 25, 25, 25), True),
        ((33, 33, 32, 1, 1), (20,) * 5, False),
        ((10,), (10,), False),
    ],
)
def test_collapse_is_detected(sizes, before, lost):
    assert has_collapsed(np.array(sizes), np.array(before)) == lost


def test_effective_clusters():
    assert np.isclose(effective_clusters(np.array([2.0, 2.0, 2.0])), 3.0)
    assert np.isclose(effective_clusters(np.array([5.0, 0.0])), 1.0)
    assert 1.0 < effective_clusters(np.array([98.0, 1.0, 1.0])) < 1.2


def test_fewer_distinct_rows_than_clusters():
    labels, _ = cluster_rows(np.zeros((6, 2)), 3, np.random.default_rng(0))
    assert np.unique(labels).size == 3


def _random_graph(n, rng, density=0.1):
    graph = sp.random_array((n, n), density=density, random_state=rng, format="csr")
    return (graph + graph.T + sp.eye_array(n)).tocsr()


def _normalised(graph):
    degree = np.asarray(graph.sum(axis=1)).ravel()
    return graph.toarray() / np.sqrt(np.outer(degree, degree))


@pytest.mark.parametrize("n", [20, 150])
def test_spans_the_top_eigenspace(n):
    rng = np.random.default_rng(0)
    graph = _random_graph(n, rng, density=0.3)
    found = graph_embedding(graph, 4, rng=rng)
    _, vectors = scipy.linalg.eigh(_normalised(graph), subset_by_index=(n - 4, n - 1))
    np.testing.assert_allclose(found @ found.T, vectors @ vectors.T, atol=1e-4)


@pytest.mark.parametrize("n_components", [2, 3, 5, 7])
def test_disconnected_graph_keeps_one_vector_a_component(n_components):
    rng = np.random.default_rng(1)
    sizes = (60, 50, 40)
    graph = sp.block_diag([_random_graph(n, rng, 0.4) for n in sizes], format="csr")
    found = graph_embedding(graph, n_components, rng=rng)
    assert found.shape == (150, n_components)
    np.testing.assert_allclose(found.T @ found, np.eye(n_components), atol=1e-5)
    rayleigh = np.diag(found.T @ _normalised(graph) @ found)
    np.testing.assert_allclose(rayleigh[: min(3, n_components)], 1.0, atol=1e-8)
    assert (np.diff(rayleigh) <= 1e-6).all()
    if n_components > 3:
        values = scipy.linalg.eigvalsh(_normalised(graph))[::-1]
        np.testing.assert_allclose(rayleigh, values[:n_components], atol=1e-4)


def test_more_components_than_vectors_takes_the_largest():
    graph = sp.block_diag([sp.coo_array(np.ones((n, n))) for n in (2, 5, 3)], format="csr")
    found = graph_embedding(graph, 2, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.any(axis=1), [False] * 2 + [True] * 8)


def test_isolated_samples_do_not_divide_by_zero():
    graph = sp.block_diag([sp.coo_array(np.ones((3, 3))), np.zeros((2, 2))], format="csr")
    found = graph_embedding(graph, 3, rng=np.random.default_rng(0))
    assert np.isfinite(found).all()


def test_unit_rows_leaves_zeros():
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]])


class TestClearEmbedding:
    def test_an_eigenvector_of_noise_counts_little(self):
        # three clusters in a row, the middle one linked to both: they show in two eigenvectors
        place = np.repeat([0.0, 1.0, 2.0], 40)
        rng = np.random.default_rng(0)
        weights = np.exp(-3.0 * (place[:, None] - place) ** 2) * rng.random((120, 120))
        graph = sp.csr_array(np.triu(weights, 1) + np.triu(weights, 1).T)
        plain = np.abs(unit_rows(graph_embedding(graph, 6, rng=rng))).mean(axis=0)
        rows, _ = clear_embedding(graph, 6, rng=rng)
        clear = np.abs(unit_rows(rows[:, :6])).mean(axis=0)
        assert (clear[3:] < 0.5 * plain[3:]).all()
        assert (np.abs(rows).mean(axis=0)[6:] < 0.5 * plain[3:].min()).all()
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)

    @pytest.mark.parametrize(("n", "n_components"), [(3, 3), (4, 3), (7, 4)])
    def test_of_hardly_more_samples_than_clusters(self, n, n_components):
        graph = sp.csr_array(np.ones((n, n)) - np.eye(n))
        found, _ = clear_embedding(graph, n_components, rng=np.random.default_rng(0))
        assert n_components <= found.shape[1] < 2 * n_components
        assert np.isfinite(found).all()

    def test_which_of_close_eigenvalues_comes_last_matters_little(self):
        # four clusters alike, of which three are asked for: the last three eigenvalues are close,
        # and chance decides which two of their eigenvectors are among the first three
        cluster = np.repeat(np.arange(4), 30)
        alike = np.where(cluster[:, None] == cluster, 1.0, 0.2)

        def embeddings(seed):
            rng = np.random.default_rng(seed)
            weights = np.triu(alike * rng.random(alike.shape), 1)
            graph = sp.csr_array(weights + weights.T)
            hard, soft = graph_embedding(graph, 3, rng=rng), clear_embedding(graph, 3, rng=rng)[0]
            return [rows @ rows.T for rows in (unit_rows(hard), soft)]

        (hard, soft), (hard_again, soft_again) = embeddings(0), embeddings(1)
        assert np.linalg.norm(soft - soft_again) < 0.8 * np.linalg.norm(hard - hard_again)

    def test_equal_components(self):
        graph = sp.block_diag([sp.coo_array(np.ones((3, 3)) - np.eye(3))] * 8, format="csr")
        found, _ = clear_embedding(sp.csr_array(graph), 2, rng=np.random.default_rng(0))
        np.testing.assert_allclose(np.linalg.norm(found, axis=1).sum(), 6.0)


class TestClearWeights:
    def test_those_beyond_the_clusters_fade(self):
        values = np.linspace(1.0, 0.9, 12)
        weights = clear_weights(values, 6)
        assert weights.size == 11
        above_noise = 1.0 - values[-1] / values[:-1]
        np.testing.assert_allclose(weights[:6], above_noise[:6])
        np.testing.assert_allclose(weights[6:] / above_noise[6:], np.arange(5, 0, -1) / 6)

    def test_are_one_for_the_clusters_alone_where_eigenvalues_do_not_differ(self):
        np.testing.assert_array_equal(clear_weights(np.ones(8), 4), np.ones(4))


def test_kmeans_in_several_threads_leaves_no_filter_of_warnings_behind():
    rows = np.random.default_rng(0).standard_normal((300, 4))
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            list(pool.map(lambda s: cluster_rows(rows, 8, np.random.default_rng(s)), range(8)))
    assert warnings.filters == before
