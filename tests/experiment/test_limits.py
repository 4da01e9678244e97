from dataclasses import replace

import pytest

from manyview.experiment import Limits, Run

RUN = Run("MMC", "easy", 0, "default", {})
FAILED = replace(RUN, error="view 'a' has negative entries")
KILLED = replace(RUN, outcome="machine", error="the process ended with code -9")


def stopped(**limits):
    """Return a run that the limit stopped."""
    return RUN.ended(Limits(**limits).exceeded(1e9, 10**15))


def seed_after(run):
    """Return a run that was not tried, since another seed was stopped."""
    return replace(RUN, seed=1).ended(run.for_other_seeds)


def test_within():
    assert Limits().exceeded(1e9, 10**15) is None
    assert Limits(2.0, 1e9).exceeded(1.0, 10**8) is None


def test_beyond():
    late = Limits(seconds=2.0).exceeded(3.0, 0)
    assert late == ("time_limit", "stopped at the time limit of 2 s", 2.0)
    large = Limits(bytes=2e9).exceeded(3.0, 3 * 10**9)
    assert large == ("memory_limit", "stopped at the memory limit of 2 GB", 2e9)


@pytest.mark.parametrize(
    ("limits", "run", "again"),
    [
        (Limits(5), stopped(seconds=2), True),
        (Limits(2), stopped(seconds=2), False),
        (Limits(5), seed_after(stopped(seconds=2)), True),
        (Limits(2), seed_after(stopped(seconds=2)), False),
        (Limits(1), stopped(seconds=2), False),
        (Limits(bytes=1e9), stopped(seconds=2), True),
        (Limits(), stopped(bytes=2e9), True),
        (Limits(bytes=2e9), stopped(bytes=2e9), False),
        (Limits(), KILLED, True),
        (Limits(), FAILED, False),
        (Limits(), RUN, False),
    ],
)
def test_a_failure_is_tried_again_where_it_might_end_otherwise(limits, run, again):
    assert limits.would_differ(run) is again


@pytest.mark.parametrize("limits", [{"seconds": 4 / 3}, {"bytes": 8 * 2**30}])
def test_a_limit_of_many_digits_does_not_differ_from_itself(limits):
    run = stopped(**limits)
    assert not Limits(**limits).would_differ(run)
    older = {
        key: run.as_record()[key] for key in run.as_record() if key not in ("outcome", "limit")
    }
    assert not Limits(**limits).would_differ(Run.from_record(older))
