"""Colours and markers that all can tell apart, the same for a method in every figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["INK", "PALETTE", "QUIET", "Style", "score_name", "styles_of"]

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
    """How a method or a class looks."""

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
    """Return a style for each name, no two alike.

    Known methods have their own, other names what is free; after nine colours come lighter
    shades of them.

    Examples
    --------
    >>> styles_of(["MMC", "mine"])["mine"]
    Style(colour='#0072b2', marker='s')
    """
    wanted = list(dict.fromkeys(names))
    found = {name: _METHODS[name] for name in wanted if name in _METHODS}
    colours = {style.colour for style in found.values()}
    markers = {style.marker for style in found.values()}
    others = [name for name in wanted if name not in found]
    free = [colour for colour in _colours(len(wanted)) if colour not in colours]
    free_markers = [marker for marker in _MARKERS if marker not in markers] or list(_MARKERS)
    for at, name in enumerate(others):
        found[name] = Style(free[at], free_markers[at % len(free_markers)])
    return {name: found[name] for name in wanted}


def score_name(score: str) -> str:
    """Return a score's name as it stands on an axis, with the normaliser of NMI."""
    return _SCORES.get(score, score)


def _colours(count: int) -> list[str]:
    """Return the palette as often as needed, and once more, each time nearer to white."""
    rounds = count // len(PALETTE) + 2
    return [_lighter(colour, 0.55**k) for k in range(rounds) for colour in PALETTE]


def _lighter(colour: str, part: float) -> str:
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - part * (255 - channel)):02x}" for channel in channels)
