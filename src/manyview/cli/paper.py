"""The command paper: the paper's table and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from manyview.cli.compare import (
    comparison_table,
    error_lines,
    interrupts_explained,
    shown_progress,
)
from manyview.cli.console import new_console
from manyview.cli.outputs import print_parts
from manyview.datasets import Dataset, make_views
from manyview.datasets.files import find_dataset
from manyview.experiment import Listener
from manyview.paper import reproduce

__all__ = ["LARGE_SAMPLES", "reproduce_paper"]

_SETS = ("3sources", "fox", "cnn")
LARGE_SAMPLES = 70_000


def reproduce_paper(
    out: Path, *, data: Sequence[str], times: bool, quiet: bool, **options: Any
) -> None:
    """Write the paper's table and figures to a folder, and print the table.

    `data` replaces the data sets of the paper. `times` adds the figure of processor times, on
    growing subsets of the last data set and of a large one. `options` are those of `reproduce`.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is not a folder")
    datasets = [find_dataset(name) for name in data or _SETS]
    with interrupts_explained(out):
        with ExitStack() as stack:

            def listener(part: str) -> Listener:
                stack.close()  # the progress bar of the previous part
                return stack.enter_context(shown_progress(shown=not quiet, title=part))

            timed = [datasets[-1], _large_set()] if times else []
            made = reproduce(out, datasets, timed, listener=listener, **options)
        tables = [comparison_table(dataset.name, made.rows) for dataset in datasets]
        files = "\n".join(map(str, made.files))
        notes = [*error_lines(made.rows), f"slowest: {made.slowest}", files]
        print_parts(new_console(), *tables, *notes)


def _large_set() -> Dataset:
    """Return mnist70k if it is available, else a synthetic data set of the same size."""
    folder = os.environ.get("MANYVIEW_DATA")
    if folder and (Path(folder) / "mnist70k.npz").exists():
        return find_dataset("mnist70k")
    made = make_views(LARGE_SAMPLES, 10, (50, 50), random_state=0)
    return Dataset(made.views, made.y, name="made")
