import pytest

from manyview import RMKMC
from manyview.datasets import Dataset, make_views
from manyview.experiment import Limits, Method, compare

EASY = make_views(60, 3, (6, 5), random_state=0)
DATA = Dataset(EASY.views, EASY.y, name="easy")
METHOD = Method("RMKMC", RMKMC)


def test_what_is_no_method_or_data_set_is_told():
    for methods, datasets, message in (
        (["SEC"], [DATA], "'SEC' is no method"),
        ([METHOD], DATA, "expected a list of them"),
        ([METHOD], [DATA.views], "received Views; expected a list of Dataset"),
    ):
        with pytest.raises(TypeError, match=message):
            compare(methods, datasets)


def test_repeats_and_classes_are_needed():
    for repeats in (0, 1.5, "2"):
        with pytest.raises(ValueError, match=f"^repeats={repeats!r}; expected a whole number of"):
            compare([], [DATA], repeats=repeats)
    with pytest.raises(ValueError, match="tuning_repeats=0; expected a whole number"):
        compare([], [DATA], repeats=1, tuning_repeats=0)
    with pytest.raises(ValueError, match="data set 'bare' has no classes"):
        compare([], [Dataset(EASY.views, None, name="bare")], repeats=1)
    with pytest.raises(ValueError, match="two data sets are called 'easy'"):
        compare([], [DATA, DATA], repeats=1)
    with pytest.raises(ValueError, match="two methods are called 'RMKMC'"):
        compare([METHOD, METHOD], [DATA], repeats=1)
    with pytest.raises(ValueError, match="n_jobs=-1; expected at least 1"):
        compare([METHOD], [DATA], repeats=1, n_jobs=-1)
    with pytest.raises(ValueError, match="no scaling 'cubes'"):
        compare([METHOD], [DATA], repeats=1, preprocessings=("cubes",))


def test_limits_want_processes():
    with pytest.raises(ValueError, match="limits with n_jobs=None: a run in this process"):
        compare([METHOD], [DATA], repeats=1, limits=Limits(seconds=1.0))
    assert compare([METHOD], [DATA], repeats=1, limits=Limits())[0].scores
