import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview.experiment import rank_methods, summarise
from manyview.plotting import plot_critical_difference
from manyview.plotting.ranks import _groups

TWELVE = {f"a rather long name {at}": 1 + 0.9 * at + 0.3 * (at % 2) for at in range(12)}


def lines(ax, what):
    return [line for line in ax.lines if line.get_gid() == what]


def test_methods_stand_at_their_ranks_best_first():
    ax = plot_critical_difference({"AMGL": 2.9, "MMC": 1.2, "SEC": 1.9}, 0.8)
    assert [float(line.get_xdata()[0]) for line in lines(ax, "method")] == [1.2, 1.9, 2.9]
    assert [text.get_text() for text in ax.texts][1:] == ["MMC  1.20", "SEC  1.90", "2.90  AMGL"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "3"]
    assert ax.get_title() == "average rank, 1 is best"


def test_the_critical_difference_is_drawn_to_scale():
    ax = plot_critical_difference(TWELVE, 3.1)
    (bar,) = lines(ax, "critical")
    assert np.isclose(np.ptp(bar.get_xdata()), 3.1)
    assert ax.texts[0].get_text() == "CD = 3.10"


def test_bars_join_those_that_do_not_differ():
    ax = plot_critical_difference({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0}, 1.0)
    (first, second) = lines(ax, "group")
    assert first.get_xdata()[0] < 1.0 < 1.5 < first.get_xdata()[1] < 2.4
    assert second.get_xdata()[0] < 1.5 < 2.4 < second.get_xdata()[1] < 4.0
    assert not lines(plot_critical_difference({"a": 1.0, "b": 2.0}, 1.0), "group")


@given(st.lists(st.integers(4, 48), min_size=2, max_size=12), st.integers(1, 40))
def test_two_methods_share_a_bar_just_where_they_do_not_differ(quarters, difference):
    ranks = sorted(quarter / 4 for quarter in quarters)
    groups = _groups(ranks, difference / 4)
    for first, second in itertools.combinations(range(len(ranks)), 2):
        joined = any(start <= first and second <= end for start, end in groups)
        assert joined == (ranks[second] - ranks[first] < difference / 4)
    for one, other in itertools.permutations(groups, 2):
        assert not (other[0] <= one[0] and one[1] <= other[1])


@pytest.mark.parametrize("difference", [0.5, 3.1, 20.0])
def test_labels_of_twelve_methods_do_not_touch_and_are_not_cut_off(difference):
    ax = plot_critical_difference(TWELVE, difference)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in (*ax.texts, *ax.get_xticklabels())]
    for first, second in itertools.combinations(boxes, 2):
        assert not first.overlaps(second)
    frame = ax.figure.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
    bars, labels = lines(ax, "group"), lines(ax, "method")
    lowest = min((bar.get_ydata()[0] for bar in bars), default=0.0)
    assert lowest > max(line.get_ydata()[-1] for line in labels)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="has 1 methods; expected at least 2"):
        plot_critical_difference({"MMC": 1.0}, 1.0)
    with pytest.raises(ValueError, match="critical_difference=0; expected a positive"):
        plot_critical_difference({"MMC": 1.0, "SEC": 2.0}, 0)
    with pytest.raises(ValueError, match="the least rank is 1"):
        plot_critical_difference({"MMC": 0.4, "SEC": 2.0}, 1.0)
    with pytest.raises(ValueError, match="the least rank is 1"):
        plot_critical_difference({"MMC": 1.0, "SEC": float("nan")}, 1.0)


def test_a_ranking_brings_its_critical_difference(made_runs):
    runs = made_runs()
    for either in (runs, summarise(runs)):
        ranking = rank_methods(either, "acc")
        ax = plot_critical_difference(ranking)
        drawn = [float(line.get_xdata()[0]) for line in lines(ax, "method")]
        assert drawn == list(ranking.ranks.values())
        assert ax.texts[0].get_text() == f"CD = {ranking.critical_difference:.2f}"
    assert plot_critical_difference(ranking, 0.5).texts[0].get_text() == "CD = 0.50"


def test_what_has_no_ranks_is_refused(made_runs):
    with pytest.raises(TypeError, match="no critical_difference with it; give one, or a Ranking"):
        plot_critical_difference({"MMC": 1.0, "SEC": 2.0})
    with pytest.raises(TypeError, match="is a list; expected a Ranking, as rank_methods returns"):
        plot_critical_difference(made_runs())
