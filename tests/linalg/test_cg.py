import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg.cg import conjugate_gradients


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


def test_rows_that_the_preconditioner_hides_stay_zero():
    H, E, _ = _system(1, 5, 2)
    mask = np.array([1, 1, 0, 1, 0.0])[:, None]
    X = conjugate_gradients(lambda P: H @ P, E, lambda R: R * mask, steps=50)
    kept = mask[:, 0] > 0
    assert not X[~kept].any()
    np.testing.assert_allclose(X[kept], np.linalg.solve(H[np.ix_(kept, kept)], E[kept]), rtol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_gains_are_those_of_the_quadratic_and_can_end_the_steps(seed):
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
