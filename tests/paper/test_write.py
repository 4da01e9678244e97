import csv
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from typer.testing import CliRunner

from manyview.cli.app import app
from manyview.datasets import make_views, write_views
from manyview.experiment import METHODS, Run, read_runs, summarise
from manyview.paper.figures import Files
from manyview.paper.write import write_significance


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the command makes of a small set."""
    folder = tmp_path_factory.mktemp("paper")
    made = make_views(60, 3, (6, 5), random_state=0)
    write_views(folder / "fox.npz", made.views, made.y)
    result = command(folder)
    assert result.exit_code == 0, result.output
    return folder, result.output


def command(folder, *more):
    data = ["--data", str(folder / "fox.npz"), "--out", str(folder / "out")]
    options = ["--repeats", "2", "--no-tune", "--jobs", "1", "--growth-limit", "20"]
    return CliRunner().invoke(app, ["paper", *data, *options, *more])


@pytest.fixture(scope="module", autouse=True)
def small_for_all():
    patch = pytest.MonkeyPatch()
    patch.delenv("MANYVIEW_DATA", raising=False)
    patch.setattr("manyview.cli.paper.LARGE_SAMPLES", 500)
    yield
    patch.undo()


@pytest.mark.slow
def test_everything_is_there(folder):
    out = folder[0] / "out"
    made = {path.name for path in out.iterdir()}
    assert {"table.md", "table.csv", "table.png", "times.csv", "convergence.csv"} <= made
    assert {"ranks.csv", "differences.csv", "differences.png"} <= made
    assert {"convergence-fox.png", "times-made.png", "runs.jsonl"} <= made
    for name in made:
        assert str(Path("out") / name) in folder[1].replace("\n", "") or name == "runs.jsonl"


@pytest.mark.slow
def test_the_table_has_nine_methods_and_no_figures_published_for_another_set(folder):
    text = (folder[0] / "out" / "table.md").read_text()
    for name in METHODS:
        assert f"| {name} |" in text
    assert "(79.6)" not in text  # a set called fox, but not that of the paper
    assert "over 2 seeds" in text


@pytest.mark.slow
def test_times_are_of_both_sets(folder):
    with (folder[0] / "out" / "times.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["data"], line["samples"]) for line in lines} == {
        ("fox", "60"),
        ("made", "256"),
        ("made", "500"),
    }


@pytest.mark.slow
def test_the_slowest_part_is_named(folder):
    assert "slowest: " in folder[1]
    assert "processor minutes" in folder[1]


@pytest.mark.slow
def test_nothing_is_done_twice(folder):
    file = folder[0] / "out" / "runs.jsonl"
    before = read_runs(file)
    written = file.read_text().count('{"run":')
    assert written == len(before) > 20
    assert command(folder[0]).exit_code == 0
    stopped = [run for run in before if run.error]
    # one that a limit stopped may be tried again; read_runs would not tell what is done twice
    assert file.read_text().count('{"run":') - written <= len(stopped)


def test_what_cannot_be_compared_is_rejected_and_nothing_made(tmp_path):
    made = make_views(60, 3, (6, 5), random_state=0)
    write_views(tmp_path / "fox.npz", made.views)
    result = command(tmp_path)
    assert result.exit_code == 2
    assert "has no classes" in result.output
    write_views(tmp_path / "fox.npz", made.views, made.y)
    result = command(tmp_path, "--scaled", "cubes")
    assert result.exit_code == 2
    assert "no scaling 'cubes'" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_file_in_the_way_is_rejected(folder, tmp_path):
    path = tmp_path / "out"
    path.write_text("mine")
    result = CliRunner().invoke(app, ["paper", "--out", str(path)])
    assert result.exit_code == 2
    assert path.read_text() == "mine"


@pytest.mark.slow
@pytest.mark.slow
def test_without_times_the_rest_is_there(folder, tmp_path):
    data = ["--data", str(folder[0] / "fox.npz"), "--out", str(tmp_path / "out")]
    options = ["--repeats", "1", "--no-tune", "--jobs", "1", "--no-times"]
    result = CliRunner().invoke(app, ["paper", *data, *options])
    assert result.exit_code == 0, result.output
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"table.md", "table.png", "ranks.csv", "convergence-fox.png"} <= made
    assert not {name for name in made if name.startswith("times")}


def test_names_that_differ_have_files_that_differ(tmp_path):
    files = Files(tmp_path)
    for name in ("of a b.csv", "of a_b.csv", "of a/b.csv"):
        files.text(name, name)
    assert [path.name for path in files.written] == ["of_a_b.csv", "of_a_b-2.csv", "of_a_b-3.csv"]
    assert [path.read_text() for path in files.written] == [
        "of a b.csv",
        "of a_b.csv",
        "of a/b.csv",
    ]


def test_older_files_are_replaced(tmp_path):
    for content in ("old", "new"):
        Files(tmp_path).text("table.md", content)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


def test_names_are_cut_and_keep_their_suffix(tmp_path):
    files = Files(tmp_path)
    files.figure("x" * 300 + ".png", lambda: plt.subplots()[1])
    (path,) = files.written
    assert path.suffix == ".png"
    assert path.stat().st_size > 100
    assert not plt.get_fignums()


def test_a_table_is_quoted_where_it_must_be(tmp_path):
    files = Files(tmp_path)
    files.csv("t.csv", ("method", "seconds"), [("MMC, discrete", 0.5)])
    assert files.written[0].read_text() == 'method,seconds\n"MMC, discrete",0.5\n'


def test_a_method_that_fails_ranks_last_and_its_differences_tell_of_fewer_sets(tmp_path):
    def scored(method, data, value):
        scores = {} if value is None else {"nmi_geometric": value}
        error = "stopped" if value is None else ""
        return Run(method, data, 0, "default", {}, "none", scores, error=error)

    table = {"MMC": [0.8, 0.8, 0.8], "SEC": [0.5, 0.5, 0.5], "SCMV3DT": [0.9, None, None]}
    runs = [scored(m, d, v) for m, row in table.items() for d, v in zip("pqr", row, strict=True)]
    write_significance(Files(tmp_path), runs, summarise(runs))
    with (tmp_path / "ranks.csv").open() as file:
        ranks = {line["method"]: float(line["mean_rank_nmi"]) for line in csv.DictReader(file)}
    assert ranks == pytest.approx({"MMC": 4 / 3, "SEC": 7 / 3, "SCMV3DT": 7 / 3})
    with (tmp_path / "differences.csv").open() as file:
        sets = {line["other"]: line["n_sets"] for line in csv.DictReader(file)}
    assert sets == {"SEC": "3", "SCMV3DT": "1"}
