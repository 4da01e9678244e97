import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyview.cli.compare import shown_progress
from manyview.cli.console import (
    _safe_streams,
    _warnings_as_lines,
    in_options,
    noted_warnings,
    print_bytes,
)
from manyview.cli.outputs import STDOUT, read_data, write_labels
from manyview.datasets import make_views, write_views
from manyview.experiment import METHODS, Task

from .command import N_CLUSTERS, N_SAMPLES, clusters_in, plain, run, run_fit

FIT = ("fit", "{data}", "-k", str(N_CLUSTERS))


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe that is closed at the reading end."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def command(data: Path, *args: object) -> list[str]:
    return [sys.executable, "-m", "manyview", *(str(arg).format(data=data) for arg in args)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ("fit", "--help"),
        (*FIT, "--quiet", "--out", "-", "--explain", "features.csv"),
    ],
    ids=" ".join,
)
def test_fit_succeeds_if_its_output_is_no_longer_read(
    data: Path, tmp_path: Path, unread: int, args: tuple[str, ...]
) -> None:
    pipes = {"stdout": unread, "stderr": subprocess.PIPE}
    done = subprocess.run(command(data, *args), **pipes, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "features.csv").exists() is ("features.csv" in args)


@pytest.mark.slow
def test_fit_succeeds_if_neither_stream_is_read(data: Path, tmp_path: Path, unread: int) -> None:
    pipes = {"stdout": unread, "stderr": unread}
    assert subprocess.run(command(data, *FIT), **pipes, cwd=tmp_path).returncode == 0
    assert len(clusters_in((tmp_path / "labels.csv").read_text())) == N_SAMPLES
    # the labels exist now and are kept
    assert subprocess.run(command(data, *FIT), **pipes, cwd=tmp_path).returncode == 2


@pytest.mark.slow
def test_compare_succeeds_if_neither_stream_is_read(
    data: Path, tmp_path: Path, unread: int
) -> None:
    out = tmp_path / "runs.json"
    options = ("--methods", "RMKMC", "--repeats", 1, "--jobs", 1, "--json", out)
    done = subprocess.run(command(data, "compare", data, *options), stdout=unread, stderr=unread)
    assert done.returncode == 0
    assert len(json.loads(out.read_text())["runs"]) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_labels_to_a_closed_standard_output_are_rejected(data: Path, tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh"]
    args = [*closed, *command(data, *FIT, "--quiet", "--out", "-")]
    done = subprocess.run(args, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("manyview: error: --out - is standard output, which is closed")
    args = [*closed, *command(data, *FIT, "--quiet")]
    assert subprocess.run(args, cwd=tmp_path).returncode == 0
    assert len(clusters_in((tmp_path / "labels.csv").read_text())) == N_SAMPLES


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_compare_needs_no_standard_output(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    options = ("--methods", "RMKMC", "--repeats", 2, "--jobs", 1, "--quiet", "--json", out)
    args = ["sh", "-c", 'exec "$@" >&-', "sh", *command(data, "compare", data, *options)]
    done = subprocess.run(args, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(json.loads(out.read_text())["runs"]) == 2


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data whose names ASCII and Latin-1 cannot encode, and the files of a fit."""
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "same", "name"),
    [
        (("fit", "{data}", "-k", 3, "--out", "-"), "fit.csv", "Ünï"),
        (("fit", "{data}", "-k", 3, "--explain", "-"), "explain.csv", "Ä"),
        (("predict", "some.model", "{data}", "--out", "-"), "predict.csv", "Ünï"),
    ],
    ids=["fit", "explain", "predict"],
)
def test_standard_output_has_the_bytes_of_the_file(
    letters: Path, args: tuple[object, ...], same: str, name: str
) -> None:
    done = subprocess.run(
        command(letters / "some.npz", *args, "--quiet", "--force"),
        capture_output=True,
        cwd=letters,
        env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (letters / same).read_bytes()
    assert name.encode() in done.stdout


def test_standard_output_may_accept_text_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stdout", written)
    write_labels(STDOUT, np.array([1, 0]), np.array(["Ünï", "b"]))
    assert written.getvalue() == "sample,cluster\nÜnï,1\nb,0\n"


@pytest.mark.slow
def test_names_that_standard_output_cannot_encode_are_escaped(tmp_path: Path) -> None:
    made = make_views(30, 3, (4, 4), random_state=0)
    write_views(tmp_path / "some.npz", dict(zip(["日本", "b"], made.views, strict=True)), made.y)
    done = subprocess.run(
        command(tmp_path / "some.npz", "fit", "{data}", "-k", 3),
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"},
    )
    assert done.returncode == 0, done.stderr
    assert rb"\u65e5\u672c" in done.stdout
    assert (tmp_path / "labels.csv").exists()


def test_characters_that_a_stream_cannot_encode_are_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    with _safe_streams():
        print("日Ä")
    assert raw.getvalue() == b"\\u65e5\xc4\n"


def test_a_stream_that_is_no_longer_read_discards_its_output(
    monkeypatch: pytest.MonkeyPatch, unread: int
) -> None:
    with open(os.dup(unread), "w") as stream:  # noqa: PTH123 - of a descriptor
        monkeypatch.setattr("sys.stdout", stream)
        with _safe_streams():
            print("lost")
            print_bytes(b"lost too")


def test_progress_in_a_log_names_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    task = Task(METHODS["RMKMC"], "fox", "", 60, "selection", {}, (0, 1))
    with shown_progress(shown=True, log_seconds=0.0) as listener:
        listener.planned(20, 0)
        listener.started(task)
        for done in task.runs():
            listener.finished(done)
    assert capsys.readouterr().err.splitlines() == [
        "compare: 0 of 20 done",
        "compare: 0 of 20 done; running RMKMC on fox (selection)",
        "compare: 1 of 20 done; running RMKMC on fox (selection)",
        "compare: 2 of 20 done",
    ]


def test_progress_counts_skipped_runs(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (Task(METHODS["MMC"], "fox", "", 60, "default", {}, (n,)) for n in (0, 1))
    with shown_progress(shown=True, log_seconds=0.0) as listener:
        listener.planned(2, 0)
        listener.started(first)
        listener.finished(*second.runs())
        listener.finished(*first.runs())
    assert capsys.readouterr().err.splitlines()[2:] == [
        "compare: 1 of 2 done; running MMC on fox",
        "compare: 2 of 2 done",
    ]


def test_a_log_has_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    task = Task(METHODS["MMC"], "fox", "", 60, "default", {}, tuple(range(30)))
    with shown_progress(shown=True) as listener:
        listener.planned(30, 0)
        listener.started(task)
        for done in task.runs():
            listener.finished(done)
    assert len(capsys.readouterr().err.splitlines()) == 11


def test_a_terminal_shows_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    task = Task(METHODS["MMC"], "fox", "", 60, "default", {}, (0,))
    with shown_progress(shown=True, title="table") as listener:
        listener.planned(4, 2)
        listener.started(task)
        listener.finished(*task.runs())
    shown = plain(capsys.readouterr().err)
    assert "table" in shown
    assert "3/4" in shown


def test_messages_of_the_library_name_the_options_of_the_command() -> None:
    for text, shown in (
        ("normalize='columns' may help", "--normalize columns may help"),
        (
            "after max_iter=1 iterations; raise max_iter",
            "after --max-iter 1 iterations; raise --max-iter",
        ),
        ("or tol above 0.001", "or --tol above 0.001"),
        ("gamma=1e-3. Use a smaller gamma", "--gamma 1e-3. Use a smaller --gamma"),
        ("n_clusters='auto' with 9 samples", "-k auto with 9 samples"),
        ("checkpoint='a/b.ckpt' with n_init=2:", "--checkpoint a/b.ckpt with --n-init 2:"),
        ("view 'normalize' is constant", "view 'normalize' is constant"),
    ):
        assert in_options(text) == shown


def test_a_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with _warnings_as_lines() as shown:
        for _ in range(2):
            warnings.warn("use normalize='rows'", stacklevel=1)
        warnings.warn("other", stacklevel=1)
    assert len(shown) == 3
    assert capsys.readouterr().err.splitlines() == [
        "manyview: warning: use --normalize rows",
        "manyview: warning: other",
    ]


def test_the_warnings_of_a_fit_name_options(tmp_path: Path) -> None:
    # one feature dominates all rows
    table = np.abs(np.random.default_rng(0).normal(size=(60, 4))) * [1e4, 1, 1, 1]
    write_views(tmp_path / "some.npz", {"a": table})
    options = ("--quiet", "--normalize", "rows")
    result = run_fit(tmp_path / "some.npz", tmp_path / "labels.csv", *options, k=2)
    assert "--normalize columns" in result.stderr
    assert "normalize=" not in result.stderr


def test_noted_warnings_are_shown_and_each_is_noted_once() -> None:
    noted: list[str] = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with noted_warnings(noted):
            for _ in range(2):
                warnings.warn("use normalize='rows'", stacklevel=1)
    assert noted == ["use --normalize rows"]
    assert len(shown) == 2


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_terminal_shows_what_is_read(
    data: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    read_data(str(data), shown=False)
    assert stream.getvalue() == ""
    assert read_data(str(data)).views.n_samples == N_SAMPLES
    assert (f"reading {data.parent}"[:40] in stream.getvalue()) == is_terminal
