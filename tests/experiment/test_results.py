import json
import socket
from dataclasses import replace

import pytest

from manyview.experiment import ResultsFile, Run, read_runs
from manyview.experiment.outcome import stopped_at

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
