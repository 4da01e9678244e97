"""Runs of one method on one data set, as a row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manyview.experiment.protocol import Run
from manyview.experiment.published import PUBLISHED

__all__ = ["Row", "summarise"]


@dataclass(frozen=True)
class Row:
    """Means and standard deviations over seeds, beside what the paper printed.

    Attributes
    ----------
    method, data : str
    tuned : bool
        Whether labels chose the parameters.
    n_runs : int
        Runs that ended with labels.
    mean, std : dict of str to float
        Of every score.
    seconds : float
        Mean of a run.
    published : tuple of float, or None
        ACC and NMI of the paper.
    errors : tuple of str
        What the runs without labels said.
    """

    method: str
    data: str
    tuned: bool
    n_runs: int
    mean: dict[str, float]
    std: dict[str, float]
    seconds: float
    published: tuple[float, float] | None
    errors: tuple[str, ...]


def summarise(runs: Sequence[Run]) -> list[Row]:
    """Return one row for each method, data set and protocol, in the order of the runs."""
    groups: dict[tuple[str, str, bool], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.method, run.data, run.tuned), []).append(run)
    return [_row(key, group) for key, group in groups.items()]


def _row(key: tuple[str, str, bool], runs: list[Run]) -> Row:
    method, data, tuned = key
    done = [run for run in runs if run.scores]
    names = list(done[0].scores) if done else []
    values = {name: np.array([run.scores[name] for run in done]) for name in names}
    return Row(
        method,
        data,
        tuned,
        len(done),
        {name: float(value.mean()) for name, value in values.items()},
        {name: float(value.std()) for name, value in values.items()},
        float(np.mean([run.seconds for run in done])) if done else float("nan"),
        PUBLISHED.get((method, data)),
        tuple(dict.fromkeys(run.error for run in runs if run.error)),
    )
