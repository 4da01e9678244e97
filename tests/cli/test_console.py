import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyview.cli.outputs import STDOUT, write_labels
from manyview.datasets import make_views, write_views

from .command import N_CLUSTERS, N_SAMPLES, clusters_in, run, run_fit

FIT = ("fit", "{data}", "-k", str(N_CLUSTERS))


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def command(data: Path, *args: object) -> list[str]:
    return [sys.executable, "-m", "manyview", *(str(arg).format(data=data) for arg in args)]


@pytest.mark.parametrize(
    "args",
    [
        ("--version",),
        ("fit", "--help"),
        (*FIT, "--quiet", "--out", "-", "--explain", "features.csv"),
    ],
    ids=" ".join,
)
def test_whoever_stops_reading_the_output_does_not_make_the_work_fail(
    data: Path, tmp_path: Path, unread: int, args: tuple[str, ...]
) -> None:
    pipes = {"stdout": unread, "stderr": subprocess.PIPE}
    done = subprocess.run(command(data, *args), **pipes, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "features.csv").exists() is ("features.csv" in args)


def test_whoever_stops_reading_errors_too_does_not_make_the_work_fail(
    data: Path, tmp_path: Path, unread: int
) -> None:
    pipes = {"stdout": unread, "stderr": unread}
    assert subprocess.run(command(data, *FIT), **pipes, cwd=tmp_path).returncode == 0
    assert len(clusters_in((tmp_path / "labels.csv").read_text())) == N_SAMPLES
    # the labels are there now, and stay
    assert subprocess.run(command(data, *FIT), **pipes, cwd=tmp_path).returncode == 2


def test_a_comparison_that_nobody_reads_is_written(data: Path, tmp_path: Path, unread: int) -> None:
    out = tmp_path / "runs.json"
    options = ("--methods", "RMKMC", "--repeats", 1, "--jobs", 1, "--json", out)
    done = subprocess.run(command(data, "compare", data, *options), stdout=unread, stderr=unread)
    assert done.returncode == 0
    assert len(json.loads(out.read_text())["runs"]) == 1


@pytest.mark.skipif(os.name != "posix", reason="the shell that closes it is POSIX's")
def test_closed_standard_output_takes_no_labels(data: Path, tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh"]
    told = [*closed, *command(data, *FIT, "--quiet", "--out", "-")]
    done = subprocess.run(told, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "manyview: error: --out - is standard output, which is closed; expected a file\n"
    )
    told = [*closed, *command(data, *FIT, "--quiet")]
    assert subprocess.run(told, cwd=tmp_path).returncode == 0
    assert len(clusters_in((tmp_path / "labels.csv").read_text())) == N_SAMPLES


@pytest.mark.skipif(os.name != "posix", reason="the shell that closes it is POSIX's")
def test_a_comparison_needs_no_standard_output(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    options = ("--methods", "RMKMC", "--repeats", 2, "--jobs", 1, "--quiet", "--json", out)
    told = ["sh", "-c", 'exec "$@" >&-', "sh", *command(data, "compare", data, *options)]
    done = subprocess.run(told, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(json.loads(out.read_text())["runs"]) == 2


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a set whose names ASCII and Latin-1 cannot write, and of what becomes of it."""
    made = make_views(30, 3, (4, 4), random_state=0)
    ids = np.array(["Ünï", "日本", "half \ud83d", *map(str, range(3, 30))])
    features = np.array(["Ä", "β", "c", "d"])
    views = replace(made.views, feature_names=(features, features))
    folder = tmp_path_factory.mktemp("letters")
    data, model = folder / "some.npz", folder / "some.model"
    write_views(data, replace(made, views=views, sample_ids=ids))
    written = ["--explain", folder / "explain.csv", "--model", model]
    assert run_fit(data, folder / "fit.csv", *written, k=3).exit_code == 0
    assert run("predict", model, data, "--out", folder / "predict.csv").exit_code == 0
    return folder


@pytest.mark.parametrize(
    "encoding",
    [
        {"PYTHONIOENCODING": "latin-1:strict"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["latin-1", "C"],
)
@pytest.mark.parametrize(
    ("args", "same", "name"),
    [
        (("fit", "{data}", "-k", 3, "--out", "-"), "fit.csv", "Ünï"),
        (("fit", "{data}", "-k", 3, "--explain", "-"), "explain.csv", "Ä"),
        (("predict", "some.model", "{data}", "--out", "-"), "predict.csv", "Ünï"),
    ],
    ids=["fit", "explain", "predict"],
)
def test_standard_output_is_the_file_byte_by_byte(
    letters: Path, args: tuple[object, ...], same: str, name: str, encoding: dict[str, str]
) -> None:
    done = subprocess.run(
        command(letters / "some.npz", *args, "--quiet", "--force"),
        capture_output=True,
        cwd=letters,
        env={**os.environ, **encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (letters / same).read_bytes()
    assert name.encode() in done.stdout


def test_standard_output_that_takes_text_only_is_given_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = io.StringIO()
    monkeypatch.setattr("sys.stdout", taken)
    write_labels(STDOUT, np.array([1, 0]), np.array(["Ünï", "b"]))
    assert taken.getvalue() == "sample,cluster\nÜnï,1\nb,0\n"


def test_names_that_standard_output_cannot_write_are_written_out(tmp_path: Path) -> None:
    made = make_views(30, 3, (4, 4), random_state=0)
    write_views(tmp_path / "some.npz", {"日本": made.views[0], "b": made.views[1]}, made.y)
    done = subprocess.run(
        command(tmp_path / "some.npz", "fit", "{data}", "-k", 3),
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"},
    )
    assert done.returncode == 0, done.stderr
    assert rb"\u65e5\u672c" in done.stdout
    assert (tmp_path / "labels.csv").exists()
