from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from manyview import as_views


def holding(value):
    array = np.zeros((3, 2), dtype=object)
    array[1, 0] = value
    return array


@pytest.mark.parametrize(
    "value", [3, 3.0, True, Fraction(3, 1), Decimal("3"), np.int8(3), np.float16(3), np.bool_(True)]
)
def test_numbers_of_any_kind_are_taken(value):
    (array,) = as_views([holding(value)])
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, [[0, 0], [float(value), 0], [0, 0]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("3.5", "'3.5'"),
        (np.str_("3.5"), r".*'3.5'.*"),
        (b"3.5", "b'3.5'"),
        (bytearray(b"3.5"), r"bytearray\(b'3.5'\)"),
        (np.datetime64("2020-01-01"), r".*2020-01-01.*"),
        (np.timedelta64(3, "D"), r".*timedelta64\(3,'D'\)"),
        (date(2020, 1, 1), r"datetime.date\(2020, 1, 1\)"),
        (np.complex64(1j), "1j|.*complex64.*"),
        (np.array([3.0]), r"array\(\[3.*\]\)"),
        ("long" * 99, "'longlonglong.*"),
    ],
)
def test_others_are_refused_by_their_place(value, shown):
    message = f"view 'x' holds ({shown}) at row 1, column 0; expected real numbers"
    with pytest.raises(ValueError, match=message):
        as_views({"x": holding(value)})


def test_none_is_missing():
    with pytest.raises(ValueError, match="view 'x' holds NaN at row 1, column 0"):
        as_views({"x": holding(None)})
    array = holding(None)
    array[2, 1] = "3.5"
    with pytest.raises(ValueError, match=r"view 'x' holds '3.5' at row 2, column 1"):
        as_views({"x": array})


@pytest.mark.parametrize(("power", "bits"), [(400, 1329), (5000, 16610)])
def test_integers_too_large_for_a_float_are_refused(power, bits):
    with pytest.raises(ValueError, match=f"view 'view0' holds an integer of {bits} bits at row 0"):
        as_views([[[10**power, 1], [2, 3]]])
