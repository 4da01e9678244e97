"""Figures of a comparison: scores, ranks, paired differences, quality against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from manyview._typing import Floats, Matrix
from manyview.experiment.results import Run
from manyview.experiment.significance import Difference, Ranking
from manyview.experiment.summary import Row
from manyview.plotting.style import (
    BLUE,
    INK,
    QUIET,
    VERMILLION,
    Series,
    check_score,
    given_or_new,
    label_points,
    legend_beside,
    reported_rows,
    score_name,
    series_of,
    shown,
    styles_of,
    tick_log_axis,
    trim,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROUP = 0.86  # part of a data set's width that its bars fill
_HATCH = "////"


def plot_comparison(
    rows: Sequence[Row] | Sequence[Run], score: str = "nmi_geometric", *, ax: Axes | None = None
) -> Axes:
    """Draw scores as bars, grouped by data set.

    Whiskers show standard deviations over seeds, diamonds published values, and crosses methods
    whose runs all failed. Hatched bars are tuned with labels. Stars mark the best label-free and
    the best tuned method.

    Parameters
    ----------
    rows : sequence of Row or of Run
        As :func:`manyview.experiment.summarise` or :func:`manyview.experiment.compare` returns.
    score : str, default="nmi_geometric"
        Name of a score, as in :func:`manyview.metrics.score_all`.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure, as wide as its bars need.

    Returns
    -------
    matplotlib Axes
        One bar for each row that has the score.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.experiment import Run
    >>> from manyview.plotting import plot_comparison
    >>> runs = [
    ...     Run(method, "digits", seed, "default", {}, scores={"acc": acc + 0.02 * seed})
    ...     for method, acc in {"SEC": 0.6, "MMC": 0.8}.items()
    ...     for seed in range(2)
    ... ]
    >>> ax = plot_comparison(runs, score="acc")
    >>> [round(float(bar.get_height()), 2) for bar in ax.patches]
    [0.61, 0.81]
    >>> plt.close(ax.figure)
    """
    table = reported_rows(rows)
    check_score(table, score)
    series = series_of(table)
    sets = list(dict.fromkeys(row.data for row in table))
    ax = given_or_new(ax, (float(np.clip(1.2 + 0.15 * len(sets) * len(series), 6.4, 17)), 4.4))
    colours = {name: style.colour for name, style in styles_of(s.name for s in series).items()}
    width = _GROUP / len(series)
    offsets = (np.arange(len(series)) + 0.5) * width - _GROUP / 2
    for one, offset in zip(series, offsets, strict=True):
        for data, row in one.rows.items():
            x = sets.index(data) + offset
            if score not in row.mean:
                ax.plot(x, 0.0, "x", color=INK, markersize=4, clip_on=False, gid="failed")
                continue
            ax.bar(
                x,
                row.mean[score],
                width * 0.92,
                color=colours[one.name],
                edgecolor="white" if one.tuned else INK,
                hatch=_HATCH if one.tuned else None,
                linewidth=0.0 if one.tuned else 0.4,
                yerr=row.std[score],
                error_kw={"elinewidth": 0.8, "ecolor": INK, "capsize": min(2.0, 20 * width)},
                gid=f"{one.title} on {data}",
            )
    for place, data in enumerate(sets):
        _add_published(ax, series, place + offsets, data, score)
        _add_best(ax, series, place + offsets, data, score)
    ax.set_xticks(range(len(sets)), list(map(shown, sets)))
    ax.set_xlim(-0.5, len(sets) - 0.5)
    _turn_if_close(ax)
    ax.tick_params(axis="x", length=0, pad=14)
    ax.set_ylabel(score_name(score))
    ax.axhline(0.0, color=INK, linewidth=0.8)
    trim(ax, grid="y", hide=("top", "right", "bottom"))
    for edge in np.arange(len(sets) - 1) + 0.5:
        ax.axvline(edge, color=QUIET, alpha=0.25, linewidth=0.8)
    _add_legend(ax, series, colours, score)
    return ax


def _turn_if_close(ax: Axes) -> None:
    """Rotate the names of data sets that would overlap."""
    ax.xaxis.get_tightbbox()  # places the ticks
    ends = [label.get_window_extent() for label in ax.get_xticklabels()]
    gap = ax.figure.dpi / 20
    if any(left.x1 + gap > right.x0 for left, right in pairwise(ends)):
        ax.tick_params(axis="x", labelrotation=35)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _add_published(ax: Axes, series: list[Series], places: Matrix, data: str, score: str) -> None:
    """Draw one diamond centred on the bars of each method."""
    for name in dict.fromkeys(one.name for one in series):
        own = [at for at, one in enumerate(series) if one.name == name]
        figures = [series[at].rows[data].published for at in own if data in series[at].rows]
        if not figures or figures[0] is None or not score.startswith(("acc", "nmi")):
            continue
        ax.plot(
            np.mean(places[own]),
            figures[0][score != "acc"],  # the normaliser of NMI may differ
            "D",
            markersize=4.5,
            markerfacecolor="white",
            markeredgecolor=INK,
            markeredgewidth=0.9,
            zorder=4,
            gid="published",
        )


def _add_best(ax: Axes, series: list[Series], places: Matrix, data: str, score: str) -> None:
    for tuned in (False, True):
        means = {
            x: one.rows[data].mean[score]
            for x, one in zip(places.tolist(), series, strict=True)
            if one.tuned is tuned and data in one.rows and score in one.rows[data].mean
        }
        for x in (x for x, mean in means.items() if mean == max(means.values())):
            ax.annotate(
                "★",
                (x, 0.0),
                xycoords=ax.get_xaxis_transform(),
                xytext=(0, -2),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=8,
                color=INK,
                annotation_clip=False,
                gid="best",
            )


def _add_legend(ax: Axes, series: list[Series], colours: dict[str, str], score: str) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def marker(shape: str, label: str, face: str = INK) -> Line2D:
        return Line2D(
            [], [], linestyle="", marker=shape, markersize=5, mfc=face, mec=INK, label=label
        )

    handles: list[Patch | Line2D] = [
        Patch(facecolor=colour, edgecolor=INK, linewidth=0.4, label=shown(name))
        for name, colour in colours.items()
    ]
    if any(one.tuned for one in series):
        handles.append(
            Patch(facecolor=QUIET, edgecolor="white", hatch=_HATCH, label="tuned with labels")
        )
    drawn = {artist.get_gid() for artist in (*ax.lines, *ax.texts)}
    if "published" in drawn:
        note = ", normaliser not stated" if score.startswith("nmi") else ""
        handles.append(marker("D", f"published{note}", "white"))
    if "failed" in drawn:
        handles.append(marker("x", "failed"))
    handles.append(marker("*", "best"))
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.02),
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        ncols=max(2, int(ax.get_window_extent().width / ax.figure.dpi / 1.25)),
    )


Interval: TypeAlias = tuple[float, float, float]


def plot_paired_differences(
    differences: Mapping[str, Interval] | Sequence[Difference],
    *,
    xlabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw differences with their confidence intervals.

    A dot is filled if its interval excludes zero.

    Parameters
    ----------
    differences : sequence of Difference, or mapping of str to tuple of float
        As :func:`manyview.experiment.paired_differences` returns, or by name the difference and
        the two ends of its interval.
    xlabel : str, optional
        What is subtracted from what, such as ``"ACC of MMC minus the other"``.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A dot for each name, the first on top.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_paired_differences
    >>> ax = plot_paired_differences({"SEC": (0.21, 0.12, 0.30), "AMGL": (0.02, -0.05, 0.08)})
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['SEC', 'AMGL']
    >>> plt.close(ax.figure)
    """
    if not differences:
        raise ValueError("differences is empty; expected at least one")
    if not isinstance(differences, Mapping):
        intervals = _intervals(differences)
        xlabel = xlabel or f"{shown(differences[0].method)} minus the other"
        differences = intervals
    for name, values in differences.items():
        if len(values) != 3 or not np.all(np.isfinite(values)) or values[1] > values[2]:
            raise ValueError(
                f"differences[{name!r}] is {tuple(values)}; "
                "expected a difference and the lower and upper end of its interval"
            )
    ax = given_or_new(ax, (6.0, 1.1 + 0.32 * len(differences)))
    ax.axvline(0.0, color=QUIET, linewidth=1.0, gid="zero")
    for at, (value, low, high) in enumerate(differences.values()):
        clear = low > 0 or high < 0
        colour = BLUE if clear else QUIET
        ax.plot([low, high], [at, at], color=colour, linewidth=1.8, gid="interval")
        ax.plot(
            value,
            at,
            "o",
            markersize=7,
            markeredgecolor=colour,
            markerfacecolor=colour if clear else "white",
            gid="difference",
        )
    ax.set_yticks(range(len(differences)), list(map(shown, differences)))
    ax.set_ylim(len(differences) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(xlabel or "difference", color=INK)
    trim(ax, grid="x", hide=("top", "right", "left"))
    return ax


def _intervals(differences: Sequence[Difference]) -> dict[str, Interval]:
    """Return intervals by the other method's name, with its number of sets if fewer."""
    strange = [item for item in differences if not isinstance(item, Difference)]
    if strange:
        raise TypeError(
            f"differences holds a {type(strange[0]).__name__}; expected Difference, as "
            "paired_differences returns, or a mapping of name to interval"
        )
    methods = dict.fromkeys(each.method for each in differences)
    if len(methods) > 1 or len({each.other for each in differences}) < len(differences):
        raise ValueError(
            f"differences has {len(differences)} of {', '.join(methods)}; expected one method, "
            "with one difference from each other method"
        )
    most = max(each.n_sets for each in differences)
    return {
        each.other if each.n_sets == most else f"{each.other} ({each.n_sets} of {most} sets)": (
            each.mean,
            each.low,
            each.high,
        )
        for each in differences
    }


# heights of a group bar, of a label line and of the bar that shows the critical difference
_BAR, _ROW, _ABOVE = 0.28, 0.5, 1.1


def plot_critical_difference(
    average_ranks: Mapping[str, float] | Ranking,
    critical_difference: float | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw a critical difference diagram: mean ranks, and bars over methods that do not differ.

    Parameters
    ----------
    average_ranks : Ranking, or mapping of str to float
        As :func:`manyview.experiment.rank_methods` returns, or the mean rank of each method; 1 is
        the best.
    critical_difference : float, optional
        Methods whose ranks differ by less are joined; by default taken from the Ranking.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A label for each method, best first, and a bar for each group.

    References
    ----------
    J. Demsar. Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 2006.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_critical_difference
    >>> ax = plot_critical_difference({"AMGL": 2.9, "MMC": 1.2, "SEC": 1.9}, 0.8)
    >>> [text.get_text() for text in ax.texts]
    ['CD = 0.80', 'MMC  1.20', 'SEC  1.90', '2.90  AMGL']
    >>> plt.close(ax.figure)
    """
    if isinstance(average_ranks, Ranking):
        if critical_difference is None:
            critical_difference = average_ranks.critical_difference
        average_ranks = average_ranks.ranks
    if not isinstance(average_ranks, Mapping):
        raise TypeError(
            f"average_ranks is a {type(average_ranks).__name__}; expected a Ranking, as "
            "rank_methods returns, or a mapping of method to rank"
        )
    if critical_difference is None:
        raise TypeError("critical_difference is missing; expected a number, or a Ranking")
    if len(average_ranks) < 2:
        raise ValueError(f"average_ranks has {len(average_ranks)} methods; expected at least 2")
    if not critical_difference > 0:
        raise ValueError(f"critical_difference={critical_difference}; expected a positive number")
    methods = sorted(average_ranks, key=lambda name: average_ranks[name])
    ranks = [float(average_ranks[name]) for name in methods]
    if not ranks[0] >= 1 or not np.isfinite(ranks[-1]):
        raise ValueError(
            f"average_ranks go from {ranks[0]} to {ranks[-1]}; expected finite ranks of at least 1"
        )
    low = float(np.floor(ranks[0]))
    high = max(float(np.ceil(ranks[-1])), low + 1, low + critical_difference)
    groups = _groups(ranks, critical_difference)
    lines = (len(methods) + 1) // 2
    first_line = -_BAR * (len(groups) + 1) - 0.25
    bottom = first_line - _ROW * lines

    ax = given_or_new(ax, (7.0, 0.9 - 0.42 * bottom))
    ax.spines[["left", "right", "bottom"]].set_visible(False)
    ax.spines["top"].set_position(("data", 0.0))
    ax.spines["top"].set_bounds(low, high)
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(low, np.floor(high) + 1, max(1, round((high - low) / 12))))
    ax.set_yticks([])
    ends = [low, low + critical_difference]
    ax.plot(ends, [_ABOVE, _ABOVE], color=QUIET, linewidth=1.2, marker="|", gid="critical")
    ax.annotate(
        f"CD = {critical_difference:.2f}",
        (ends[1], _ABOVE),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
    )
    for at, (start, end) in enumerate(groups):
        y = -_BAR * (at + 0.8)
        ends = [ranks[start] - 0.012 * (high - low), ranks[end] + 0.012 * (high - low)]
        ax.plot(ends, [y, y], color=VERMILLION, linewidth=3.5, solid_capstyle="butt", gid="group")
    margin = 0.03 * (high - low)
    for at, (name, rank) in enumerate(zip(methods, ranks, strict=True)):
        left = at < lines
        y = first_line - _ROW * (at if left else len(methods) - 1 - at)
        edge = low - margin if left else high + margin
        ax.plot([rank, rank, edge], [0, y, y], color=INK, linewidth=0.9, gid="method")
        ax.text(
            edge - margin / 3 if left else edge + margin / 3,
            y,
            f"{shown(name)}  {rank:.2f}" if left else f"{rank:.2f}  {shown(name)}",
            ha="right" if left else "left",
            va="center",
        )
    ax.set(xlim=(low - margin, high + margin), ylim=(bottom, _ABOVE + 0.3))
    ax.set_title("average rank (1 is best)", fontsize="medium")
    return ax


def _groups(ranks: Sequence[float], critical_difference: float) -> list[tuple[int, int]]:
    """Return first and last position of every maximal group of ranks that do not differ."""
    groups: list[tuple[int, int]] = []
    for start, rank in enumerate(ranks):
        end = max(at for at in range(start, len(ranks)) if ranks[at] - rank < critical_difference)
        if end > start and (not groups or end > groups[-1][1]):
            groups.append((start, end))
    return groups


def plot_time_against_quality(
    rows: Sequence[Row] | Sequence[Run],
    score: str = "nmi_geometric",
    *,
    data: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the score of each method against the seconds of a fit.

    Over several data sets the score is the mean and the time the geometric mean; labels say if a
    method has scores on some sets only. Hollow markers are tuned with labels; the time of tuning
    is not included.

    Parameters
    ----------
    rows : sequence of Row or of Run
        As :func:`manyview.experiment.summarise` or :func:`manyview.experiment.compare` returns.
    score : str, default="nmi_geometric"
        Name of a score, as in :func:`manyview.metrics.score_all`.
    data : str, optional
        Name of one data set; by default all.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        One marker and one label for each method.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.experiment import Run
    >>> from manyview.plotting import plot_time_against_quality
    >>> runs = [
    ...     Run("SEC", "digits", 0, "default", {}, scores={"acc": 0.6}, seconds=0.2),
    ...     Run("MMC", "digits", 0, "default", {}, scores={"acc": 0.8}, seconds=1.5),
    ... ]
    >>> ax = plot_time_against_quality(runs, score="acc")
    >>> ax.get_xscale(), [text.get_text() for text in ax.texts]
    ('log', ['SEC', 'MMC'])
    >>> plt.close(ax.figure)
    """
    table = reported_rows(rows)
    sets = list(dict.fromkeys(row.data for row in table))
    if data is not None:
        if data not in sets:
            raise ValueError(f"data={data!r}; the rows have {', '.join(sets)}")
        table, sets = [row for row in table if row.data == data], [data]
    check_score(table, score)
    series = [one for one in series_of(table) if _scored(one, score)]
    ax = given_or_new(ax, (6.4, 4.4))
    styles = styles_of(one.name for one in series)
    points, labels = [], []
    for one in series:
        scored = _scored(one, score)
        point = (
            float(np.exp(np.mean([np.log(_seconds(row)) for row in scored]))),
            float(np.mean([row.mean[score] for row in scored])),
        )
        colour, marker = styles[one.name]
        ax.plot(
            *point,
            linestyle="",
            marker=marker,
            markersize=7.5,
            markerfacecolor="none" if one.tuned else colour,
            markeredgecolor=colour if one.tuned else INK,
            markeredgewidth=1.6 if one.tuned else 0.6,
            label=shown(one.title),
        )
        part = f" ({len(scored)} of {len(sets)} sets)" if len(scored) < len(sets) else ""
        points.append(point)
        labels.append(f"{one.name}{', tuned' if one.tuned else ''}{part}")
    ax.set_xscale("log")
    ax.margins(0.12)
    tick_log_axis(ax.xaxis)
    ax.set(
        xlabel="seconds per fit",
        ylabel=score_name(score),
        title=shown(sets[0]) if len(sets) == 1 else f"mean of {len(sets)} data sets",
    )
    trim(ax, hide=("top", "right"))
    label_points(ax, points, labels)
    return ax


def _scored(series: Series, score: str) -> list[Row]:
    return [row for row in series.rows.values() if score in row.mean]


def _seconds(row: Row) -> float:
    if not row.seconds > 0:
        raise ValueError(
            f"{row.method} on {row.data!r} has seconds={row.seconds}; expected a positive time"
        )
    return row.seconds


_LABEL_AT = 0.9  # position of the label along a guide line


def plot_time_against_size(
    sizes: Sequence[int],
    seconds: Mapping[str, Sequence[float | None]],
    *,
    guides: Sequence[float] = (1.0, 2.0),
    xlabel: str = "samples",
    ylabel: str = "seconds",
    ax: Axes | None = None,
) -> Axes:
    """Draw time against size on logarithmic axes.

    The legend gives each method's growth exponent, fitted by least squares.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of samples, or of whatever else was varied.
    seconds : mapping of str to sequence of float or None
        The time of each method at every size; None or NaN if it was not run.
    guides : sequence of float, default=(1, 2)
        Exponents of the grey lines.
    xlabel, ylabel : str
        Names of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        A line for each method, slowest first, then the guides.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> from manyview.plotting import plot_time_against_size
    >>> times = {"MMC": [0.1, 0.2, 0.4], "AMGL": [0.1, 0.4, None]}
    >>> ax = plot_time_against_size([1000, 2000, 4000], times)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['AMGL, exponent 2.0', 'MMC, exponent 1.0']
    >>> plt.close(ax.figure)
    """
    n = np.asarray(sizes, dtype=float)
    if n.ndim != 1 or not n.size or not np.all(n > 0):
        raise ValueError(f"sizes={sizes!r}; expected positive numbers")
    times = {name: _checked(name, values, n) for name, values in seconds.items()}
    if not times:
        raise ValueError("seconds is empty; expected at least one method")
    ax = given_or_new(ax, (6.8, 4.4))
    styles = styles_of(times)
    for name in sorted(times, key=lambda name: _at_largest(n, times[name]), reverse=True):
        done = np.isfinite(times[name])
        colour, marker = styles[name]
        ax.plot(
            n[done],
            times[name][done],
            color=colour,
            marker=marker,
            markersize=6,
            markeredgecolor=INK,
            markeredgewidth=0.4,
            label=_label(name, n[done], times[name][done]),
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    trim(ax, hide=("top", "right"))
    legend_beside(ax, n_entries=len(times))
    _add_guides(ax, n, times, guides)
    return ax


def _checked(name: str, values: Sequence[float | None], n: Floats) -> Floats:
    array = np.array([np.nan if value is None else value for value in values], dtype=float)
    if array.shape != n.shape:
        raise ValueError(
            f"seconds of {name!r} has {len(array)} values, sizes has {len(n)}; "
            "expected one per size, None where it was not run"
        )
    if not np.isfinite(array).any():
        raise ValueError(f"seconds of {name!r} has no value at any size")
    if np.any(array <= 0):
        raise ValueError(f"seconds of {name!r} has {np.nanmin(array)}; expected positive times")
    return array


def _at_largest(n: Floats, times: Floats) -> tuple[float, float]:
    done = np.isfinite(times)
    last = int(np.argmax(np.where(done, n, -np.inf)))
    # a method that stopped at a smaller size counts as slower
    return -float(n[last]), float(times[last])


def _label(name: str, n: Floats, times: Floats) -> str:
    if len(np.unique(n)) < 2:
        return shown(name)
    slope = np.polyfit(np.log(n), np.log(times), 1)[0]
    return f"{shown(name)}, exponent {slope:.1f}"


def _add_guides(ax: Axes, n: Floats, times: Mapping[str, Floats], guides: Sequence[float]) -> None:
    """Draw guide lines with given exponents, starting below the fastest method."""
    (low, high), (left, right) = ax.get_ylim(), ax.get_xlim()
    start = float(min(np.nanmin(values) for values in times.values())) / 1.5
    low = min(low, start / 1.5)
    for exponent in guides:
        end = right
        if exponent > 0:
            end = min(right, float(n.min()) * (high / start) ** (1 / exponent))
        x = np.array([float(n.min()), end])
        y = start * (x / n.min()) ** exponent
        ax.plot(x, y, color=QUIET, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        label_x, label_y = (ends[0] ** (1 - _LABEL_AT) * ends[1] ** _LABEL_AT for ends in (x, y))
        ax.text(
            label_x,
            label_y,
            "$n$" if exponent == 1 else f"$n^{{{exponent:g}}}$",
            color=QUIET,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            zorder=1.1,
        )
    ax.set(xlim=(left, right), ylim=(low, high))
    tick_log_axis(ax.xaxis)
    tick_log_axis(ax.yaxis)
