"""The report page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from manyview.datasets import Dataset
from manyview.experiment import Run
from manyview.experiment.protocol import check_datasets
from manyview.experiment.results import fingerprint, session_here
from manyview.mmc import MMC
from manyview.report.comparison import (
    COLUMNS,
    SCORES,
    Chart,
    convergence,
    spread,
    standings,
    time_and_quality,
)
from manyview.report.reading import MOST_POINTS, Reading, check_model, fitted, read
from manyview.report.rendering import rendered
from manyview.storage import whole_file

Facts = list[tuple[str, str]]


def spans(numbers: Iterable[int]) -> str:
    """Return integers as text, with consecutive ones shortened to ranges.

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
    """Return the seeds used on each data set."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.data, set()).add(run.seed)
    return [(data, spans(found)) for data, found in seeds.items()]


def described_sessions(
    runs: Sequence[Run], sessions: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, Facts]]:
    """Return a title, software versions and machine for every session that has runs.

    Without recorded sessions the current process is described, and the title says so.
    """
    sessions = sessions or []
    counts = Counter(run.session for run in runs if 0 <= run.session < len(sessions))
    described = [
        (f"Session {at + 1}: {count} run{'s' if count > 1 else ''}", _facts(sessions[at]))
        for at, count in sorted(counts.items())
    ]
    return described or [("The process that wrote this page", _facts(session_here()))]


def _facts(session: Mapping[str, Any]) -> Facts:
    return [(str(name), _fact(value)) for name, value in session.items() if name != "format"]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)


_CONTENTS = (
    ("results", "Results"),
    ("spread", "Spread over seeds"),
    ("time", "Time and quality"),
    ("convergence", "Convergence"),
    ("found", "Clusters found by MMC"),
    ("protocol", "Protocol"),
)
_ALL_POINTS = 15_000  # over all maps, to keep the page small
_FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError)


def write_report(
    path: str | os.PathLike[str],
    runs: Sequence[Run],
    datasets: Sequence[Dataset],
    *,
    title: str = "Multi-view clustering, compared",
    sessions: Sequence[Mapping[str, Any]] | None = None,
    models: Mapping[str, MMC] | None = None,
) -> Path:
    """Write a comparison as one self-contained HTML page.

    The page has the table of every data set and charts of spread, time and convergence. For each
    data set that you pass it also shows a map of the samples, classes against clusters, and the
    features that MMC kept. Scripts and styles are embedded; the page loads nothing.

    Parameters
    ----------
    path : path-like
        The file. It is replaced once the page is complete.
    runs : sequence of Run
        Runs on one or more data sets; runs that only selected a setting are ignored.
    datasets : sequence of Dataset
        Data sets with classes, named as in the runs. Other data sets of the runs get a table and
        charts only.
    title : str
        Title of the page.
    sessions : sequence of mapping, optional
        Versions and machine, as recorded in a results file; by default those of this process.
    models : mapping of str to MMC, optional
        Fitted models by name of data set. For the others MMC is fitted here, with default
        parameters and seed 0.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If there are no runs, or a data set has no classes, no runs or a model of other samples.
    OSError
        If the file cannot be written. This is checked before any fit.

    Examples
    --------
    >>> import tempfile
    >>> from manyview.datasets import make_views
    >>> from manyview.experiment import METHODS, compare
    >>> data = make_views(60, 3, (6, 5), random_state=0)
    >>> runs = compare([METHODS["MMC"]], [data], repeats=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(f"{folder}/report.html", runs, [data])
    ...     page.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    target = Path(path)
    reported = [run for run in runs if run.protocol != "selection"]
    given = dict(models or {})
    _check(reported, datasets, given)
    # open the file first, to fail before the fits if it cannot be written
    with whole_file(target) as file:
        file.write(_page(reported, datasets, title, sessions, given))
    return target


def _check(runs: Sequence[Run], datasets: Sequence[Dataset], models: Mapping[str, MMC]) -> None:
    if not runs:
        raise ValueError("there are no runs to report")
    check_datasets(datasets)
    names = [dataset.name for dataset in datasets]
    known = {run.data for run in runs}
    for dataset in datasets:
        if dataset.name not in known:
            raise ValueError(
                f"data set {dataset.name!r} has no runs; there are runs on "
                + ", ".join(map(repr, sorted(known)))
            )
        if dataset.name in models:
            check_model(models[dataset.name], dataset)
    for name in models:
        if name not in names:
            raise ValueError(f"there is a model of {name!r}, but no data set of that name")


def _page(
    runs: Sequence[Run],
    datasets: Sequence[Dataset],
    title: str,
    sessions: Sequence[Mapping[str, Any]] | None,
    models: Mapping[str, MMC],
) -> bytes:
    charts: dict[str, Chart] = {}
    by_name = {dataset.name: dataset for dataset in datasets}
    most_points = min(MOST_POINTS, _ALL_POINTS // max(1, len(datasets)))
    sets = []
    for at, standing in enumerate(standings(runs)):
        own = [run for run in runs if run.data == standing.data]
        figures = {
            f"spread-acc-{at}": spread(standing.lines, "acc"),
            f"spread-nmi-{at}": spread(standing.lines, "nmi_geometric"),
            f"time-{at}": time_and_quality(standing.lines),
            f"convergence-{at}": convergence(own),
        }
        charts |= {name: chart for name, chart in figures.items() if chart is not None}
        entry: dict[str, Any] = {"at": at, "standing": standing, "name": standing.data or "unnamed"}
        dataset = by_name.get(standing.data)
        if dataset is not None:
            entry |= _described(dataset, own)
            entry |= _reading(dataset, models.get(dataset.name), most_points)
            if "reading" in entry:
                charts[f"map-{at}"] = entry["reading"].map
        sets.append(entry)
    return rendered(
        "report.html.j2",
        code=[get_plotlyjs()],
        scripts=("sort.js", "figures.js"),
        contents=_CONTENTS,
        data=charts,
        title=title,
        sets=sets,
        charts=set(charts),
        columns=COLUMNS,
        scores=SCORES,
        seeds=seeds_of(runs),
        sessions=described_sessions(runs, sessions),
        n_runs=len(runs),
        methods=list(dict.fromkeys(run.method for run in runs)),
        any_tuned=any(run.tuned for run in runs),
    )


def _described(dataset: Dataset, runs: Sequence[Run]) -> dict[str, Any]:
    marks = {run.fingerprint for run in runs if run.fingerprint}
    return {
        "n_samples": dataset.views.n_samples,
        "n_classes": np.unique(np.asarray(dataset.y)).size,
        "views": list(zip(dataset.views.names, dataset.views.n_features, strict=True)),
        "differs": bool(marks) and marks != {fingerprint(dataset)},
    }


def _reading(dataset: Dataset, model: MMC | None, most_points: int) -> dict[str, Reading | str]:
    """Return the description of the model, or the error that the page shows in its place."""
    try:
        remarks: list[str] = []
        if model is None:
            model, remarks = fitted(dataset)
        return {"reading": read(dataset, model, remarks, most_points=most_points)}
    except _FAILURES as error:
        return {"failure": str(error) or type(error).__name__}
