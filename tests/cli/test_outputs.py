"""Files that a fit writes, and targets that it rejects."""

import csv
import errno
import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from manyview import MMC, read_model, write_model
from manyview.datasets import load_digits_views, make_views, read_views, write_views
from manyview.mmc.membership import Lazy

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


def test_an_existing_file_is_replaced_only_with_force(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.write_text("precious")
    with monkeypatch.context() as patched:
        patched.setattr("manyview.cli.fit.read_data", must_not_run)
        assert_rejected(run_fit(data, out), r"labels\.csv exists; .*--force")
    assert out.read_text() == "precious"
    assert run_fit(data, out, "--force").exit_code == 0
    assert len(clusters_in(out.read_text())) == N_SAMPLES


@pytest.mark.parametrize("option", ["--out", "--model", "--explain"])
def test_a_file_that_appears_during_the_fit_is_kept(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    theirs = out if option == "--out" else out.with_name(f"theirs{option}")
    whole = MMC.fit

    def meanwhile(model: MMC, views: Any) -> MMC:
        theirs.write_text("theirs")
        return whole(model, views)

    monkeypatch.setattr(MMC, "fit", meanwhile)
    given = [] if option == "--out" else [option, theirs]
    result = run_fit(data, out, *given)
    ours = theirs.with_name(f"{theirs.stem}-2{theirs.suffix}")
    assert result.exit_code == 0
    assert re.search(rf"warning: .*{theirs.name}", result.stderr)
    assert theirs.read_text() == "theirs"
    assert ours.stat().st_size > 100
    assert ours.name in re.sub(r"\s", "", plain(result.stdout))  # it may be wrapped


def test_labels_never_replace_the_data(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.npz"
    copy.write_bytes(data.read_bytes())
    assert_rejected(run_fit(copy, copy, "--force"), r"would replace the data")
    assert copy.read_bytes() == data.read_bytes()


@pytest.mark.parametrize("option", ["--out", "--model", "--explain"])
def test_no_output_replaces_a_data_set_given_by_name(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    copy = tmp_path / "mine.npz"
    copy.write_bytes(data.read_bytes())
    monkeypatch.setenv("MANYVIEW_DATA", str(tmp_path))
    given = ["--out", tmp_path / "labels.csv", option, copy, "--force"]
    assert_rejected(run("fit", "mine", "-k", 3, *given), rf"{option} would replace the data")
    assert copy.read_bytes() == data.read_bytes()


def test_circular_links_are_rejected(data: Path, out: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for option in ("--model", "--explain", "--checkpoint"):
        result = run_fit(data, out, option, tmp_path / "a")
        assert_rejected(result, "leads back to itself|symbolic links|Symlink loop")
    assert not out.exists()


def test_labels_are_written_even_if_the_model_cannot_be(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **options: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    result = run_fit(data, out, "--model", tmp_path / "some.model")
    assert_rejected(result, r"some\.model.*No space left")
    assert len(clusters_in(out.read_text())) == N_SAMPLES


def test_an_interrupt_reports_the_files_written_so_far(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyview.cli.fit.write_model", interrupt)
    result = run_fit(data, out, "--model", tmp_path / "some.model", "--quiet")
    assert result.exit_code == 130
    assert result.stderr == f"manyview: interrupted: written so far: {out}\n"
    assert out.exists()


def test_the_checkpoint_never_replaces_the_data(data: Path, out: Path) -> None:
    before = data.read_bytes()
    rejected = run_fit(data, out, "--checkpoint", data)
    assert_rejected(rejected, r"--checkpoint would replace the data")
    assert data.read_bytes() == before


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_labels_never_replace_the_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr("manyview.cli.fit.read_data", must_not_run)
    same = ["--checkpoint", tmp_path / "folder" / ".." / "fit.csv", *options]
    assert_rejected(run_fit(data, tmp_path / "fit.csv", *same), "name the same file")


def test_labels_never_replace_the_previous_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyview.cli.fit.read_data", must_not_run)
    message = "--out names .*checkpoint"
    (tmp_path / "link").symlink_to(tmp_path / "fit.ckpt")
    for name in ("fit.ckpt", "link"):
        kept = ["--checkpoint", tmp_path / name]
        assert_rejected(run_fit(data, tmp_path / "fit.ckpt.previous", *kept), message)
    (tmp_path / "data.npz.previous").symlink_to(data)
    message = "--checkpoint would replace the data"
    kept = ["--checkpoint", tmp_path / "data.npz"]
    assert_rejected(run_fit(tmp_path / "data.npz.previous", tmp_path / "out.csv", *kept), message)
    assert_rejected(run_fit(data, tmp_path / "out.csv", "--checkpoint", "."), "is a folder")


def test_features_of_each_cluster_are_written(data: Path, out: Path, tmp_path: Path) -> None:
    features = tmp_path / "features.csv"
    result = run_fit(data, out, "--explain", features)
    assert re.search(rf"features +.*{features.name}", plain(result.stdout))
    columns, *rows = csv.reader(io.StringIO(features.read_text()))
    cells = ["view", "feature", "direction", "mean", "others"]
    numbered = [f"{name}_{at}" for at in (1, 2) for name in cells]
    assert columns == ["cluster", "weight", "product", "explains", *numbered]
    views = load_digits_views(n_samples=N_SAMPLES).views
    model = MMC(N_CLUSTERS, random_state=0).fit(views)
    expected = [
        (
            entry.cluster,
            [(*pair, d) for pair, d in zip(entry.features, entry.directions, strict=True)],
        )
        for cluster in range(N_CLUSTERS)
        for order in (1, 2)
        for entry in model.explain(order)
        if entry.cluster == cluster
    ]
    written = [(int(row[0]), [tuple(row[at : at + 3]) for at in (4, 9) if row[at]]) for row in rows]
    assert written == expected


def test_one_view_has_no_second_column_of_features(tmp_path: Path, out: Path) -> None:
    made, _ = make_views(60, 3, (5,), random_state=0)
    write_views(tmp_path / "one.npz", made)
    result = run_fit(tmp_path / "one.npz", out, "--explain", "-", k=3)
    assert result.stdout.splitlines()[0] == (
        "cluster,weight,product,explains,view_1,feature_1,direction_1,mean_1,others_1"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("labels.csv", "--out and --explain name the same file"),
        ("some.npz", "--explain would replace the data"),
        ("older.csv", r"older\.csv exists; .*--force.*--explain"),
        ("missing/features.csv", "--explain: .*missing"),
    ],
)
def test_a_bad_target_of_features_is_rejected_before_the_work(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    (tmp_path / "older.csv").write_text("precious")
    monkeypatch.setattr("manyview.cli.fit.read_data", must_not_run)
    target = data if name == data.name else tmp_path / name
    assert_rejected(run_fit(data, out, "--explain", target), message)
    assert (tmp_path / "older.csv").read_text() == "precious"


def test_labels_and_features_cannot_both_go_to_standard_output(data: Path) -> None:
    assert_rejected(run_fit(data, "-", "--explain", "-"), "--explain are both standard output")


@pytest.mark.parametrize("option", ["--model", "--checkpoint"])
def test_binary_files_cannot_go_to_standard_output(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr("manyview.cli.fit.read_data", must_not_run)
    message = f"{option} - is standard output"
    assert_rejected(run_fit(data, out, option, "-"), message)


def test_names_with_special_characters_survive_the_csv_file(tmp_path: Path, out: Path) -> None:
    views, _ = make_views(60, 3, (4, 4), random_state=0)
    odd = ['a,"b"', "line\nbreak", "carriage\rreturn", "half \ud83d"]
    write_views(tmp_path / "odd.npz", replace(views, feature_names=(np.array(odd),) * 2))
    features = tmp_path / "features.csv"
    assert run_fit(tmp_path / "odd.npz", out, "--explain", features, k=3).exit_code == 0
    with features.open(newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    assert {len(row) for row in rows} == {len(columns)} == {14}
    assert {row[5] for row in rows} == {*odd[:3], "half ?"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/labels.csv", "--out: .*missing"),
        (".", "--out: .*folder"),
        pytest.param(
            "fifo",
            "--out: .*fifo",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here"),
        ),
    ],
)
def test_bad_targets_are_rejected_before_the_work(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    if name == "fifo":
        os.mkfifo(tmp_path / name)
    monkeypatch.setattr("manyview.cli.fit.read_data", must_not_run)
    assert_rejected(run_fit(data, tmp_path / name, "--force"), message)


def test_an_unwritable_folder_is_rejected_before_the_work(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*args: Any, **options: Any) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    # tests may run as root, whom permissions do not restrict
    monkeypatch.setattr("tempfile.TemporaryFile", denied)
    monkeypatch.setattr("manyview.cli.fit.read_data", must_not_run)
    assert_rejected(run_fit(data, out), "--out: .*Permission denied")


def test_if_writing_fails_the_existing_file_is_kept(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> NoReturn:
        raise OSError(28, "No space left on device", str(self))

    out.write_text("precious")
    monkeypatch.setattr(Path, "replace", full)
    result = run_fit(data, out, "--force", "--quiet")
    assert_rejected(result, r"No space left on device")
    assert out.read_text() == "precious"
    assert list(out.parent.iterdir()) == [out]


def test_confidence_and_runner_up_follow_the_cluster(data: Path, out: Path) -> None:
    model = out.with_name("some.model")
    assert run_fit(data, out, "--model", model).exit_code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert list(rows[0]) == ["sample", "cluster", "confidence", "runner_up"]
    membership = read_model(model).membership_
    for row, shares in zip(rows, membership, strict=True):
        assert float(row["confidence"]) == pytest.approx(shares[int(row["cluster"])], abs=5e-4)
        shares[int(row["cluster"])] = -1.0
        assert int(row["runner_up"]) == shares.argmax()


def test_a_single_cluster_has_no_runner_up(data: Path, out: Path) -> None:
    assert run_fit(data, out, k=1).exit_code == 0
    _, first, *_ = out.read_text().splitlines()
    assert first == "0,0,1.000,"


def test_predict_writes_confidence_and_runner_up_too(data: Path, out: Path) -> None:
    model = out.with_name("some.model")
    assert run_fit(data, out, "--model", model, "--quiet").exit_code == 0
    result = run("predict", model, data, "--out", out, "--force")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert list(rows[0]) == ["sample", "cluster", "confidence", "runner_up"]
    membership = read_model(model).predict_proba(read_views(data).views)
    for row, shares in zip(rows, membership, strict=True):
        order = np.argsort(-shares)
        assert [int(row["cluster"]), int(row["runner_up"])] == order[:2].tolist()
        assert float(row["confidence"]) == pytest.approx(shares.max(), abs=5e-4)
    assert f"confidence  {membership.max(axis=1).mean():.2f} on average" in plain(result.stdout)


def test_predict_with_a_model_without_memberships_writes_clusters(data: Path, out: Path) -> None:
    model = MMC(N_CLUSTERS, random_state=0).fit(read_views(data).views)
    model._memberships = Lazy.of(None)  # as read from a file of an earlier version
    path = out.with_name("some.model")
    write_model(path, model)
    assert run("predict", path, data, "--out", out).exit_code == 0
    assert out.read_text().startswith("sample,cluster\n")
