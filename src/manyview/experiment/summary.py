"""Means over seeds, and the tables of a comparison."""

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

__all__ = ["Row", "as_csv", "as_markdown", "as_rows", "grouped", "summarise"]


@dataclass(frozen=True)
class Row:
    """Means and standard deviations over seeds, with the published scores.

    Attributes
    ----------
    method, data : str
        Names.
    protocol : {"default", "tuned", "selection"}
        Whether labels chose the parameters.
    preprocessing : str
        Scaling of the views.
    params : mapping
        Parameters that differ from the estimator's own defaults.
    n_runs : int
        Number of runs that ended with labels.
    mean, std : dict of str to float
        Mean and standard deviation of every score over these runs.
    seconds, cpu_seconds, peak_bytes, n_iter : float
        Means over these runs; NaN if there are none.
    published : tuple of float, or None
        ACC and NMI of the paper.
    errors : tuple of str
        The reasons of the runs without labels.

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
        """True if labels chose the parameters."""
        return self.protocol == "tuned"

    @property
    def title(self) -> str:
        """The method, and whether it was tuned with labels."""
        return f"{self.method}, tuned with labels" if self.tuned else self.method


def summarise(runs: Sequence[Run]) -> list[Row]:
    """Summarise runs that differ only in their seed.

    Parameters
    ----------
    runs : sequence of Run
        Result of :func:`manyview.experiment.compare` or :func:`manyview.experiment.read_runs`.

    Returns
    -------
    list of Row
        One row for each method with its parameters, data set and protocol, in the order of the
        runs.

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
    return [_row(group) for group in grouped(runs)]


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Return lists of the runs that differ only in their seed."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        key = run.method, run.data, run.protocol, run.preprocessing, settings_key(run.params)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def _row(runs: list[Run]) -> Row:
    first = runs[0]
    done = [run for run in runs if run.scores]
    scores = {name: [run.scores[name] for run in done] for name in (done[0].scores if done else ())}
    return Row(
        first.method,
        first.data,
        first.protocol,
        first.preprocessing,
        dict(first.params),
        len(done),
        {name: float(np.mean(values)) for name, values in scores.items()},
        {name: float(np.std(values)) for name, values in scores.items()},
        _mean([run.seconds for run in done]),
        _mean([run.cpu_seconds for run in done]),
        _mean([run.peak_bytes for run in done]),
        _mean([run.n_iter for run in done if run.n_iter is not None]),
        published_for(first.method, first.data, first.n_samples),
        tuple(dict.fromkeys(run.error for run in runs if run.error)),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def as_rows(rows: Sequence[Row] | Sequence[Run]) -> list[Row]:
    """Return rows unchanged, and runs summarised; raise TypeError for anything else."""
    given = list(rows)
    strange = [item for item in given if not isinstance(item, Run | Row)]
    if strange:
        raise TypeError(f"rows holds a {type(strange[0]).__name__}; expected Row or Run")
    runs = [run for run in given if isinstance(run, Run)]
    table = [row for row in given if isinstance(row, Row)]
    if runs and table:
        raise TypeError("rows holds both Row and Run; expected one of them")
    return table or summarise(runs)


_COST = ("seconds", "cpu_seconds", "peak_bytes", "n_iter")


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV with a header; missing values are empty."""
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


_SHOWN = ("acc", "nmi_geometric")


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the paper's table in Markdown: one line per method, two columns per data set.

    ACC and NMI are percentages, mean and standard deviation over seeds, with the published score in
    brackets. The best score of each data set and protocol is bold. Two rows for the same cell raise
    ValueError.
    """
    data = list(dict.fromkeys(row.data for row in rows))
    best: dict[tuple[str, str, str], float] = {}
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        line = lines.setdefault((row.method, row.protocol, row.preprocessing), {})
        if row.data in line:
            raise ValueError(
                f"{row.title} has two rows on {row.data!r}; expected one for each data set, "
                "protocol and preprocessing"
            )
        line[row.data] = row
        for score in _SHOWN if row.n_runs else ():
            place = row.data, row.protocol, score
            best[place] = max(best.get(place, 0.0), round(100 * row.mean[score], 1))

    heads = "".join(f" {name} ACC | {name} NMI |" for name in map(_escaped, data))
    table = [f"| method | scaled |{heads}", "|---|---|" + "---:|" * (2 * len(data))]
    for (_, _, preprocessing), line in lines.items():
        title = next(iter(line.values())).title
        cells = [_escaped(title), preprocessing]
        for name in data:
            cells += _cells(line[name], best) if name in line else ["", ""]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table) + "\n"


def _cells(row: Row, best: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Return ACC and NMI of a row, or the reason why there are none."""
    if not row.n_runs:
        return [_escaped(row.errors[0] if row.errors else "failed"), ""]
    cells = []
    for at, score in enumerate(_SHOWN):
        mean = round(100 * row.mean[score], 1)
        text = f"{mean:.1f}" + (f"±{100 * row.std[score]:.1f}" if row.n_runs > 1 else "")
        if mean == best[row.data, row.protocol, score]:
            text = f"**{text}**"
        if row.published is not None:
            text += f" ({100 * row.published[at]:.1f})"
        cells.append(text)
    return cells


def _escaped(text: str) -> str:
    """Return text that does not end a cell or line of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
