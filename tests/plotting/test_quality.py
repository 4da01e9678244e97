import itertools

import numpy as np
import pytest

from manyview.experiment import summarise
from manyview.plotting import plot_time_against_quality


def points(ax):
    return {
        line.get_label(): (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in ax.lines
        if line.get_marker() not in ("", "None", None)
    }


def test_a_marker_is_the_geometric_mean_of_seconds_and_the_mean_score(made_runs):
    rows = summarise(made_runs())
    ax = plot_time_against_quality(rows, "acc")
    drawn = points(ax)
    assert len(drawn) == 9
    for method, (seconds, score) in drawn.items():
        own = [row for row in rows if row.method == method]
        assert np.isclose(score, np.mean([row.mean["acc"] for row in own]))
        assert np.isclose(np.log(seconds), np.mean([np.log(row.seconds) for row in own]))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert ax.get_title() == "mean of 3 data sets"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("seconds a fit", "ACC")


def test_one_data_set_can_be_chosen(made_runs):
    rows = summarise(made_runs())
    ax = plot_time_against_quality(rows, data="cnn")
    (row,) = (row for row in rows if (row.method, row.data) == ("MMC", "cnn"))
    assert points(ax)["MMC"] == pytest.approx((row.seconds, row.mean["nmi_geometric"]))
    assert ax.get_title() == "cnn"


@pytest.mark.parametrize("protocols", [("default",), ("default", "tuned")])
def test_labels_cover_neither_each_other_nor_a_marker(made_runs, protocols):
    ax = plot_time_against_quality(made_runs(protocols=protocols))
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 9 * len(protocols)
    for first, second in itertools.combinations(boxes, 2):
        assert not first.overlaps(second)
    for point in ax.transData.transform(list(points(ax).values())):
        assert not any(box.contains(*point) for box in boxes)
    frame = ax.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_methods_that_nearly_coincide_are_labelled_apart(made_runs):
    runs = [
        run
        for at, method in enumerate("abcdefgh")
        for run in made_runs((f"method {method}",), ("fox",), seconds=1 + at / 1000)
    ]
    ax = plot_time_against_quality(runs)
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    for first, second in itertools.combinations(boxes, 2):
        assert not first.overlaps(second)


def test_a_method_without_some_score_says_so_and_tuned_ones_are_hollow(made_runs):
    runs = made_runs(("MMC",), protocols=("default", "tuned")) + made_runs(("KCTD",), ("fox",))
    runs += made_runs(("AMGL",), scores={}, error="too large")
    ax = plot_time_against_quality(runs)
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["MMC", "MMC, tuned", "KCTD (1 of 3 sets)"]
    faces = {line.get_label(): line.get_markerfacecolor() for line in ax.lines}
    assert faces["MMC, tuned with labels"] == "none" != faces["MMC"]


def test_what_cannot_be_drawn_is_refused(made_runs):
    with pytest.raises(ValueError, match="rows is empty"):
        plot_time_against_quality([])
    with pytest.raises(ValueError, match="score='f'; the rows have acc, nmi_geometric"):
        plot_time_against_quality(made_runs(), "f")
    with pytest.raises(ValueError, match="data='bbc'; the rows have fox, cnn, 3sources"):
        plot_time_against_quality(made_runs(), data="bbc")
    with pytest.raises(ValueError, match=r"MMC on 'fox' has seconds=0.0; expected a positive"):
        plot_time_against_quality(made_runs(("MMC",), seconds=0.0))
