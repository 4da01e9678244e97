import pytest

from manyview.experiment.outcome import ending_told, stopped_at


@pytest.mark.parametrize(
    ("error", "outcome", "limit"),
    [
        ("", "done", None),
        ("stopped at the time limit of 2 s", "time_limit", 2.0),
        ("stopped at the time limit of 0.5 s, with another seed", "time_limit", 0.5),
        ("stopped at the memory limit of 2 GB", "memory_limit", 2e9),
        ("stopped at the memory limit of 8.5 GB, with another seed", "memory_limit", 8.5e9),
        ("the process ended with code -9", "machine", None),
        ("the process did not start", "machine", None),
        ("SEC on 9 samples needs 9 GiB, and 1 GiB may be used. AMGL needs none", "machine", None),
        ("MemoryError", "machine", None),
        ("MemoryError: Unable to allocate 9 GiB", "machine", None),
        ("ModuleNotFoundError: No module named 'torch'", "machine", None),
        ("view 'a' has negative entries", "failed", None),
        ("no setting of the grid ended with labels: cannot", "failed", None),
    ],
)
def test_what_messages_of_older_files_tell(error, outcome, limit):
    assert ending_told(error) == (outcome, error, limit)


@pytest.mark.parametrize("outcome", ["time_limit", "memory_limit"])
def test_what_a_message_tells_is_what_it_was_made_of(outcome):
    ending = stopped_at(outcome, 2e9)
    assert ending_told(ending.error) == ending
