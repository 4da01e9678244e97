"""How the figures of a page came about: seeds, versions, machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manyview.experiment import Run
from manyview.experiment.results import session_here

__all__ = ["described_sessions", "seeds_of", "spans"]

Facts = list[tuple[str, str]]


def spans(numbers: Iterable[int]) -> str:
    """Return numbers with runs of them drawn together.

    Examples
    --------
    >>> spans([3, 0, 1, 2, 7])
    '0 to 3, 7'
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts)


def seeds_of(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return the seeds of the runs on each data set."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.data, set()).add(run.seed)
    return [(data, spans(found)) for data, found in seeds.items()]


def described_sessions(
    runs: Sequence[Run], sessions: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, Facts]]:
    """Return versions and machine of every session that a run belongs to, with its title.

    Without sessions, those of this process: where it did not do the runs, the title tells.

    Parameters
    ----------
    runs : sequence of Run
    sessions : sequence of mapping, or None
        As a results file holds them; a run's ``session`` is a position in it.

    Returns
    -------
    list of (str, list of (str, str))
    """
    if not sessions:
        return [("The process that wrote this page", _facts(session_here()))]
    counts = Counter(run.session for run in runs if 0 <= run.session < len(sessions))
    described = []
    for at, count in sorted(counts.items()):
        title = f"Session {at + 1}: {count} run{'s' if count > 1 else ''}"
        described.append((title, _facts(sessions[at])))
    return described or [("The process that wrote this page", _facts(session_here()))]


def _facts(session: Mapping[str, Any]) -> Facts:
    return [(str(name), _fact(value)) for name, value in session.items() if name != "format"]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)
