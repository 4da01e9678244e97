"""What the command does where nobody reads what it prints."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .command import N_CLUSTERS, N_SAMPLES, clusters_in

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
