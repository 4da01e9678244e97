"""The comparison part of the report: table and charts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyview.experiment import METHODS, Row, Run, summarise
from manyview.experiment.summary import grouped
from manyview.mmc import MMC
from manyview.report.text import MISSING, compact, figure, plotly_text, short

SCORES = {
    "acc": "ACC",
    "nmi_geometric": "NMI geom.",
    "nmi_arithmetic": "NMI arith.",
    "nmi_max": "NMI max",
    "ari": "ARI",
}


@dataclass(frozen=True)
class Column:
    """A column of the table, and the order in which the first click sorts it."""

    title: str
    meaning: str
    first: str = "ascending"
    is_number: bool = True


@dataclass(frozen=True)
class Cell:
    """The text of a cell and its sort key; None sorts last in both orders."""

    text: str
    sort: float | str | None
    spread: str = ""
    is_best: bool = False


@dataclass(frozen=True)
class Line:
    """A row of the table.

    `label` is unique within the data set and as short as possible, `settings` lists parameters
    that differ from the defaults, `cells` has one entry per column except the first, and `values`
    holds ACC and NMI of every run.
    """

    row: Row
    label: str
    settings: str
    cells: list[Cell]
    values: dict[str, list[float]]
    seeds: list[int]


@dataclass(frozen=True)
class Standing:
    """The table of one data set, and the errors of its failed runs."""

    data: str
    lines: list[Line]
    errors: list[tuple[str, int, str]]


COLUMNS = (
    Column("Method", "name, and parameters that differ from the defaults", is_number=False),
    Column("Protocol", "whether labels chose the parameters", is_number=False),
    Column("Scaling", "how the views were scaled", is_number=False),
    *(
        Column(title, "in %, mean ± standard deviation over seeds", first="descending")
        for title in SCORES.values()
    ),
    Column("Published", "ACC / NMI of the paper, in %", first="descending"),
    Column("Time s", "wall-clock time of a fit"),
    Column("CPU s", "processor time of a fit"),
    Column("Memory MB", "peak memory of the process"),
    Column("Iter.", "iterations of a fit"),
    Column("Runs", "completed runs", first="descending"),
    Column("Failed", "failed runs", first="descending"),
)


def standings(runs: Sequence[Run]) -> list[Standing]:
    """Return the table of every data set, in the order of the runs.

    The best value of each score is marked separately for label-free and label-tuned methods.
    """
    by_data: dict[str, list[tuple[Row, list[Run]]]] = {}
    for group in grouped(runs):
        (row,) = summarise(group)
        missing = [s for s in SCORES for run in group if run.scores and s not in run.scores]
        if missing:
            raise ValueError(
                f"a run of {row.method} on {row.data!r} has no score {missing[0]!r}; the report "
                f"needs {', '.join(SCORES)}"
            )
        by_data.setdefault(row.data, []).append((row, group))
    return [_standing(data, groups) for data, groups in by_data.items()]


def _standing(data: str, groups: Sequence[tuple[Row, list[Run]]]) -> Standing:
    rows = [row for row, _ in groups]
    best: dict[tuple[str, str], float] = {
        (protocol, score): max(
            _shown(row, score) for row in rows if row.protocol == protocol and row.mean
        )
        for protocol in {row.protocol for row in rows if row.mean}
        for score in SCORES
    }
    scalings = Counter((row.method, row.protocol) for row in rows)
    settings = Counter((row.method, row.protocol, row.preprocessing) for row in rows)
    lines, errors = [], []
    for row, runs in groups:
        label = short(row.method, 20) + (" †" if row.tuned else "")
        if settings[row.method, row.protocol, row.preprocessing] > 1:
            label += f" ({short(_settings(row), 30) or row.preprocessing})"
        elif scalings[row.method, row.protocol] > 1:
            label += f" ({row.preprocessing})"
        failed = Counter(run.error for run in runs if not run.scores)
        errors += [(label, count, error) for error, count in failed.items()]
        lines.append(_line(row, label, runs, best))
    return Standing(data, lines, errors)


def _shown(row: Row, score: str) -> float:
    """Return a mean as printed, so that values that print alike tie for the best."""
    return round(100 * row.mean.get(score, math.nan), 1)


def _line(row: Row, label: str, runs: Sequence[Run], best: Mapping[tuple[str, str], float]) -> Line:
    done = [run for run in runs if run.scores]
    failed = len(runs) - len(done)
    acc, nmi = row.published or (math.nan, math.nan)
    cells = [
        Cell("† tuned with labels" if row.tuned else "default", row.protocol),
        Cell(row.preprocessing, row.preprocessing.lower()),
        *(_score_cell(row, score, best) for score in SCORES),
        _number_cell(acc, f"{100 * acc:.1f} / {100 * nmi:.1f}"),
        *(_number_cell(value) for value in (row.seconds, row.cpu_seconds)),
        _number_cell(row.peak_bytes / 1e6 or math.nan),  # 0 means unknown
        _number_cell(row.n_iter, f"{row.n_iter:.1f}".removesuffix(".0")),
        Cell(str(row.n_runs), row.n_runs),
        Cell(str(failed), failed),
    ]
    return Line(
        row,
        label,
        _settings(row),
        cells,
        {score: [run.scores[score] for run in done] for score in ("acc", "nmi_geometric")},
        [run.seed for run in done],
    )


def _settings(row: Row) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={short(value, 40)}"
        for name, value in row.params.items()
    )


def _score_cell(row: Row, score: str, best: Mapping[tuple[str, str], float]) -> Cell:
    if score not in row.mean:
        return Cell(MISSING, None)
    shown = _shown(row, score)
    spread = f"± {100 * row.std[score]:.1f}" if row.n_runs > 1 else ""
    return Cell(
        f"{shown:.1f}".replace("-", "\N{MINUS SIGN}"),
        row.mean[score],
        spread,
        shown == best[row.protocol, score],
    )


def _number_cell(value: float, text: str = "") -> Cell:
    if not math.isfinite(value):
        return Cell(MISSING, None)
    return Cell(text or figure(value), value)


Chart = dict[str, Any]

_MOST_POINTS = 200  # of a curve; more are indistinguishable at its width
_PUBLISHED = {"acc": 0, "nmi_geometric": 1}


def spread(lines: Sequence[Line], score: str) -> Chart | None:
    """Return the score of every run with its mean and published value; None without scores."""
    rows = []
    for line in lines:
        if not line.values[score]:
            continue
        published = line.row.published and line.row.published[_PUBLISHED[score]]
        rows.append(
            {
                "name": plotly_text(line.label),
                "tuned": line.row.tuned,
                "values": [compact(100 * value) for value in line.values[score]],
                "seeds": line.seeds,
                "mean": compact(100 * line.row.mean[score]),
                "published": compact(None if published is None else 100 * published),
            }
        )
    return {"kind": "spread", "rows": rows} if rows else None


def time_and_quality(lines: Sequence[Line]) -> Chart | None:
    """Return the mean time and the mean accuracy of every line."""
    points = [
        {
            "name": plotly_text(line.label),
            "tuned": line.row.tuned,
            # the axis is logarithmic
            "seconds": compact(max(line.row.seconds, 1e-4)),
            "acc": compact(100 * line.row.mean["acc"]),
            "std": compact(100 * line.row.std["acc"]),
        }
        for line in lines
        if "acc" in line.row.mean
    ]
    return {"kind": "time", "points": points} if points else None


def convergence(runs: Sequence[Run]) -> Chart | None:
    """Return the objective of MMC after every iteration, one curve per run; None without runs."""
    lines = []
    for run in runs:
        if not run.objective or run.method not in METHODS or METHODS[run.method].make is not MMC:
            continue
        count = len(run.objective)
        kept = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
        lines.append(
            {
                "name": plotly_text(short(run.method, 20) + (" †" if run.tuned else "")),
                "tuned": run.tuned,
                "seed": run.seed,
                "iterations": (kept + 1).tolist(),
                "values": [compact(run.objective[at], 5) for at in kept],
            }
        )
    return {"kind": "convergence", "lines": lines} if lines else None
