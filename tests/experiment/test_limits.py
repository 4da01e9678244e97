import pytest

from manyview.experiment import Limits


def test_within():
    assert Limits().exceeded(1e9, 10**15) == ""
    assert Limits(2.0, 1e9).exceeded(1.0, 10**8) == ""


def test_beyond():
    assert Limits(seconds=2.0).exceeded(3.0, 0) == "stopped at the time limit of 2 s"
    assert Limits(bytes=2e9).exceeded(3.0, 3 * 10**9) == "stopped at the memory limit of 2 GB"


@pytest.mark.parametrize(
    ("limits", "error", "again"),
    [
        (Limits(5), "stopped at the time limit of 2 s", True),
        (Limits(2), "stopped at the time limit of 2 s", False),
        (Limits(5), "stopped at the time limit of 2 s, with another seed", True),
        (Limits(2), "stopped at the time limit of 2 s, with another seed", False),
        (Limits(1), "stopped at the time limit of 2 s", False),
        (Limits(bytes=1e9), "stopped at the time limit of 2 s", True),
        (Limits(), "stopped at the memory limit of 2 GB", True),
        (Limits(bytes=2e9), "stopped at the memory limit of 2 GB", False),
        (Limits(), "the process ended with code -9", True),
        (Limits(), "view 'a' has negative entries", False),
        (Limits(), "SEC on 9 samples needs 9 GiB, and 1 GiB may be used. AMGL needs none", True),
        (Limits(), "MemoryError", True),
        (Limits(), "MemoryError: Unable to allocate 9 GiB", True),
        (Limits(), "ModuleNotFoundError: No module named 'torch'", True),
        (Limits(), "", False),
    ],
)
def test_a_failure_is_tried_again_where_it_might_end_otherwise(limits, error, again):
    assert limits.would_differ(error) is again


@pytest.mark.parametrize("limits", [Limits(seconds=4 / 3), Limits(bytes=8 * 2**30)])
def test_a_limit_of_many_digits_does_not_differ_from_itself(limits):
    assert not limits.would_differ(limits.exceeded(1e9, 10**13))
