import pytest

from manyview.baselines.memory import refuse_beyond


def test_too_many_samples_are_refused_with_their_number():
    refuse_beyond(100.0, method="SEC", n_samples=3, limit=100)
    with pytest.raises(ValueError, match=r"SEC on 3 samples needs .* samples by samples"):
        refuse_beyond(101, method="SEC", n_samples=3, limit=100)
