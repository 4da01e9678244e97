from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from manyview import __version__
from manyview.report.notes import described_sessions, seeds_of, spans


@given(st.sets(st.integers(0, 60), min_size=1))
def test_spans_tell_every_number_and_no_other(numbers):
    told = set()
    for part in spans(numbers).split(", "):
        first, _, last = part.partition(" to ")
        told |= set(range(int(first), int(last or first) + 1))
    assert told == numbers


def test_seeds_are_told_by_data_set(plain, runs_of):
    runs = runs_of(plain) + runs_of(plain, data="other", seeds=1)
    assert seeds_of(runs) == [("plain", "0 to 2"), ("other", "0")]


def test_without_sessions_this_process_is_told_as_such(plain, runs_of):
    ((title, facts),) = described_sessions(runs_of(plain), None)
    assert title == "The process that wrote this page"
    assert ("manyview", __version__) in facts


def test_only_sessions_with_runs_are_told(plain, runs_of):
    sessions = [{"manyview": "0.1", "libraries": {"numpy": "2"}}, {"manyview": "0.2"}]
    runs = [replace(run, session=0) for run in runs_of(plain)]
    ((title, facts),) = described_sessions(runs, sessions)
    assert title == "Session 1: 6 runs"
    assert facts == [("manyview", "0.1"), ("libraries", "numpy 2")]
