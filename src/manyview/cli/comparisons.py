"""The commands ``compare`` and ``paper``, their options and what their help says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from manyview.cli.compare import Outputs, compare_files
from manyview.cli.options import Classes, IdColumn, at_least
from manyview.cli.paper import reproduce_paper
from manyview.experiment import Limits

__all__ = ["COMPARE_HELP", "PAPER_HELP", "compare", "paper"]

_CPUS = os.cpu_count() or 1

# a line break within a paragraph of help is kept: paragraphs are written as one line
COMPARE_HELP = (
    """Compare methods on data sets whose classes are known.

Each row shows a method with its label-free defaults, mean and standard deviation over seeds; """
    "--tune adds one per method with the setting of its grid that the classes choose, on other "
    """seeds. Published figures stand beside ours where the paper has the set.

[bold]Examples[/bold]

manyview compare 3sources fox cnn --repeats 20 --json results.json

manyview compare views.mat --methods MMC,CoRegSC --repeats 5 --tune
"""
)

PAPER_HELP = (
    """Make the paper's table and figures anew.

Nine methods on its three sets, which are looked for by their names; the published figures """
    "stand beside ours. Also figures of the processor time against the number of samples, and of "
    """the objective of MMC against the sweeps.

Finished runs are kept: the same command goes on where it was stopped.

[bold]Examples[/bold]

manyview paper --out paper

manyview paper --repeats 3 --no-tune --time-limit 60
"""
)

_Repeats = Annotated[int, typer.Option(callback=at_least(1), metavar="N", help="Number of seeds.")]
_Jobs = Annotated[
    int,
    typer.Option("--jobs", "-j", callback=at_least(1), metavar="N", help="Runs at the same time."),
]
_Threads = Annotated[
    int,
    typer.Option(
        "--threads", callback=at_least(1), metavar="N", help="Threads of linear algebra per run."
    ),
]
_TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Stop a run that takes longer.", show_default=False),
]
_MemoryLimit = Annotated[
    float | None,
    typer.Option(metavar="GB", help="Stop a run that needs more memory.", show_default=False),
]
_TablesOnly = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the tables and errors only.")
]


def compare(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="Files of views, or names of sets: digits, or those in the folder MANYVIEW_DATA.",
            show_default=False,
        ),
    ],
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Names with commas between them; all stands for the nine of the paper.",
        ),
    ] = "all",
    repeats: _Repeats = 20,
    tune: Annotated[
        bool, typer.Option("--tune", help="Add rows whose parameters the classes choose.")
    ] = False,
    scaled: Annotated[
        str,
        typer.Option(
            metavar="KINDS",
            help="How views are scaled, one row per kind: default (the method's own way), none, "
            "rows (samples of unit length), columns (standardised features); commas between them.",
        ),
    ] = "default",
    n_jobs: _Jobs = _CPUS,
    n_threads: _Threads = 1,
    time_limit: _TimeLimit = None,
    memory_limit: _MemoryLimit = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add every run to this file as it ends; the same command goes on from there. "
            "By default a file beside that of --json or --report, if either is given.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every reported run to a JSON file.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a page of tables and figures. MMC is fitted once more for it, whatever "
            "--methods and the limits say.",
            show_default=False,
        ),
    ] = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    quiet: _TablesOnly = False,
) -> None:
    """Run :func:`manyview.cli.compare.compare_files`."""
    compare_files(
        data,
        methods,
        repeats=repeats,
        tune=tune,
        preprocessings=_scalings(scaled),
        n_jobs=n_jobs,
        n_threads=n_threads,
        limits=_limits(time_limit, memory_limit),
        outputs=Outputs(results, json, report),
        quiet=quiet,
        classes=classes,
        id_column=id_column,
    )


def _scalings(names: str) -> list[str]:
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    return wanted or ["default"]


def _limits(
    seconds: float | None, gigabytes: float | None, *, option: str = "--time-limit"
) -> Limits:
    for name, value in ((option, seconds), ("--memory-limit", gigabytes)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} {value}; expected a number above 0")
    return Limits(seconds, None if gigabytes is None else gigabytes * 1e9)


def paper(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where tables and figures go.")
    ] = Path("paper"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="File or set in place of those of the paper; give it once per set.",
            show_default=False,
        ),
    ] = None,
    repeats: _Repeats = 20,
    tune: Annotated[
        bool, typer.Option("--tune/--no-tune", help="Add rows whose parameters the classes choose.")
    ] = True,
    scaled: Annotated[
        str, typer.Option(metavar="KINDS", help="How views are scaled; see compare --help.")
    ] = "default",
    n_jobs: _Jobs = _CPUS,
    n_threads: _Threads = 1,
    time_limit: _TimeLimit = None,
    memory_limit: _MemoryLimit = None,
    times: Annotated[
        bool,
        typer.Option("--times/--no-times", help="Also make the figure of times; takes longest."),
    ] = True,
    growth_limit: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Stop a run of the figure of times that takes longer."
        ),
    ] = 60.0,
    quiet: _TablesOnly = False,
) -> None:
    """Run :func:`manyview.cli.paper.reproduce_paper`."""
    reproduce_paper(
        out,
        data=data or (),
        repeats=repeats,
        tune=tune,
        preprocessings=_scalings(scaled),
        n_jobs=n_jobs,
        n_threads=n_threads,
        limits=_limits(time_limit, memory_limit),
        times=times,
        growth_limits=_limits(growth_limit, memory_limit, option="--growth-limit"),
        quiet=quiet,
    )
