import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from manyview.experiment import PUBLISHED, paired_differences, rank_methods, summarise
from manyview.plotting import (
    plot_comparison,
    plot_critical_difference,
    plot_paired_differences,
    plot_time_against_quality,
    plot_time_against_size,
)
from manyview.plotting.comparison import _groups
from manyview.plotting.style import styles_of


def marked(ax, what):
    return [artist for artist in (*ax.lines, *ax.texts) if artist.get_gid() == what]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_bars_are_the_means_and_whiskers_the_deviations(made_runs):
    rows = summarise(made_runs())
    ax = plot_comparison(rows, "acc")
    heights = {bar.get_gid(): bar.get_height() for bar in ax.patches}
    assert heights == {f"{row.method} on {row.data}": row.mean["acc"] for row in rows}
    ends = {
        (round(low, 9), round(high, 9))
        for whiskers in ax.collections
        for (_, low), (_, high) in whiskers.get_segments()
    }
    assert ends == {
        (round(row.mean["acc"] - row.std["acc"], 9), round(row.mean["acc"] + row.std["acc"], 9))
        for row in rows
    }
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["fox", "cnn", "3sources"]
    assert ax.get_ylabel() == "ACC"


def test_runs_give_the_same_bars_as_their_rows(made_runs):
    runs = made_runs()
    from_runs, from_rows = plot_comparison(runs), plot_comparison(summarise(runs))
    assert [bar.get_height() for bar in from_runs.patches] == [
        bar.get_height() for bar in from_rows.patches
    ]


@pytest.mark.parametrize("protocols", [("default",), ("default", "tuned")])
@pytest.mark.parametrize("n_sets", [3, 11])
def test_bars_stand_apart_and_within_their_data_set(made_runs, protocols, n_sets):
    sets = tuple(f"set {at}" for at in range(n_sets))
    ax = plot_comparison(made_runs(sets=sets, protocols=protocols))
    bars = sorted(ax.patches, key=lambda bar: bar.get_x())
    assert len(bars) == 9 * n_sets * len(protocols)
    for left, right in itertools.pairwise(bars):
        assert left.get_x() + left.get_width() <= right.get_x() + 1e-9
    for bar in bars:
        place = sets.index(bar.get_gid().partition(" on ")[2])
        assert place - 0.5 < bar.get_x() < bar.get_x() + bar.get_width() < place + 0.5
    ax.figure.draw_without_rendering()
    inches = bars[0].get_window_extent().width / ax.figure.dpi
    assert inches > 0.04


def test_names_of_data_sets_do_not_touch(made_runs):
    ax = plot_comparison(made_runs(sets=tuple(f"handwritten {at}" for at in range(11))))
    ax.figure.draw_without_rendering()
    boxes = [tick.get_window_extent() for tick in ax.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize(("n_sets", "rotation"), [(2, 0), (11, 35)])
def test_names_of_many_data_sets_are_turned_where_bars_are_few(made_runs, n_sets, rotation):
    ax = plot_comparison(made_runs(("MMC",), sets=tuple(f"set {at:04}" for at in range(n_sets))))
    assert {tick.get_rotation() for tick in ax.get_xticklabels()} == {rotation}


def test_a_method_has_its_colour_and_an_entry_in_the_legend(made_runs):
    ax = plot_comparison(made_runs())
    methods = list(dict.fromkeys(run.method for run in made_runs()))
    styles = styles_of(methods)
    for bar in ax.patches:
        method = bar.get_gid().partition(" on ")[0]
        assert to_hex(bar.get_facecolor()) == styles[method].colour
    assert legend(ax)[: len(methods)] == methods


def test_tuned_rows_are_hatched_beside_their_default(made_runs):
    ax = plot_comparison(made_runs(("SEC", "MMC"), protocols=("default", "tuned")))
    bars = sorted(ax.patches, key=lambda bar: bar.get_x())[:4]
    assert [bar.get_gid() for bar in bars] == [
        "SEC on fox",
        "SEC, tuned with labels on fox",
        "MMC on fox",
        "MMC, tuned with labels on fox",
    ]
    assert [bool(bar.get_hatch()) for bar in bars] == [False, True, False, True]
    assert "tuned with labels" in legend(ax)
    assert "tuned with labels" not in legend(plot_comparison(made_runs()))


def test_runs_of_a_selection_are_no_result(made_runs):
    ax = plot_comparison(made_runs(("MMC",), ("fox",), ("default", "selection")))
    assert len(ax.patches) == 1


@pytest.mark.parametrize(("score", "place"), [("acc", 0), ("nmi_geometric", 1)])
def test_published_figures_are_markers(made_runs, score, place):
    ax = plot_comparison(made_runs(protocols=("default", "tuned")), score)
    values = sorted(float(marker.get_ydata()[0]) for marker in marked(ax, "published"))
    assert values == sorted(figures[place] for figures in PUBLISHED.values())
    said = [text for text in legend(ax) if text.startswith("published")]
    assert said == ["published" if score == "acc" else "published, normaliser not stated"]


def test_the_best_of_each_protocol_is_marked_in_each_data_set(made_runs):
    rows = summarise(made_runs(protocols=("default", "tuned")))
    ax = plot_comparison(rows, "acc")
    stars = {round(star.xy[0], 6) for star in marked(ax, "best")}
    under = {
        bar.get_gid() for bar in ax.patches if round(bar.get_x() + bar.get_width() / 2, 6) in stars
    }
    groups = {(row.data, row.tuned) for row in rows}
    best = [
        max((row for row in rows if (row.data, row.tuned) == group), key=lambda r: r.mean["acc"])
        for group in groups
    ]
    assert under == {f"{row.title} on {row.data}" for row in best}
    assert len(stars) == len(groups) == 6


def test_a_method_that_failed_has_a_cross_and_no_bar(made_runs):
    runs = made_runs(("MMC",)) + made_runs(("KCTD",), ("cnn",), scores={}, error="too large")
    ax = plot_comparison(runs)
    assert len(ax.patches) == 3
    assert len(marked(ax, "failed")) == 1
    assert "failed" in legend(ax)


def test_preprocessings_of_a_method_are_distinguished(made_runs):
    runs = made_runs(("MMC",), ("fox",), preprocessing="rows")
    runs += made_runs(("MMC",), ("fox",), preprocessing="columns")
    ax = plot_comparison(runs)
    assert legend(ax)[:2] == ["MMC, scaled by rows", "MMC, scaled by columns"]
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2


def test_negative_scores_are_drawn_below_the_line(made_runs):
    runs = made_runs(("SEC",), ("fox",), scores={"ari": -0.1})
    (bar,) = plot_comparison(runs, "ari").patches
    assert np.isclose(bar.get_height(), -0.1)


def test_what_cannot_be_drawn_is_rejected(made_runs):
    rows = summarise(made_runs(("SEC",)))
    with pytest.raises(ValueError, match="rows"):
        plot_comparison([])
    with pytest.raises(ValueError, match="score='nmi'"):
        plot_comparison(rows, "nmi")
    with pytest.raises(ValueError, match="too large"):
        plot_comparison(made_runs(("SEC",), scores={}, error="too large"))
    with pytest.raises(ValueError, match="fox"):
        plot_comparison([rows[0], replace(rows[0], params={"mu": 2.0})])
    with pytest.raises(TypeError, match="rows"):
        plot_comparison([{"method": "SEC"}])
    with pytest.raises(TypeError, match="rows"):
        plot_comparison([*rows, *made_runs(("AMGL",))])


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
def test_what_is_no_interval_is_rejected(values):
    with pytest.raises(ValueError, match=r"differences\['SEC'\]"):
        plot_paired_differences({"SEC": values})


def test_nothing_is_rejected():
    with pytest.raises(ValueError, match="differences"):
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
    assert ax.get_xlabel() == "MMC minus the other"
    assert plot_paired_differences(found, xlabel="ACC").get_xlabel() == "ACC"


def test_one_that_was_run_on_fewer_sets_says_so(made_runs):
    runs = [run for run in made_runs(("MMC", "SEC", "AMGL")) if (run.method, run.data) != MISSING]
    ax = plot_paired_differences(paired_differences(runs, "MMC"))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["SEC (2 of 3 sets)", "AMGL"]


def test_what_is_no_difference_is_rejected(made_runs):
    runs = made_runs()
    with pytest.raises(TypeError, match="differences"):
        plot_paired_differences(runs)
    both = paired_differences(runs, "MMC") + paired_differences(runs, "SEC")
    with pytest.raises(ValueError, match="MMC, SEC"):
        plot_paired_differences(both)
    with pytest.raises(ValueError, match="differences"):
        plot_paired_differences([])


SIZES = [1000, 2000, 4000, 8000]


def legend_growth(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_legend_has_the_exponents_slowest_first():
    seconds = {
        "line": [n / 1000 for n in SIZES],
        "square": [(n / 1000) ** 2 for n in SIZES],
        "cube": [(n / 1000) ** 3 if n < 3000 else None for n in SIZES],
    }
    ax = plot_time_against_size(SIZES, seconds)
    assert legend_growth(ax) == ["cube, exponent 3.0", "square, exponent 2.0", "line, exponent 1.0"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("samples", "seconds")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1000, 2000])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), seconds["square"])


@pytest.mark.parametrize("guides", [(1,), (1, 2), (0, 1.5, 3)])
def test_guides_have_their_slope_and_stay_in_sight(guides):
    ax = plot_time_against_size(SIZES, {"MMC": [1.0, 2.0, 4.0, 8.0]}, guides=guides)
    drawn = ax.lines[1:]
    assert len(drawn) == len(ax.texts) == len(guides)
    for guide, exponent in zip(drawn, guides, strict=True):
        x, y = np.log(guide.get_xdata()), np.log(guide.get_ydata())
        assert np.isclose((y[1] - y[0]) / (x[1] - x[0]), exponent)
        low, high = ax.get_ylim()
        assert low <= guide.get_ydata()[0] <= guide.get_ydata()[1] <= high * (1 + 1e-9)


def test_a_method_at_one_size_has_no_exponent():
    ax = plot_time_against_size(SIZES, {"KCTD": [3.0, None, float("nan"), None]})
    assert legend_growth(ax) == ["KCTD"]


def test_what_cannot_be_drawn_is_rejected_growth():
    with pytest.raises(ValueError, match="seconds"):
        plot_time_against_size(SIZES, {})
    with pytest.raises(ValueError, match="MMC"):
        plot_time_against_size(SIZES, {"MMC": [1.0, 2.0]})
    with pytest.raises(ValueError, match="MMC"):
        plot_time_against_size(SIZES, {"MMC": [None] * 4})
    with pytest.raises(ValueError, match="MMC"):
        plot_time_against_size(SIZES, {"MMC": [1.0, None, -1.0, 2.0]})
    with pytest.raises(ValueError, match="sizes"):
        plot_time_against_size([0, 1], {"MMC": [1.0, 2.0]})


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
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("seconds per fit", "ACC")


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


def test_what_cannot_be_drawn_is_rejected_quality(made_runs):
    with pytest.raises(ValueError, match="rows"):
        plot_time_against_quality([])
    with pytest.raises(ValueError, match="score='f'"):
        plot_time_against_quality(made_runs(), "f")
    with pytest.raises(ValueError, match="data='bbc'"):
        plot_time_against_quality(made_runs(), data="bbc")
    with pytest.raises(ValueError, match="MMC on 'fox'"):
        plot_time_against_quality(made_runs(("MMC",), seconds=0.0))


TWELVE = {f"a rather long name {at}": 1 + 0.9 * at + 0.3 * (at % 2) for at in range(12)}


def lines_ranks(ax, what):
    return [line for line in ax.lines if line.get_gid() == what]


def test_methods_stand_at_their_ranks_best_first():
    ax = plot_critical_difference({"AMGL": 2.9, "MMC": 1.2, "SEC": 1.9}, 0.8)
    assert [float(line.get_xdata()[0]) for line in lines_ranks(ax, "method")] == [1.2, 1.9, 2.9]
    assert [text.get_text() for text in ax.texts][1:] == ["MMC  1.20", "SEC  1.90", "2.90  AMGL"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "3"]
    assert ax.get_title() == "average rank (1 is best)"


def test_the_critical_difference_is_drawn_to_scale():
    ax = plot_critical_difference(TWELVE, 3.1)
    (bar,) = lines_ranks(ax, "critical")
    assert np.isclose(np.ptp(bar.get_xdata()), 3.1)
    assert ax.texts[0].get_text() == "CD = 3.10"


def test_bars_join_those_that_do_not_differ():
    ax = plot_critical_difference({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0}, 1.0)
    (first, second) = lines_ranks(ax, "group")
    assert first.get_xdata()[0] < 1.0 < 1.5 < first.get_xdata()[1] < 2.4
    assert second.get_xdata()[0] < 1.5 < 2.4 < second.get_xdata()[1] < 4.0
    assert not lines_ranks(plot_critical_difference({"a": 1.0, "b": 2.0}, 1.0), "group")


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
    bars, labels = lines_ranks(ax, "group"), lines_ranks(ax, "method")
    lowest = min((bar.get_ydata()[0] for bar in bars), default=0.0)
    assert lowest > max(line.get_ydata()[-1] for line in labels)


def test_what_cannot_be_drawn_is_rejected_ranks():
    with pytest.raises(ValueError, match="average_ranks"):
        plot_critical_difference({"MMC": 1.0}, 1.0)
    with pytest.raises(ValueError, match="critical_difference=0"):
        plot_critical_difference({"MMC": 1.0, "SEC": 2.0}, 0)
    with pytest.raises(ValueError, match="average_ranks"):
        plot_critical_difference({"MMC": 0.4, "SEC": 2.0}, 1.0)
    with pytest.raises(ValueError, match="average_ranks"):
        plot_critical_difference({"MMC": 1.0, "SEC": float("nan")}, 1.0)


def test_a_ranking_brings_its_critical_difference(made_runs):
    runs = made_runs()
    for either in (runs, summarise(runs)):
        ranking = rank_methods(either, "acc")
        ax = plot_critical_difference(ranking)
        drawn = [float(line.get_xdata()[0]) for line in lines_ranks(ax, "method")]
        assert drawn == list(ranking.ranks.values())
        assert ax.texts[0].get_text() == f"CD = {ranking.critical_difference:.2f}"
    assert plot_critical_difference(ranking, 0.5).texts[0].get_text() == "CD = 0.50"


def test_what_has_no_ranks_is_rejected(made_runs):
    with pytest.raises(TypeError, match="critical_difference"):
        plot_critical_difference({"MMC": 1.0, "SEC": 2.0})
    with pytest.raises(TypeError, match="average_ranks"):
        plot_critical_difference(made_runs())
