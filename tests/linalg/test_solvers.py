import numpy as np
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg.solvers import (
    conjugate_gradients,
    inverse_square_root,
    solve_diagonal_sylvester,
)


def _system(seed, size, columns):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    H = root @ root.T + 0.1 * np.eye(size)
    return H, rng.standard_normal((size, columns)), rng


@given(seed=st.integers(0, 10**6), size=st.integers(1, 12), columns=st.integers(1, 4))
def test_enough_steps_solve_the_system(seed, size, columns):
    H, E, _ = _system(seed, size, columns)
    # the columns share one step length, so that the whole has size * columns unknowns
    X = conjugate_gradients(lambda P: H @ P, E, lambda R: R, steps=6 * size * columns)
    np.testing.assert_allclose(H @ X, E, atol=1e-5 * np.linalg.norm(E))


@given(seed=st.integers(0, 10**6), steps=st.integers(0, 8))
def test_every_step_lowers_the_quadratic(seed, steps):
    H, E, rng = _system(seed, 8, 3)
    diagonal = rng.uniform(0.5, 2.0, size=(8, 1))
    start = rng.standard_normal((8, 3))

    def quadratic(W):
        return 0.5 * np.sum(W * (H @ W)) - np.sum(W * E)

    def after(count):
        correction = conjugate_gradients(
            lambda P: H @ P, E - H @ start, lambda R: R / diagonal, steps=count
        )
        return quadratic(start + correction)

    assert after(0) == quadratic(start)
    assert after(steps + 1) <= after(steps) + 1e-9 * abs(after(steps))


def test_exact_preconditioner_needs_one_step():
    H, E, _ = _system(0, 6, 2)
    X = conjugate_gradients(lambda P: H @ P, E, lambda R: np.linalg.solve(H, R), steps=1)
    np.testing.assert_allclose(X, np.linalg.solve(H, E), rtol=1e-8)


def test_rows_masked_by_the_preconditioner_stay_zero():
    H, E, _ = _system(1, 5, 2)
    mask = np.array([1, 1, 0, 1, 0.0])[:, None]
    X = conjugate_gradients(lambda P: H @ P, E, lambda R: R * mask, steps=50)
    kept = mask[:, 0] > 0
    assert not X[~kept].any()
    np.testing.assert_allclose(X[kept], np.linalg.solve(H[np.ix_(kept, kept)], E[kept]), rtol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_gains_are_those_of_the_quadratic_and_can_end_the_iteration(seed):
    H, E, _ = _system(seed, 10, 2)
    gains = []

    def enough(gain, total):
        gains.append(gain)
        np.testing.assert_allclose(total, sum(gains))
        return len(gains) == 3

    X = conjugate_gradients(lambda P: H @ P, E, lambda R: R, steps=50, enough=enough)
    assert len(gains) == 3
    np.testing.assert_allclose(sum(gains), 2 * np.sum(X * E) - np.sum(X * (H @ X)), rtol=1e-8)


def test_zero_residual_gives_no_correction():
    X = conjugate_gradients(lambda P: P, np.zeros((3, 2)), lambda R: R, steps=5)
    assert not X.any()


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_gives_the_polar_factor_of_a_tall_matrix(seed, k):
    tall = np.random.default_rng(seed).standard_normal((30, k))
    root, null = inverse_square_root(tall.T @ tall)
    expected, _ = scipy.linalg.polar(tall)
    assert null.shape == (k, 0)
    np.testing.assert_allclose(tall @ root, expected, atol=1e-8)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), data=st.data())
def test_the_null_space_is_returned(seed, k, data):
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


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), r=st.integers(1, 8))
def test_agrees_with_scipy(seed, k, r):
    rng = np.random.default_rng(seed)
    diagonal = rng.uniform(0.01, 2.0, size=k)
    root = rng.standard_normal((r + 2, r))
    right = rng.standard_normal((k, r))
    expected = scipy.linalg.solve_sylvester(np.diag(diagonal), root.T @ root, right)
    found = solve_diagonal_sylvester(diagonal, root.T @ root, right)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_singular_gram():
    gram = np.diag([1.0, 0.0])
    found = solve_diagonal_sylvester(np.array([0.5]), gram, np.array([[3.0, 1.0]]))
    np.testing.assert_allclose(found, [[2.0, 2.0]])
