"""``manyview paper``: the paper's table and figures, by one command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from manyview.cli.compare import comparison_table, told_on_interrupt
from manyview.cli.console import shown_progress
from manyview.cli.outputs import new_console, print_parts
from manyview.datasets import Dataset, make_views
from manyview.datasets.files import find_dataset
from manyview.experiment import Limits, Listener
from manyview.paper import reproduce

__all__ = ["LARGE_SAMPLES", "reproduce_paper"]

_SETS = ("3sources", "fox", "cnn")
LARGE_SAMPLES = 70_000


def reproduce_paper(
    out: Path,
    *,
    data: Sequence[str],
    repeats: int,
    tune: bool,
    preprocessings: Sequence[str],
    n_jobs: int,
    n_threads: int,
    limits: Limits,
    times: bool,
    growth_limits: Limits,
    quiet: bool,
) -> None:
    """Make the tables and figures, and print the table.

    Parameters
    ----------
    out : Path
        Folder of what is made; runs that it holds are not done again.
    data : sequence of str
        Names or files of the sets; by default those of the paper.
    repeats, tune, preprocessings, n_jobs, n_threads, limits
        As for a comparison.
    times : bool
        Whether to time the methods on growing parts of the last set and of a large one.
    growth_limits : Limits
        Of a fit for that.
    quiet : bool
        Whether to leave out the progress.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is not a folder")
    datasets = [find_dataset(name) for name in data or _SETS]
    with told_on_interrupt(out):
        with ExitStack() as stack:

            def listener(part: str) -> Listener:
                stack.close()  # the bar of the part before
                return stack.enter_context(shown_progress(shown=not quiet, title=part))

            made = reproduce(
                out,
                datasets,
                [datasets[-1], _large_set()] if times else [],
                repeats=repeats,
                tune=tune,
                preprocessings=preprocessings,
                n_jobs=n_jobs,
                n_threads=n_threads,
                limits=limits,
                growth_limits=growth_limits,
                listener=listener,
            )
        tables = [comparison_table(dataset.name, made.rows) for dataset in datasets]
        errors = [f"{r.title} on {r.data}: {e}" for r in made.rows for e in r.errors]
        files = "\n".join(map(str, made.files))
        print_parts(new_console(), *tables, *errors, f"slowest: {made.slowest}", files)


def _large_set() -> Dataset:
    """Return the large set of the figure of times: mnist70k where it is, else one made here."""
    folder = os.environ.get("MANYVIEW_DATA")
    if folder and (Path(folder) / "mnist70k.npz").exists():
        return find_dataset("mnist70k")
    made = make_views(LARGE_SAMPLES, 10, (50, 50), random_state=0)
    return Dataset(made.views, made.y, name="made")
