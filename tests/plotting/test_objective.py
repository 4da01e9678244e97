import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError

from manyview import MMC
from manyview.plotting import plot_objective


def test_one_fit_is_one_line_under_its_name(fitted):
    _, mmc, _ = fitted
    ax = plot_objective(mmc)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, mmc.n_iter_ + 1))
    np.testing.assert_array_equal(line.get_ydata(), mmc.objective_)
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("MMC", "iteration", "objective")
    assert ax.get_legend() is None


def test_several_fits_are_told_apart_by_a_legend(fitted):
    _, mmc, amgl = fitted
    ax = plot_objective({"ours": mmc, "theirs": amgl, "noted": [2.0, 1.5, 1.2]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours", "theirs", "noted"]
    assert len({line.get_color() for line in ax.lines}) == 3


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1000.0, 10.0, 1.0], "log"),
        ([2.0, 1.5, 1.2], "linear"),
        ([1000.0, 1.0, -1.0], "linear"),
        ([1000.0, 1.0, 0.0], "linear"),
    ],
)
def test_the_axis_is_logarithmic_where_values_are_positive_and_wide(values, scale):
    assert plot_objective(values).get_yscale() == scale


def test_the_scale_can_be_chosen():
    assert plot_objective([1000.0, 1.0], log=False).get_yscale() == "linear"
    assert plot_objective([2.0, 1.0], log=True).get_yscale() == "log"


def test_fits_of_very_unequal_length_are_all_seen():
    assert plot_objective({"a": np.ones(200), "b": np.ones(5)}).get_xscale() == "log"
    assert plot_objective({"a": np.ones(20), "b": np.ones(1)}).get_xscale() == "linear"


def test_what_has_no_objective_is_refused():
    with pytest.raises(NotFittedError, match="MMC"):
        plot_objective(MMC(3))
    with pytest.raises(ValueError, match="empty"):
        plot_objective({})
    with pytest.raises(ValueError, match=r"objective of ours has shape \(0,\)"):
        plot_objective({"ours": []})
    with pytest.raises(TypeError, match="DBSCAN has no objective_"):
        plot_objective(DBSCAN().fit([[0.0], [1.0]]))
