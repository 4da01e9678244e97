import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from manyview.cli.app import app
from manyview.datasets import make_views, write_views
from manyview.experiment import METHODS, read_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the command makes of a small set."""
    folder = tmp_path_factory.mktemp("paper")
    made = make_views(60, 3, (6, 5), random_state=0)
    write_views(folder / "fox.npz", made.views, made.y)
    result = command(folder)
    assert result.exit_code == 0, result.output
    return folder, result.output


def command(folder, *more):
    data = ["--data", str(folder / "fox.npz"), "--out", str(folder / "out")]
    options = ["--repeats", "2", "--no-tune", "--jobs", "1", "--growth-limit", "20"]
    return CliRunner().invoke(app, ["paper", *data, *options, *more])


@pytest.fixture(scope="module", autouse=True)
def small_for_all():
    patch = pytest.MonkeyPatch()
    patch.delenv("MANYVIEW_DATA", raising=False)
    patch.setattr("manyview.cli.paper.LARGE_SAMPLES", 500)
    yield
    patch.undo()


def test_everything_is_there(folder):
    out = folder[0] / "out"
    made = {path.name for path in out.iterdir()}
    assert {"table.md", "table.csv", "table.png", "times.csv", "convergence.csv"} <= made
    assert {"ranks.csv", "differences.csv", "differences.png"} <= made
    assert {"convergence-fox.png", "times-made.png", "runs.jsonl"} <= made
    for name in made:
        assert str(Path("out") / name) in folder[1].replace("\n", "") or name == "runs.jsonl"


def test_the_table_has_nine_methods_and_no_figures_published_for_another_set(folder):
    text = (folder[0] / "out" / "table.md").read_text()
    for name in METHODS:
        assert f"| {name} |" in text
    assert "(79.6)" not in text  # a set called fox, but not that of the paper
    assert "over 2 seeds" in text


def test_times_are_of_both_sets(folder):
    with (folder[0] / "out" / "times.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["data"], line["samples"]) for line in lines} == {
        ("fox", "60"),
        ("made", "256"),
        ("made", "500"),
    }


def test_the_slowest_part_is_named(folder):
    assert "slowest: " in folder[1]
    assert "processor minutes" in folder[1]


def test_nothing_is_done_twice(folder):
    file = folder[0] / "out" / "runs.jsonl"
    before = read_runs(file)
    written = file.read_text().count('{"run":')
    assert written == len(before) > 20
    assert command(folder[0]).exit_code == 0
    stopped = [run for run in before if run.error]
    # one that a limit stopped may be tried again; read_runs would not tell what is done twice
    assert file.read_text().count('{"run":') - written <= len(stopped)


def test_what_cannot_be_compared_is_refused_and_nothing_made(tmp_path):
    made = make_views(60, 3, (6, 5), random_state=0)
    write_views(tmp_path / "fox.npz", made.views)
    result = command(tmp_path)
    assert result.exit_code == 2
    assert "has no classes" in result.output
    write_views(tmp_path / "fox.npz", made.views, made.y)
    result = command(tmp_path, "--scaled", "cubes")
    assert result.exit_code == 2
    assert "no scaling 'cubes'" in result.output
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_refused(folder, tmp_path):
    path = tmp_path / "out"
    path.write_text("mine")
    result = CliRunner().invoke(app, ["paper", "--out", str(path)])
    assert result.exit_code == 2
    assert path.read_text() == "mine"


def test_without_times_the_rest_is_there(folder, tmp_path):
    data = ["--data", str(folder[0] / "fox.npz"), "--out", str(tmp_path / "out")]
    options = ["--repeats", "1", "--no-tune", "--jobs", "1", "--no-times"]
    result = CliRunner().invoke(app, ["paper", *data, *options])
    assert result.exit_code == 0, result.output
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"table.md", "table.png", "ranks.csv", "convergence-fox.png"} <= made
    assert not {name for name in made if name.startswith("times")}
