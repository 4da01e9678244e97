"""``manyview fit --model`` and ``manyview predict``: what they write, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest

from manyview import read_model
from manyview.datasets import load_digits_views, make_views, write_views

from .command import N_CLUSTERS, N_SAMPLES, assert_refused, clusters_in, plain, run, run_fit


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
