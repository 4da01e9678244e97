"""Rows of a results table as figures need them: checked, and gathered by method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from manyview.experiment.run import Run
from manyview.experiment.summary import Row, as_rows

__all__ = ["Series", "check_score", "published", "reported_rows", "series_of"]


@dataclass(frozen=True)
class Series:
    """A method in one protocol, over data sets."""

    name: str
    tuned: bool
    method: str
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name, with whether labels chose the parameters."""
        return f"{self.name}, tuned with labels" if self.tuned else self.name


def reported_rows(rows: Sequence[Row] | Sequence[Run]) -> list[Row]:
    """Return the rows of reported runs; runs are summarised first."""
    # runs of a selection chose parameters and are no result
    reported = [row for row in as_rows(rows) if row.protocol != "selection"]
    if not reported:
        raise ValueError("rows is empty: there is nothing to draw")
    return reported


def check_score(rows: Sequence[Row], score: str) -> None:
    """Raise for a score that no row has, and list those that they have."""
    known = dict.fromkeys(name for row in rows for name in row.mean)
    if not known:
        reasons = "; ".join(dict.fromkeys(error for row in rows for error in row.errors))
        raise ValueError(f"no row has a score: {reasons or 'no run ended with labels'}")
    if score not in known:
        raise ValueError(f"score={score!r}; the rows have {', '.join(known)}")


def published(row: Row, score: str) -> float | None:
    """Return what the paper printed, which for NMI may have another normaliser."""
    if row.published is None:
        return None
    if score == "acc":
        return row.published[0]
    return row.published[1] if score.startswith("nmi") else None


def series_of(rows: Sequence[Row]) -> list[Series]:
    """Gather rows by method, in order of appearance, each with its tuned form beside it."""
    places = Counter((row.method, row.protocol, row.data) for row in rows)
    several = {method for (method, _, _), count in places.items() if count > 1}
    found: dict[tuple[str, bool], Series] = {}
    for row in rows:
        scaled = f"{row.method}, scaled by {row.preprocessing}"
        name = scaled if row.method in several else row.method
        series = found.setdefault((name, row.tuned), Series(name, row.tuned, row.method))
        if row.data in series.rows:
            raise ValueError(
                f"two rows of {series.title} on {row.data!r} cannot be told apart; give one of them"
            )
        series.rows[row.data] = row
    order = list(dict.fromkeys(series.name for series in found.values()))
    return sorted(found.values(), key=lambda series: (order.index(series.name), series.tuned))
