import json

import pytest

from manyview.experiment import Run
from manyview.experiment.outcome import Ending, stopped_at


def test_record_and_back():
    run = Run("MMC", "easy", 3, "tuned", {"rank": 5, "normalize": None}, objective=(1.0,))
    assert Run.from_record(run.as_record()) == run
    assert run.tuned


@pytest.mark.parametrize(
    "ending",
    [
        Ending(),
        stopped_at("time_limit", 4 / 3),
        stopped_at("memory_limit", 2e9),
        Ending("machine", "the process ended with code -9"),
        Ending("failed", "cannot"),
    ],
)
def test_how_a_run_ended_comes_back_from_json(ending):
    run = Run("MMC", "easy", 3, "tuned", {}).ended(ending)
    record = json.loads(json.dumps(run.as_record()))
    assert (record["outcome"], record["limit"]) == (ending.outcome, ending.limit)
    assert Run.from_record(record) == run


def test_a_record_of_an_older_version_says_how_it_ended_by_its_message():
    record = Run(
        "MMC", "easy", 3, "tuned", {}, error="stopped at the time limit of 5 s"
    ).as_record()
    del record["outcome"], record["limit"]
    run = Run.from_record(record)
    assert (run.outcome, run.limit) == ("time_limit", 5.0)


def test_a_run_with_an_error_is_not_done():
    assert Run("MMC", "easy", 3, "tuned", {}, error="cannot").outcome == "failed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "lost"}, "the outcome of a run is 'lost'; expected one of"),
        ({"outcome": "time_limit"}, "the limit of a run is None, its outcome 'time_limit'"),
        ({"limit": 2.0}, r"the limit of a run is 2\.0, its outcome 'done'"),
    ],
)
def test_a_record_of_no_known_ending_is_refused(change, message):
    record = Run("MMC", "easy", 3, "tuned", {}).as_record()
    with pytest.raises(ValueError, match=message):
        Run.from_record({**record, **change})


def test_a_record_with_strange_fields_is_refused():
    record = Run("MMC", "easy", 3, "tuned", {}).as_record()
    with pytest.raises(ValueError, match="no field 'colour'"):
        Run.from_record({**record, "colour": "red"})


@pytest.mark.parametrize(
    "change",
    [
        {"method": "SEC"},
        {"seed": 4},
        {"protocol": "default"},
        {"params": {"rank": 6}},
        {"fingerprint": "0f"},
    ],
)
def test_the_key_tells_runs_apart(change):
    record = Run("MMC", "easy", 3, "tuned", {"rank": 5}, fingerprint="00").as_record()
    assert Run.from_record(record).key != Run.from_record({**record, **change}).key


def test_the_key_does_not_depend_on_the_result_or_the_order_of_parameters():
    one = Run("MMC", "easy", 3, "tuned", {"rank": 5, "gamma": 1}, scores={"acc": 1.0})
    two = Run("MMC", "easy", 3, "tuned", {"gamma": 1, "rank": 5}, error="cannot")
    assert one.key == two.key


def test_runs_that_differ_by_their_seed_share_the_rest_of_their_key():
    one, two, other = (
        Run("MMC", "easy", seed, "tuned", {"rank": rank}).key
        for seed, rank in ((3, 5), (4, 5), (3, 6))
    )
    assert one != two
    assert one.without_seed == two.without_seed != other.without_seed
    assert (one.seed, two.seed, one.settings) == (3, 4, '{"rank": 5}')
