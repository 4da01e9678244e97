"""Labels beside points, placed so that none covers another or a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from manyview.plotting.names import shown
from manyview.plotting.style import INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

__all__ = ["label_points"]

_DISTANCES = (5.0, 11.0, 18.0, 27.0, 38.0, 52.0)  # in points
_NEAR = 12.0  # beyond it a line leads from the point to its label
_RADIUS = 4.5


def label_points(
    ax: Axes, points: Sequence[tuple[float, float]], texts: Sequence[str], fontsize: float = 9.0
) -> None:
    """Write a text beside each point.

    Places are tried from near to far, on all sides, and the first free one within the Axes is
    taken, or else the one that covers least. Limits of the Axes should be final.
    """
    figure = ax.figure.canvas.figure
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
    figure.draw_without_rendering()
    scale = figure.dpi / 72.0
    pixels = ax.transData.transform(np.asarray(points, dtype=float))
    radius = _RADIUS * scale
    taken = [_box(pixel, 2 * radius, 2 * radius) for pixel in pixels]
    for point, pixel, text in zip(points, pixels, texts, strict=True):
        made = ax.annotate(
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
        size = made.get_window_extent()
        offset = _offset(pixel, size.width, size.height, taken, ax.get_window_extent(), scale)
        made.set_position((offset[0] / scale, offset[1] / scale))
        box = _box(pixel + offset, size.width, size.height)
        taken.append(box)
        if _gap(pixel, box) > _NEAR * scale:
            nearest = np.clip(pixel, box.min, box.max)
            (x0, y0), (x1, y1) = ax.transData.inverted().transform([pixel, nearest])
            ax.plot([x0, x1], [y0, y1], color=QUIET, linewidth=0.6, zorder=1.5)


def _offset(
    pixel: np.ndarray,
    width: float,
    height: float,
    taken: Sequence[Bbox],
    within: Bbox,
    scale: float,
) -> np.ndarray:
    """Return where the centre of a box stands from its point, in pixels."""
    best, least = np.zeros(2), np.inf
    for distance in _DISTANCES:
        for turn in range(16):
            angle = 2 * np.pi * turn / 16
            direction = np.array([np.cos(angle), np.sin(angle)])
            offset = direction * (distance * scale + _RADIUS * scale)
            offset = offset + np.round(direction, 1) * (width / 2, height / 2)
            box = _box(pixel + offset, width, height)
            covered = sum(_overlap(box, other) for other in taken)
            covered += width * height - _overlap(box, within)
            if covered < least - 1e-6:
                best, least = offset, covered
        if least <= 1e-6:
            break
    return best


def _box(centre: np.ndarray, width: float, height: float) -> Bbox:
    from matplotlib.transforms import Bbox

    half = np.array([width, height]) / 2
    return Bbox([centre - half, centre + half])


def _overlap(first: Bbox, second: Bbox) -> float:
    sides = np.minimum(first.max, second.max) - np.maximum(first.min, second.min)
    return float(np.prod(np.maximum(sides, 0.0)))


def _gap(pixel: np.ndarray, box: Bbox) -> float:
    return float(np.linalg.norm(pixel - np.clip(pixel, box.min, box.max)))
