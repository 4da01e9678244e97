import pytest

from manyview.exceptions import NotEnoughMemoryError
from manyview.memory import check_memory

TOLD = {"work": "SEC", "matrices": "samples by samples", "way_out": "Take fewer"}


def test_too_much_is_refused_with_its_bytes():
    check_memory(2.0**30, limit=2.0**30, **TOLD)
    with pytest.raises(NotEnoughMemoryError, match=r"SEC needs 3 GiB .* 1 GiB may .* Take fewer"):
        check_memory(3 * 2.0**30, limit=2.0**30, **TOLD)


def test_half_of_the_memory_by_default():
    with pytest.raises(NotEnoughMemoryError, match="GiB"):
        check_memory(1e18, **TOLD)
