import numpy as np
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg.sylvester import solve_diagonal_sylvester


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), r=st.integers(1, 8))
def test_agrees_with_scipy(seed, k, r):
    rng = np.random.default_rng(seed)
    diagonal = rng.uniform(0.01, 2.0, size=k)
    root = rng.standard_normal((r + 2, r))
    right = rng.standard_normal((k, r))
    expected = scipy.linalg.solve_sylvester(np.diag(diagonal), root.T @ root, right)
    found = solve_diagonal_sylvester(diagonal, root.T @ root, right)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_singular_gram_is_no_trouble():
    gram = np.diag([1.0, 0.0])
    found = solve_diagonal_sylvester(np.array([0.5]), gram, np.array([[3.0, 1.0]]))
    np.testing.assert_allclose(found, [[2.0, 2.0]])
