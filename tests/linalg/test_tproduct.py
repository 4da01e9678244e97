import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg import tproduct
from manyview.linalg.tproduct import (
    from_fourier,
    t_product,
    threshold_singular_values,
    to_fourier,
)

depths = st.integers(1, 6)
seeds = st.integers(0, 10**6)


def tensor(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@given(seed=seeds, depth=depths)
def test_product_is_the_circular_sum(seed, depth):
    left, right = tensor(seed, depth, 3, 4), tensor(seed + 1, depth, 4, 2)
    expected = [sum(left[j] @ right[(k - j) % depth] for j in range(depth)) for k in range(depth)]
    np.testing.assert_allclose(t_product(left, right), expected, atol=1e-12)


@given(seed=seeds, depth=depths)
def test_there_and_back(seed, depth):
    original = tensor(seed, depth, 3, 4)
    slices = to_fourier(original)
    assert len(slices) == depth // 2 + 1
    np.testing.assert_allclose(from_fourier(slices, depth), original, atol=1e-13)


@pytest.mark.parametrize("depth", range(1, 7))
def test_slices_that_are_their_own_conjugate_are_real(depth):
    slices = to_fourier(tensor(0, depth, 3, 3))
    assert not np.iscomplexobj(slices[0])
    assert np.iscomplexobj(slices[-1]) == (depth > 1 and depth % 2 == 1)


@pytest.mark.parametrize("depth", range(1, 7))
def test_single_precision_stays(depth):
    original = tensor(0, depth, 3, 4).astype(np.float32)
    slices = to_fourier(original)
    assert {part.dtype for part in slices} <= {np.dtype(np.float32), np.dtype(np.complex64)}
    assert from_fourier(slices, depth).dtype == np.float32
    for part in slices:
        assert threshold_singular_values(part, 0.5)[0].dtype == part.dtype


@given(seed=seeds, by=st.floats(0.0, 6.0), imaginary=st.booleans())
def test_threshold_is_that_of_the_svd(seed, by, imaginary):
    matrix = tensor(seed, 7, 5) + (1j * tensor(seed + 1, 7, 5) if imaginary else 0.0)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    values = np.maximum(values - by, 0.0)
    lowered, nuclear = threshold_singular_values(matrix, by)
    np.testing.assert_allclose(lowered, (left * values) @ right, atol=1e-9)
    assert nuclear == pytest.approx(values.sum(), abs=1e-9)


def test_threshold_above_all_singular_values_leaves_nothing():
    lowered, nuclear = threshold_singular_values(np.eye(4), 2.0)
    assert not lowered.any()
    assert nuclear == 0.0


def test_threshold_of_zeros():
    lowered, nuclear = threshold_singular_values(np.zeros((3, 3)), 0.1)
    assert not lowered.any()
    assert nuclear == 0.0


def test_threshold_by_nothing_is_the_matrix():
    matrix = tensor(0, 6, 2) @ tensor(1, 2, 6)
    np.testing.assert_allclose(threshold_singular_values(matrix, 0.0)[0], matrix, atol=1e-13)


def test_threshold_if_the_eigensolver_fails(monkeypatch):
    matrix = tensor(0, 6, 6)
    expected, _ = threshold_singular_values(matrix, 0.5)

    def fails(*_, **__):
        raise scipy.linalg.LinAlgError("no convergence")

    monkeypatch.setattr(tproduct.scipy.linalg, "eigh", fails)
    np.testing.assert_allclose(threshold_singular_values(matrix, 0.5)[0], expected, atol=1e-12)


def test_threshold_rejects_nan():
    with pytest.raises(ValueError, match="NaN"):
        threshold_singular_values(np.array([[np.nan]]), 0.1)
