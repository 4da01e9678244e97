import numpy as np
import pytest

from manyview.views.backends import value_range


@pytest.mark.parametrize(
    "entries",
    [
        [1.5, 2.0, 0.25],
        [-1.5, -2.0, -0.25],
        [6e-8, -6e-8],
        [np.inf, 1.0],
        [-np.inf, 1.0],
        [65504.0, -65504.0],
    ],
)
def test_range_of_half_precision(entries):
    array = np.array([entries], dtype=np.float16)
    assert value_range(array) == (float(array.min()), float(array.max()))


def test_range_of_half_precision_with_nan_is_nan():
    assert np.isnan(value_range(np.array([[1.0, np.nan]], dtype=np.float16))).all()


def test_range_over_chunks_is_that_of_the_whole():
    array = np.random.default_rng(0).standard_normal((30, 4))
    assert value_range(array, chunk_bytes=100) == (array.min(), array.max())
    array[5, 1] = np.nan
    assert np.isnan(value_range(array, chunk_bytes=100)).all()


def test_range_of_some_columns():
    array = np.arange(12, dtype=np.float16).reshape(3, 4)[:, 1:3]
    assert value_range(array) == (1.0, 10.0)
