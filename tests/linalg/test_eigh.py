import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from manyview.baselines.eigenvectors import largest_eigenvectors, smallest_eigenvectors
from manyview.baselines.scmv3dt import leading_scores
from manyview.linalg.eigh import largest_eigenpairs, smallest_eigenpairs
from manyview.linalg.embedding import graph_embedding
from manyview.mmc.landmarks import _readout


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
