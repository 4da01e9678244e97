from inspect import signature

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, aslinearoperator, eigsh

from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.baselines.scmv3dt import leading_scores
from manyview.exceptions import NotEnoughMemoryError
from manyview.linalg.eigen import (
    lanczos,
    largest_eigenpairs,
    largest_eigenvectors,
    renewed_eigenvectors,
    smallest_eigenvectors,
    symmetric_operator,
)
from manyview.linalg.partition import graph_embedding

N_LARGE = 500_000  # a dense matrix of this size needs 8 TB


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def projector(vectors):
    return vectors @ vectors.T


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, aslinearoperator])
def test_lanczos_and_reduction_agree(kind, rng):
    L = normalized_laplacian(knn_graph(rows(200), 8).toarray())
    values, vectors = np.linalg.eigh(L)
    smallest = smallest_eigenvectors(kind(L), 4, rng, dense_up_to=50)
    np.testing.assert_allclose(projector(smallest), projector(vectors[:, :4]), atol=1e-9)
    np.testing.assert_allclose(np.diag(smallest.T @ L @ smallest), values[:4], atol=1e-9)
    largest = largest_eigenvectors(kind(L), 4, rng, v0=vectors[:, -1], dense_up_to=50)
    np.testing.assert_allclose(np.diag(largest.T @ L @ largest), values[:-5:-1], atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("k", [2, 4, 6])
def test_no_copy_of_a_multiple_eigenvalue_is_missed(kind, k, rng):
    sizes = [90, 70, 60, 1]
    blocks = [knn_graph(rows(n, seed=n), 6) if n > 1 else [[0.0]] for n in sizes]
    L = normalized_laplacian(sp.block_diag(blocks, format="csr"))
    order = rng.permutation(sum(sizes))
    L = L[order][:, order].toarray()
    vectors = smallest_eigenvectors(kind(L), k, rng, dense_up_to=50)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)
    expected = np.linalg.eigvalsh(L)[:k].sum()
    assert np.trace(vectors.T @ L @ vectors) == pytest.approx(expected, abs=1e-8)
    if k == 2:  # of three null vectors, those of the largest components
        component = np.repeat(range(4), sizes)[order]
        assert np.abs(vectors[component >= 2]).max() == 0


def test_same_seed_same_vectors():
    L = normalized_laplacian(knn_graph(rows(150), 6))
    first, second = (
        smallest_eigenvectors(L, 3, np.random.default_rng(4), dense_up_to=50) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n_blocks", [5, 40])
def test_an_operator_with_a_multiple_eigenvalue(n_blocks, rng):
    block = np.full((12, 12), 1 / 12)
    S = sp.block_diag([sp.coo_array(block)] * n_blocks + [0.5 * np.eye(30)], format="csr")
    vectors = largest_eigenvectors(aslinearoperator(S), n_blocks, rng, dense_up_to=50)
    np.testing.assert_allclose(S @ vectors, vectors, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_blocks), atol=1e-8)


def test_all_eigenvectors(rng):
    L = normalized_laplacian(knn_graph(rows(8), 3))
    vectors = smallest_eigenvectors(L, 8, rng)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-12)


def test_renewed_eigenvectors_are_those_of_the_changed_operator(rng):
    S = symmetric(400)
    before = largest_eigenpairs(S, 3)[1]
    factor = rng.standard_normal((400, 2))
    vectors, total = renewed_eigenvectors(symmetric_operator(S, 0.01, factor), before, rng)
    values, expected = largest_eigenpairs(S + 0.01 * factor @ factor.T, 3)
    np.testing.assert_allclose(projector(vectors), projector(expected), atol=1e-6)
    assert total == pytest.approx(values.sum())


@pytest.mark.parametrize(
    "find",
    [
        lambda operator, rng: largest_eigenvectors(operator, 3, rng),
        lambda operator, rng: smallest_eigenvectors(operator, 3, rng),
        lambda operator, rng: renewed_eigenvectors(operator, np.eye(N_LARGE, 3), rng),
    ],
    ids=["largest", "smallest", "renewed"],
)
def test_where_lanczos_fails_memory_is_checked(find, rng):
    def fail(x):
        raise ArpackNoConvergence("", np.empty(0), np.empty((N_LARGE, 0)))

    operator = LinearOperator((N_LARGE, N_LARGE), matvec=fail, dtype=np.float64)
    with pytest.raises(NotEnoughMemoryError, match=f"3 eigenvectors of {N_LARGE} samples") as error:
        find(operator, rng)
    # one of these methods may be running
    assert not any(name in str(error.value) for name in ("AMGL", "SEC", "CoRegSC", "SCMV3DT"))


def symmetric(n=30, seed=0):
    half = np.random.default_rng(seed).standard_normal((n, n))
    return half + half.T


def hub(n, linked=10):
    """Return a graph of samples linked to the same few, with n - linked equal eigenvalues."""
    weights = np.zeros((n, n))
    weights[:linked] = weights[:, :linked] = 0.1
    np.fill_diagonal(weights, 0.0)
    root = np.sqrt(weights.sum(axis=1))
    return weights / np.outer(root, root)


def losing(lost):
    """Return an `eigh` that drops some eigenpairs when asked for a part of the spectrum."""
    whole = scipy.linalg.eigh

    def eigh(S, **options):
        values, vectors = whole(S, **options)
        kept = max(values.size - lost, 0) if "subset_by_index" in options else values.size
        return values[:kept], vectors[:, :kept]

    return eigh


@pytest.mark.parametrize("k", [1, 4, 30])
def test_eigenpairs_are_those_of_lapack(k):
    S = symmetric()
    values, vectors = scipy.linalg.eigh(S, subset_by_index=(30 - k, 29))
    found = largest_eigenpairs(S, k)
    np.testing.assert_array_equal(found[0], values[::-1])
    np.testing.assert_array_equal(found[1], vectors[:, ::-1])


@pytest.mark.parametrize("S", [hub(100), -hub(100), hub(300), 2 * np.eye(300) + hub(300)])
@pytest.mark.parametrize("k", [2, 6])
def test_no_copy_of_many_equal_eigenvalues_is_lost(S, k, rng):
    expected = np.linalg.eigvalsh(S)
    values, largest = largest_eigenpairs(S, k)
    np.testing.assert_allclose(values, expected[::-1][:k], atol=1e-12)
    smallest = smallest_eigenvectors(S, k, rng)
    for vectors, those in ((largest, expected[::-1][:k]), (smallest, expected[:k])):
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)
        np.testing.assert_allclose(S @ vectors, vectors * those, atol=1e-10)


CALLERS = {
    "largest": lambda rng: largest_eigenvectors(symmetric(), 4, rng),
    "smallest": lambda rng: smallest_eigenvectors(symmetric(), 4, rng),
    "scores": lambda rng: leading_scores(symmetric(), 4),
    "embedding": lambda rng: graph_embedding(sp.csr_array(np.exp(symmetric())), 4, rng=rng),
}


@pytest.mark.parametrize("lost", [1, 30])
@pytest.mark.parametrize("call", CALLERS.values(), ids=CALLERS)
def test_dropped_eigenvalues_are_found_by_every_caller(call, lost, monkeypatch):
    expected = call(np.random.default_rng(0))
    monkeypatch.setattr(scipy.linalg, "eigh", losing(lost))
    found = call(np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-7)


def test_lanczos_agrees_with_lapack():
    rng = np.random.default_rng(0)
    S = symmetric(60)
    values, vectors = lanczos(S, 4, rng.standard_normal(60), rng, n_vectors=30)
    expected, space = scipy.linalg.eigh(S, subset_by_index=(56, 59))
    np.testing.assert_allclose(values, expected[::-1])
    np.testing.assert_allclose(vectors @ vectors.T, space @ space.T, atol=1e-8)


@pytest.mark.skipif(
    "rng" not in signature(eigsh).parameters, reason="SciPy before 1.17 draws its own numbers"
)
def test_the_seed_decides_in_an_invariant_subspace():
    # every vector is an eigenvector: the second comes from random numbers only
    start = np.random.default_rng(0).standard_normal(100)

    def vectors(seed):
        rng = np.random.default_rng(seed)
        return lanczos(np.eye(100), 6, start, rng, n_vectors=30)[1]

    np.testing.assert_array_equal(vectors(1), vectors(1))
    assert np.abs(vectors(1) - vectors(2)).max() > 1e-3
