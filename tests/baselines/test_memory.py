import pytest

from manyview.baselines.memory import refuse_beyond


def test_too_much_is_refused_with_its_bytes():
    refuse_beyond(100.0, method="SEC", n_samples=3, limit=100)
    with pytest.raises(ValueError, match="SEC on 3 samples needs"):
        refuse_beyond(101, method="SEC", n_samples=3, limit=100)


def test_half_of_the_memory_by_default():
    with pytest.raises(ValueError, match="GiB"):
        refuse_beyond(1e18, method="SEC", n_samples=3)
