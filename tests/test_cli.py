"""The command: what it prints and writes, what it refuses, and with which exit code."""

import csv
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner, Result

from manyview import MMC, __version__
from manyview.cli import main
from manyview.cli.app import app, fit
from manyview.datasets import load_digits_views, make_views, write_views

N_SAMPLES, N_CLUSTERS = 120, 4


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread() -> Iterator[None]:
    # on a busy machine the threads of BLAS wait for each other, ten times as long as they work
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "some.npz"
    write_views(path, load_digits_views(n_samples=N_SAMPLES))
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def run(*args: object, columns: int = 100) -> Result:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_fit(data: Path, out: object, *options: object, k: int = N_CLUSTERS) -> Result:
    return run("fit", data, "-k", k, "--out", out, *options)


def plain(text: str) -> str:
    """Text without colours, which continuous integration may force."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def clusters_in(text: str) -> list[int]:
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["sample", "cluster"]
    assert [int(sample) for sample, _ in rows] == list(range(len(rows)))
    return [int(cluster) for _, cluster in rows]


def assert_refused(result: Result, message: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("manyview: error: ")
    assert re.search(message, last)
    assert "Traceback" not in result.stderr


def refuses(*args: Any, **options: Any) -> NoReturn:
    pytest.fail("work began")


def test_the_installed_command_is_main() -> None:
    (script,) = entry_points(group="console_scripts", name="manyview")
    assert script.value == "manyview.cli:main"


def test_version() -> None:
    assert run("--version").stdout == f"manyview {__version__}\n"


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands_and_examples(args: list[str]) -> None:
    result = run(*args)
    text = plain(result.stdout)
    assert result.exit_code == 0
    assert "manyview fit news.npz -k 6 --out labels.csv" in text
    assert re.search(r"\bdemo\b.*digits", text)
    assert "completion" not in text


def test_help_of_fit_tells_every_option_and_default() -> None:
    text = plain(run("fit", "--help", columns=120).stdout)
    for name, parameter in inspect.signature(fit).parameters.items():
        option = {"data": "DATA", "n_clusters": "-k", "n_jobs": "--jobs"}.get(
            name, f"--{name.replace('_', '-')}"
        )
        assert option in text
        if parameter.default not in (False, None, inspect.Parameter.empty):
            assert f"default: {parameter.default}" in text
    assert "manyview fit news.npz -k 6" in text


def test_defaults_are_those_of_the_estimator() -> None:
    ours = {name: p.default for name, p in inspect.signature(fit).parameters.items()}
    theirs = MMC(n_clusters=2).get_params()
    shared = set(ours) & set(theirs) - {"n_clusters"}
    others = {"n_clusters", "random_state", "verbose", "checkpoint_every"}
    assert set(theirs) - shared == others
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


def test_fit_takes_the_name_of_a_set(tmp_path: Path) -> None:
    result = run("fit", "digits", "-k", 10, "--max-iter", 1, "-o", tmp_path / "labels.csv")
    assert result.exit_code == 0
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 1798


def test_a_name_that_is_none_is_told_with_the_nearest(tmp_path: Path) -> None:
    result = run("fit", "digit", "-k", 10, "-o", tmp_path / "labels.csv")
    assert result.exit_code == 2
    assert "did you mean digits?" in plain(result.stderr)


def test_fit_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    kept = tmp_path / "fit.ckpt"
    options = ["digits", "-k", 10, "--patience", 0, "--tol", 0, "-q", "--checkpoint", kept]
    for sweeps, name in ((2, "short"), (4, "on")):
        assert run("fit", *options, "--max-iter", sweeps, "-o", tmp_path / name).exit_code == 0
    whole = [*options[:-1], tmp_path / "other.ckpt", "--max-iter", 4]
    assert run("fit", *whole, "-o", tmp_path / "whole").exit_code == 0
    assert (tmp_path / "on").read_text() == (tmp_path / "whole").read_text()
    assert kept.exists()


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


def test_fit_of_a_folder_writes_ids(tmp_path: Path) -> None:
    folder = tmp_path / "views"
    folder.mkdir()
    made = make_views(30, 2, (4, 3), random_state=0)
    for name, array in zip("ab", made.views, strict=True):
        lines = [",".join(["id", *(f"f{d}" for d in range(array.shape[1]))])]
        lines += [",".join([f"p{n}", *map(str, row)]) for n, row in enumerate(array)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "labels.csv"
    result = run("fit", folder, "-k", 2, "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    header, *rows = csv.reader(io.StringIO(out.read_text()))
    assert header == ["sample", "cluster"]
    assert {sample for sample, _ in rows} == {f"p{n}" for n in range(30)}
    refused = run("fit", folder, "-k", 2, "--out", folder / "labels.csv")
    assert_refused(refused, "would lie among the views")


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing/page.html", r"missing/page\.html: the folder does not exist"), (".", "is a folder")],
)
def test_demo_refuses_a_bad_target_before_work_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr("manyview.cli.demo.load_digits_views", refuses)
    assert_refused(run("demo", "--report", tmp_path / name), message)


def test_demo_leaves_a_file_that_is_there(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    result = run("demo", "--report", page)
    assert result.exit_code == 0
    assert "was left as it is" in " ".join(result.stdout.split())
    assert page.read_text() == "mine"


def test_fit_writes_a_cluster_for_each_sample(data: Path, out: Path) -> None:
    result = run_fit(data, out)
    assert result.exit_code == 0
    clusters = clusters_in(out.read_text())
    assert len(clusters) == N_SAMPLES
    assert set(clusters) <= set(range(N_CLUSTERS))
    assert list(out.parent.iterdir()) == [out]


def test_fit_writes_the_labels_of_the_estimator(data: Path, out: Path) -> None:
    options = (
        "--rank 9 --gamma 0.02 --penalty frobenius --indicator orthogonal --init kmeans --n-init 2 "
        "--max-iter 30 --tol 0.01 --normalize columns --seed 3 --jobs 1"
    )
    assert run_fit(data, out, *options.split()).exit_code == 0
    model = MMC(N_CLUSTERS, rank=9, gamma=0.02, penalty="frobenius", init="kmeans")
    model.set_params(indicator="orthogonal", n_init=2, max_iter=30, tol=0.01, n_jobs=1)
    model.set_params(normalize="columns", random_state=3)
    labels = model.fit_predict(load_digits_views(n_samples=N_SAMPLES).views)
    assert clusters_in(out.read_text()) == labels.tolist()


def test_normalize_none_leaves_the_views_as_they_are(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(data: Path, out: Path, model: MMC, **options: Any) -> None:
        seen.append(model.normalize)

    monkeypatch.setattr("manyview.cli.app.fit_file", spy)
    run_fit(data, out, "--normalize", "none")
    assert seen == [None]


def test_same_seed_same_file(data: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        run_fit(data, file, "--seed", 5, "--init", "random")
    assert files[0].read_bytes() == files[1].read_bytes()


def test_fit_tells_what_it_found(data: Path, out: Path) -> None:
    result = run_fit(data, out)
    text = plain(result.stdout)
    sizes = np.bincount(clusters_in(out.read_text()), minlength=N_CLUSTERS)
    assert f"{N_CLUSTERS} ({', '.join(map(str, sizes))} samples)" in text
    assert re.search(rf"^samples +{N_SAMPLES} *$", text, re.M)
    assert re.search(r"^gradients +72 +\d+ *$", text, re.M)
    assert re.search(r"^sweeps +\d+ *$", text, re.M)
    assert re.search(r"^objective +[\d.]+ to [\d.]+ *$", text, re.M)
    assert re.search(r"^seconds +[\d.]+ *$", text, re.M)
    assert re.search(r"ACC 0\.\d+, NMI \(geometric\) 0\.\d+, ARI 0\.\d+ \(scored only", text)
    assert "MMC [" in result.stderr
    assert "manyview:" not in result.stderr


def test_many_clusters_are_told_as_a_range(data: Path, out: Path) -> None:
    text = plain(run_fit(data, out, "--init", "kmeans", k=25).stdout)
    assert re.search(r"^clusters +25 \(\d+ to \d+ samples\) *$", text, re.M)


def test_without_classes_nothing_is_scored(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "unlabelled.npz"
    write_views(path, load_digits_views(n_samples=60).views)
    result = run_fit(path, out)
    assert result.exit_code == 0
    assert "ACC" not in result.stdout
    assert len(clusters_in(out.read_text())) == 60


def test_names_from_a_file_are_no_markup(tmp_path: Path, out: Path) -> None:
    arrays = load_digits_views(n_samples=60).views.arrays
    path = tmp_path / "odd.npz"
    write_views(path, {"[bold]text[/bold]": arrays[0], "[/]:smile:": arrays[1]})
    text = plain(run_fit(path, out).stdout)
    assert "[bold]text[/bold]" in text
    assert "[/]:smile:" in text


def test_quiet_says_nothing(data: Path, out: Path) -> None:
    result = run_fit(data, out, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert len(clusters_in(out.read_text())) == N_SAMPLES


def test_standard_output_holds_labels_only(data: Path, tmp_path: Path) -> None:
    args = [sys.executable, "-m", "manyview", "fit", str(data), "-k", str(N_CLUSTERS), "-o", "-"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0
    assert len(clusters_in(done.stdout)) == N_SAMPLES
    assert "ACC" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_process_ends_with_the_exit_code(tmp_path: Path) -> None:
    script = str(Path(sys.executable).with_name("manyview"))
    args = [script, "fit", "nowhere.npz", "-k", "3"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "manyview: error: no file nowhere.npz\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "0"], r"'-k': 0; expected at least 1"),
        (["-k", "many"], r"'-k': .*'many'.*--help"),
        (["-k", "121"], r"n_clusters=121 is more than the 120 samples"),
        (["--rank", "0"], r"'--rank': 0; expected at least 1"),
        (["--rank", "3"], r"rank=3 is less than n_clusters=4"),
        (["--gamma", "-1"], r"'--gamma': -1\.0; expected at least 0"),
        (["--gamma", "nan"], r"'--gamma': nan; expected at least 0"),
        (["--gamma", "inf"], r"'gamma' parameter .* Got inf"),
        (["--penalty", "l1"], r"'--penalty': .*'l1' is not one of 'l21', 'frobenius'"),
        (["--indicator", "soft"], r"'--indicator': .*'soft' is not one of"),
        (["--init", "zero"], r"'--init': .*'zero' is not one of"),
        (["--n-init", "0"], r"'--n-init': 0; expected at least 1"),
        (["--max-iter", "0"], r"'--max-iter': 0; expected at least 1"),
        (["--tol", "-1"], r"'--tol': -1\.0; expected at least 0"),
        (["--normalize", "all"], r"'--normalize': .*'all' is not one of"),
        (["--seed", "4294967296"], r"'--seed': 4294967296; expected 0 to 4294967295"),
        (["--jobs", "0"], r"'-j': 0; expected at least 1, or -1"),
        (["--speed", "9"], r"--speed .*see 'manyview fit --help'"),
    ],
)
def test_bad_values_are_refused(data: Path, out: Path, options: list[str], message: str) -> None:
    assert_refused(run_fit(data, out, *options), message)
    assert not out.exists()


def test_the_number_of_clusters_and_the_data_are_required(data: Path) -> None:
    assert_refused(run("fit", data), r"Missing option .*'-k'")
    assert_refused(run("fit", "-k", 3), "Missing argument 'DATA'")


def test_unknown_commands_are_refused() -> None:
    assert_refused(run("fti"), r"No such command 'fti'")
    assert_refused(run("--nope"), r"--nope")


def _folder(path: Path) -> None:
    path.mkdir()


def _noise(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04 nothing of the kind")


def _cut(path: Path) -> None:
    write_views(path, load_digits_views(n_samples=60))
    path.write_bytes(path.read_bytes()[:2000])


def _no_views(path: Path) -> None:
    np.savez(path, y=np.arange(3))


def _not_finite(path: Path) -> None:
    np.savez(path, n_views=1, X0=np.array([[1.0, 2.0], [np.nan, 3.0]]))


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("missing.npz", lambda path: None, r"no file .*missing\.npz"),
        ("folder.npz", _folder, r"folder\.npz: a folder of nothing; expected \.csv"),
        ("table.xyz", Path.touch, r"suffix '\.xyz'; expected \.npz"),
        ("plain", Path.touch, r"plain has no suffix"),
        ("noise.npz", _noise, r"noise\.npz: not a readable \.npz"),
        ("noise.mat", _noise, r"noise\.mat: not a readable MATLAB"),
        ("empty.npz", Path.touch, r"empty\.npz: "),
        ("cut.npz", _cut, r"cut\.npz: "),
        ("views.npz", _no_views, r"views\.npz: key 'n_views' is missing"),
        ("nan.npz", _not_finite, r"nan\.npz: view 'view0' holds NaN at row 1, column 0"),
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, out: Path, name: str, make: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / name
    make(path)
    assert_refused(run_fit(path, out), message)
    assert not out.exists()


def test_an_older_file_is_replaced_only_by_force(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.write_text("precious")
    with monkeypatch.context() as patched:
        patched.setattr("manyview.cli.fit.find_dataset", refuses)
        assert_refused(run_fit(data, out), r"labels\.csv exists; .*--force")
    assert out.read_text() == "precious"
    assert run_fit(data, out, "--force").exit_code == 0
    assert len(clusters_in(out.read_text())) == N_SAMPLES


def test_labels_never_replace_the_data(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.npz"
    copy.write_bytes(data.read_bytes())
    assert_refused(run_fit(copy, copy, "--force"), r"would replace the data")
    assert copy.read_bytes() == data.read_bytes()


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_labels_never_replace_the_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr("manyview.cli.fit.find_dataset", refuses)
    same = ["--checkpoint", tmp_path / "folder" / ".." / "fit.csv", *options]
    assert_refused(run_fit(data, tmp_path / "fit.csv", *same), "name the same file")


def test_what_speaks_for_each_cluster_is_written(data: Path, out: Path, tmp_path: Path) -> None:
    features = tmp_path / "features.csv"
    result = run_fit(data, out, "--explain", features)
    assert re.search(rf"features +.*{features.name}", plain(result.stdout))
    columns, *rows = csv.reader(io.StringIO(features.read_text()))
    assert columns == ["cluster", "weight", "view_1", "feature_1", "view_2", "feature_2"]
    views = load_digits_views(n_samples=N_SAMPLES).views
    model = MMC(N_CLUSTERS, random_state=0).fit(views)
    expected = [
        (entry.cluster, [name for pair in entry.features for name in pair])
        for cluster in range(N_CLUSTERS)
        for order in (1, 2)
        for entry in model.explain(order)
        if entry.cluster == cluster
    ]
    assert [(int(row[0]), [part for part in row[2:] if part]) for row in rows] == expected


def test_one_view_has_no_second_column_of_features(tmp_path: Path, out: Path) -> None:
    made, _ = make_views(60, 3, (5,), random_state=0)
    write_views(tmp_path / "one.npz", made)
    result = run_fit(tmp_path / "one.npz", out, "--explain", "-", k=3)
    assert result.stdout.splitlines()[0] == "cluster,weight,view_1,feature_1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("labels.csv", "--out and --explain name the same file .*; give another --explain"),
        ("some.npz", "--explain would replace the data"),
        ("older.csv", r"older\.csv exists; give another --explain, or --force"),
        ("missing/features.csv", r"no folder .*missing to write features\.csv in"),
    ],
)
def test_a_bad_target_of_features_is_refused_before_work_begins(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    (tmp_path / "older.csv").write_text("precious")
    monkeypatch.setattr("manyview.cli.fit.find_dataset", refuses)
    target = data if name == data.name else tmp_path / name
    assert_refused(run_fit(data, out, "--explain", target), message)
    assert (tmp_path / "older.csv").read_text() == "precious"


def test_labels_and_features_cannot_both_go_to_standard_output(data: Path) -> None:
    assert_refused(run_fit(data, "-", "--explain", "-"), "--explain are both standard output")


def test_names_that_csv_and_utf8_cannot_hold_as_they_are(tmp_path: Path, out: Path) -> None:
    views, _ = make_views(60, 3, (4, 4), random_state=0)
    odd = ['a,"b"', "line\nbreak", "carriage\rreturn", "half \ud83d"]
    write_views(tmp_path / "odd.npz", replace(views, feature_names=(np.array(odd),) * 2))
    features = tmp_path / "features.csv"
    assert run_fit(tmp_path / "odd.npz", out, "--explain", features, k=3).exit_code == 0
    with features.open(newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    assert {len(row) for row in rows} == {len(columns)} == {6}
    assert {row[3] for row in rows} == {*odd[:3], "half ?"}


def test_a_reader_that_leaves_early_does_not_cost_the_other_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> NoReturn:
        raise BrokenPipeError

    monkeypatch.setattr("manyview.cli.fit.write_labels", closed)
    features = tmp_path / "features.csv"
    assert run_fit(data, "-", "--explain", features).exit_code != 0
    assert features.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/labels.csv", r"no folder .*missing to write labels\.csv in"),
        (".", r"is a folder; expected the name of a file"),
        pytest.param(
            "fifo",
            r"fifo is not a regular file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here"),
        ),
    ],
)
def test_bad_targets_are_refused_before_work_begins(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    if name == "fifo":
        os.mkfifo(tmp_path / name)
    monkeypatch.setattr("manyview.cli.fit.find_dataset", refuses)
    assert_refused(run_fit(data, tmp_path / name, "--force"), message)


def test_an_unwritable_folder_is_refused_before_work_begins(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*args: Any, **options: Any) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    # permissions do not hold root back, and tests may run as root
    monkeypatch.setattr("tempfile.TemporaryFile", denied)
    monkeypatch.setattr("manyview.cli.fit.find_dataset", refuses)
    assert_refused(run_fit(data, out), r"cannot write in folder .*: Permission denied")


def test_where_writing_fails_the_older_file_stays(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> NoReturn:
        raise OSError(28, "No space left on device", str(self))

    out.write_text("precious")
    monkeypatch.setattr(Path, "replace", full)
    result = run_fit(data, out, "--force", "--quiet")
    assert_refused(result, r"No space left on device")
    assert out.read_text() == "precious"
    assert list(out.parent.iterdir()) == [out]


def test_warnings_are_one_line_each(tmp_path: Path, out: Path) -> None:
    arrays = load_digits_views(n_samples=60).views.arrays
    path = tmp_path / "flat.npz"
    with pytest.warns(UserWarning, match="carries nothing"):
        write_views(path, {"pixels": arrays[0], "flat": np.ones((60, 3))})
    result = run_fit(path, out, "--max-iter", 1, "--quiet")
    assert result.exit_code == 0
    flat, unsettled = result.stderr.splitlines()
    assert flat == (
        "manyview: warning: every sample of view 'flat' is the same: it carries nothing"
    )
    assert unsettled.startswith("manyview: warning: the objective was still falling")
    assert len(clusters_in(out.read_text())) == 60


def test_an_interrupted_fit_still_writes_its_labels(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(bar: object, done: int, word: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("manyview.progress.ProgressBar.step", step)
    result = run_fit(data, out)
    assert result.exit_code == 0
    assert (
        "manyview: warning: interrupted: the result is the best so far, that of 2 sweeps"
        in result.stderr
    )
    assert str(out) in plain(result.stdout).replace("\n", "").replace(" ", "")
    assert len(clusters_in(out.read_text())) == N_SAMPLES


def test_an_interrupt_before_the_sweeps_leaves_nothing(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyview.cli.fit.find_dataset", interrupt)
    result = run_fit(data, out)
    assert result.exit_code == 130
    assert result.stderr.strip() == "manyview: interrupted: no labels were made"
    assert not out.exists()


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_an_error_of_the_program_keeps_its_traceback(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def broken(*args: Any) -> NoReturn:
        raise kind("shapes do not match")

    monkeypatch.setattr("manyview.mmc.fit.objective", broken)
    with pytest.raises(kind, match="shapes do not match"):
        run_fit(data, out)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_command_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("manyview.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == ("the command line needs the extra 'app': pip install 'manyview[app]'\n")


def test_an_interrupt_while_it_is_imported_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupt:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "manyview.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "manyview.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "manyview: interrupted: nothing was done\n"


def test_other_missing_modules_are_not_blamed_on_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "manyview.cli.app")
    monkeypatch.setitem(sys.modules, "manyview.cli.demo", None)
    with pytest.raises(ModuleNotFoundError, match=r"manyview\.cli\.demo"):
        main()


@pytest.mark.data
def test_fit_on_real_news(data_dir: Path, out: Path) -> None:
    result = run_fit(data_dir / "3sources.npz", out, k=6)
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len({row["sample"] for row in rows}) == len(rows) == 169  # numbers of the stories
    assert {int(row["cluster"]) for row in rows} <= set(range(6))
    text = plain(result.stdout)
    for view, width in {"bbc": 3560, "guardian": 3631, "reuters": 3068}.items():
        assert re.search(rf"^{view} +{width} +\d+ *$", text, re.M)
    accuracy = re.search(r"ACC (\d\.\d+)", text)
    assert accuracy is not None
    # the largest class is a third of the samples
    assert 0.33 < float(accuracy[1]) <= 1
