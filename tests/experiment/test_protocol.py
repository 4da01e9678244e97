import sys
import warnings

import numpy as np
import pytest

from manyview import RMKMC
from manyview.datasets import Dataset, make_views
from manyview.exceptions import NotEnoughMemoryError
from manyview.experiment import METHODS, Limits, Listener, Method, ResultsFile, compare, summarise
from manyview.experiment.workers import Task, perform

EASY = make_views(60, 3, (6, 5), random_state=0)
DATA = Dataset(EASY.views, EASY.y, name="easy")


class Labeller:
    """An estimator whose parameter determines its accuracy."""

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
    """An estimator whose seeds share one fit."""

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


def test_default_and_tuned_runs_are_separate_rows():
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


class ByLuck(Labeller):
    """An estimator whose best setting depends on the seed."""

    def fit(self, views):
        lucky = (self.seed >= 1002) == (self.right == 0.9)
        self.right = 1.0 if lucky else 0.4
        return super().fit(views)


def test_other_tuning_seeds_in_the_file_do_not_affect_the_choice(tmp_path):
    method = Method("labeller", ByLuck, {"right": 0.3}, GRID[:2])
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        for tuning_repeats, expected in ((2, 0.2), (6, 0.9), (2, 0.2)):
            options = {"repeats": 1, "tune": True, "tuning_repeats": tuning_repeats}
            runs = compare([method], [DATA], results=results, **options)
            assert runs[-1].params["right"] == expected


def test_progress_counts_every_run_also_tuned_ones_of_the_file(tmp_path):
    with ResultsFile(tmp_path / "runs.jsonl") as results:
        for _ in range(2):
            heard = Heard()
            compare([METHOD], [DATA], repeats=2, tune=True, results=results, listener=heard)
            total, known = heard.plan
            assert known + len(heard.runs) == total
    assert not heard.tasks


def test_a_failed_run_leaves_the_warning_filters_unchanged():
    filters = list(warnings.filters)
    runs = perform(Task(METHOD, "easy", "", 60, "default", {"right": -1.0}, (0, 1)), DATA)
    assert next(runs).error == "cannot"
    assert warnings.filters == filters


def test_a_run_records_what_was_fitted():
    (run,) = compare([METHOD], [DATA], repeats=1)
    assert (run.method, run.data, run.seed, run.protocol) == ("labeller", "easy", 0, "default")
    assert run.preprocessing == "rows"
    assert run.params == {"right": 0.3}
    assert run.objective == (1.0, 0.5)
    assert run.n_iter == 1
    assert run.seconds > 0
    assert len(run.fingerprint) == 16


def test_preprocessings_are_separate_rows():
    rows = summarise(
        compare([METHOD], [DATA], repeats=1, preprocessings=("default", "none", "columns"))
    )
    assert [row.preprocessing for row in rows] == ["rows", "none", "columns"]
    assert [row.params.get("normalize", "absent") for row in rows] == ["absent", None, "columns"]


def test_the_default_scaling_under_its_name_is_not_repeated():
    rows = summarise(compare([METHOD], [DATA], repeats=2, preprocessings=("default", "rows")))
    assert [row.n_runs for row in rows] == [2]


def test_other_params_are_another_row():
    runs = compare([METHOD], [DATA], repeats=1)
    other = compare([Method("labeller", Labeller, {"right": 0.4})], [DATA], repeats=1)
    assert [row.params["right"] for row in summarise(runs + other)] == [0.3, 0.4]


def test_the_same_data_under_two_names_are_fitted_once_and_reported_twice():
    Labeller.fits = 0
    other = Dataset(EASY.views, EASY.y, name="other")
    runs = compare([METHOD], [DATA, other], repeats=3)
    assert Labeller.fits == 3
    assert [run.data for run in runs] == ["easy"] * 3 + ["other"] * 3


def test_a_shared_fit_is_done_once_and_counts_for_each_seed():
    Relabeller.fits = 0
    runs = compare([Method("relabeller", Relabeller, {"right": 0.5})], [DATA], repeats=5)
    assert Relabeller.fits == 1
    assert [run.seed for run in runs] == list(range(5))
    assert all(run.seconds >= runs[0].seconds for run in runs)
    alone = compare([Method("labeller", Labeller, {"right": 0.5})], [DATA], repeats=5)
    assert [run.scores for run in runs] == [run.scores for run in alone]


def test_a_method_that_fails_is_a_row_with_the_reason():
    broken = Method("broken", Labeller, {"right": -1.0})
    fine = Method("fine", Labeller)
    rows = summarise(compare([broken, fine], [DATA], repeats=2))
    assert rows[0].errors == ("cannot",)
    assert rows[0].n_runs == 0
    assert rows[1].mean["acc"] == 1.0


def test_runs_of_the_results_file_are_not_repeated(tmp_path):
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


def test_other_data_of_the_same_name_are_fitted(tmp_path):
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
def test_any_exception_is_a_failed_run(error):
    class Broken(Labeller):
        def fit(self, views):
            raise error

    (run,) = compare([Method("broken", Broken)], [DATA], repeats=1)
    assert type(error).__name__ in run.error
    assert run.outcome == ("machine" if isinstance(error, MemoryError) else "failed")
    assert not run.scores


def test_a_run_without_enough_memory_is_tried_again(tmp_path):
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


def test_a_grid_without_any_labels_is_a_failed_row_that_is_not_kept(tmp_path):
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
    assert "tuned" not in kept  # other limits may yield a setting
    assert len(heard.runs) == heard.plan[0]


def test_params_may_be_numpy_scalars(tmp_path):
    grid = tuple({"right": right} for right in np.array([0.1, 0.9]))
    method = Method("labeller", Labeller, {"normalize": np.str_("rows")}, grid)
    file = tmp_path / "runs.jsonl"
    for known in (0, 1 + 2 * 3):  # the tuned run is not known yet when runs are counted
        heard = Heard()
        with ResultsFile(file) as results:
            runs = compare([method], [DATA], repeats=1, tune=True, results=results, listener=heard)
        assert runs[1].params == {"normalize": "rows", "right": 0.9}
        assert heard.plan[1] == known


def test_another_data_set_of_the_same_name_has_no_published_scores():
    fox = Dataset(DATA.views, DATA.y, name="fox")
    (row,) = summarise(compare([METHODS["RMKMC"]], [fox], repeats=1))
    assert row.published is None


KMEANS = Method("RMKMC", RMKMC)


@pytest.mark.parametrize(
    ("methods", "datasets", "message"),
    [
        (["SEC"], [DATA], "'SEC'"),
        ([KMEANS], DATA, "datasets is one Dataset"),
        ([KMEANS], [DATA.views], "Views"),
    ],
)
def test_other_objects_than_methods_and_data_sets_are_rejected(methods, datasets, message):
    with pytest.raises(TypeError, match=message):
        compare(methods, datasets)


@pytest.mark.parametrize(
    ("methods", "datasets", "options", "message"),
    [
        ([], [DATA], {"repeats": 0}, "^repeats=0"),
        ([], [DATA], {"repeats": 1.5}, r"^repeats=1\.5"),
        ([], [DATA], {"tuning_repeats": 0}, "^tuning_repeats=0"),
        ([], [Dataset(EASY.views, None, name="bare")], {}, "'bare'"),
        ([], [DATA, DATA], {}, "'easy'"),
        ([KMEANS, KMEANS], [DATA], {}, "'RMKMC'"),
        ([KMEANS], [DATA], {"n_jobs": -1}, "n_jobs=-1"),
        ([KMEANS], [DATA], {"preprocessings": ("cubes",)}, "'cubes'"),
        ([KMEANS], [DATA], {"limits": Limits(seconds=1.0)}, "n_jobs"),  # in this process
    ],
)
def test_bad_options_are_rejected(methods, datasets, options, message):
    with pytest.raises(ValueError, match=message):
        compare(methods, datasets, **options)


def test_a_memory_limit_without_psutil_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(ModuleNotFoundError, match=r"psutil.*manyview\[app\]"):
        compare([KMEANS], [DATA], n_jobs=1, limits=Limits(bytes=1e9))


@pytest.mark.parametrize("repeats", [1, 1005])
def test_no_seed_is_both_for_tuning_and_reported(repeats):
    heard = Heard()
    method = Method("failing", Labeller, grid=({"right": -1.0},), defaults={"right": -1.0})
    compare([method], [DATA], repeats=repeats, tune=True, tuning_repeats=3, listener=heard)
    chosen = {run.seed for run in heard.runs if run.protocol == "selection"}
    reported = {run.seed for run in heard.runs if run.protocol == "tuned"}
    assert len(chosen) == 3
    assert len(reported) == repeats
    assert not chosen & reported


def test_seeds_that_share_a_fit_are_one_task():
    heard = Heard()
    methods = [METHOD, Method("relabeller", Relabeller)]
    compare(methods, [DATA], repeats=3, listener=heard)
    assert [task.seeds for task in heard.tasks] == [(0,), (1,), (2,), (0, 1, 2)]
