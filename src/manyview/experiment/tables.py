"""Rows of a comparison as text: CSV for programs, Markdown for people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from manyview.experiment.run import settings_key
from manyview.experiment.summary import Row

__all__ = ["as_csv", "as_markdown"]

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
