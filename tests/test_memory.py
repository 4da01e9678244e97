import pytest

from manyview.exceptions import NotEnoughMemoryError
from manyview.memory import check_memory

PARTS = {"work": "SEC", "matrices": "samples by samples", "way_out": "Take fewer"}


def test_too_much_is_rejected_with_its_size():
    check_memory(2.0**30, limit=2.0**30, **PARTS)
    with pytest.raises(NotEnoughMemoryError, match=r"SEC needs 3 GiB .* 1 GiB .* Take fewer"):
        check_memory(3 * 2.0**30, limit=2.0**30, **PARTS)


def test_the_default_limit_is_that_of_the_machine():
    with pytest.raises(NotEnoughMemoryError, match="GiB"):
        check_memory(1e18, **PARTS)
