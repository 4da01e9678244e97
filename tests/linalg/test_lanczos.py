from inspect import signature

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.linalg import eigsh

from manyview.linalg.lanczos import largest_by_products


def symmetric(n, rank, rng):
    half = rng.standard_normal((n, rank))
    return half @ half.T


def test_it_finds_what_a_dense_decomposition_finds():
    rng = np.random.default_rng(0)
    S = symmetric(60, 60, rng)
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
