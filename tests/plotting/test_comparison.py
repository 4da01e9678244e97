import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from manyview.experiment import PUBLISHED, summarise
from manyview.plotting import plot_comparison
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


def test_preprocessings_of_a_method_are_told_apart(made_runs):
    runs = made_runs(("MMC",), ("fox",), preprocessing="rows")
    runs += made_runs(("MMC",), ("fox",), preprocessing="columns")
    ax = plot_comparison(runs)
    assert legend(ax)[:2] == ["MMC, scaled by rows", "MMC, scaled by columns"]
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2


def test_negative_scores_are_drawn_below_the_line(made_runs):
    runs = made_runs(("SEC",), ("fox",), scores={"ari": -0.1})
    (bar,) = plot_comparison(runs, "ari").patches
    assert np.isclose(bar.get_height(), -0.1)


def test_what_cannot_be_drawn_is_refused(made_runs):
    rows = summarise(made_runs(("SEC",)))
    with pytest.raises(ValueError, match="rows is empty"):
        plot_comparison([])
    with pytest.raises(ValueError, match="score='nmi'; the rows have acc, nmi_geometric"):
        plot_comparison(rows, "nmi")
    with pytest.raises(ValueError, match="no row has a score: too large"):
        plot_comparison(made_runs(("SEC",), scores={}, error="too large"))
    with pytest.raises(ValueError, match="two rows of SEC, scaled by none on 'fox'"):
        plot_comparison([rows[0], replace(rows[0], params={"mu": 2.0})])
    with pytest.raises(TypeError, match="rows holds a dict; expected Row or Run"):
        plot_comparison([{"method": "SEC"}])
    with pytest.raises(TypeError, match="both Row and Run"):
        plot_comparison([*rows, *made_runs(("AMGL",))])
