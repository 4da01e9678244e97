import numpy as np
import pytest

from manyview.views.backends import value_range


@pytest.mark.parametrize(
    "entries",
    [
        [1.5, 2.0, 0.25],
        [-1.5, -2.0, -0.25],
        [-0.0, 3.0],
        [0.0, -3.0],
        [6e-8, -6e-8],
        [np.inf, 1.0],
        [-np.inf, 1.0],
        [65504.0, -65504.0],
    ],
)
def test_range_of_half_precision_is_that_of_its_numbers(entries):
    array = np.array([entries], dtype=np.float16)
    assert value_range(array) == (float(array.min()), float(array.max()))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("beside", [-1.0, 1.0, np.inf])
def test_range_of_half_precision_with_nan_is_nan(sign, beside):
    nan = np.copysign(np.float16(np.nan), np.float16(sign))
    assert np.isnan(value_range(np.array([[beside, nan]], dtype=np.float16))).all()


def test_range_of_some_columns():
    array = np.arange(12, dtype=np.float16).reshape(3, 4)[:, 1:3]
    assert value_range(array) == (1.0, 10.0)
