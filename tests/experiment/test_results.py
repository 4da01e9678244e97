import json
import socket
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manyview import as_views
from manyview.datasets import Dataset
from manyview.experiment import ResultsFile, Run, read_runs
from manyview.experiment.results import fingerprint

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


def test_every_opening_records_versions_and_machine(path):
    filled(path, 1)
    filled(path, 1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    heads = [line for line in lines if "format" in line]
    assert len(heads) == 2
    assert {"manyview", "python", "libraries", "machine", "began"} <= set(heads[0])
    assert [line["run"]["session"] for line in lines if "run" in line] == [0, 1]


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_line_cut_off_by_a_kill_is_ignored(path, cut):
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
def test_a_file_cut_off_in_its_first_line_is_empty(path, kept):
    filled(path, 1)
    path.write_bytes(path.read_bytes()[:kept])
    with ResultsFile(path) as results:
        assert results.runs == []
        results.add(RUN)
    with ResultsFile(path) as results:
        assert len(results.runs) == 1


def test_of_repeated_runs_the_last_counts(path):
    with ResultsFile(path) as results:
        results.add(replace(RUN, scores={}, error="stopped at the time limit of 1 s"))
        last = results.add(RUN)
    assert read_runs(path) == [last]


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
def test_another_file_is_rejected_and_unchanged(path, content):
    path.write_text(content)
    with pytest.raises(ValueError, match=r"runs\.jsonl is not a results file"), ResultsFile(path):
        pass
    assert path.read_text() == content


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no sockets of this kind here")
def test_a_socket_is_rejected_by_name(path, monkeypatch):
    monkeypatch.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
        with pytest.raises(OSError, match=r"runs\.jsonl"):
            ResultsFile(path).__enter__()
    assert path.is_socket()


def test_an_empty_file_is_accepted(path):
    path.touch()
    assert len(read_runs(filled(path))) == 3


def test_runs_of_another_version_are_kept_but_not_reused(path):
    filled(path)
    path.write_text(path.read_text().replace('"manyview": "', '"manyview": "9.'))
    with ResultsFile(path) as results:
        assert results.runs == []
    assert len(read_runs(path)) == 3


def test_a_file_that_is_open_elsewhere_is_rejected(path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    with (
        ResultsFile(path),
        pytest.raises(ValueError, match="another process"),
        ResultsFile(path),
    ):
        pass


def test_adding_to_a_closed_file_raises(path):
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


def test_the_same_data_have_the_same_fingerprint():
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
def test_any_change_of_the_data_changes_the_fingerprint(other):
    assert of(**other) != of()


def test_any_change_of_a_sparse_view_changes_the_fingerprint():
    sparse = sp.csr_array(np.where(A > 0.5, A, 0.0))
    other = sparse.copy()
    other.data[0] += 1e-9
    assert of(sparse) == of(sparse.copy())
    assert of(sparse) != of(other)


def test_classes_that_are_objects_count_by_value():
    first, second = (np.array([f"class {k}" for k in Y], dtype=object) for _ in range(2))
    assert of(y=first) == of(y=second)
    assert of(y=first) != of(y=first[::-1].copy())


def test_record_and_back():
    run = Run("MMC", "easy", 3, "tuned", {"rank": 5, "normalize": None}, objective=(1.0,))
    assert Run.from_record(run.as_record()) == run
    assert run.tuned


NEW = Run("MMC", "easy", 3, "tuned", {})


@pytest.mark.parametrize(
    "run",
    [
        NEW.stopped("time_limit", 4 / 3),
        NEW.skipped_after(NEW.stopped("memory_limit", 2e9)),
        NEW.ended("machine", "the process ended with code -9"),
    ],
    ids=lambda run: run.outcome,
)
def test_the_outcome_comes_back_from_json(run):
    assert Run.from_record(json.loads(json.dumps(run.as_record()))) == run


def test_a_run_is_skipped_only_after_a_limit():
    with pytest.raises(ValueError, match="limit"):
        NEW.skipped_after(NEW.ended("failed", "cannot"))


def test_a_run_with_an_error_is_not_done():
    assert Run("MMC", "easy", 3, "tuned", {}, error="cannot").outcome == "failed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "lost"}, "outcome='lost'"),
        ({"outcome": "time_limit"}, "limit=None"),
        ({"limit": 2.0}, r"limit=2\.0"),
        ({"colour": "red"}, "'colour'"),
        ({"params": [1]}, "params"),
    ],
)
def test_a_bad_record_is_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        Run.from_record({**NEW.as_record(), **change})


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
def test_different_runs_have_different_keys(change):
    record = Run("MMC", "easy", 3, "tuned", {"rank": 5}, fingerprint="00").as_record()
    assert Run.from_record(record).key != Run.from_record({**record, **change}).key


def test_the_key_does_not_depend_on_the_result_or_the_order_of_parameters():
    one = Run("MMC", "easy", 3, "tuned", {"rank": 5, "gamma": 1}, scores={"acc": 1.0})
    two = Run("MMC", "easy", 3, "tuned", {"gamma": 1, "rank": 5}, error="cannot")
    assert one.key == two.key


def test_runs_that_differ_in_their_seed_share_the_rest_of_their_key():
    one, two, other = (
        Run("MMC", "easy", seed, "tuned", {"rank": rank}).key
        for seed, rank in ((3, 5), (4, 5), (3, 6))
    )
    assert one != two
    assert one[:-1] == two[:-1] != other[:-1]
