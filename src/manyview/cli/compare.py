"""``manyview compare``: methods beside each other on data sets with known classes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from manyview import __version__
from manyview.cli.tables import new_console, print_parts, table
from manyview.datasets import Dataset, load_digits_views, read_views
from manyview.datasets.atomic import whole_file
from manyview.experiment import METHODS, Method, Row, Run, compare, method_named, summarise
from manyview.progress import ProgressBar

__all__ = ["compare_files", "find_dataset", "methods_named"]


def compare_files(
    data: Sequence[str],
    methods: str,
    *,
    repeats: int,
    tune: bool,
    out: Path | None,
    quiet: bool,
) -> None:
    """Compare methods on data sets, print the table and write the runs.

    Parameters
    ----------
    data : sequence of str
        Files, or names of sets in the folder that ``MANYVIEW_DATA`` names.
    methods : str
        Names with commas between them, or ``all``.
    repeats : int
        Number of seeds.
    tune : bool
        Whether to add a row with the setting that labels choose.
    out : Path or None
        JSON file of the runs.
    quiet : bool
        Whether to leave out the progress.
    """
    chosen = methods_named(methods)
    if out is not None and not out.resolve().parent.is_dir():
        raise ValueError(f"{out}: the folder does not exist")
    datasets = [find_dataset(name) for name in data]
    tunable = sum(1 for method in chosen if method.grid) if tune else 0
    total = len(datasets) * (len(chosen) + tunable) * repeats
    done: list[Run] = []
    with ProgressBar("compare", total=total, shown=not quiet) as bar:

        def on_run(run: Run) -> None:
            done.append(run)
            bar.step(len(done), f"{run.method} on {run.data}, seed {run.seed}")

        runs = compare(chosen, datasets, repeats=repeats, tune=tune, on_run=on_run)
    rows = summarise(runs)
    if out is not None:
        report = {"manyview": __version__, "runs": [asdict(run) for run in runs]}
        with whole_file(out) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())
    tables = [_table(dataset.name, rows) for dataset in datasets]
    errors = [f"{r.method} on {r.data}: {e}" for r in rows for e in r.errors]
    notes = ["labels: tuned with labels, on other seeds than those reported"] if tune else []
    print_parts(new_console(), *tables, *notes, *errors)


def methods_named(names: str) -> list[Method]:
    """Return methods by their names, with commas between them; ``all`` for all."""
    if names.strip().lower() == "all":
        return list(METHODS.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ValueError(f"no methods are named; expected some of {', '.join(METHODS)}, or all")
    return [method_named(name) for name in wanted]


def find_dataset(name: str) -> Dataset:
    """Return a data set by its file, or by its name in the folder of ``MANYVIEW_DATA``."""
    if Path(name).exists() or Path(name).suffix:
        return read_views(name)
    if name == "digits":
        return load_digits_views()
    folder = os.environ.get("MANYVIEW_DATA")
    if not folder:
        raise ValueError(
            f"no file {name!r}; for sets by name, set MANYVIEW_DATA to the folder of their files"
        )
    path = Path(folder) / f"{name}.npz"
    if not path.exists():
        known = sorted(found.stem for found in Path(folder).glob("*.npz"))
        raise ValueError(f"no set {name!r} in {folder}; there are {', '.join(known) or 'none'}")
    return read_views(path)


def _table(name: str, rows: Sequence[Row]) -> Table:
    heads = ("ACC %", "NMI geo", "arith", "max", "paper", "s")
    return table(
        (name, *heads),
        [
            (
                f"{row.method}, labels" if row.tuned else row.method,
                *(_spread(row, key) for key in ("acc", *_NMI)),
                "" if row.published is None else _percent(row.published),
                f"{row.seconds:.2f}",
            )
            for row in rows
            if row.data == name
        ],
    )


_NMI = ("nmi_geometric", "nmi_arithmetic", "nmi_max")


def _spread(row: Row, key: str) -> str:
    return f"{100 * row.mean[key]:.1f}±{100 * row.std[key]:.1f}" if row.n_runs else "failed"


def _percent(published: tuple[float, float]) -> str:
    return f"{100 * published[0]:.1f}/{100 * published[1]:.1f}"
