import csv
import html
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from manyview import MMC, read_model
from manyview.cli.app import fit
from manyview.datasets import load_digits_views, make_views, write_views

from .command import (
    N_CLUSTERS,
    N_SAMPLES,
    assert_rejected,
    clusters_in,
    must_not_run,
    plain,
    run,
    run_fit,
)


def test_help_of_fit_has_every_option_and_default() -> None:
    text = plain(run("fit", "--help", columns=120).stdout)
    for name, parameter in inspect.signature(fit).parameters.items():
        called = {"data": "DATA", "n_clusters": "-k", "n_jobs": "--jobs", "saved": "--model"}
        option = called.get(name, f"--{name.replace('_', '-')}")
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


def test_an_unknown_data_set_gets_a_hint(tmp_path: Path) -> None:
    result = run("fit", "digit", "-k", 10, "-o", tmp_path / "labels.csv")
    assert result.exit_code == 2
    assert re.search("'digit'.* did you mean ", plain(result.stderr))


def test_an_empty_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_rejected(run("fit", "", "-k", 3), "'DATA': an empty name")
    assert_rejected(run("predict", "some.model", ""), "'DATA': an empty name")
    assert_rejected(run("compare", ""), "an empty name")


def test_fit_continues_from_a_checkpoint(data: Path, tmp_path: Path) -> None:
    kept = tmp_path / "fit.ckpt"
    options = [data, "-k", 4, "--patience", 0, "--tol", 0, "-q", "--checkpoint", kept]
    for max_iter, name in ((2, "short"), (4, "on")):
        assert run("fit", *options, "--max-iter", max_iter, "-o", tmp_path / name).exit_code == 0
    whole = [*options[:-1], tmp_path / "other.ckpt", "--max-iter", 4]
    assert run("fit", *whole, "-o", tmp_path / "whole").exit_code == 0
    assert (tmp_path / "on").read_text() == (tmp_path / "whole").read_text()
    assert kept.exists()


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
    assert header == ["sample", "cluster", "confidence", "runner_up"]
    assert {row[0] for row in rows} == {f"p{n}" for n in range(30)}
    for _, cluster, confidence, runner_up in rows:
        assert 0.0 < float(confidence) <= 1.0
        assert {cluster, runner_up} == {"0", "1"}
    rejected = run("fit", folder, "-k", 2, "--out", folder / "labels.csv")
    assert_rejected(rejected, "--out would")
    rejected = run("fit", folder, "-k", 2, "--out", "-", "--checkpoint", folder / "a.csv")
    assert_rejected(rejected, "--checkpoint would")


def test_fit_finds_clear_groups_of_a_plain_table(tmp_path: Path) -> None:
    """Four columns in different units, three groups on a line."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=150)
    table = 6.0 * y[:, None] + rng.standard_normal((150, 4))
    table = table * [0.01, 1.0, 30.0, 1000.0] + [0.0, 37.0, 120.0, 5000.0]
    for name, view, header in (("a", table[:, :2], "age,bmi"), ("b", table[:, 2:], "ldl,crp")):
        rows = np.column_stack([np.arange(150), view])
        np.savetxt(
            tmp_path / f"{name}.csv",
            rows,
            fmt="%.8g",
            delimiter=",",
            header=f"id,{header}",
            comments="",
        )
    out = tmp_path.parent / "plain.csv"
    result = run("fit", tmp_path, "-k", 3, "--out", out)
    assert result.exit_code == 0, result.output
    assert "a columns, b columns" in result.output
    assert adjusted_rand_score(y, clusters_in(out.read_text())) >= 0.98


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


def test_each_view_can_have_its_own_scaling(data: Path, out: Path, tmp_path: Path) -> None:
    saved = tmp_path / "digits.model"
    scaling = ("--normalize", "pixels=columns,gradients=none")
    assert run_fit(data, out, *scaling, "--model", saved).exit_code == 0
    found = read_model(saved).normalize_
    expected = {"pixels": "columns", "fourier": "rows", "projections": "rows", "gradients": None}
    assert found == expected


@pytest.mark.parametrize(
    "value", ["cells", "pixels=cells", "cells=rows", "rows,pixels=cells", "cells=rows,cells=none"]
)
def test_an_unknown_scaling_or_view_is_rejected(data: Path, out: Path, value: str) -> None:
    assert_rejected(run_fit(data, out, "--normalize", value), "cells")
    assert not out.exists()


def test_normalize_none_is_no_scaling(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(data: Path, out: Path, model: MMC, **options: Any) -> None:
        seen.append(model.normalize)

    monkeypatch.setattr("manyview.cli.fit.fit_file", spy)
    run_fit(data, out, "--normalize", "none")
    assert seen == [None]


def test_the_same_seed_gives_the_same_file(data: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        run_fit(data, file, "--seed", 5, "--init", "random")
    assert files[0].read_bytes() == files[1].read_bytes()


def test_fit_prints_a_summary(data: Path, out: Path) -> None:
    result = run_fit(data, out)
    text = plain(result.stdout)
    sizes = np.bincount(clusters_in(out.read_text()), minlength=N_CLUSTERS)
    assert f"{N_CLUSTERS} ({', '.join(map(str, sizes))} samples)" in text
    assert re.search(rf"^samples +{N_SAMPLES} *$", text, re.M)
    row = re.search(r"^gradients +72 +\d+ +(\d+)% +(\d+)% *$", text, re.M)
    assert row is not None
    assert 0 <= int(row[1]) < 20 < int(row[2]) <= 100  # the views are much alike
    assert re.search(r"^iterations +\d+ *$", text, re.M)
    assert re.search(r"^objective +[\d.]+ to [\d.]+ *$", text, re.M)
    assert re.search(r"^seconds +[\d.]+ *$", text, re.M)
    assert re.search(r"ACC 0\.\d+, NMI \(geometric\) 0\.\d+, ARI 0\.\d+ \(the known", text)
    assert "MMC [" in result.stderr
    assert "manyview:" not in result.stderr


def test_many_cluster_sizes_are_printed_as_a_range(data: Path, out: Path) -> None:
    text = plain(run_fit(data, out, "--init", "kmeans", k=25).stdout)
    assert re.search(r"^clusters +25 \(\d+ to \d+ samples\) *$", text, re.M)


def test_without_classes_nothing_is_scored(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "unlabelled.npz"
    write_views(path, load_digits_views(n_samples=60).views)
    result = run_fit(path, out)
    assert result.exit_code == 0
    assert "ACC" not in result.stdout
    assert len(clusters_in(out.read_text())) == 60


def test_names_from_a_file_are_printed_without_markup(tmp_path: Path, out: Path) -> None:
    arrays = load_digits_views(n_samples=60).views.arrays
    path = tmp_path / "odd.npz"
    write_views(path, {"[bold]text[/bold]": arrays[0], "[/]:smile:": arrays[1]})
    text = plain(run_fit(path, out).stdout)
    assert "[bold]text[/bold]" in text
    assert "[/]:smile:" in text


def test_quiet_prints_nothing(data: Path, out: Path) -> None:
    result = run_fit(data, out, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert len(clusters_in(out.read_text())) == N_SAMPLES


@pytest.mark.slow
def test_standard_output_holds_labels_only(data: Path, tmp_path: Path) -> None:
    args = [sys.executable, "-m", "manyview", "fit", str(data), "-k", str(N_CLUSTERS), "-o", "-"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0
    assert len(clusters_in(done.stdout)) == N_SAMPLES
    assert "ACC" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_installed_command_ends_with_the_exit_code(tmp_path: Path) -> None:
    script = str(Path(sys.executable).with_name("manyview"))
    args = [script, "fit", "nowhere.npz", "-k", "3"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch("manyview: error: .*nowhere.npz.*\n", done.stderr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "0"], r"'-k': 0"),
        (["-k", "many"], r"'-k': .*'many'.*--help"),
        (["-k", "121"], r"-k 121"),
        (["--rank", "3"], r"--rank 3"),
        (["--gamma", "-1"], r"'--gamma': -1\.0"),
        (["--gamma", "inf"], r"'gamma' parameter .* Got inf"),
        (["--penalty", "l1"], r"'--penalty': 'l1'"),
        (["--seed", "4294967296"], r"'--seed': 4294967296"),
        (["--jobs", "0"], r"'n_jobs'"),
        (["--speed", "9"], r"--speed.*see 'manyview fit --help'"),
    ],
)
def test_bad_values_are_rejected(data: Path, out: Path, options: list[str], message: str) -> None:
    assert_rejected(run_fit(data, out, *options), message)
    assert not out.exists()


def test_the_number_of_clusters_and_the_data_are_required(data: Path) -> None:
    assert_rejected(run("fit", data), r"Missing option .*'-k'")
    assert_rejected(run("fit", "-k", 3), "Missing argument 'DATA'")


def _no_views(path: Path) -> None:
    np.savez(path, y=np.arange(3))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("missing.npz", lambda path: None),
        ("folder.npz", Path.mkdir),
        ("table.xyz", Path.touch),
        ("empty.npz", Path.touch),
        ("views.npz", _no_views),
    ],
)
def test_bad_files_are_rejected_by_name(
    tmp_path: Path, out: Path, name: str, make: Callable[[Path], None]
) -> None:
    make(tmp_path / name)
    assert_rejected(run_fit(tmp_path / name, out), re.escape(name))
    assert not out.exists()


def test_warnings_are_one_line_each(tmp_path: Path, out: Path) -> None:
    arrays = load_digits_views(n_samples=60).views.arrays
    path = tmp_path / "flat.npz"
    with pytest.warns(UserWarning, match="'flat'"):
        write_views(path, {"pixels": arrays[0], "flat": np.ones((60, 3))})
    result = run_fit(path, out, "--max-iter", 1, "--quiet")
    assert result.exit_code == 0
    constant, unfinished = result.stderr.splitlines()
    assert re.match("manyview: warning: .*'flat'", constant)
    assert re.match("manyview: warning: .*objective", unfinished)
    assert len(clusters_in(out.read_text())) == 60


def test_an_interrupted_fit_still_writes_its_labels(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(bar: object, done: int, word: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("manyview.iterate.ProgressBar.step", step)
    result = run_fit(data, out)
    assert result.exit_code == 130  # tells scripts that the fit is unfinished
    assert "manyview: warning: interrupted" in result.stderr
    assert str(out) in plain(result.stdout).replace("\n", "").replace(" ", "")
    assert len(clusters_in(out.read_text())) == N_SAMPLES


def test_an_interrupt_after_the_fit_leaves_out_confidences(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyview.mmc.membership.Training.memberships", interrupt)
    saved = tmp_path / "some.model"
    result = run_fit(data, out, "--model", saved)
    assert result.exit_code == 130
    assert "manyview: warning: interrupted after the fit" in result.stderr
    assert len(clusters_in(out.read_text())) == N_SAMPLES
    assert read_model(saved).labels_.tolist() == clusters_in(out.read_text())


def test_an_interrupt_before_the_fit_writes_nothing(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **options: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyview.cli.fit.read_data", interrupt)
    result = run_fit(data, out)
    assert result.exit_code == 130
    assert result.stderr.strip() == "manyview: interrupted: nothing was written"
    assert not out.exists()


def test_an_internal_error_keeps_its_traceback(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> NoReturn:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(MMC, "fit", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        run_fit(data, out)


@pytest.mark.data
def test_fit_on_real_news(data_dir: Path, out: Path) -> None:
    result = run_fit(data_dir / "3sources.npz", out, k=6)
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len({row["sample"] for row in rows}) == len(rows) == 169  # numbers of the stories
    assert {int(row["cluster"]) for row in rows} <= set(range(6))
    text = plain(result.stdout)
    for view, width in {"bbc": 3560, "guardian": 3631, "reuters": 3068}.items():
        assert re.search(rf"^{view} +{width} +\d+ +\d+% +\d+% *$", text, re.M)
    accuracy = re.search(r"ACC (\d\.\d+)", text)
    assert accuracy is not None
    # the largest class is a third of the samples
    assert 0.33 < float(accuracy[1]) <= 1


@pytest.fixture(scope="module")
def saved(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    path = folder / "some.model"
    assert run_fit(data, folder / "labels.csv", "--model", path).exit_code == 0
    return path


@pytest.fixture
def others(tmp_path: Path) -> Path:
    digits = load_digits_views(n_samples=2 * N_SAMPLES)
    path = tmp_path / "others.npz"
    write_views(path, digits.views.take(slice(N_SAMPLES, None)), digits.y[N_SAMPLES:])
    return path


def test_the_model_file_holds_the_fitted_model(data: Path, saved: Path) -> None:
    labels = clusters_in((saved.parent / "labels.csv").read_text())
    assert read_model(saved).labels_.tolist() == labels


def test_predict_writes_the_predictions_of_the_model(saved: Path, others: Path, out: Path) -> None:
    result = run("predict", saved, others, "--out", out)
    assert result.exit_code == 0
    digits = load_digits_views(n_samples=2 * N_SAMPLES)
    expected = read_model(saved).predict(digits.views.take(slice(N_SAMPLES, None)))
    assert clusters_in(out.read_text()) == expected.tolist()
    text = plain(result.stdout)
    sizes = ", ".join(map(str, np.bincount(expected, minlength=N_CLUSTERS)))
    for part in (f"samples     {N_SAMPLES}", f"({sizes} samples)", "ACC", str(out)):
        assert part in text


def test_predicted_labels_on_standard_output_stand_alone(saved: Path, others: Path) -> None:
    result = run("predict", saved, others, "-o", "-")
    assert len(clusters_in(result.stdout)) == N_SAMPLES
    assert "standard output" in plain(result.stderr)
    assert run("predict", saved, others, "-o", "-", "-q").stderr == ""


def test_a_folder_is_read_by_the_named_columns(tmp_path: Path) -> None:
    views, y = make_views(40, 2, (3, 4), random_state=0)
    folder = tmp_path / "patients"
    folder.mkdir()
    for name, X in zip(("genes", "proteins"), views, strict=True):
        rows = ["\t".join(["barcode", "age", *(f"{name}{d}" for d in range(X.shape[1]))])]
        rows += ["\t".join([f"P{n:02}", "50", *map(repr, row)]) for n, row in enumerate(X.tolist())]
        (folder / f"{name}.tsv").write_text("\n".join(rows))
    lines = [f"P{n:02}\t{label}\t{n % 3}" for n, label in enumerate(y)]
    (folder / "labels.tsv").write_text("\n".join(["barcode\tsubtype\twave", *lines]))
    out, model = tmp_path / "labels.csv", tmp_path / "patients.model"
    assert_rejected(run_fit(folder, out, k=2), "--id-column")
    named = ["--id-column", "barcode", "--classes", "subtype"]
    result = run_fit(folder, out, "--model", model, *named, k=2)
    assert result.exit_code == 0
    assert "ACC 1.000" in plain(result.stdout)
    assert out.read_text().splitlines()[1].startswith("P00,")
    result = run("predict", model, folder, "-o", tmp_path / "again.csv", *named)
    assert "ACC 1.000" in plain(result.stdout)


def test_columns_of_data_without_columns_are_rejected(data: Path, saved: Path, out: Path) -> None:
    assert_rejected(run_fit(data, out, "--id-column", "id"), "some.npz|id")
    assert_rejected(run_fit("digits", out, "--classes", "y"), "'digits'")
    assert_rejected(run("predict", saved, "digits", "-o", out, "--id-column", "a"), "'digits'")
    assert not out.exists()


def test_other_views_than_those_of_the_model_are_rejected(
    saved: Path, tmp_path: Path, out: Path
) -> None:
    path = tmp_path / "other.npz"
    write_views(path, make_views(20, 2, (3, 4)).views)
    assert_rejected(run("predict", saved, path, "--out", out), "view")
    assert not out.exists()


def test_other_files_than_models_are_rejected(
    data: Path, others: Path, out: Path, tmp_path: Path
) -> None:
    assert_rejected(run("predict", data, others, "--out", out), r"some\.npz")
    assert_rejected(run("predict", tmp_path / "none", others, "--out", out), "none")
    assert_rejected(run("predict", tmp_path, others, "--out", out), "folder")
    assert not out.exists()


def test_existing_files_are_kept(data: Path, saved: Path, others: Path, out: Path) -> None:
    out.write_text("older")
    assert_rejected(run("predict", saved, others, "--out", out), "exists; .*--out")
    assert out.read_text() == "older"
    kept = saved.read_bytes()
    for given in (others, saved):
        rejected = run("predict", saved, others, "--out", given, "--force")
        assert_rejected(rejected, "--out would replace the (data|model)")
    assert_rejected(run_fit(data, "-", "--model", saved), "exists; .*--model")
    assert_rejected(run_fit(data, out, "--force", "--model", out), "name the same file")
    assert saved.read_bytes() == kept


def test_the_report_is_a_page_with_the_warnings_of_the_fit(
    data: Path, out: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    result = run_fit(data, out, "--report", page, "--max-iter", 1, "--quiet")
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    warning = result.stderr.removeprefix("manyview: warning: ").strip()
    assert warning
    assert html.escape(warning) in text
    assert "Known classes are used for scoring only" in text


def test_a_report_that_cannot_be_written_is_rejected_before_the_fit(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MMC, "fit", must_not_run)
    page = tmp_path / "page.html"
    page.write_text("before")
    assert_rejected(run_fit(data, out, "--report", page), "page.html exists; pass --force")
    assert_rejected(run_fit(data, out, "--report", tmp_path), "--report: .* is a folder")
    assert_rejected(run_fit(data, out, "--report", tmp_path / "no" / "page.html"), "no folder")
    assert_rejected(run_fit(data, out, "--report", out), "same file")
    assert_rejected(run_fit(data, out, "--report", data, "--force"), "would replace the data")
    assert_rejected(run_fit(data, out, "--report", "-"), "--report - is standard output")
    assert page.read_text() == "before"
    assert not out.exists()


def test_a_report_replaces_a_file_by_force(data: Path, out: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("before")
    assert run_fit(data, out, "--report", page, "--force").exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_identical_new_samples_give_no_warning(saved: Path, tmp_path: Path) -> None:
    digits = load_digits_views(n_samples=1)
    path = tmp_path / "alike.npz"
    write_views(path, digits.views.take([0, 0, 0]))
    result = run("predict", saved, path, "-o", "-", "-q")
    assert result.stderr == ""
    assert len(set(clusters_in(result.stdout))) == 1


def test_fit_prints_the_path_of_the_model(data: Path, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.model"
    assert str(path) in plain(run_fit(data, out, "--model", path).stdout).replace("\n", "")
