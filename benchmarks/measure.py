"""Timers and measurements."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np


@dataclass
class Measurement:
    """A figure and its bound; without a bound the figure is only reported."""

    name: str
    figure: float
    bound: float | None
    at_least: bool = False
    detail: str = ""

    @property
    def kept(self) -> bool | None:
        if self.bound is None:
            return None
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound

    def row(self) -> dict[str, Any]:
        # JSON has no infinity, which is the figure of a failed run
        figure = self.figure if np.isfinite(self.figure) else None
        return {**asdict(self), "figure": figure, "kept": self.kept}


def side_by_side(
    functions: Mapping[str, Callable[[], object]], *, repeats: int = 7
) -> dict[str, float]:
    """Return the median seconds of each function; they alternate, so that noise affects all."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - begin)
    return {name: median(times) for name, times in seconds.items()}


def seconds_of(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def data_dir() -> Path | None:
    folder = os.environ.get("MANYVIEW_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


def add_parts(parser: ArgumentParser, known: Iterable[str]) -> None:
    """Add an argument for the parts to run, all by default."""
    names = list(known)

    # argparse rejects an empty list if it has choices
    def part(name: str) -> str:
        if name not in names:
            raise ArgumentTypeError(f"no such part: {name}; expected {', '.join(names)}")
        return name

    described = f"one of {', '.join(names)}; by default all"
    parser.add_argument("parts", nargs="*", type=part, metavar="PART", help=described)
