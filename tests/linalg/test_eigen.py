from inspect import signature

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, aslinearoperator, eigsh

from manyview import memory
from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.baselines.scmv3dt import leading_scores
from manyview.exceptions import NotEnoughMemoryError
from manyview.graph.spectral import _readout
from manyview.linalg import eigen as eigenvectors
from manyview.linalg.eigen import (
    largest_by_products,
    largest_eigenpairs,
    largest_eigenvectors,
    smallest_eigenpairs,
    smallest_eigenvectors,
)
from manyview.linalg.partition import graph_embedding


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def projector(vectors):
    return vectors @ vectors.T


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, aslinearoperator])
def test_iteration_and_reduction_agree(kind, rng, monkeypatch):
    L = normalized_laplacian(knn_graph(rows(200), 8).toarray())
    values, vectors = np.linalg.eigh(L)
    monkeypatch.setattr(eigenvectors, "_DENSE", 50)
    monkeypatch.setattr(eigenvectors, "_DENSE_OF_SPARSE", 50)
    monkeypatch.setattr(eigenvectors, "_DENSE_OPERATOR", 50)
    smallest = eigenvectors.smallest_eigenvectors(kind(L), 4, rng)
    np.testing.assert_allclose(projector(smallest), projector(vectors[:, :4]), atol=1e-9)
    np.testing.assert_allclose(np.diag(smallest.T @ L @ smallest), values[:4], atol=1e-9)
    largest = eigenvectors.largest_eigenvectors(kind(L), 4, rng, v0=vectors[:, -1])
    np.testing.assert_allclose(np.diag(largest.T @ L @ largest), values[:-5:-1], atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("k", [2, 4, 6])
def test_no_copy_of_a_multiple_eigenvalue_is_missed(kind, k, rng, monkeypatch):
    sizes = [90, 70, 60, 1]
    blocks = [knn_graph(rows(n, seed=n), 6) if n > 1 else [[0.0]] for n in sizes]
    L = normalized_laplacian(sp.block_diag(blocks, format="csr"))
    order = rng.permutation(sum(sizes))
    L = L[order][:, order].toarray()
    monkeypatch.setattr(eigenvectors, "_DENSE", 50)
    monkeypatch.setattr(eigenvectors, "_DENSE_OF_SPARSE", 50)
    vectors = eigenvectors.smallest_eigenvectors(kind(L), k, rng)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)
    expected = np.linalg.eigvalsh(L)[:k].sum()
    assert np.trace(vectors.T @ L @ vectors) == pytest.approx(expected, abs=1e-8)
    if k == 2:  # of three null vectors, those of the largest components
        component = np.repeat(range(4), sizes)[order]
        assert np.abs(vectors[component >= 2]).max() == 0


def test_same_seed_same_vectors(monkeypatch):
    monkeypatch.setattr(eigenvectors, "_DENSE", 50)
    monkeypatch.setattr(eigenvectors, "_DENSE_OF_SPARSE", 50)
    L = normalized_laplacian(knn_graph(rows(150), 6))
    first, second = (
        eigenvectors.smallest_eigenvectors(L, 3, np.random.default_rng(4)) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n_blocks", [5, 40])
def test_an_operator_with_a_multiple_eigenvalue(n_blocks, rng, monkeypatch):
    monkeypatch.setattr(eigenvectors, "_DENSE_OPERATOR", 50)
    block = np.full((12, 12), 1 / 12)
    S = sp.block_diag([sp.coo_array(block)] * n_blocks + [0.5 * np.eye(30)], format="csr")
    operator = aslinearoperator(S)
    vectors = eigenvectors.largest_eigenvectors(operator, n_blocks, rng)
    np.testing.assert_allclose(S @ vectors, vectors, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_blocks), atol=1e-8)


def test_all_of_them(rng):
    L = normalized_laplacian(knn_graph(rows(8), 3))
    vectors = eigenvectors.smallest_eigenvectors(L, 8, rng)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-12)


@pytest.mark.parametrize(
    "find",
    [
        lambda operator, rng: eigenvectors.largest_eigenvectors(operator, 3, rng),
        lambda operator, rng: eigenvectors.smallest_eigenvectors(operator, 3, rng),
        lambda operator, rng: eigenvectors.renewed_eigenvectors(operator, np.eye(400, 3), rng),
    ],
    ids=["largest", "smallest", "renewed"],
)
def test_where_lanczos_fails_memory_is_refused_without_naming_a_method_that_may_be_at_work(
    find, rng, monkeypatch
):
    def fail(*args, **options):
        raise ArpackNoConvergence("", np.empty(0), np.empty((400, 0)))

    monkeypatch.setattr(eigenvectors, "_lanczos", fail)
    monkeypatch.setattr(memory, "_half_of_memory", lambda: 1000.0)
    with pytest.raises(
        NotEnoughMemoryError,
        match=r"^Lanczos does not give 3 eigenvectors of 400 samples, and a dense .* needs",
    ) as refused:
        find(aslinearoperator(np.eye(400)), rng)
    assert not any(name in str(refused.value) for name in ("AMGL", "SEC", "CoRegSC", "SCMV3DT"))


def symmetric(n=30, seed=0):
    half = np.random.default_rng(seed).standard_normal((n, n))
    return half + half.T


def hub(n, linked=10):
    """Normalised weights of samples all linked to the same few: n - linked equal eigenvalues."""
    weights = np.zeros((n, n))
    weights[:linked] = weights[:, :linked] = 0.1
    np.fill_diagonal(weights, 0.0)
    root = np.sqrt(weights.sum(axis=1))
    return weights / np.outer(root, root)


def losing(lost):
    """`scipy.linalg.eigh` that keeps back some of the eigenpairs of a part of the spectrum."""
    whole = scipy.linalg.eigh

    def eigh(S, **options):
        values, vectors = whole(S, **options)
        kept = max(values.size - lost, 0) if "subset_by_index" in options else values.size
        return values[:kept], vectors[:, :kept]

    return eigh


@pytest.mark.parametrize("k", [1, 4, 30])
def test_the_same_numbers_as_of_the_part_of_the_spectrum(k):
    S = symmetric()
    values, vectors = scipy.linalg.eigh(S, subset_by_index=(30 - k, 29))
    found = largest_eigenpairs(S, k)
    np.testing.assert_array_equal(found[0], values[::-1])
    np.testing.assert_array_equal(found[1], vectors[:, ::-1])
    values, vectors = scipy.linalg.eigh(S, subset_by_index=(0, k - 1))
    found = smallest_eigenpairs(S, k)
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], vectors)


@pytest.mark.parametrize("pairs", [largest_eigenpairs, smallest_eigenpairs])
@pytest.mark.parametrize("S", [hub(100), -hub(100), hub(300), 2 * np.eye(300) + hub(300)])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_none_of_many_equal_eigenvalues_is_lost(pairs, S, k):
    values, vectors = pairs(S, k)
    expected = np.linalg.eigvalsh(S)
    expected = expected[::-1][:k] if pairs is largest_eigenpairs else expected[:k]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)
    np.testing.assert_allclose(S @ vectors, vectors * values, atol=1e-10)


CALLERS = {
    "largest": lambda rng: largest_eigenvectors(symmetric(), 4, rng),
    "smallest": lambda rng: smallest_eigenvectors(symmetric(), 4, rng),
    "scores": lambda rng: leading_scores(symmetric(), 4),
    "embedding": lambda rng: graph_embedding(sp.csr_array(np.exp(symmetric())), 4, rng=rng),
    "landmarks": lambda rng: _readout(np.exp(symmetric()), 4),
}


@pytest.mark.parametrize("lost", [1, 30])
@pytest.mark.parametrize("call", CALLERS.values(), ids=CALLERS)
def test_what_is_lost_is_found_wherever_some_are_wanted(call, lost, monkeypatch):
    expected = call(np.random.default_rng(0))
    monkeypatch.setattr(scipy.linalg, "eigh", losing(lost))
    found = call(np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-7)


def symmetric_lanczos(n, rank, rng):
    half = rng.standard_normal((n, rank))
    return half @ half.T


def test_it_finds_what_a_dense_decomposition_finds():
    rng = np.random.default_rng(0)
    S = symmetric_lanczos(60, 60, rng)
    values, vectors = largest_by_products(S, 4, rng.standard_normal(60), rng, n_vectors=30)
    expected, space = scipy.linalg.eigh(S, subset_by_index=(56, 59))
    np.testing.assert_allclose(values, expected[::-1])
    np.testing.assert_allclose(vectors @ vectors.T, space @ space.T, atol=1e-8)


@pytest.mark.skipif(
    "rng" not in signature(eigsh).parameters, reason="SciPy before 1.17 has numbers of its own"
)
def test_where_products_lead_nowhere_the_seed_decides():
    # every vector is an eigenvector: the second comes from random numbers only
    start = np.random.default_rng(0).standard_normal(100)

    def vectors(seed):
        rng = np.random.default_rng(seed)
        return largest_by_products(np.eye(100), 6, start, rng, n_vectors=30)[1]

    np.testing.assert_array_equal(vectors(1), vectors(1))
    assert np.abs(vectors(1) - vectors(2)).max() > 1e-3
