"""Figure creation, colours, labels and text tables shared by all plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from manyview._typing import Floats
from manyview.experiment.results import Run
from manyview.experiment.summary import Row, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


_LONGEST = 40
_NO_WIDTH = "\N{ZERO WIDTH SPACE}"


def shown(name: object) -> str:
    r"""Return a name as matplotlib text: one line, shortened, with dollar signs escaped.

    >>> print(shown("$ and\n$"))
    \$ and \$
    """
    text = " ".join(str(name).split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    # matplotlib omits names with a leading underscore from legends
    return (_NO_WIDTH if text.startswith("_") else "") + text.replace("$", r"\$")


def names_of(y: npt.NDArray[Any], class_names: Sequence[str] | None) -> dict[Any, str]:
    """Return the names of the classes that occur, in their order.

    >>> list(names_of(np.array([1, 0, 1]), ["cat", "dog"]).values())
    ['cat', 'dog']
    """
    values = np.unique(y)
    if class_names is None:
        return {value: str(value) for value in values}
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= len(class_names):
        raise ValueError(
            f"class_names has {len(class_names)} names, y the classes {values.tolist()}; "
            "expected class_names[k] for every class k"
        )
    return {value: str(class_names[value]) for value in values}


# Okabe and Ito, Color Universal Design, with a grey
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
SKY, VERMILLION, YELLOW, GREY, BLACK = "#56b4e9", "#d55e00", "#f0e442", "#999999", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW, GREY, BLACK)
INK, QUIET = "#222222", "#777777"

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")
_SCORES = {
    "acc": "ACC",
    "nmi_geometric": "NMI (geometric)",
    "nmi_arithmetic": "NMI (arithmetic)",
    "nmi_max": "NMI (max)",
    "ari": "ARI",
    "purity": "purity",
    "pairwise_f": "pairwise F",
}


class Style(NamedTuple):
    """Colour and marker of a method or class."""

    colour: str
    marker: str


_METHODS = {
    "SEC": Style(GREY, "s"),
    "CoRegSC": Style(SKY, "^"),
    "AMGL": Style(YELLOW, "v"),
    "RMKMC": Style(GREEN, "D"),
    "MultiNMF": Style(ORANGE, "P"),
    "KCTD": Style(PURPLE, "X"),
    "SCMV3DT": Style(BLACK, "<"),
    "MMC-F": Style(BLUE, "h"),
    "MMC": Style(VERMILLION, "o"),
}


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Return a distinct style for each name.

    Known methods have fixed styles; other names get free ones, in lighter shades after nine.

    >>> styles_of(["MMC", "mine"])["mine"]
    Style(colour='#0072b2', marker='s')
    """
    wanted = list(dict.fromkeys(names))
    found = {name: _METHODS[name] for name in wanted if name in _METHODS}
    used = {part for style in found.values() for part in style}
    colours = (colour for colour in _colours(len(wanted)) if colour not in used)
    markers = cycle([marker for marker in _MARKERS if marker not in used] or _MARKERS)
    return {
        name: found[name] if name in found else Style(next(colours), next(markers))
        for name in wanted
    }


def _colours(count: int) -> list[str]:
    """Return enough colours: the palette repeated in lighter and lighter shades."""
    rounds = count // len(PALETTE) + 2
    return [_lighter(colour, 0.55**k) for k in range(rounds) for colour in PALETTE]


def _lighter(colour: str, part: float) -> str:
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - part * (255 - channel)):02x}" for channel in channels)


def score_name(score: str) -> str:
    """Return the axis label of a score, with the normaliser of NMI."""
    return _SCORES.get(score, score)


def given_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given Axes, or those of a new figure with a size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "figures need matplotlib: pip install 'manyview[app]'",
            name="matplotlib",
        ) from error
    # the constrained layout makes room for legends outside the Axes
    return plt.subplots(figsize=size, layout="constrained")[1]


def trim(ax: Axes, *, grid: Literal["x", "y", "both"] = "both", hide: Sequence[str]) -> None:
    """Draw a grid below the data and hide some spines."""
    ax.grid(axis=grid, alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[list(hide)].set_visible(False)


def legend_beside(ax: Axes, *, title: str | None = None, n_entries: int = 0) -> None:
    """Put the legend to the right of the Axes, in two columns if it is long."""
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        title=title,
        ncols=2 if n_entries > 20 else 1,
    )


def tick_log_axis(axis: Axis) -> None:
    """Label 1, 2 and 5 of each decade on short logarithmic axes, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high > 300 * low:
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


# distances and directions of a label from its point, nearest first; distances are in points
_DISTANCES = np.array([5.0, 11.0, 18.0, 27.0, 38.0, 52.0])
_ANGLES = 2 * np.pi * np.arange(16) / 16
_DIRECTIONS = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
_NEAR = 12.0  # labels further away get a line to their point
_RADIUS = 4.5


def label_points(
    ax: Axes, points: Sequence[tuple[float, float]], texts: Sequence[str], fontsize: float = 9.0
) -> None:
    """Label each point at the nearest position that covers nothing, or else covers least.

    The limits of the Axes must be final.
    """
    figure = ax.figure.canvas.figure
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    figure.draw_without_rendering()
    scale = figure.dpi / 72.0
    pixels = ax.transData.transform(np.asarray(points, dtype=float))
    within = ax.get_window_extent().get_points()
    radius = _RADIUS * scale
    away = (_DISTANCES * scale + radius)[:, None, None] * _DIRECTIONS
    taken = [np.array([pixel - radius, pixel + radius]) for pixel in pixels]
    for point, pixel, text in zip(points, pixels, texts, strict=True):
        label = ax.annotate(
            shown(text),
            point,
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=fontsize,
            color=INK,
            ha="center",
            va="center",
            annotation_clip=False,
        )
        half = np.array(label.get_window_extent().size) / 2
        offsets = (away + np.round(_DIRECTIONS, 1) * half).reshape(-1, 2)
        boxes = pixel + np.stack([offsets - half, offsets + half], axis=1)
        covered = sum(_overlaps(boxes, other) for other in taken) - _overlaps(boxes, within)
        best = int(np.argmin(np.round(covered, 6)))
        label.set_position(tuple(offsets[best] / scale))
        taken.append(boxes[best])
        nearest = np.clip(pixel, *boxes[best])
        if np.linalg.norm(pixel - nearest) > _NEAR * scale:
            (x0, y0), (x1, y1) = ax.transData.inverted().transform([pixel, nearest])
            ax.plot([x0, x1], [y0, y1], color=QUIET, linewidth=0.6, zorder=1.5)


def _overlaps(boxes: Floats, other: Floats) -> Floats:
    """Return the area that each box shares with another; a box is its two corners."""
    sides = np.minimum(boxes[:, 1], other[1]) - np.maximum(boxes[:, 0], other[0])
    areas: Floats = np.prod(np.maximum(sides, 0.0), axis=1)
    return areas


@dataclass(frozen=True)
class Series:
    """The rows of one method and protocol, by data set."""

    name: str
    tuned: bool
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name, marked if the method is tuned with labels."""
        return f"{self.name}, tuned with labels" if self.tuned else self.name


def reported_rows(rows: Sequence[Row] | Sequence[Run]) -> list[Row]:
    """Return the rows to draw; runs are summarised first."""
    # selection runs only choose parameters
    reported = [row for row in as_rows(rows) if row.protocol != "selection"]
    if not reported:
        raise ValueError("rows is empty; expected at least one row")
    return reported


def check_score(rows: Sequence[Row], score: str) -> None:
    """Raise ValueError if no row has the score."""
    known = dict.fromkeys(name for row in rows for name in row.mean)
    if not known:
        reasons = "; ".join(dict.fromkeys(error for row in rows for error in row.errors))
        raise ValueError(f"no row has a score: {reasons or 'all runs failed'}")
    if score not in known:
        raise ValueError(f"score={score!r}; the rows have {', '.join(known)}")


def series_of(rows: Sequence[Row]) -> list[Series]:
    """Group rows by method, in order of appearance, label-free before tuned."""
    places = Counter((row.method, row.protocol, row.data) for row in rows)
    several = {method for (method, _, _), count in places.items() if count > 1}
    found: dict[tuple[str, bool], Series] = {}
    for row in rows:
        scaled = f"{row.method}, scaled by {row.preprocessing}"
        name = scaled if row.method in several else row.method
        series = found.setdefault((name, row.tuned), Series(name, row.tuned))
        if row.data in series.rows:
            raise ValueError(
                f"rows has two entries of {series.title} on {row.data!r}; expected one"
            )
        series.rows[row.data] = row
    order = list(dict.fromkeys(series.name for series in found.values()))
    return sorted(found.values(), key=lambda series: (order.index(series.name), series.tuned))
