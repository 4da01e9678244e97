import numpy as np
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg.polar import inverse_square_root


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_gives_the_polar_factor_of_a_tall_matrix(seed, k):
    tall = np.random.default_rng(seed).standard_normal((30, k))
    root, null = inverse_square_root(tall.T @ tall)
    expected, _ = scipy.linalg.polar(tall)
    assert null.shape == (k, 0)
    np.testing.assert_allclose(tall @ root, expected, atol=1e-8)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), data=st.data())
def test_names_the_null_space(seed, k, data):
    rank = data.draw(st.integers(1, k - 1))
    rng = np.random.default_rng(seed)
    tall = rng.standard_normal((30, rank)) @ rng.standard_normal((rank, k))
    root, null = inverse_square_root(tall.T @ tall, rtol=1e-10)
    assert null.shape == (k, k - rank)
    np.testing.assert_allclose(null.T @ null, np.eye(k - rank), atol=1e-10)
    np.testing.assert_allclose(tall @ null, 0.0, atol=1e-4)
    np.testing.assert_allclose(root @ null, 0.0, atol=1e-6)


def test_zero_matrix_is_all_null_space():
    root, null = inverse_square_root(np.zeros((3, 3)))
    assert not root.any()
    assert null.shape == (3, 3)
