import pytest

from manyview import AMGL, RMKMC
from manyview.datasets import Dataset, make_views
from manyview.experiment import Method
from manyview.experiment.plan import TUNING_SEED, Plan, cells_of

MADE = make_views(60, 3, (6, 5), random_state=0)
DATA = Dataset(MADE.views, MADE.y, name="made")
GRID = ({"exponent": 1.5}, {"exponent": 2.0})
METHODS = [Method("RMKMC", RMKMC, grid=GRID), Method("AMGL", AMGL)]


@pytest.mark.parametrize("repeats", [1, TUNING_SEED, TUNING_SEED + 5])
def test_no_seed_is_both_tuned_by_and_reported(repeats):
    plan = Plan((), repeats, 3)
    assert len(plan.tuning_seeds) == 3
    assert not set(plan.seeds) & set(plan.tuning_seeds)


def test_what_can_be_told_beforehand():
    cells = cells_of(METHODS, [DATA], ("default", "none", "rows"))
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
    assert Plan(cells_of(METHODS, [DATA], ("default",)), 5, 0).tunable == []


def test_a_fit_that_serves_all_seeds_is_one_task():
    plan = Plan(cells_of(METHODS, [DATA], ("default",)), 5, 0)
    assert [task.seeds for task in plan.tasks()] == [*((n,) for n in range(5)), (0, 1, 2, 3, 4)]
