import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import psutil
import pytest
from typer.testing import CliRunner

from manyview import as_views
from manyview.cli.app import app
from manyview.cli.compare import _ranking_tables, methods_named
from manyview.datasets import make_views, write_views
from manyview.experiment import METHODS, OTHER_METHODS, Run, read_runs, summarise


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "easy.npz"
    views, y = make_views(60, 3, (6, 5), random_state=0)
    write_views(path, views, y)
    return path


def run(*args: object) -> object:
    return CliRunner().invoke(app, ["compare", *map(str, args)])


def test_compare_prints_a_table_and_writes_json(data, tmp_path):
    out = tmp_path / "runs.json"
    options = ("--repeats", 2, "--tune", "--jobs", 1, "--json", out)
    result = run(data, "--methods", "rmkmc,AMGL", *options)
    assert result.exit_code == 0, result.output
    assert "RMKMC" in result.stdout
    assert "AMGL" in result.stdout
    assert "tuned with labels" in result.stdout
    runs = json.loads(out.read_text())["runs"]
    assert [(r["method"], r["protocol"], r["seed"]) for r in runs] == [
        ("RMKMC", "default", 0),
        ("RMKMC", "default", 1),
        ("RMKMC", "tuned", 0),
        ("RMKMC", "tuned", 1),
        ("AMGL", "default", 0),
        ("AMGL", "default", 1),
    ]
    assert all(0 <= r["scores"]["acc"] <= 1 for r in runs)


def test_all_stands_for_all_methods_but_the_references():
    names = [method.name for method in methods_named("k-means, all,MMC")]
    assert names == ["k-means", *METHODS, *OTHER_METHODS]
    assert [method.name for method in methods_named("Paper")] == list(METHODS)


@pytest.mark.slow
def test_a_folder_is_read_by_the_named_columns(tmp_path):
    views, y = make_views(60, 3, (6, 5), random_state=0)
    for name, X in zip(views.names, views.arrays, strict=True):
        frame = pd.DataFrame(X).add_prefix("f").assign(who=[f"p{n}" for n in range(60)])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    frame = pd.DataFrame({"who": [f"p{n}" for n in range(60)], "site": 0, "kind": y})
    frame.to_csv(tmp_path / "labels.csv", index=False)
    given = [tmp_path, "--methods", "k-means", "--repeats", 1]
    assert run(*given, "--id-column", "who").exit_code == 2
    result = run(*given, "--id-column", "who", "--classes", "kind")
    assert result.exit_code == 0, result.output
    assert "100.0" in result.stdout


@pytest.mark.slow
def test_each_scaling_has_its_own_row(data):
    result = run(data, "--methods", "RMKMC", "--repeats", 1, "--scaled", "none,rows")
    cells = [line.split() for line in result.stdout.splitlines() if line.startswith("RMKMC")]
    assert [row[1] for row in cells] == ["none", "rows"]


@pytest.mark.slow
def test_a_table_for_an_ascii_terminal(data):
    command = [sys.executable, "-m", "manyview", "compare", str(data), "--methods", "RMKMC"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*command, "--repeats", "2", "--jobs", "1"],
        capture_output=True,
        env=environment,
        check=True,
    )
    assert re.search(rb"RMKMC .* [\d.]+\+-[\d.]+ ", done.stdout)


def test_the_same_command_continues(data, tmp_path):
    out = tmp_path / "runs.json"
    command = (data, "--methods", "RMKMC", "--jobs", 1, "--json", out)
    assert run(*command, "--repeats", 2).exit_code == 0
    result = run(*command, "--repeats", 3)
    assert "2 of 3 done; 2 were in the results file already" in result.stderr
    assert len(read_runs(tmp_path / "runs.jsonl")) == 3


@pytest.mark.slow
def test_skipped_seeds_end_in_a_table(tmp_path):
    views, y = make_views(3000, 3, (300, 300), random_state=0)
    write_views(tmp_path / "large.npz", views, y)
    result = run(tmp_path / "large.npz", "--methods", "KCTD", "--repeats", 3, "--time-limit", 0.5)
    assert result.exit_code == 2, result.output
    assert "stopped at the time limit of 0.5 s" in result.stdout


@pytest.mark.slow
def test_compare_continues_after_a_kill(data, tmp_path):
    kept = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "manyview", "compare", data, "--methods", "MultiNMF"]
    command += ["--repeats", "40", "--results", kept, "--jobs", "1"]
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)
    while not kept.exists() or len(kept.read_text().splitlines()) < 4:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = read_runs(kept)
    assert 0 < len(before) < 40
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # its workers hold the lock until they end
        result = run(*command[4:], "--repeats", 40, "--quiet")
        if "another process" not in result.stderr:
            break
    assert result.exit_code == 0, result.stderr
    after = read_runs(kept)
    assert after[: len(before)] == before
    assert sorted(done.seed for done in after) == list(range(40))


@pytest.mark.slow
def test_an_interrupt_reports_which_runs_are_kept(data, tmp_path):
    kept = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "manyview", "compare", data, "--methods", "MultiNMF"]
    command += ["--repeats", "5000", "--results", kept, "--jobs", "1"]
    process = subprocess.Popen(
        [*map(str, command)],
        stderr=subprocess.PIPE,
        text=True,
        # interrupts are ignored in processes that a shell started in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not kept.exists() or len(kept.read_text().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert str(kept) in error
    assert "Traceback" not in error


def interrupt(*args, **options):
    raise KeyboardInterrupt


def test_an_interrupt_before_the_runs_writes_nothing(data, tmp_path, monkeypatch):
    kept = tmp_path / "runs.jsonl"
    monkeypatch.setattr("manyview.cli.compare.read_data", interrupt)
    result = run(data, "--results", kept)
    assert result.exit_code == 130
    assert result.stderr.strip() == "manyview: interrupted: nothing was written"
    assert not kept.exists()


def test_an_interrupt_after_the_runs_reports_where_they_are(data, tmp_path, monkeypatch):
    monkeypatch.setattr("manyview.cli.compare._write_json", interrupt)
    kept = tmp_path / "runs.jsonl"
    options = ("--methods", "RMKMC", "--repeats", 1, "--jobs", 1, "--quiet")
    result = run(data, *options, "--json", tmp_path / "runs.json")
    assert result.exit_code == 130
    assert f"interrupted: finished runs are kept in {kept}" in result.stderr
    assert len(read_runs(kept)) == 1


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("find_dataset", "nothing was written"),
        ("reproduce", "finished runs are kept in {out}"),
        ("comparison_table", "finished runs are kept in {out}"),
    ],
)
def test_an_interrupt_of_the_paper_reports_which_runs_are_kept(
    data, tmp_path, monkeypatch, at, message
):
    out = tmp_path / "paper"

    def reproduced(folder, *args, **options):
        folder.mkdir()
        return Mock(rows=[])

    monkeypatch.setattr("manyview.cli.paper.reproduce", reproduced)
    monkeypatch.setattr(f"manyview.cli.paper.{at}", interrupt)
    command = ["paper", "--out", out, "--data", data, "--no-times", "--quiet"]
    result = CliRunner().invoke(app, [*map(str, command)])
    assert result.exit_code == 130
    assert result.stderr.startswith(f"manyview: interrupted: {message.format(out=out)}")
    assert out.exists() is (at == "comparison_table")


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True], ids=["of the command", "of a terminal"])
@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_an_interrupt_while_processes_start_is_one_line(tmp_path, group, seconds):
    views, y = make_views(3000, 3, (100, 100), random_state=0)
    write_views(tmp_path / "large.npz", views, y)
    command = [sys.executable, "-m", "manyview", "compare", tmp_path / "large.npz", "--jobs", "2"]
    process = subprocess.Popen(
        [*map(str, command)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    begun = psutil.Process(process.pid)
    while not any("spawn_main" in " ".join(child.cmdline()) for child in begun.children()):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(seconds)
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.splitlines()[-1].startswith("manyview: interrupted: no runs were kept")
    assert "Traceback" not in error


def test_the_command_fails_if_every_run_fails(data, tmp_path):
    out = tmp_path / "runs.json"
    options = ("--methods", "RMKMC", "--repeats", 1, "--memory-limit", 0.001, "--json", out)
    result = run(data, *options)
    assert result.exit_code == 2
    assert "RMKMC on easy: stopped at the memory limit" in result.stdout
    assert "manyview: error: every run failed" in result.stderr
    assert "memory limit" in json.loads(out.read_text())["runs"][0]["error"]


@pytest.mark.slow
def test_the_reason_of_a_failed_method_is_printed(tmp_path):
    views, y = make_views(60, 3, (6, 5), random_state=0)
    present = np.arange(120).reshape(60, 2) > 0
    write_views(tmp_path / "holes.npz", as_views(views, present=present), y)
    result = run(tmp_path / "holes.npz", "--methods", "k-means,MMC", "--repeats", 1)
    assert result.exit_code == 0, result.output
    assert "k-means on holes: " in result.stdout


@pytest.mark.parametrize("option", ["--json", "--report", "--results"])
def test_other_files_are_never_replaced(data, option):
    before = data.read_bytes()
    result = run(data, "--methods", "RMKMC", "--repeats", 1, option, data)
    assert result.exit_code == 2
    assert data.read_bytes() == before


def test_another_html_page_is_never_replaced(data, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><p>my homepage")
    result = run(data, "--methods", "RMKMC", "--repeats", 1, "--report", page)
    assert result.exit_code == 2
    assert "page.html" in result.stderr
    assert page.read_text() == "<!doctype html><p>my homepage"


@pytest.mark.slow
def test_outputs_do_not_replace_each_other(data, tmp_path):
    out = tmp_path / "runs.jsonl"
    command = (data, "--methods", "RMKMC", "--repeats", 1, "--json", out)
    for _ in range(2):
        assert run(*command).exit_code == 0
    assert len(json.loads(out.read_text())["runs"]) == 1
    result = run(*command, "--report", out)
    assert result.exit_code == 2
    assert "name the same file" in result.stderr


def test_another_file_is_not_used_for_results(data, tmp_path):
    kept = tmp_path / "runs.jsonl"
    kept.write_text("id,label\n")
    result = run(data, "--methods", "RMKMC", "--results", kept)
    assert result.exit_code == 2
    assert "runs.jsonl" in result.stderr
    assert kept.read_text() == "id,label\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--methods", "RMKMX"], "'RMKMX'"),
        (["--methods", ","], "--methods"),
        (["--repeats", "0"], "'--repeats': 0"),
        (["--json", "nowhere/runs.json"], "--json: .*nowhere"),
        (["--results", "."], "--results: .*folder"),
        (["--report", "-"], "--report - is standard output"),
        (["--scaled", "cubes"], "'cubes'"),
        (["--time-limit", "0"], r"--time-limit 0\.0"),
    ],
)
def test_bad_options(data, args, message, monkeypatch):
    monkeypatch.chdir(data.parent)
    before = sorted(data.parent.iterdir())
    result = run(data, *args)
    assert result.exit_code == 2
    assert re.search(message, result.stderr)
    assert sorted(data.parent.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--results"])
def test_a_named_pipe_is_rejected_and_does_not_block(data, tmp_path, option):
    # in a new process, which can be stopped if it blocks
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "manyview", "compare", data, option, tmp_path / "pipe"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(rf"manyview: error: {option}: .*pipe.*\n", done.stderr)


def test_bad_limits_of_the_paper_are_rejected_by_name():
    result = CliRunner().invoke(app, ["paper", "--growth-limit", "-1"])
    assert result.exit_code == 2
    assert "--growth-limit -1.0" in result.stderr


def test_an_unknown_data_set_gets_a_hint(data, monkeypatch):
    monkeypatch.setenv("MANYVIEW_DATA", str(data.parent))
    result = run("eazy")
    assert result.exit_code == 2
    assert "did you mean easy?" in result.stderr


def test_methods_are_ranked_over_several_data_sets():
    acc = {"fox": {"MMC": 0.9, "SEC": 0.8, "AMGL": 0.7}, "own": {"MMC": 0.6, "SEC": 0.5}}
    runs = [
        Run(method, data, 0, "default", {}, scores={"acc": value, "nmi_geometric": value})
        for data, values in acc.items()
        for method, value in values.items()
    ]
    runs.append(Run("AMGL", "own", 0, "default", {}, error="needs too much memory"))
    ranks, note = _ranking_tables(summarise(runs))
    assert list(ranks.columns[0].cells) == ["MMC", "SEC", "AMGL"]
    assert list(ranks.columns[2].cells) == ["1.00", "2.00", "3.00"]
    assert "2 data sets" in note
    assert _ranking_tables(summarise(runs[:3])) == []  # one data set


@pytest.mark.data
def test_a_data_set_by_name(data_dir):
    result = run("3sources", "--methods", "AMGL", "--repeats", 1, "--quiet")
    assert result.exit_code == 0, result.output
    assert "37.6/11.1" in result.stdout  # the paper's AMGL
