import re
from pathlib import Path
from typing import NoReturn

import pytest

from manyview import MMC

from .command import assert_rejected, must_not_run, plain, run


def test_demo_compares_the_methods_on_digits(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<meta name="generator" content="manyview">')  # an older report
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
        kept = re.search(rf"^{view} +{width} +(\d+) +\d+% +\d+% *$", text, re.M)
        assert kept is not None
        assert 0 <= int(kept[1]) <= width
    for step in ("load the data", "compare, 3 seeds", "MMC, fit", "MMC, predict", "report"):
        assert re.search(rf"^{step} +[\d.]+ *$", text, re.M)
    assert "scoring only" in text
    assert "Timings" in text
    assert page.read_text().lower().startswith("<!doctype html>")
    assert text.endswith("manyview fit --help\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/page.html", "--report: .*missing"),
        (".", "--report: .* folder"),
        ("-", "--report - is standard output"),
    ],
)
def test_a_bad_target_of_the_demo_is_rejected_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr("manyview.cli.demo.load_digits_views", must_not_run)
    monkeypatch.chdir(tmp_path)
    assert_rejected(run("demo", "--report", name), message)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_demo_writes_nothing(
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


def test_the_demo_replaces_no_other_file_than_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    monkeypatch.setattr("manyview.cli.demo.load_digits_views", must_not_run)
    assert_rejected(run("demo", "--report", page), r"page\.html")
    assert page.read_text() == "mine"
