import csv
import io
from dataclasses import replace

import pytest

from manyview.experiment import Run, summarise
from manyview.experiment.summary import as_csv, as_markdown


def run(method, acc, seed=0, protocol="default", data="fox", error=""):
    scores = {} if error else {"acc": acc, "nmi_geometric": acc / 2}
    return Run(method, data, seed, protocol, {"rank": 5}, scores=scores, error=error)


ROWS = summarise(
    [
        run("MMC", 0.8),
        run("MMC", 0.6, seed=1),
        run("SEC", 0.5),
        run("SEC", 0.9, protocol="tuned"),
        run("KCTD", 0.0, error="no | memory"),
        run("MMC", 0.3, data="own"),
    ]
)


def test_csv_holds_all_values_of_the_rows():
    lines = list(csv.DictReader(io.StringIO(as_csv(ROWS))))
    assert len(lines) == len(ROWS)
    assert float(lines[0]["acc_mean"]) == ROWS[0].mean["acc"]
    assert lines[0]["published_acc"] == "0.7962"
    assert lines[2]["protocol"] == "tuned"
    assert lines[3]["errors"] == "no | memory"
    assert lines[3]["acc_mean"] == ""
    assert lines[4]["published_acc"] == ""
    assert lines[4]["n_iter"] == lines[3]["seconds"] == ""  # empty, not NaN


def cells(markdown):
    return [
        [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]
        for line in markdown.splitlines()
    ]


def test_markdown_has_a_line_per_method_and_two_columns_per_data_set():
    head, _, *body = cells(as_markdown(ROWS))
    assert head == ["method", "scaled", "fox ACC", "fox NMI", "own ACC", "own NMI"]
    assert [line[0] for line in body] == ["MMC", "SEC", "SEC, tuned with labels", "KCTD"]
    assert {len(line) for line in body} == {6}


def test_cells_have_the_deviation_of_several_seeds_and_the_published_score():
    body = cells(as_markdown(ROWS))[2:]
    assert body[0][2] == "**70.0±10.0** (79.6)"
    assert body[0][4] == "**30.0**"


def test_the_best_of_each_protocol_is_bold():
    body = cells(as_markdown(ROWS))[2:]
    assert body[1][2] == "50.0 (43.7)"
    assert body[2][2] == "**90.0** (43.7)"


def test_a_failure_shows_its_reason():
    body = cells(as_markdown(ROWS))[2:]
    assert body[3][2] == "no / memory"


def test_data_set_names_are_escaped():
    table = as_markdown(summarise([run("MMC", 0.5, data="a|b")]))
    assert {len(line) for line in cells(table)} == {4}


def test_two_rows_for_one_cell_are_rejected():
    runs = [replace(run("MMC", acc), params={"rank": rank}) for acc, rank in ((0.7, 5), (0.9, 9))]
    with pytest.raises(ValueError, match="MMC has two rows on 'fox'"):
        as_markdown(summarise(runs))


def test_another_data_set_of_the_same_name_has_no_published_scores():
    (row,) = summarise([replace(run("MMC", 0.7), n_samples=60)])
    assert row.published is None
    (row,) = summarise([replace(run("MMC", 0.7), n_samples=1523)])
    assert row.published == (0.7962, 0.7139)
