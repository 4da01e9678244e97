import warnings

import numpy as np
import pytest

from manyview import AMGL, RMKMC
from manyview.datasets import Dataset, make_views
from manyview.exceptions import NotEnoughMemoryError
from manyview.experiment import METHODS, Limits, Listener, Method, ResultsFile, compare, summarise
from manyview.experiment.protocol import TUNING_SEED, Plan, cells_of
from manyview.experiment.workers import Task, perform

EASY = make_views(60, 3, (6, 5), random_state=0)
DATA = Dataset(EASY.views, EASY.y, name="easy")


class Labeller:
    """An estimator whose accuracy its parameter decides."""

    fits = 0

    def __init__(self, n_clusters, random_state, right=1.0, normalize="rows"):
        self.right, self.seed, self.n_clusters = right, random_state, n_clusters

    def fit(self, views):
        type(self).fits += 1
        if self.right < 0:
            raise ValueError("cannot")
        rng = np.random.default_rng(self.seed)
        wrong = rng.random(views.n_samples) >= self.right
        self.labels_ = np.where(wrong, rng.integers(0, 3, views.n_samples), EASY.y)
        self.n_iter_ = 1
        self.objective_ = np.array([1.0, 0.5])
        return self


class Relabeller(Labeller):
    """An estimator that one fit serves for all seeds."""

    def relabelled(self, random_state):
        return Labeller(3, random_state, self.right).fit(EASY.views).labels_


class Heard(Listener):
    def __init__(self):
        self.plan, self.tasks, self.runs = None, [], []

    def planned(self, total, known):
        self.plan = total, known

    def started(self, task):
        self.tasks.append(task)

    def finished(self, run):
        self.runs.append(run)


GRID = tuple({"right": right} for right in (0.2, 0.9, 0.5))
METHOD = Method("labeller", Labeller, {"right": 0.3}, GRID)


def test_default_and_tuned_are_rows_of_their_own():
    heard = Heard()
    runs = compare([METHOD], [DATA], repeats=4, tune=True, tuning_repeats=2, listener=heard)
    assert [run.seed for run in runs] == [0, 1, 2, 3] * 2
    default, tuned = summarise(runs)
    assert (default.tuned, tuned.tuned) == (False, True)
    assert {run.params["right"] for run in runs if run.tuned} == {0.9}
    assert tuned.mean["acc"] > default.mean["acc"]
    assert default.n_runs == 4
    assert default.std["acc"] > 0
    assert heard.plan == (4 + 3 * 2 + 4, 0)
    assert len(heard.runs) == 4 + 3 * 2 + 4


def test_settings_are_chosen_on_seeds_that_are_not_reported():
    heard = Heard()
    compare([METHOD], [DATA], repeats=3, tune=True, tuning_repeats=2, listener=heard)
    seeds = {protocol: set() for protocol in ("default", "selection", "tuned")}
    for run in heard.runs:
        seeds[run.protocol].add(run.seed)
    assert seeds["default"] == seeds["tuned"] == {0, 1, 2}
    assert not seeds["selection"] & seeds["tuned"]


class ByLuck(Labeller):
    """Settings of which another is better on some seeds."""

    def fit(self, views):
        lucky = (self.seed >= 1002) == (self.right == 0.9)
        self.right = 1.0 if lucky else 0.4
        return super().fit(views)


def test_what_a_file_holds_of_other_seeds_does_not_choose(tmp_path):
    method = Method("labeller", ByLuck, {"right": 0.3}, GRID[:2])
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        for tuning_repeats, expected in ((2, 0.2), (6, 0.9), (2, 0.2)):
            options = {"repeats": 1, "tune": True, "tuning_repeats": tuning_repeats}
            runs = compare([method], [DATA], results=results, **options)
            assert runs[-1].params["right"] == expected


def test_progress_tells_of_every_run_though_tuned_ones_are_there(tmp_path):
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        for _ in range(2):
            heard = Heard()
            compare([METHOD], [DATA], repeats=2, tune=True, results=results, listener=heard)
            total, known = heard.plan
            assert known + len(heard.runs) == total
    assert not heard.tasks


def test_a_failed_run_leaves_the_filters_of_warnings_alone():
    filters = list(warnings.filters)
    runs = perform(Task(METHOD, "easy", "", 60, "default", {"right": -1.0}, (0, 1)), DATA)
    assert next(runs).error == "cannot"
    assert warnings.filters == filters


def test_a_run_tells_what_it_was():
    (run,) = compare([METHOD], [DATA], repeats=1)
    assert (run.method, run.data, run.seed, run.protocol) == ("labeller", "easy", 0, "default")
    assert run.preprocessing == "rows"
    assert run.params == {"right": 0.3}
    assert run.objective == (1.0, 0.5)
    assert run.n_iter == 1
    assert run.seconds > 0
    assert len(run.fingerprint) == 16


def test_preprocessings_are_rows_of_their_own():
    rows = summarise(
        compare([METHOD], [DATA], repeats=1, preprocessings=("default", "none", "columns"))
    )
    assert [row.preprocessing for row in rows] == ["rows", "none", "columns"]
    assert [row.params.get("normalize", "absent") for row in rows] == ["absent", None, "columns"]


def test_what_a_method_does_by_itself_is_not_done_twice():
    rows = summarise(compare([METHOD], [DATA], repeats=2, preprocessings=("default", "rows")))
    assert [row.n_runs for row in rows] == [2]


def test_settings_are_not_mixed_in_a_row():
    runs = compare([METHOD], [DATA], repeats=1)
    other = compare([Method("labeller", Labeller, {"right": 0.4})], [DATA], repeats=1)
    assert [row.params["right"] for row in summarise(runs + other)] == [0.3, 0.4]


def test_the_same_data_under_two_names_are_run_once_and_shown_twice():
    Labeller.fits = 0
    other = Dataset(EASY.views, EASY.y, name="other")
    runs = compare([METHOD], [DATA, other], repeats=3)
    assert Labeller.fits == 3
    assert [run.data for run in runs] == ["easy"] * 3 + ["other"] * 3


def test_a_fit_that_serves_all_seeds_is_done_once_and_counts_for_each():
    Relabeller.fits = 0
    runs = compare([Method("relabeller", Relabeller, {"right": 0.5})], [DATA], repeats=5)
    assert Relabeller.fits == 1
    assert [run.seed for run in runs] == list(range(5))
    assert all(run.seconds >= runs[0].seconds for run in runs)
    alone = compare([Method("labeller", Labeller, {"right": 0.5})], [DATA], repeats=5)
    assert [run.scores for run in runs] == [run.scores for run in alone]


def test_a_method_that_fails_is_a_row_with_its_reason():
    broken = Method("broken", Labeller, {"right": -1.0})
    fine = Method("fine", Labeller)
    rows = summarise(compare([broken, fine], [DATA], repeats=2))
    assert rows[0].errors == ("cannot",)
    assert rows[0].n_runs == 0
    assert rows[1].mean["acc"] == 1.0


def test_what_a_results_file_holds_is_not_done_again(tmp_path):
    Labeller.fits = 0
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        first = compare([METHOD], [DATA], repeats=2, tune=True, results=results)
    done = Labeller.fits
    heard = Heard()
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        again = compare([METHOD], [DATA], repeats=3, tune=True, results=results, listener=heard)
    assert Labeller.fits == done + 2  # the third seed of either protocol
    assert heard.plan == (3 + 3 * 3 + 3, 2 + 3 * 3)
    assert [again[0], again[1], again[3], again[4]] == first


def test_other_data_of_the_same_name_are_not_taken_for_it(tmp_path):
    other = make_views(60, 3, (6, 5), random_state=1)
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        compare([METHOD], [DATA], repeats=1, results=results)
        heard = Heard()
        compare(
            [METHOD],
            [Dataset(other.views, other.y, name="easy")],
            repeats=1,
            results=results,
            listener=heard,
        )
    assert len(heard.runs) == 1


@pytest.mark.parametrize("error", [KeyError("k"), IndexError(), TypeError("t"), MemoryError()])
def test_an_error_of_any_kind_is_a_row(error):
    class Broken(Labeller):
        def fit(self, views):
            raise error

    (run,) = compare([Method("broken", Broken)], [DATA], repeats=1)
    assert type(error).__name__ in run.error
    assert run.outcome == ("machine" if isinstance(error, MemoryError) else "failed")
    assert not run.scores


def test_what_memory_cannot_hold_here_may_be_tried_elsewhere(tmp_path):
    Labeller.fits = 0

    class Large(Labeller):
        def fit(self, views):
            super().fit(views)
            raise NotEnoughMemoryError("large on 60 samples needs 9 GiB, and 1 GiB may be used")

    for fits in (1, 2):
        with ResultsFile(tmp_path / "runs.jsonl") as results:
            (run,) = compare([Method("large", Large)], [DATA], repeats=1, results=results)
        assert run.outcome == "machine"
        assert run.error.startswith("large on 60 samples")
        assert Large.fits == fits


def test_a_row_is_tuned_only_where_labels_chose(tmp_path):
    grid = ({"right": -1.0}, {"right": -2.0})
    method = Method("labeller", Labeller, {"right": 0.9}, grid)
    heard = Heard()
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        runs = compare([method], [DATA], repeats=2, tune=True, results=results, listener=heard)
        kept = [run.protocol for run in results.runs]
    default, tuned = summarise(runs)
    assert default.n_runs == 2
    assert (tuned.n_runs, tuned.params) == (0, {"right": 0.9})
    assert tuned.errors == ("no setting of the grid ended with labels: cannot",)
    assert "tuned" not in kept  # with other limits there may be one
    assert len(heard.runs) == heard.plan[0]


def test_parameters_may_be_of_numpy(tmp_path):
    grid = tuple({"right": right} for right in np.array([0.1, 0.9]))
    method = Method("labeller", Labeller, {"normalize": np.str_("rows")}, grid)
    file = tmp_path / "runs.jsonl"
    for known in (0, 1 + 2 * 3):  # that the third is the tuned one shows only later
        heard = Heard()
        with ResultsFile(file) as results:
            runs = compare([method], [DATA], repeats=1, tune=True, results=results, listener=heard)
        assert runs[1].params == {"normalize": "rows", "right": 0.9}
        assert heard.plan[1] == known


def test_runs_of_a_file_that_does_not_say_how_many_samples_they_are_of(tmp_path):
    file = tmp_path / "runs.jsonl"
    fox = Dataset(DATA.views, DATA.y, name="fox")
    for _ in range(2):
        with ResultsFile(file) as results:
            (row,) = summarise(compare([METHODS["RMKMC"]], [fox], repeats=1, results=results))
        assert row.published is None  # another set of that name
        file.write_text(file.read_text().replace('"n_samples": 60, ', ""))


EASY_TEST_CHECKS = make_views(60, 3, (6, 5), random_state=0)
DATA_TEST_CHECKS = Dataset(EASY_TEST_CHECKS.views, EASY_TEST_CHECKS.y, name="easy")
METHOD_TEST_CHECKS = Method("RMKMC", RMKMC)


def test_what_is_no_method_or_data_set_is_told():
    for methods, datasets, message in (
        (["SEC"], [DATA_TEST_CHECKS], "'SEC' is no method"),
        ([METHOD_TEST_CHECKS], DATA_TEST_CHECKS, "expected a list of them"),
        (
            [METHOD_TEST_CHECKS],
            [DATA_TEST_CHECKS.views],
            "received Views; expected a list of Dataset",
        ),
    ):
        with pytest.raises(TypeError, match=message):
            compare(methods, datasets)


def test_repeats_and_classes_are_needed():
    for repeats in (0, 1.5, "2"):
        with pytest.raises(ValueError, match=f"^repeats={repeats!r}; expected a whole number of"):
            compare([], [DATA_TEST_CHECKS], repeats=repeats)
    with pytest.raises(ValueError, match="tuning_repeats=0; expected a whole number"):
        compare([], [DATA_TEST_CHECKS], repeats=1, tuning_repeats=0)
    with pytest.raises(ValueError, match="data set 'bare' has no classes"):
        compare([], [Dataset(EASY_TEST_CHECKS.views, None, name="bare")], repeats=1)
    with pytest.raises(ValueError, match="two data sets are called 'easy'"):
        compare([], [DATA_TEST_CHECKS, DATA_TEST_CHECKS], repeats=1)
    with pytest.raises(ValueError, match="two methods are called 'RMKMC'"):
        compare([METHOD_TEST_CHECKS, METHOD_TEST_CHECKS], [DATA_TEST_CHECKS], repeats=1)
    with pytest.raises(ValueError, match="n_jobs=-1; expected at least 1"):
        compare([METHOD_TEST_CHECKS], [DATA_TEST_CHECKS], repeats=1, n_jobs=-1)
    with pytest.raises(ValueError, match="no scaling 'cubes'"):
        compare([METHOD_TEST_CHECKS], [DATA_TEST_CHECKS], repeats=1, preprocessings=("cubes",))


def test_limits_want_processes():
    with pytest.raises(ValueError, match="limits with n_jobs=None: a run in this process"):
        compare([METHOD_TEST_CHECKS], [DATA_TEST_CHECKS], repeats=1, limits=Limits(seconds=1.0))
    assert compare([METHOD_TEST_CHECKS], [DATA_TEST_CHECKS], repeats=1, limits=Limits())[0].scores


MADE = make_views(60, 3, (6, 5), random_state=0)
DATA_TEST_PLAN = Dataset(MADE.views, MADE.y, name="made")
GRID_TEST_PLAN = ({"exponent": 1.5}, {"exponent": 2.0})
METHODS_TEST_PLAN = [Method("RMKMC", RMKMC, grid=GRID_TEST_PLAN), Method("AMGL", AMGL)]


@pytest.mark.parametrize("repeats", [1, TUNING_SEED, TUNING_SEED + 5])
def test_no_seed_is_both_tuned_by_and_reported(repeats):
    plan = Plan((), repeats, 3)
    assert len(plan.tuning_seeds) == 3
    assert not set(plan.seeds) & set(plan.tuning_seeds)


def test_what_can_be_told_beforehand():
    cells = cells_of(METHODS_TEST_PLAN, [DATA_TEST_PLAN], ("default", "none", "rows"))
    assert [(cell.name, cell.preprocessing) for cell in cells] == [
        ("RMKMC", "default"),  # not scaled by itself
        ("RMKMC", "rows"),
        ("AMGL", "default"),
        ("AMGL", "rows"),
    ]
    plan = Plan(cells, 5, 2)
    assert [cell.name for cell in plan.tunable] == ["RMKMC", "RMKMC"]
    runs = [run for task in plan.tasks() for run in task.runs()]
    assert [run.protocol for run in runs] == 4 * 5 * ["default"] + 2 * 2 * 2 * ["selection"]
    assert len({run.key for run in runs}) == len(runs)


def test_without_seeds_to_tune_by_nothing_is_tuned():
    assert Plan(cells_of(METHODS_TEST_PLAN, [DATA_TEST_PLAN], ("default",)), 5, 0).tunable == []


def test_a_fit_that_serves_all_seeds_is_one_task():
    plan = Plan(cells_of(METHODS_TEST_PLAN, [DATA_TEST_PLAN], ("default",)), 5, 0)
    assert [task.seeds for task in plan.tasks()] == [*((n,) for n in range(5)), (0, 1, 2, 3, 4)]
