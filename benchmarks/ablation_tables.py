"""The tables of the ablation as Markdown; a failure is a dash with its reason below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from manyview.experiment import Run
from manyview.experiment.significance import paired_differences

NMI = "nmi_geometric"
INITIALISATION = "MultiViewSpectral"
FITTED, PREDICTED = "MMC, fit of all samples", "MMC, predicted"
RIDGE = "initialisation and ridge, predicted"
WITH_ALL, FEWER = "training samples, in a fit of all", "training samples, fitted alone"
EQUAL = 0.05  # points of NMI within which two means count as equal
DASH = "-"

Cells: TypeAlias = dict[tuple[str, str], list[Run]]
Scores: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Dropped:
    """Share of features dropped in each view, or the error that prevented it."""

    shares: Mapping[str, float]
    error: str = ""


def gain_table(runs: Sequence[Run], variants: Sequence[str]) -> str:
    """Return the mean NMI of each variant, and its differences to the initialisation and to MMC."""
    cells = _whole_cells(runs)
    whole = [run for cell in cells.values() for run in cell]
    gains, behind = _differences(whole, INITIALISATION), _differences(whole, "MMC")
    rows = []
    for variant in variants:
        of_variant = [cell for (name, _), cell in cells.items() if name == variant]
        means = [_scores(cell, NMI).mean() for cell in of_variant]
        row = [f"{np.mean(means):.1f} ({len(means)})" if means else DASH]
        row.append(gains.get(variant, DASH))
        row.append(_counted(cells, variant) if variant in gains else DASH)
        row.append(behind.get(variant, DASH))
        rows.append([variant, *row])
    heads = ["variant", "mean (sets)", "gain over initialisation (95 %)"]
    heads += ["better / equal / worse", "difference to MMC (95 %)"]
    return _table(heads, rows, _reasons(runs))


def set_table(runs: Sequence[Run], variants: Sequence[str], names: Sequence[str]) -> str:
    """Return NMI by dataset and variant."""
    cells = _whole_cells(runs)
    rows = [
        [name, *(_percent(cells.get((variant, name)), NMI) for variant in variants)]
        for name in names
    ]
    return _table(["set", *variants], rows, [])


def _differences(runs: Sequence[Run], method: str) -> dict[str, str]:
    """Return the scores of all others less those of a method, as text."""
    if not any(run.method == method for run in runs):
        return {}
    found = paired_differences(runs, method, NMI)
    return {d.other: _gain(-d.mean, -d.high, -d.low) for d in found}


def held_out_table(
    runs: Sequence[Run], splits: Sequence[Run], dropped: Mapping[str, Dropped]
) -> str:
    """Return the features dropped and the NMI of predicted held-out samples, by dataset.

    `splits` are the runs of ``FITTED``, ``PREDICTED``, ``RIDGE``, ``WITH_ALL`` and ``FEWER``, with
    the number of the split as their seed.
    """
    cells = _whole_cells([*runs, *splits])
    rows = []
    gaps: list[list[Scores | None]] = [
        [_gaps(cells.get((of, name)), cells.get((less, name))) for name in dropped]
        for of, less in ((PREDICTED, FITTED), (FEWER, WITH_ALL))
    ]
    for name, features, held_out, left in zip(dropped, dropped.values(), *gaps, strict=True):
        apart, fewer = _spread(held_out), _spread(left)
        fitted, predicted = cells.get((FITTED, name)), cells.get((PREDICTED, name))
        shares = ", ".join(f"{view} {share:.0%}" for view, share in features.shares.items())
        figures = [_percent(cell, NMI) for cell in (cells.get(("MMC", name)), predicted, fitted)]
        ridge = _percent(cells.get((RIDGE, name)), NMI)
        rows.append([name, shares or DASH, *figures, apart, fewer, ridge])
    if len(rows) > 1:
        rows.append(["mean", *[""] * 4, *map(_mean, gaps), ""])
    heads = ["set", "features dropped (seed 0)", "fit of all samples", "held out, predicted"]
    heads += ["held out, in a fit of all samples", "difference"]
    heads.append("training samples, fitted alone less in a fit of all")
    heads.append("held out, predicted by initialisation and ridge")
    failed = [f"features of {name}: {d.error}" for name, d in dropped.items() if d.error]
    return _table(heads, rows, failed + _reasons(splits))


def _gaps(runs: Sequence[Run] | None, others: Sequence[Run] | None) -> Scores | None:
    """Return the difference of two scores for every split."""
    return _scores(runs, NMI) - _scores(others, NMI) if runs and others else None


def _spread(gaps: Scores | None) -> str:
    return DASH if gaps is None else f"{_signed(gaps.mean(), 1)} ± {gaps.std():.1f}"


def _mean(gaps: Sequence[Scores | None]) -> str:
    """Return the mean over datasets; a dash if one has no score, which may be the worst."""
    means = [found.mean() for found in gaps if found is not None]
    return _signed(float(np.mean(means)), 1) if len(means) == len(gaps) else DASH


def product_table(runs: Sequence[Run]) -> str:
    """Return ACC by kind of synthetic dataset, the part of its name before ``;``."""
    methods = list(dict.fromkeys(run.method for run in runs))
    kinds = list(dict.fromkeys(_kind(run) for run in runs))
    rows = []
    for kind in kinds:
        row = []
        for method in methods:
            found = [run for run in runs if (run.method, _kind(run)) == (method, kind)]
            row.append(_percent(found if all(run.scores for run in found) else None, "acc"))
        rows.append([kind, *row])
    return _table(["set", *methods], rows, _reasons(runs))


def _kind(run: Run) -> str:
    return run.data.split(";")[0]


def _whole_cells(runs: Sequence[Run]) -> Cells:
    """Return the runs of each method on each dataset if none of them failed."""
    cells: Cells = {}
    for run in runs:
        cells.setdefault((run.method, run.data), []).append(run)
    return {
        key: sorted(cell, key=lambda run: run.seed)
        for key, cell in cells.items()
        if all(run.scores for run in cell)
    }


def _counted(cells: Cells, variant: str) -> str:
    names = [name for method, name in cells if method == variant]
    both = [name for name in names if (INITIALISATION, name) in cells]
    gaps = np.array(
        [
            _scores(cells[variant, name], NMI).mean()
            - _scores(cells[INITIALISATION, name], NMI).mean()
            for name in both
        ]
    )
    better, worse = int((gaps >= EQUAL).sum()), int((gaps <= -EQUAL).sum())
    return f"{better} / {gaps.size - better - worse} / {worse}"


def _scores(runs: Sequence[Run], score: str) -> Scores:
    return np.array([100.0 * run.scores[score] for run in runs])


def _percent(runs: Sequence[Run] | None, score: str) -> str:
    return f"{_scores(runs, score).mean():.1f}" if runs else DASH


def _gain(mean: float, low: float, high: float) -> str:
    middle, bottom, top = (_signed(100.0 * value, 2) for value in (mean, low, high))
    return f"{middle} ({bottom} to {top})"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def _reasons(runs: Sequence[Run]) -> list[str]:
    found = dict.fromkeys((run.method, run.data, run.error) for run in runs if run.error)
    return [f"{method} on {data}: {error}" for method, data, error in found]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    lines = [_line(heads), "|---|" + "---:|" * (len(heads) - 1), *map(_line, rows)]
    if notes:
        lines += ["", "Dashes:", "", *(f"- {' '.join(note.split())}" for note in notes)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
