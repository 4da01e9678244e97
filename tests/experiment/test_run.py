import pytest

from manyview.experiment import Run


def test_record_and_back():
    run = Run("MMC", "easy", 3, "tuned", {"rank": 5, "normalize": None}, objective=(1.0,))
    assert Run.from_record(run.as_record()) == run
    assert run.tuned


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
