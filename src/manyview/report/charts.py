"""What the figures of a comparison show; the page's script draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyview.experiment import METHODS, Run
from manyview.mmc import MMC
from manyview.report.comparison import Line
from manyview.report.text import compact, plotly_text, short

__all__ = ["Chart", "convergence", "spread", "time_and_quality"]

Chart = dict[str, Any]

_MOST_POINTS = 200  # of a line; more cannot be told apart at its width
_PUBLISHED = {"acc": 0, "nmi_geometric": 1}


def spread(lines: Sequence[Line], score: str) -> Chart | None:
    """Return a score of every run beside its mean and the published figure.

    Parameters
    ----------
    lines : sequence of Line
        Of one data set.
    score : {"acc", "nmi_geometric"}

    Returns
    -------
    dict or None
        None where no run has scores.
    """
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
            # a logarithmic axis has no zero
            "seconds": compact(max(line.row.seconds, 1e-4)),
            "acc": compact(100 * line.row.mean["acc"]),
            "std": compact(100 * line.row.std["acc"]),
        }
        for line in lines
        if "acc" in line.row.mean
    ]
    return {"kind": "time", "points": points} if points else None


def convergence(runs: Sequence[Run]) -> Chart | None:
    """Return the objective of MMC after every sweep, a line for each run.

    Parameters
    ----------
    runs : sequence of Run
        Of one data set.

    Returns
    -------
    dict or None
        None where no run of MMC kept its objective.
    """
    lines = [
        {
            "name": plotly_text(short(run.method, 20) + (" †" if run.tuned else "")),
            "tuned": run.tuned,
            "seed": run.seed,
            **_thinned(run.objective),
        }
        for run in runs
        if run.objective and run.method in METHODS and METHODS[run.method].make is MMC
    ]
    return {"kind": "convergence", "lines": lines} if lines else None


def _thinned(objective: Sequence[float]) -> dict[str, list[Any]]:
    count = len(objective)
    kept = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
    return {
        "sweeps": (kept + 1).tolist(),
        "values": [compact(objective[at], 5) for at in kept],
    }
