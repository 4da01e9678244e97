import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview.mmc.penalty import Frobenius, RowSparse, penalty_named


@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("penalty", [RowSparse(), Frobenius()])
def test_quadratic_touches_the_penalty_and_lies_above(penalty, seed):
    rng = np.random.default_rng(seed)
    here, there = rng.standard_normal((2, 6, 3))
    p = penalty.weights(here)

    def quadratic(W):
        return np.sum(p * np.sum(W**2, axis=1))

    constant = penalty.value(here) - quadratic(here)
    assert quadratic(there) + constant >= penalty.value(there) - 1e-9


@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100))
@pytest.mark.parametrize("penalty", [RowSparse(), Frobenius()])
def test_degree(penalty, seed, scale):
    W = np.random.default_rng(seed).standard_normal((4, 2))
    assert penalty.value(scale * W) == pytest.approx(scale**penalty.degree * penalty.value(W))


def test_values():
    W = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    assert RowSparse().value(W) == 7.0
    assert Frobenius().value(W) == 29.0


def test_weights_are_finite_at_zero():
    weights = RowSparse().weights(np.zeros((2, 3), dtype=np.float32))
    assert np.isfinite(weights).all()


def test_rows_vanish_only_when_tiny_and_shrinking():
    previous = np.array([[1.0], [1e-6], [1e-6], [0.5]])
    current = np.array([[1.0], [1e-7], [1e-5], [0.4]])
    vanished = RowSparse().vanished(current, previous)
    np.testing.assert_array_equal(vanished, [False, True, False, False])
    assert not Frobenius().vanished(current, previous).any()


def test_named():
    assert isinstance(penalty_named("l21"), RowSparse)
    assert isinstance(penalty_named("frobenius"), Frobenius)
