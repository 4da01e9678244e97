from dataclasses import replace

import pytest

from manyview.report.comparison import COLUMNS, convergence, spread, standings, time_and_quality
from manyview.report.text import MISSING


def _column(title):
    return [column.title for column in COLUMNS].index(title) - 1


def test_the_best_is_marked_within_its_protocol(plain, runs_of):
    runs = runs_of(plain, methods=("SEC", "MMC"))
    runs += runs_of(plain, methods=("KCTD",), protocol="tuned")
    (standing,) = standings(runs)
    assert [line.cells[_column("ACC")].is_best for line in standing.lines] == [False, True, True]
    assert [line.label for line in standing.lines] == ["SEC", "MMC", "KCTD †"]


def test_figures_that_look_the_same_are_best_together(plain, runs_of):
    first = runs_of(plain, methods=("SEC",), scores=dict.fromkeys(_SCORES, 0.71230))
    second = runs_of(plain, methods=("MMC",), scores=dict.fromkeys(_SCORES, 0.71234))
    (standing,) = standings(first + second)
    assert all(line.cells[_column("ARI")].is_best for line in standing.lines)


def test_a_line_has_a_cell_for_every_column_but_its_name(plain, runs_of):
    (standing,) = standings(runs_of(plain))
    assert {len(line.cells) for line in standing.lines} == {len(COLUMNS) - 1}


def test_a_score_that_is_shown_and_not_there(plain, runs_of):
    with pytest.raises(ValueError, match="nmi_geometric"):
        standings(runs_of(plain, methods=("SEC",), scores={"acc": 0.5}))


def test_failed_runs_are_counted_with_their_reason(plain, runs_of):
    runs = runs_of(plain, methods=("SEC",))
    runs[1] = replace(runs[1], scores={}, error="too slow")
    (standing,) = standings(runs)
    (line,) = standing.lines
    assert line.cells[_column("Runs")].text == "2"
    assert line.cells[_column("Failed")].text == "1"
    assert line.seeds == [0, 2]
    assert standing.errors == [("SEC", 1, "too slow")]


def test_a_line_without_scores_shows_none_and_sorts_last(plain, runs_of):
    runs = runs_of(plain, methods=("SEC",), scores={}, error="no")
    (standing,) = standings(runs)
    cell = standing.lines[0].cells[_column("ACC")]
    assert (cell.text, cell.sort) == (MISSING, None)


def test_scalings_of_one_method_are_distinguished(plain, runs_of):
    runs = runs_of(plain, methods=("MMC",)) + runs_of(
        plain, methods=("MMC",), preprocessing="columns"
    )
    (standing,) = standings(runs)
    assert [line.label for line in standing.lines] == ["MMC (rows)", "MMC (columns)"]


def test_settings_of_one_method_are_lines_of_their_own(plain, runs_of):
    runs = []
    for mu, acc in ((1, 0.2), (2, 0.9)):
        scores = dict.fromkeys(_SCORES, acc)
        made = runs_of(plain, methods=("SEC",), protocol="tuned", scores=scores)
        runs += [replace(run, params={"mu": mu}) for run in made]
    runs[0] = replace(runs[0], scores={}, error="no")
    (standing,) = standings(runs)
    assert [line.label for line in standing.lines] == ["SEC † (mu=1)", "SEC † (mu=2)"]
    assert [set(line.values["acc"]) for line in standing.lines] == [{0.2}, {0.9}]
    assert [line.cells[_column("Failed")].text for line in standing.lines] == ["1", "0"]


def test_published_figures_stand_beside_their_method(plain, runs_of):
    (standing,) = standings(runs_of(plain, methods=("MMC",), data="3sources"))
    assert standing.lines[0].cells[_column("Published")].text == "60.6 / 52.8"


_SCORES = ("acc", "nmi_geometric", "nmi_arithmetic", "nmi_max", "ari")


def test_every_seed_is_a_point(plain, runs_of):
    (standing,) = standings(runs_of(plain, seeds=4))
    chart = spread(standing.lines, "acc")
    assert [len(row["values"]) for row in chart["rows"]] == [4, 4]
    for row in chart["rows"]:
        assert min(row["values"]) <= row["mean"] <= max(row["values"])


def test_methods_without_scores_are_left_out(plain, runs_of):
    runs = runs_of(plain, methods=("SEC",), scores={}, error="no")
    (standing,) = standings(runs)
    assert spread(standing.lines, "acc") is None
    assert time_and_quality(standing.lines) is None


def test_time_has_no_zero_on_its_logarithmic_axis(plain, runs_of):
    (standing,) = standings(runs_of(plain, seconds=0.0))
    assert all(point["seconds"] > 0 for point in time_and_quality(standing.lines)["points"])


def test_only_mmc_has_lines_of_convergence(plain, runs_of):
    chart = convergence(runs_of(plain, methods=("SEC", "MMC-F", "MMC")))
    assert {line["name"] for line in chart["lines"]} == {"MMC-F", "MMC"}
    assert convergence(runs_of(plain, methods=("SEC",))) is None


def test_long_lines_keep_their_ends(plain, runs_of):
    objective = tuple(1 / (k + 1) for k in range(5000))
    (line,) = convergence(runs_of(plain, methods=("MMC",), seeds=1, objective=objective))["lines"]
    assert (line["iterations"][0], line["iterations"][-1]) == (1, 5000)
    assert len(line["values"]) <= 200


def test_an_objective_that_is_no_number_is_a_gap(plain, runs_of):
    runs = runs_of(plain, methods=("MMC",), seeds=1, objective=(1.0, float("nan")))
    assert convergence(runs)["lines"][0]["values"] == [1.0, None]
