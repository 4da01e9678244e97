import csv
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

from manyview import MMC, read_model
from manyview.cli.app import fit
from manyview.datasets import load_digits_views, make_views, write_views

from .command import (
    N_CLUSTERS,
    N_SAMPLES,
    assert_refused,
    clusters_in,
    plain,
    run,
    run_fit,
)


def test_help_of_fit_tells_every_option_and_default() -> None:
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


def test_a_name_that_is_none_is_told_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANYVIEW_DATA", raising=False)
    result = run("fit", "digit", "-k", 10, "-o", tmp_path / "labels.csv")
    assert result.exit_code == 2
    assert "did you mean digits?" in plain(result.stderr)


def test_an_empty_name_is_not_the_folder_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(run("fit", "", "-k", 3), "'DATA': an empty name; expected a file")
    assert_refused(run("predict", "some.model", ""), "'DATA': an empty name")
    assert_refused(run("compare", ""), "an empty name; expected a file")


def test_fit_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    kept = tmp_path / "fit.ckpt"
    options = ["digits", "-k", 10, "--patience", 0, "--tol", 0, "-q", "--checkpoint", kept]
    for sweeps, name in ((2, "short"), (4, "on")):
        assert run("fit", *options, "--max-iter", sweeps, "-o", tmp_path / name).exit_code == 0
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
    assert header == ["sample", "cluster"]
    assert {sample for sample, _ in rows} == {f"p{n}" for n in range(30)}
    refused = run("fit", folder, "-k", 2, "--out", folder / "labels.csv")
    assert_refused(refused, "--out would be written among the views")
    refused = run("fit", folder, "-k", 2, "--out", "-", "--checkpoint", folder / "a.csv")
    assert_refused(refused, "--checkpoint would be written among the views")


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
        (["--penalty", "l1"], r"'--penalty': 'l1' is not one of 'l21', 'frobenius'"),
        (["--indicator", "soft"], r"'--indicator': 'soft' is not one of"),
        (["--init", "zero"], r"'--init': 'zero' is not one of"),
        (["--n-init", "0"], r"'--n-init': 0; expected at least 1"),
        (["--max-iter", "0"], r"'--max-iter': 0; expected at least 1"),
        (["--tol", "-1"], r"'--tol': -1\.0; expected at least 0"),
        (["--normalize", "all"], r"'--normalize': 'all' is not one of"),
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

    monkeypatch.setattr("manyview.iterate.ProgressBar.step", step)
    result = run_fit(data, out)
    assert result.exit_code == 130  # a script is not to take them for those of a whole fit
    assert (
        "manyview: warning: interrupted: the result is the best so far, that of 2 sweeps"
        in result.stderr
    )
    assert str(out) in plain(result.stdout).replace("\n", "").replace(" ", "")
    assert len(clusters_in(out.read_text())) == N_SAMPLES


def test_an_interrupt_before_the_sweeps_leaves_nothing(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **options: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyview.cli.fit.find_dataset", interrupt)
    result = run_fit(data, out)
    assert result.exit_code == 130
    assert result.stderr.strip() == "manyview: interrupted: nothing was written"
    assert not out.exists()


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_an_error_of_the_program_keeps_its_traceback(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def broken(*args: Any) -> NoReturn:
        raise kind("shapes do not match")

    monkeypatch.setattr("manyview.mmc.solver.objective", broken)
    with pytest.raises(kind, match="shapes do not match"):
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
        assert re.search(rf"^{view} +{width} +\d+ *$", text, re.M)
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


def test_the_model_is_the_one_that_was_fitted(data: Path, saved: Path) -> None:
    labels = clusters_in((saved.parent / "labels.csv").read_text())
    assert read_model(saved).labels_.tolist() == labels


def test_other_samples_are_put_into_its_clusters(saved: Path, others: Path, out: Path) -> None:
    result = run("predict", saved, others, "--out", out)
    assert result.exit_code == 0
    digits = load_digits_views(n_samples=2 * N_SAMPLES)
    expected = read_model(saved).predict(digits.views.take(slice(N_SAMPLES, None)))
    assert clusters_in(out.read_text()) == expected.tolist()
    told = plain(result.stdout)
    sizes = ", ".join(map(str, np.bincount(expected, minlength=N_CLUSTERS)))
    for part in (f"samples   {N_SAMPLES}", f"({sizes} samples)", "ACC", str(out)):
        assert part in told


def test_labels_to_standard_output_stand_alone(saved: Path, others: Path) -> None:
    result = run("predict", saved, others, "-o", "-")
    assert len(clusters_in(result.stdout)) == N_SAMPLES
    assert "standard output" in plain(result.stderr)
    assert run("predict", saved, others, "-o", "-", "-q").stderr == ""


def test_a_folder_is_read_by_the_columns_that_are_named(tmp_path: Path) -> None:
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
    assert_refused(run_fit(folder, out, k=2), "2 columns are in all files .* --id-column")
    named = ["--id-column", "barcode", "--classes", "subtype"]
    result = run_fit(folder, out, "--model", model, *named, k=2)
    assert result.exit_code == 0
    assert "ACC 1.000" in plain(result.stdout)
    assert out.read_text().splitlines()[1].startswith("P00,")
    result = run("predict", model, folder, "-o", tmp_path / "again.csv", *named)
    assert "ACC 1.000" in plain(result.stdout)


def test_columns_of_what_has_none_are_refused(data: Path, saved: Path, out: Path) -> None:
    assert_refused(run_fit(data, out, "--id-column", "id"), "a column of a folder")
    assert_refused(run_fit("digits", out, "--classes", "y"), "'digits' is a set")
    assert_refused(run("predict", saved, "digits", "-o", out, "--id-column", "a"), "is a set")
    assert not out.exists()


def test_views_of_another_kind_are_refused(saved: Path, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "other.npz"
    write_views(path, make_views(20, 2, (3, 4)).views)
    assert_refused(run("predict", saved, path, "--out", out), "view")
    assert not out.exists()


def test_what_is_no_model_is_refused(data: Path, others: Path, out: Path, tmp_path: Path) -> None:
    assert_refused(run("predict", data, others, "--out", out), "some.npz' cannot be used: .*no mod")
    assert_refused(run("predict", tmp_path / "none", others, "--out", out), "no file")
    assert_refused(run("predict", tmp_path, others, "--out", out), "is a folder")
    assert not out.exists()


def test_nothing_is_replaced(data: Path, saved: Path, others: Path, out: Path) -> None:
    out.write_text("older")
    assert_refused(run("predict", saved, others, "--out", out), "exists; give another --out")
    assert out.read_text() == "older"
    kept = saved.read_bytes()
    for given in (others, saved):
        refused = run("predict", saved, others, "--out", given, "--force")
        assert_refused(refused, "--out would replace the (data|model)")
    assert_refused(run_fit(data, "-", "--model", saved), "exists; give another --model")
    assert_refused(run_fit(data, out, "--force", "--model", out), "name the same file")
    assert saved.read_bytes() == kept


def test_samples_that_are_alike_are_no_reason_to_warn(saved: Path, tmp_path: Path) -> None:
    digits = load_digits_views(n_samples=1)
    path = tmp_path / "alike.npz"
    write_views(path, digits.views.take([0, 0, 0]))
    result = run("predict", saved, path, "-o", "-", "-q")
    assert result.stderr == ""
    assert len(set(clusters_in(result.stdout))) == 1


def test_the_way_out_is_told_where_one_file_has_no_usual_column(
    saved: Path, tmp_path: Path, out: Path
) -> None:
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "pixels.csv").write_text("barcode,a\nP1,2\n")
    assert_refused(run("predict", saved, folder, "-o", out), r"\(id_column, --id-column\)")


def test_where_the_fit_is_told_of_the_model(data: Path, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.model"
    assert str(path) in plain(run_fit(data, out, "--model", path).stdout).replace("\n", "")
