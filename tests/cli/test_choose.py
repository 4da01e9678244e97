"""The command choose-k, and fit with -k auto."""

import inspect
import re
from pathlib import Path

import pytest

from manyview.cli.app import choose_k
from manyview.datasets import make_views, write_views

from .command import assert_rejected, clusters_in, must_not_run, plain, run


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "three.npz"
    write_views(path, make_views(120, 3, (8, 6), random_state=0))
    return path


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "noise.npz"
    write_views(path, make_views(120, 2, (8, 8), separation=0.0, random_state=0))
    return path


def run_choose(data: object, *options: object):
    return run("choose-k", data, "--to", 5, "--splits", 2, *options)


def test_help_has_every_option_and_default() -> None:
    text = plain(run("choose-k", "--help", columns=120).stdout)
    called = {"data": "DATA", "first": "--from", "last": "--to", "n_splits": "--splits"}
    for name, parameter in inspect.signature(choose_k).parameters.items():
        option = {**called, "n_jobs": "--jobs"}.get(name, f"--{name.replace('_', '-')}")
        assert option in text
        if parameter.default not in (False, None, inspect.Parameter.empty):
            assert f"default: {parameter.default}" in text


def test_the_table_and_the_recommendation_are_printed(three: Path) -> None:
    result = run_choose(three)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in rows if row and row[0].isdecimal()] == [*"2345", "3"]
    assert any(row[0] == "3" and row[-1] == "recommended" for row in rows if row)
    assert "3 clusters (halves agree by" in result.stdout
    assert "120 samples in 2 views" in result.stderr


def test_quiet_prints_the_table_only(three: Path) -> None:
    result = run_choose(three, "--quiet")
    assert "3 clusters" in result.stdout
    assert result.stderr == ""


def test_noise_has_no_clusters(noise: Path) -> None:
    result = run_choose(noise)
    assert result.exit_code == 0
    assert "no clusters found" in result.stdout


def test_the_figure_is_written(three: Path, tmp_path: Path) -> None:
    path = tmp_path / "choice.png"
    result = run_choose(three, "--plot", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path.name) in result.stdout.replace("\n", "")
    assert_rejected(run_choose(three, "--plot", path), "choice.png exists")
    assert run_choose(three, "--plot", path, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", 1], r"'--from': 1"),
        (["--from", 6], r"--from 6 is more than --to 5"),
        (["--from", 31, "--to", 40], r"n_clusters holds 31; expected at most 30"),
        (["--splits", 0], r"'--splits': 0"),
        (["--plot", "figure.txt"], r"--plot figure.txt: expected .*\.png"),
    ],
)
def test_bad_values_are_rejected(three: Path, options: list[object], message: str) -> None:
    result = run_choose(three, "--quiet", *options)
    assert_rejected(result, message)


def test_an_unusable_figure_is_rejected_before_the_work(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyview.cli.choose.choose_n_clusters", must_not_run)
    assert_rejected(run_choose(three, "--plot", tmp_path / "no" / "a.png"), "--plot")


def test_fit_chooses_the_number(three: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "labels.csv", tmp_path / "a.model"
    result = run("fit", three, "-k", "auto", "--out", out, "--model", model)
    assert result.exit_code == 0
    assert set(clusters_in(out.read_text())) == {0, 1, 2}
    assert re.search(r"stability +3 clusters", result.stdout)
    again = run("predict", model, three, "--out", tmp_path / "again.csv")
    assert again.exit_code == 0


def test_fit_of_noise_with_auto_says_what_to_do(noise: Path, tmp_path: Path) -> None:
    result = run("fit", noise, "-k", "auto", "--out", tmp_path / "labels.csv", "--quiet")
    assert_rejected(result, "no clusters found.*with a number of clusters")


def test_of_few_samples_fewer_numbers_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "few.npz"
    write_views(path, make_views(20, 2, (4, 3), random_state=0))
    result = run("choose-k", path, "--splits", 1, "--quiet")
    rows = [line.split() for line in result.stdout.splitlines()]
    numbers = [row[0] for row in rows if row and row[0].isdecimal()]
    assert numbers[:4] == [*"2345"]
    assert "6" not in numbers
