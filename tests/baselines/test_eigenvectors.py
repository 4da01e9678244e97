import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, aslinearoperator

from manyview import memory
from manyview.baselines import eigenvectors
from manyview.baselines.graphs import knn_graph, normalized_laplacian
from manyview.exceptions import NotEnoughMemoryError


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
