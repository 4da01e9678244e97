"""The command check, and tables on the command line."""

import re
from pathlib import Path

import numpy as np
import pytest

from manyview import read_model
from manyview.datasets import make_views

from .command import assert_rejected, plain, run

PREFIXES = ("--view", "lab=lab*", "--view", "image=img*,sex")


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """A German table of two views, a category, dates and classes."""
    (lab, image), y = make_views(60, 3, (4, 3), random_state=0)
    lines = ["Nr_ID;" + ";".join([f"lab{d}" for d in range(4)] + [f"img{d}" for d in range(3)])]
    lines[0] += ";sex;Datum;Gruppe"
    for n in range(60):
        cells = [f"{x:.6f}".replace(".", ",") for x in (*lab[n], *image[n])]
        cells = [f"{n:03}", *cells, "fm"[n % 2], "01.02.2020", f"Gr\u00f6\u00dfe {y[n]}"]
        lines.append(";".join(cells))
    path = tmp_path / "patienten.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def test_check_shows_what_a_fit_would_do(patients: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    result = run("check", patients, *PREFIXES, "--classes", "Gruppe", "-k", 3, columns=200)
    text = plain(result.stdout)
    assert result.exit_code == 0
    assert "separator ';', decimal mark ',', cp1252" in text
    assert "ids are in column 'Nr_ID'" in text
    assert "1 columns are in no view: 'Datum'" in text
    assert re.search(r"^lab +4 +dense +0 \(0\.0%\) +0 \(0\.0%\) +(rows|columns) *$", text, re.M)
    assert re.search(r"^image +5 +dense", text, re.M)
    assert re.search(r"^samples +60 \(ids 000, 001, 002, \.\.\.\)", text, re.M)
    assert re.search(r"^classes +3, for scoring only", text, re.M)
    assert re.search(r"^result +a fit accepts", text, re.M)
    assert sorted(tmp_path.iterdir()) == before


def test_check_shows_the_scaling_of_the_fit(patients: Path, tmp_path: Path) -> None:
    saved = tmp_path / "a.model"
    options = [*PREFIXES, "--drop", "Gruppe"]
    text = plain(run("check", patients, *options, "-k", 3, columns=200).stdout)
    fitted = run("fit", patients, *options, "-k", 3, "-o", tmp_path / "out.csv", "--model", saved)
    assert fitted.exit_code == 0
    for name, scaling in read_model(saved).normalize_.items():
        assert re.search(rf"^{name} .* {scaling} *$", text, re.M)


def test_check_prints_before_it_rejects(patients: Path) -> None:
    lines = patients.read_bytes().split(b"\r\n")
    lines[5] = lines[5].replace(b"004;", b"004;;", 1).rsplit(b";", 4)[0] + b";f;01.02.2020;x"
    patients.write_bytes(b"\r\n".join(lines))
    result = run("check", patients, *PREFIXES, "-k", 61, columns=200)
    assert result.exit_code == 2
    text = plain(result.stdout)
    assert re.search(r"^lab +4 +dense +0 \(0\.0%\) +1 \(0\.4%\)", text, re.M)
    assert "a fit would reject these data" in text
    last = result.stderr.splitlines()[-1]
    assert re.search("error: -k 61 is more than the 60 samples", last)
    fitted = run("fit", patients, *PREFIXES, "-k", 61, "-o", patients.with_name("out.csv"))
    assert fitted.exit_code == 2
    assert fitted.stderr.splitlines()[-1] == last
    assert not patients.with_name("out.csv").exists()


def test_check_of_files_that_are_no_tables(data: Path) -> None:
    text = plain(run("check", data, columns=200).stdout)
    assert re.search(r"^pixels +64 ", text, re.M)
    assert "as a fit of 10 clusters would choose; -k" in text
    assert_rejected(run("check", data, "--sep", ";"), "received sep=';', which is for tables")
    assert_rejected(run("check", data.with_name("none.npz")), "no file")
    assert run("check", "digits").exit_code == 0


def test_the_model_says_what_to_read_of_new_samples(patients: Path, tmp_path: Path) -> None:
    saved, out = tmp_path / "a.model", tmp_path / "out.csv"
    assert run("fit", patients, *PREFIXES, "-k", 3, "-o", out, "--model", saved).exit_code == 0
    kept = read_model(saved)
    assert [names.tolist() for names in kept.feature_names_in_][1][-2:] == ["sex=f", "sex=m"]
    lines = patients.read_text("cp1252").splitlines()
    more = tmp_path / "more.csv"
    more.write_text("\n".join([lines[0], *lines[2:21:2]]))  # women are not among them
    result = run("predict", saved, more, "-o", "-")
    assert result.exit_code == 0, result.stderr
    labels = [int(line.split(",")[1]) for line in result.stdout.splitlines()[1:]]
    assert labels == np.asarray(kept.predict(_views_of(patients, kept)))[1:20:2].tolist()


def _views_of(path: Path, model: object) -> object:
    from manyview.datasets import read_views

    return read_views(path, views={"lab": "lab*", "image": ["img*", "sex"]}).views


def test_options_of_tables_are_checked(patients: Path, tmp_path: Path) -> None:
    for text in ("lab", "=lab*", "lab=", "lab=,"):
        assert_rejected(run("check", patients, "--view", text), "expected NAME=COLUMN")
    file = tmp_path / "views.json"
    file.write_text('{"lab": "lab*", "image": "img*"}')
    assert "image" in run("check", patients, "--views-file", file).stdout
    both = run("check", patients, "--views-file", file, "--view", "a=sex")
    assert_rejected(both, "received both")
    assert_rejected(
        run("check", patients, "--drop", "sexx"), "no column 'sexx'; did you mean 'sex'"
    )
    assert_rejected(run("check", patients, "--max-categories", -1), "expected at least 0")


def test_options_of_tables_reach_every_command(patients: Path) -> None:
    options = (*PREFIXES, "--classes", "Gruppe", "--encoding", "cp1252", "--decimal", ",")
    result = run(
        "compare", patients, *options, "--methods", "SEC", "--repeats", 1, "--jobs", 1, "-q"
    )
    assert result.exit_code == 0, result.stderr
    assert "patienten" in result.stdout
    chosen = run("choose-k", patients, *PREFIXES, "--to", 3, "--splits", 1, "--sep", ";", "-q")
    assert chosen.exit_code == 0, chosen.stderr
