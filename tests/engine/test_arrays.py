"""Tests of manyview.engine.arrays that other places than NumPy do not share."""

import numpy as np
import pytest

from manyview.engine.arrays import largest, weighted_sums


@pytest.mark.parametrize("count", [1, 5, 40, 97])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_largest_entries_stand_in_order(count, dtype):
    rows = np.random.default_rng(0).normal(size=(13, 97)).astype(dtype)
    np.testing.assert_array_equal(largest(rows, count), np.argsort(-rows, axis=1)[:, :count])


def test_rows_without_a_finite_entry_have_largest_ones():
    rows = np.full((3, 64), -np.inf)
    rows[1, 5] = np.inf
    found = largest(rows, 3)
    assert found[1, 0] == 5
    assert all(np.unique(row).size == 3 for row in found)


@pytest.mark.parametrize("count", [1, 3, 30])
def test_largest_of_equal_entries_are_different_ones(count):
    rows = np.random.default_rng(0).integers(0, 3, size=(50, 64)).astype(float)
    rows[0] = 1.0
    found = largest(rows, count)
    assert all(np.unique(row).size == count for row in found)
    expected = -np.sort(-rows, axis=1)[:, :count]
    np.testing.assert_array_equal(np.take_along_axis(rows, found, axis=1), expected)


def test_weighted_sums_are_those_of_the_rows_that_places_name():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    places, rows = rng.integers(0, 9, (20, 4)), rng.standard_normal((9, 3))
    weights = rng.standard_normal(4).astype(np.float32)
    expected = np.einsum("c,ncw->nw", weights, rows[places])
    np.testing.assert_allclose(weighted_sums(places, weights, rows), expected)
    found = weighted_sums(*map(torch.from_numpy, (places, weights, rows)))
    np.testing.assert_allclose(found.numpy(), expected)
