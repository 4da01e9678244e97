"""The demonstration."""

import re
from pathlib import Path
from typing import NoReturn

import pytest

from manyview import MMC

from .command import assert_refused, plain, refuses, run


def test_demo_compares_the_methods_on_digits(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("demo", "--report", page, columns=80)
    text = plain(result.stdout)
    assert result.exit_code == 0
    figures = re.compile(
        r"^(k-means|spectral|MMC) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) *$", re.M
    )
    found = {method: [float(f) for f in rest] for method, *rest in figures.findall(text)}
    assert list(found) == ["k-means", "spectral", "MMC"]
    for accuracy, nmi, ari, seconds in found.values():
        assert 0.5 < accuracy <= 1
        assert 0.5 < nmi <= 1
        assert 0.3 < ari <= 1
        assert seconds > 0
    fall = re.search(r"objective fell from ([\d.]+) to ([\d.]+)\.$", text, re.M)
    assert fall is not None
    assert float(fall[2]) < float(fall[1])
    for view, width in {"pixels": 64, "fourier": 34, "projections": 46, "gradients": 72}.items():
        kept = re.search(rf"^{view} +{width} +(\d+) *$", text, re.M)
        assert kept is not None
        assert 0 <= int(kept[1]) <= width
    for step in ("load the data", "compare, 3 seeds", "MMC, fit", "MMC, predict", "report"):
        assert re.search(rf"^{step} +[\d.]+ *$", text, re.M)
    assert "scoring only" in text
    assert page.read_text().lower().startswith("<!doctype html>")
    assert text.endswith("manyview fit --help\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/page.html", r"--report: no folder .*missing to write page\.html in"),
        (".", "--report: .* is a folder"),
        ("-", "--report - is standard output; expected the name of a file"),
    ],
)
def test_demo_refuses_a_bad_target_before_work_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr("manyview.cli.demo.load_digits_views", refuses)
    monkeypatch.chdir(tmp_path)
    assert_refused(run("demo", "--report", name), message)
    assert not list(tmp_path.iterdir())


def test_an_interrupt_of_the_demo_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(MMC, "fit", interrupt)
    monkeypatch.setattr("manyview.cli.demo.compare", lambda *args, **options: [])
    result = run("demo", "--report", tmp_path / "page.html")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "manyview: interrupted: nothing was written"
    assert not list(tmp_path.iterdir())


def test_demo_replaces_an_older_report_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    with monkeypatch.context() as patched:
        patched.setattr("manyview.cli.demo.load_digits_views", refuses)
        assert_refused(run("demo", "--report", page), "exists and is not a report")
    assert page.read_text() == "mine"
    page.write_text('<meta name="generator" content="manyview">')
    assert run("demo", "--report", page).exit_code == 0
    assert len(page.read_text()) > 1000
