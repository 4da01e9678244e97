import pytest

from manyview.experiment import paired_differences
from manyview.plotting import plot_paired_differences

GIVEN = {"SEC": (0.2, 0.1, 0.3), "AMGL": (0.02, -0.05, 0.08), "KCTD": (-0.2, -0.3, -0.1)}
MISSING = ("SEC", "cnn")


def lines(ax, what):
    return [line for line in ax.lines if line.get_gid() == what]


def test_dots_and_intervals_are_those_given_first_on_top():
    ax = plot_paired_differences(GIVEN, xlabel="ACC")
    dots, intervals = lines(ax, "difference"), lines(ax, "interval")
    assert [float(dot.get_xdata()[0]) for dot in dots] == [0.2, 0.02, -0.2]
    assert [tuple(line.get_xdata()) for line in intervals] == [
        (low, high) for _, low, high in GIVEN.values()
    ]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(GIVEN)
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "ACC"
    (zero,) = lines(ax, "zero")
    assert set(zero.get_xdata()) == {0.0}


def test_a_dot_is_full_where_its_interval_leaves_out_zero():
    dots = lines(plot_paired_differences(GIVEN), "difference")
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [False, True, False]


@pytest.mark.parametrize("values", [(0.1, 0.2), (0.1, 0.3, 0.2), (0.1, float("nan"), 0.2)])
def test_what_is_no_interval_is_refused(values):
    with pytest.raises(ValueError, match=r"differences\['SEC'\] is .*expected a difference"):
        plot_paired_differences({"SEC": values})


def test_nothing_is_refused():
    with pytest.raises(ValueError, match="differences is empty"):
        plot_paired_differences({})


def test_differences_are_drawn_as_they_are_returned(made_runs):
    found = paired_differences(made_runs(), "MMC", "acc")
    ax = plot_paired_differences(found)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [each.other for each in found]
    assert [float(dot.get_xdata()[0]) for dot in lines(ax, "difference")] == [
        each.mean for each in found
    ]
    assert [tuple(line.get_xdata()) for line in lines(ax, "interval")] == [
        (each.low, each.high) for each in found
    ]
    assert ax.get_xlabel() == "MMC less the other"
    assert plot_paired_differences(found, xlabel="ACC").get_xlabel() == "ACC"


def test_one_that_was_run_on_fewer_sets_says_so(made_runs):
    runs = [run for run in made_runs(("MMC", "SEC", "AMGL")) if (run.method, run.data) != MISSING]
    ax = plot_paired_differences(paired_differences(runs, "MMC"))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["SEC (2 of 3 sets)", "AMGL"]


def test_what_is_no_difference_is_refused(made_runs):
    runs = made_runs()
    with pytest.raises(TypeError, match="holds a Run; expected Difference, as paired_differences"):
        plot_paired_differences(runs)
    both = paired_differences(runs, "MMC") + paired_differences(runs, "SEC")
    with pytest.raises(ValueError, match="has 16 of MMC, SEC; expected those of one method"):
        plot_paired_differences(both)
    with pytest.raises(ValueError, match="differences is empty"):
        plot_paired_differences([])
