"""Means, tables and captions of a comparison."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyview.experiment.methods import published_for
from manyview.experiment.results import Protocol, Run, settings_key

__all__ = ["Row", "as_csv", "as_markdown", "as_rows", "summarise"]


@dataclass(frozen=True)
class Row:
    """Means and standard deviations over seeds, beside what the paper printed.

    Attributes
    ----------
    method, data : str
        Names.
    protocol : {"default", "tuned", "selection"}
        Whether labels chose the parameters.
    preprocessing : str
        How the views were scaled.
    params : mapping
        Parameters beside the estimator's own defaults.
    n_runs : int
        Runs that ended with labels.
    mean, std : dict of str to float
        Of every score, over these runs: what they deviate by, and not what more of them might.
    seconds, cpu_seconds, peak_bytes, n_iter : float
        Means over runs.
    published : tuple of float, or None
        ACC and NMI of the paper.
    errors : tuple of str
        What the runs without labels said.

    Examples
    --------
    >>> from manyview.experiment import Run, summarise
    >>> scores = {0: 0.75, 1: 0.25}
    >>> runs = [Run("MMC", "news", n, "tuned", {}, scores={"acc": a}) for n, a in scores.items()]
    >>> (row,) = summarise(runs)
    >>> row.title, row.n_runs, row.mean["acc"], row.std["acc"]
    ('MMC, tuned with labels', 2, 0.5, 0.25)
    """

    method: str
    data: str
    protocol: Protocol
    preprocessing: str
    params: Mapping[str, Any]
    n_runs: int
    mean: dict[str, float]
    std: dict[str, float]
    seconds: float
    cpu_seconds: float
    peak_bytes: float
    n_iter: float
    published: tuple[float, float] | None
    errors: tuple[str, ...]

    @property
    def tuned(self) -> bool:
        """Whether labels chose the parameters."""
        return self.protocol == "tuned"

    @property
    def title(self) -> str:
        """The method, and whether labels tuned it."""
        return f"{self.method}, tuned with labels" if self.tuned else self.method


def summarise(runs: Sequence[Run]) -> list[Row]:
    """Gather runs that differ by their seed only.

    Parameters
    ----------
    runs : sequence of Run
        As :func:`manyview.experiment.compare` or :func:`manyview.experiment.read_runs` returns.

    Returns
    -------
    list of Row
        One for each method with its parameters, data set and protocol, in the order of the runs.

    Examples
    --------
    >>> from manyview.experiment import Run
    >>> runs = [
    ...     Run("MMC", "news", 0, "default", {}, scores={"acc": 0.75}),
    ...     Run("MMC", "news", 1, "default", {}, scores={"acc": 0.25}),
    ...     Run("SEC", "news", 0, "default", {}, error="view 'text' has a NaN"),
    ... ]
    >>> [(row.method, row.n_runs, row.mean, row.errors) for row in summarise(runs)]
    [('MMC', 2, {'acc': 0.5}, ()), ('SEC', 0, {}, ("view 'text' has a NaN",))]
    """
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        key = run.method, run.data, run.protocol, run.preprocessing, run.key.settings
        groups.setdefault(key, []).append(run)
    return [_row(group) for group in groups.values()]


def as_rows(rows: Sequence[Row] | Sequence[Run]) -> list[Row]:
    """Return rows as they are, and runs summarised.

    Raises
    ------
    TypeError
        For what is neither, or both mixed.

    Examples
    --------
    >>> from manyview.experiment import Run
    >>> runs = [Run("MMC", "news", seed, "default", {}, scores={"acc": 0.75}) for seed in (0, 1)]
    >>> [(row.method, row.n_runs) for row in as_rows(runs)]
    [('MMC', 2)]
    """
    given = list(rows)
    runs = [run for run in given if isinstance(run, Run)]
    table = [row for row in given if isinstance(row, Row)]
    strange = [item for item in given if not isinstance(item, Run | Row)]
    if strange:
        raise TypeError(f"rows holds a {type(strange[0]).__name__}; expected Row or Run")
    if runs and table:
        raise TypeError("rows holds both Row and Run; expected one of them")
    return table or summarise(runs)


def _row(runs: list[Run]) -> Row:
    first = runs[0]
    done = [run for run in runs if run.scores]
    names = list(done[0].scores) if done else []
    values = {name: np.array([run.scores[name] for run in done]) for name in names}
    return Row(
        first.method,
        first.data,
        first.protocol,
        first.preprocessing,
        dict(first.params),
        len(done),
        {name: float(value.mean()) for name, value in values.items()},
        {name: float(value.std()) for name, value in values.items()},
        _mean([run.seconds for run in done]),
        _mean([run.cpu_seconds for run in done]),
        _mean([float(run.peak_bytes) for run in done]),
        _mean([float(run.n_iter) for run in done if run.n_iter is not None]),
        published_for(first.method, first.data, first.n_samples),
        tuple(dict.fromkeys(run.error for run in runs if run.error)),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


_COST = ("seconds", "cpu_seconds", "peak_bytes", "n_iter")


def as_csv(rows: Sequence[Row]) -> str:
    """Return all that rows hold, one line per row.

    Parameters
    ----------
    rows : sequence of Row

    Returns
    -------
    str
        With a header; figures that are not there are empty.
    """
    scores = list(dict.fromkeys(name for row in rows for name in row.mean))
    heads = ["data", "method", "protocol", "scaled", "params", "runs"]
    heads += [f"{name}_{kind}" for name in scores for kind in ("mean", "std")]
    heads += [*_COST, "published_acc", "published_nmi", "errors"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        cells: list[object] = [row.data, row.method, row.protocol, row.preprocessing]
        cells += [settings_key(row.params), row.n_runs]
        for name in scores:
            cells += [row.mean.get(name, ""), row.std.get(name, "")]
        cost = [getattr(row, name) for name in _COST]
        cells += ["" if math.isnan(value) else value for value in cost]
        cells += [*(row.published or ("", "")), "; ".join(row.errors)]
        writer.writerow(cells)
    return text.getvalue()


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the paper's table: methods down, data sets across, published figures in brackets.

    ACC and NMI (geometric) are percentages, mean and standard deviation over seeds. The best of
    ours is bold in each column, apart for the two protocols.

    Parameters
    ----------
    rows : sequence of Row

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If two rows are of one method, scaling and protocol on one data set.
    """
    data = list(dict.fromkeys(row.data for row in rows))
    lines = [
        "| method | scaled |"
        + "".join(f" {name} ACC | {name} NMI |" for name in map(_one_cell, data)),
        "|---|---|" + "---:|" * (2 * len(data)),
    ]
    kinds: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        kinds.setdefault((row.method, row.protocol, row.preprocessing), []).append(row)
    best = _best(rows)
    for alike in kinds.values():
        cells = []
        for name in data:
            found = [row for row in alike if row.data == name]
            if len(found) > 1:
                raise ValueError(
                    f"two rows of {found[0].title} on {name!r} cannot be told apart; give one of "
                    "them"
                )
            cells += _cells(found[0], best) if found else ["", ""]
        first = alike[0]
        lines.append(
            f"| {_one_cell(first.title)} | {first.preprocessing} | " + " | ".join(cells) + " |"
        )
    return "\n".join(lines) + "\n"


_SHOWN = ("acc", "nmi_geometric")


def _best(rows: Sequence[Row]) -> dict[tuple[str, str, str], float]:
    best: dict[tuple[str, str, str], float] = {}
    for row in rows:
        for score in _SHOWN:
            if row.n_runs:
                place = row.data, row.protocol, score
                best[place] = max(best.get(place, 0.0), round(100 * row.mean[score], 1))
    return best


def _cells(row: Row, best: dict[tuple[str, str, str], float]) -> list[str]:
    if not row.n_runs:
        return [_one_cell(row.errors[0] if row.errors else "failed"), ""]
    cells = []
    for at, score in enumerate(_SHOWN):
        mean = round(100 * row.mean[score], 1)
        plus_minus = f"±{100 * row.std[score]:.1f}" if row.n_runs > 1 else ""
        text = f"{mean:.1f}{plus_minus}"
        if mean == best[row.data, row.protocol, score]:
            text = f"**{text}**"
        if row.published is not None:
            text += f" ({100 * row.published[at]:.1f})"
        cells.append(text)
    return cells


def _one_cell(text: str) -> str:
    """Return a text in which nothing ends the cell or the line of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
