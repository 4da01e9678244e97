import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from manyview.cli.app import app
from manyview.datasets import make_views, write_views


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "easy.npz"
    views, y = make_views(60, 3, (6, 5), random_state=0)
    write_views(path, views, y)
    return path


def run(*args: object) -> object:
    return CliRunner().invoke(app, ["compare", *map(str, args)])


def test_table_and_json(data, tmp_path):
    out = tmp_path / "runs.json"
    result = run(data, "--methods", "rmkmc,AMGL", "--repeats", 2, "--tune", "--json", out)
    assert result.exit_code == 0, result.output
    assert "RMKMC" in result.stdout
    assert "AMGL" in result.stdout
    assert "tuned with labels" in result.stdout
    runs = json.loads(out.read_text())["runs"]
    assert [(r["method"], r["tuned"], r["seed"]) for r in runs] == [
        ("RMKMC", False, 0),
        ("RMKMC", False, 1),
        ("RMKMC", True, 0),
        ("RMKMC", True, 1),
        ("AMGL", False, 0),
        ("AMGL", False, 1),
    ]
    assert all(0 <= r["scores"]["acc"] <= 1 for r in runs)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--methods", "RMKMX"], "no method 'RMKMX'; did you mean RMKMC"),
        (["--methods", ","], "no methods are named"),
        (["--repeats", "0"], "expected at least 1"),
        (["--json", "nowhere/runs.json"], "the folder does not exist"),
    ],
)
def test_bad_options(data, args, message):
    result = run(data, *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_unknown_set_lists_the_known(data, monkeypatch):
    monkeypatch.delenv("MANYVIEW_DATA", raising=False)
    assert "set MANYVIEW_DATA" in run("foks").stderr
    monkeypatch.setenv("MANYVIEW_DATA", str(data.parent))
    result = run("foks")
    assert result.exit_code == 2
    assert "there are easy" in result.stderr


@pytest.mark.data
def test_a_set_by_name(data_dir):
    result = run("3sources", "--methods", "AMGL", "--repeats", 1, "--quiet")
    assert result.exit_code == 0, result.output
    assert "37.6/11.1" in result.stdout  # the paper's AMGL
