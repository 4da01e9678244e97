import json
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manyview import as_views
from manyview.datasets import Dataset
from manyview.experiment import ResultsFile, Run, read_runs
from manyview.experiment import results as module
from manyview.experiment.results import Ending, Usage, ending_told, fingerprint, stopped_at

RUN = Run("MMC", "easy", 0, "default", {"rank": 5}, "rows", {"acc": 0.5}, 1.0, objective=(2.0, 1.0))


def runs(n):
    return [Run("MMC", "easy", seed, "default", {}) for seed in range(n)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


def filled(path, n=3):
    with ResultsFile(path) as results:
        for run in runs(n):
            results.add(run)
    return path


def test_a_run_comes_back_as_it_was_written(path):
    with ResultsFile(path) as results:
        written = results.add(RUN)
    assert read_runs(path) == [written]
    assert written.key == RUN.key


def test_a_run_is_on_the_disk_at_once(path):
    with ResultsFile(path) as results:
        results.add(RUN)
        assert len(read_runs(path)) == 1


def test_every_opening_tells_versions_and_machine(path):
    filled(path, 1)
    filled(path, 1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    heads = [line for line in lines if "format" in line]
    assert len(heads) == 2
    assert {"manyview", "python", "libraries", "machine", "began"} <= set(heads[0])
    assert [line["run"]["session"] for line in lines if "run" in line] == [0, 1]


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_line_that_was_cut_off_is_left_out_and_the_rest_goes_on(path, cut):
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    lost = 0 if cut == 1 else 1  # only the end of the line is missing
    with ResultsFile(path) as results:
        assert len(results.runs) == 3 - lost
        results.add(RUN)
    assert len(read_runs(path)) == 4 - lost
    assert path.read_bytes().startswith(whole[:-cut])


@pytest.mark.parametrize("kept", [1, 12, 50])
def test_a_file_cut_off_in_its_first_line_begins_anew(path, kept):
    filled(path, 1)
    path.write_bytes(path.read_bytes()[:kept])
    with ResultsFile(path) as results:
        assert results.runs == []
        results.add(RUN)
    with ResultsFile(path) as results:
        assert len(results.runs) == 1


def test_of_a_run_that_was_done_again_the_last_counts(path):
    with ResultsFile(path) as results:
        results.add(replace(RUN, scores={}, error="stopped at the time limit of 1 s"))
        last = results.add(RUN)
    assert read_runs(path) == [last]


def test_files_of_older_versions_do_not_hold_how_runs_ended(path):
    with ResultsFile(path) as results:
        results.add(RUN)
        late = results.add(replace(RUN, seed=1, scores={}).ended(stopped_at("time_limit", 2.0)))
        lost = results.add(replace(RUN, seed=2, outcome="machine", error="MemoryError"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[1:]:
        del line["run"]["outcome"], line["run"]["limit"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done, *ended = read_runs(path)
    assert done.outcome == "done"
    assert ended == [late, lost]


def test_a_damaged_line_is_named_and_nothing_is_overwritten(path):
    filled(path)
    lines = path.read_text().splitlines()
    lines[2] = lines[2][:30]
    damaged = "\n".join(lines) + "\n"
    path.write_text(damaged)
    with pytest.raises(ValueError, match=r"runs\.jsonl, line 3"), ResultsFile(path):
        pass
    assert path.read_text() == damaged


@pytest.mark.parametrize("content", ["id,label\n1,2\n", '{"a": 1}\n', "\x00\x01", "[1]\n"])
def test_another_file_is_refused_and_left_alone(path, content):
    path.write_text(content)
    with pytest.raises(ValueError, match="is not a results file of manyview"), ResultsFile(path):
        pass
    assert path.read_text() == content


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no sockets of this kind here")
def test_what_is_no_file_is_told_by_name(path, monkeypatch):
    monkeypatch.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
        with pytest.raises(OSError, match=r"runs\.jsonl is not a regular file"):
            ResultsFile(path).__enter__()
    assert path.is_socket()


def test_an_empty_file_is_taken(path):
    path.touch()
    assert len(read_runs(filled(path))) == 3


def test_runs_of_another_version_are_kept_but_not_taken_for_these(path):
    filled(path)
    path.write_text(path.read_text().replace('"manyview": "', '"manyview": "9.'))
    with ResultsFile(path) as results:
        assert results.runs == []
    assert len(read_runs(path)) == 3


def test_two_processes_do_not_write_one_file(path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    with (
        ResultsFile(path),
        pytest.raises(ValueError, match="is being written by another process"),
        ResultsFile(path),
    ):
        pass


def test_a_closed_file_takes_nothing(path):
    results = ResultsFile(path)
    with pytest.raises(ValueError, match="is not open"):
        results.add(RUN)


RNG = np.random.default_rng(0)
A, B = RNG.random((20, 3)), RNG.random((20, 4))
Y = np.arange(20) % 3


def of(a=A, b=B, y=Y, names=("a", "b")):
    return fingerprint(Dataset(as_views(dict(zip(names, (a, b), strict=True))), y))


def changed(array):
    other = array.copy()
    other[-1, -1] += 1e-9
    return other


def test_the_same_data_have_the_same():
    assert of() == of(A.copy(), np.asfortranarray(B))


@pytest.mark.parametrize(
    "other",
    [
        {"a": changed(A)},
        {"b": changed(B)},
        {"a": A.astype(np.float32)},
        {"y": Y[::-1].copy()},
        {"names": ("a", "c")},
        {"a": sp.csr_array(A)},
        {"a": A[:, :2]},
    ],
    ids=str,
)
def test_any_change_shows(other):
    assert of(**other) != of()


def test_any_change_of_a_sparse_view_shows():
    sparse = sp.csr_array(np.where(A > 0.5, A, 0.0))
    other = sparse.copy()
    other.data[0] += 1e-9
    assert of(sparse) == of(sparse.copy())
    assert of(sparse) != of(other)


def test_classes_that_are_objects_count_by_what_they_are():
    first, second = (np.array([f"class {k}" for k in Y], dtype=object) for _ in range(2))
    assert of(y=first) == of(y=second)
    assert of(y=first) != of(y=first[::-1].copy())


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


HELD = """
import numpy as np
from manyview.experiment.results import Usage

with Usage() as large:
    block = np.ones(50_000_000)
    del block
with Usage() as small:
    pass
print(large.peak_bytes - small.peak_bytes)
"""


def test_waiting_takes_time_but_no_processor():
    with Usage() as usage:
        time.sleep(0.2)
    assert usage.seconds >= 0.2
    assert usage.cpu_seconds < 0.1


def test_memory_that_was_held_shows_and_is_forgotten():
    if not module.PEAK_RESET.exists():
        pytest.skip("this system does not let the mark of memory be set back")
    # in a process of its own: what others freed before may be taken again without a trace
    found = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(found.stdout) > 350_000_000
