"""The command compare: methods on data sets with known classes, and the progress of runs."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich import progress as rich_progress
from rich.table import Table

from manyview import __version__
from manyview.cli.console import InterruptionError, new_console
from manyview.cli.outputs import (
    check_replaceable,
    check_replaceable_report,
    check_targets,
    print_parts,
    read_data,
    table,
)
from manyview.experiment import (
    METHODS,
    OTHER_METHODS,
    Listener,
    Method,
    ResultsFile,
    Row,
    Run,
    Task,
    compare,
    method_named,
    rank_methods,
    summarise,
)
from manyview.storage import whole_file

__all__ = [
    "compare_files",
    "comparison_table",
    "error_lines",
    "interrupts_explained",
    "shown_progress",
]


def compare_files(
    data: Sequence[str],
    methods: str,
    *,
    results: Path | None,
    json: Path | None,
    report: Path | None,
    quiet: bool,
    reading: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Compare methods on data sets, print the tables and write the files asked for.

    `reading` holds options of :func:`manyview.datasets.read_views`, `options` are those of
    :func:`manyview.experiment.compare`.
    """
    chosen = methods_named(methods)
    runs_path = _checked_outputs(results, json, report)
    datasets = [read_data(name, shown=not quiet, **(reading or {})) for name in data]
    with interrupts_explained(runs_path):
        with (
            nullcontext() if runs_path is None else ResultsFile(runs_path) as file,
            shown_progress(shown=not quiet) as listener,
        ):
            runs = compare(chosen, datasets, results=file, listener=listener, **options)
        rows = summarise(runs)
        tables = [comparison_table(dataset.name, rows) for dataset in datasets]
        notes = []
        if any(row.tuned for row in rows):
            notes.append("METHOD, tuned: tuned with labels, on other seeds than those reported")
        print_parts(new_console(), *tables, *notes, *_ranking_tables(rows), *error_lines(rows))
        if json is not None:
            _write_json(json, runs)
        if report is not None:
            from manyview.report import write_report  # plotly takes a while to import

            write_report(report, runs, datasets, sessions=file.sessions if file else None)
    if not any(row.n_runs for row in rows):
        raise ValueError("every run failed, for the reasons above")


def methods_named(names: str) -> list[Method]:
    """Return methods by their names, separated by commas.

    ``paper`` stands for ``METHODS``, and ``all`` for these and ``OTHER_METHODS``.
    """
    groups = {"paper": list(METHODS), "all": [*METHODS, *OTHER_METHODS]}
    wanted: list[str] = []
    for name in filter(None, map(str.strip, names.split(","))):
        wanted += groups.get(name.lower(), [name])
    if not wanted:
        expected = f"expected some of {', '.join(groups['all'])}, or paper or all"
        raise ValueError(f"--methods is empty; {expected}")
    return list({method.name: method for method in map(method_named, wanted)}.values())


def _checked_outputs(results: Path | None, json: Path | None, report: Path | None) -> Path | None:
    """Raise unless all files can be written, and return the results file.

    By default it is beside the JSON file or the report; without these, runs are not kept.
    """
    beside = json or report
    if results is None and beside is not None:
        results = beside.with_suffix(".runs.jsonl" if beside.suffix == ".jsonl" else ".jsonl")
    targets = {"--json": json, "--report": report, "--results": results}
    check_targets((), targets, new=(), force=True)
    if json is not None:
        check_replaceable(json, b'{\n "manyview"', "the JSON file of a comparison")
    if report is not None:
        check_replaceable_report(report)
    return results


@contextmanager
def interrupts_explained(kept: Path | None) -> Iterator[None]:
    """Report on an interrupt where the finished runs are; None if they are not kept."""
    try:
        yield
    except KeyboardInterrupt:
        message = "no runs were kept; pass --results FILE to keep them"
        if kept is not None:
            message = f"finished runs are kept in {kept}; run the same command again to continue"
        raise InterruptionError(message) from None


def _write_json(path: Path, runs: Sequence[Run]) -> None:
    content = {"manyview": __version__, "runs": [run.as_record() for run in runs]}
    with whole_file(path) as file:
        file.write((json_module.dumps(content, indent=1) + "\n").encode())


def comparison_table(name: str, rows: Sequence[Row]) -> Table:
    """Return the rows of one data set as a table."""
    cells = []
    for row in rows:
        if row.data != name:
            continue
        line = [f"{row.method}, tuned" if row.tuned else row.method, row.preprocessing]
        if row.n_runs:
            line += [_mean_and_std(row, key) for key in ("acc", "nmi_geometric")]
            line += [f"{100 * row.mean[key]:.1f}" for key in ("nmi_arithmetic", "nmi_max")]
        else:
            line += ["failed", "failed", "", ""]
        line.append("/".join(f"{100 * score:.1f}" for score in row.published or ()))
        line.append(f"{row.seconds:.2f}" if row.n_runs else "")
        cells.append(line)
    return table((name, "scaled", "ACC %", "NMI geo", "arith", "max", "paper", "s"), cells)


def _mean_and_std(row: Row, score: str) -> str:
    mean, std = f"{100 * row.mean[score]:.1f}", f"{100 * row.std[score]:.1f}"
    if row.n_runs == 1:
        return mean
    try:
        "±".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return f"{mean}+-{std}"
    return f"{mean}±{std}"


def error_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each reason why a method has no labels on a data set."""
    return [f"{row.title} on {row.data}: {error}" for row in rows for error in row.errors]


def _ranking_tables(rows: Sequence[Row]) -> list[Table | str]:
    """Return mean ranks over data sets, for each protocol and scaling with enough results."""
    parts: list[Table | str] = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        scaled = str(row.params.get("normalize", "default"))
        groups.setdefault((row.protocol, scaled), []).append(row)
    for (protocol, scaled), ranked in groups.items():
        if len({row.data for row in ranked}) < 2 or len({row.method for row in ranked}) < 3:
            continue
        try:
            by_acc, by_nmi = (rank_methods(ranked, score) for score in ("acc", "nmi_geometric"))
        except ValueError:
            continue  # no data set was run with all methods
        ranks = by_nmi.ranks.items()
        lines = [(name, f"{by_acc.ranks[name]:.2f}", f"{rank:.2f}") for name, rank in ranks]
        title = f"mean rank ({protocol}, scaled: {scaled})"
        parts.append(table((title, "ACC", "NMI geo"), lines))
        parts.append(
            f"Means over {len(by_nmi.data)} data sets. A method that ended without labels ranks "
            f"last. Mean ranks closer than {by_nmi.critical_difference:.2f} are not significantly "
            "different (Nemenyi's test, 5 %). p-value of Friedman's test that all methods are "
            f"equal: {by_acc.p_value:.2g} for ACC, {by_nmi.p_value:.2g} for NMI."
        )
    return parts


@contextmanager
def shown_progress(
    *, shown: bool, title: str = "compare", log_seconds: float = 30.0
) -> Iterator[Listener]:
    """Return a listener that shows a comparison: a bar on a terminal, lines in a log.

    A log has a line at the start, at every tenth of the runs, and at the first change after
    `log_seconds` without a line.
    """
    if not shown:
        yield Listener()
    elif sys.stderr.isatty():
        columns = (
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("{task.fields[note]}", markup=False),
        )
        with rich_progress.Progress(*columns, console=new_console(stderr=True)) as progress:
            bar = progress.add_task(title, total=None, note="")
            yield _Progress(
                lambda done, total, note: progress.update(
                    bar, completed=done, total=total, note=note
                )
            )
    else:
        yield _Progress(_Log(title, log_seconds))


class _Progress(Listener):
    """Calls `show` with the number of finished runs, that of all runs, and a note."""

    def __init__(self, show: Callable[[int, int, str], None]) -> None:
        self._show = show
        self._done = self._total = 0
        self._running: dict[tuple[str, int], None] = {}

    def planned(self, total: int, known: int) -> None:
        self._done, self._total = known, total
        self._show(known, total, f"{known} were in the results file already" if known else "")

    def started(self, task: Task) -> None:
        self._running.update(dict.fromkeys(map(_name_and_seed, task.runs())))
        self._update()

    def finished(self, run: Run) -> None:
        self._running.pop(_name_and_seed(run), None)  # a skipped run was never started
        self._done += 1
        self._update()

    def _update(self) -> None:
        running = ", ".join(dict.fromkeys(name for name, _ in self._running))
        self._show(self._done, self._total, f"running {running}" if running else "")


def _name_and_seed(run: Run) -> tuple[str, int]:
    protocol = "" if run.protocol == "default" else f" ({run.protocol})"
    return f"{run.method} on {run.data}{protocol}", run.seed


class _Log:
    """Progress as lines on standard error."""

    def __init__(self, title: str, seconds: float) -> None:
        self._title, self._seconds = title, seconds
        self._tenth, self._written = -1, 0.0

    def __call__(self, done: int, total: int, note: str) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth == self._tenth and time.monotonic() < self._written + self._seconds:
            return
        suffix = f"; {note}" if note else ""
        print(f"{self._title}: {done} of {total} done{suffix}", file=sys.stderr, flush=True)
        self._tenth, self._written = tenth, time.monotonic()
