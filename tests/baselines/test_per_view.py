import numpy as np
import pytest

from manyview.baselines.per_view import strength_per_view


def test_one_number_stands_for_all_views():
    np.testing.assert_array_equal(strength_per_view("weight", 0.5, 3), [0.5, 0.5, 0.5])


def test_one_number_each():
    np.testing.assert_array_equal(strength_per_view("weight", (1, 0), 2), [1.0, 0.0])


@pytest.mark.parametrize("value", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_a_number_for_each_view_or_one(value):
    with pytest.raises(ValueError, match=r"weight has shape .* each of 2 views"):
        strength_per_view("weight", value, 2)


@pytest.mark.parametrize("value", [-1.0, [1.0, -0.1], [1.0, np.nan], np.inf])
def test_finite_and_not_negative(value):
    with pytest.raises(ValueError, match="expected finite numbers of at least 0"):
        strength_per_view("weight", value, 2)
