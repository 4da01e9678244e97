"""``manyview compare``: methods beside each other on data sets with known classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from manyview import __version__
from manyview.cli.console import InterruptionError, shown_progress
from manyview.cli.outputs import (
    REPORT_MARK,
    check_target,
    new_console,
    plus_minus,
    print_parts,
    refuse_another,
    table,
)
from manyview.datasets.files import find_dataset
from manyview.experiment import (
    METHODS,
    Limits,
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

__all__ = ["Outputs", "compare_files", "comparison_table", "methods_named", "told_on_interrupt"]


@dataclass(frozen=True)
class Outputs:
    """Where the results of a comparison go.

    Attributes
    ----------
    results : Path or None
        File of runs, added to as they are done. By default beside `json` or `report`, with the
        suffix ``.jsonl``; without any, runs are not kept.
    json : Path or None
        All reported runs, in one JSON object.
    report : Path or None
        A page.
    """

    results: Path | None = None
    json: Path | None = None
    report: Path | None = None

    def runs_file(self) -> Path | None:
        """Return where runs are kept."""
        beside = self.json or self.report
        if self.results or beside is None:
            return self.results
        return beside.with_suffix(".runs.jsonl" if beside.suffix == ".jsonl" else ".jsonl")

    def check(self) -> None:
        """Refuse what cannot be written, or would replace something else, before any work."""
        named = {"--json": self.json, "--report": self.report}
        places = [check_target(path, option) for option, path in named.items() if path is not None]
        # only a file has a name from which that of another can be made
        runs = self.runs_file()
        if runs is not None:
            places.append(check_target(runs, "--results"))
        if len(set(places)) < len(places):
            raise ValueError("--results, --json and --report must name different files")
        refuse_another(self.json, b'{\n "manyview"', "the JSON file of a comparison")
        refuse_another(self.report, REPORT_MARK, "a report")


def compare_files(
    data: Sequence[str],
    methods: str,
    *,
    repeats: int,
    tune: bool,
    preprocessings: Sequence[str],
    n_jobs: int,
    n_threads: int,
    limits: Limits,
    outputs: Outputs,
    quiet: bool,
    classes: str | None = None,
    id_column: str | None = None,
) -> None:
    """Compare methods on data sets, print the table and write what was asked for.

    Parameters
    ----------
    data : sequence of str
        Files, or names of sets.
    methods : str
        Names with commas between them, or ``all``.
    repeats : int
        Number of seeds.
    tune : bool
        Whether to add a row with the setting that labels choose.
    preprocessings : sequence of str
        How views are scaled, one row per kind.
    n_jobs : int
        Processes side by side.
    n_threads : int
        Threads of linear algebra in each.
    limits : Limits
        Of time and memory of a run.
    outputs : Outputs
        Where to write.
    quiet : bool
        Whether to leave out the progress.
    classes, id_column : str, optional
        As in :func:`manyview.cli.named_data.find_dataset`.
    """
    chosen = methods_named(methods)
    outputs.check()
    datasets = [find_dataset(name, classes=classes, id_column=id_column) for name in data]
    kept = outputs.runs_file()
    with told_on_interrupt(kept):
        with (
            nullcontext() if kept is None else ResultsFile(kept) as results,
            shown_progress(shown=not quiet) as listener,
        ):
            runs = compare(
                chosen,
                datasets,
                repeats=repeats,
                tune=tune,
                preprocessings=preprocessings,
                n_jobs=n_jobs,
                n_threads=n_threads,
                limits=limits,
                results=results,
                listener=listener,
            )
        rows = summarise(runs)
        tables = [comparison_table(dataset.name, rows) for dataset in datasets]
        errors = [f"{r.title} on {r.data}: {e}" for r in rows for e in r.errors]
        print_parts(new_console(), *tables, *_notes(rows), *ranking_tables(rows), *errors)
        if outputs.json is not None:
            _write_json(outputs.json, runs)
        if outputs.report is not None:
            from manyview.report import write_report  # plotly takes a while to import

            sessions = results.sessions if results else None
            write_report(outputs.report, runs, datasets, sessions=sessions)
    if not any(row.n_runs for row in rows):
        raise ValueError("every run failed, for the reasons above")


def methods_named(names: str) -> list[Method]:
    """Return methods by their names, with commas between them; ``all`` for all."""
    wanted = []
    for name in filter(None, map(str.strip, names.split(","))):
        wanted += list(METHODS) if name.lower() == "all" else [name]
    if not wanted:
        raise ValueError(f"no method is named; expected some of {', '.join(METHODS)}, or all")
    return list({method.name: method for method in map(method_named, wanted)}.values())


@contextmanager
def told_on_interrupt(kept: Path | None) -> Iterator[None]:
    """Tell whoever interrupts a comparison where its finished runs are kept; None for nowhere."""
    try:
        yield
    except KeyboardInterrupt:
        told = "no runs were kept; --results FILE keeps them"
        if kept is not None:
            told = f"finished runs are kept in {kept}; the same command goes on from there"
        raise InterruptionError(told) from None


def _write_json(path: Path, runs: Sequence[Run]) -> None:
    report = {"manyview": __version__, "runs": [run.as_record() for run in runs]}
    with whole_file(path) as file:
        file.write((json.dumps(report, indent=1) + "\n").encode())


def comparison_table(name: str, rows: Sequence[Row]) -> Table:
    """Return the rows of one data set as a table."""
    heads = ("scaled", "ACC %", "NMI geo", "arith", "max", "paper", "s")
    return table(
        (name, *heads),
        [
            (
                f"{row.method}, labels" if row.tuned else row.method,
                row.preprocessing,
                *(_mean_and_std(row, key) for key in ("acc", "nmi_geometric")),
                *(_mean(row, key) for key in ("nmi_arithmetic", "nmi_max")),
                "" if row.published is None else _percent(row.published),
                f"{row.seconds:.2f}" if row.n_runs else "",
            )
            for row in rows
            if row.data == name
        ],
    )


def ranking_tables(rows: Sequence[Row]) -> list[Table | str]:
    """Return mean ranks over sets, for each protocol and scaling of several methods and sets."""
    parts: list[Table | str] = []
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        scaled = str(row.params.get("normalize", "default"))  # as the method does by itself
        kinds.setdefault((row.protocol, scaled), []).append(row)
    for (protocol, scaled), ranked in kinds.items():
        if len({row.data for row in ranked}) < 2 or len({row.method for row in ranked}) < 3:
            continue
        try:
            by_acc, by_nmi = (rank_methods(ranked, score) for score in ("acc", "nmi_geometric"))
        except ValueError:
            continue  # no data set that all of them were run on
        lines = [
            (name, f"{by_acc.ranks[name]:.2f}", f"{rank:.2f}")
            for name, rank in by_nmi.ranks.items()
        ]
        title = f"mean rank ({protocol}, scaled: {scaled})"
        parts.append(table((title, "ACC", "NMI geo"), lines))
        parts.append(
            f"Means over {len(by_nmi.data)} sets. A method that ended without labels ranks last. "
            f"Mean ranks closer than {by_nmi.critical_difference:.2f} are not significantly "
            "different (Nemenyi, 5 %). p-value that all methods are equal: "
            f"{by_acc.p_value:.2g} by ACC, {by_nmi.p_value:.2g} by NMI (Friedman)."
        )
    return parts


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    if any(row.tuned for row in rows):
        yield "METHOD, labels: tuned with labels, on other seeds than those reported"


def _mean_and_std(row: Row, key: str) -> str:
    if not row.n_runs:
        return "failed"
    deviation = f"{plus_minus()}{100 * row.std[key]:.1f}" if row.n_runs > 1 else ""
    return f"{100 * row.mean[key]:.1f}{deviation}"


def _mean(row: Row, key: str) -> str:
    return f"{100 * row.mean[key]:.1f}" if row.n_runs else ""


def _percent(published: tuple[float, float]) -> str:
    return f"{100 * published[0]:.1f}/{100 * published[1]:.1f}"
