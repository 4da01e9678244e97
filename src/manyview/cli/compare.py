"""The command compare: methods on data sets with known classes."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.table import Table

from manyview import __version__
from manyview.cli.console import InterruptionError, new_console, shown_progress
from manyview.cli.outputs import (
    check_replaceable,
    check_replaceable_report,
    check_target,
    print_parts,
    table,
)
from manyview.datasets.files import find_dataset
from manyview.experiment import (
    METHODS,
    Method,
    ResultsFile,
    Row,
    Run,
    compare,
    method_named,
    rank_methods,
    summarise,
)
from manyview.storage import whole_file

__all__ = ["compare_files", "comparison_table", "error_lines", "interrupts_explained"]


def compare_files(
    data: Sequence[str],
    methods: str,
    *,
    results: Path | None,
    json: Path | None,
    report: Path | None,
    quiet: bool,
    classes: str | None = None,
    id_column: str | None = None,
    **options: Any,
) -> None:
    """Compare methods on data sets, print the tables and write the files asked for.

    `options` are those of :func:`manyview.experiment.compare`.
    """
    chosen = methods_named(methods)
    runs_path = _checked_outputs(results, json, report)
    datasets = [find_dataset(name, classes=classes, id_column=id_column) for name in data]
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
    """Return methods by their names, separated by commas; ``all`` stands for ``METHODS``."""
    wanted: list[str] = []
    for name in filter(None, map(str.strip, names.split(","))):
        wanted += list(METHODS) if name.lower() == "all" else [name]
    if not wanted:
        raise ValueError(f"--methods is empty; expected some of {', '.join(METHODS)}, or all")
    return list({method.name: method for method in map(method_named, wanted)}.values())


def _checked_outputs(results: Path | None, json: Path | None, report: Path | None) -> Path | None:
    """Raise unless all files can be written, and return the results file.

    By default it is beside the JSON file or the report; without these, runs are not kept.
    """
    targets = {"--json": json, "--report": report}
    places = [check_target(path, option) for option, path in targets.items() if path is not None]
    beside = json or report
    if results is None and beside is not None:
        results = beside.with_suffix(".runs.jsonl" if beside.suffix == ".jsonl" else ".jsonl")
    if results is not None:
        places.append(check_target(results, "--results"))
    if len(set(places)) < len(places):
        raise ValueError("--results, --json and --report must name different files")
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
    mean = f"{100 * row.mean[score]:.1f}"
    return f"{mean}{_plus_minus()}{100 * row.std[score]:.1f}" if row.n_runs > 1 else mean


def _plus_minus() -> str:
    """Return the sign ±, or +- if standard output cannot encode it."""
    try:
        "±".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "+-"
    return "±"


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
        lines = [
            (name, f"{by_acc.ranks[name]:.2f}", f"{rank:.2f}")
            for name, rank in by_nmi.ranks.items()
        ]
        title = f"mean rank ({protocol}, scaled: {scaled})"
        parts.append(table((title, "ACC", "NMI geo"), lines))
        parts.append(
            f"Means over {len(by_nmi.data)} data sets. A method that ended without labels ranks "
            f"last. Mean ranks closer than {by_nmi.critical_difference:.2f} are not significantly "
            "different (Nemenyi's test, 5 %). p-value of Friedman's test that all methods are "
            f"equal: {by_acc.p_value:.2g} for ACC, {by_nmi.p_value:.2g} for NMI."
        )
    return parts
