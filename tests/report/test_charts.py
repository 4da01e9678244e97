from manyview.report.charts import convergence, spread, time_and_quality
from manyview.report.comparison import standings


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
    assert (line["sweeps"][0], line["sweeps"][-1]) == (1, 5000)
    assert len(line["values"]) <= 200


def test_an_objective_that_is_no_number_is_a_gap(plain, runs_of):
    runs = runs_of(plain, methods=("MMC",), seeds=1, objective=(1.0, float("nan")))
    assert convergence(runs)["lines"][0]["values"] == [1.0, None]
