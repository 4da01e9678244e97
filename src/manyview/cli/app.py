"""The commands, their options and what their help says."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from manyview import MMC, __version__
from manyview.cli.compare import Outputs, compare_files
from manyview.cli.demo import demo_digits
from manyview.cli.errors import Commands
from manyview.cli.fit import fit_file
from manyview.cli.paper import reproduce_paper
from manyview.experiment import Limits

__all__ = ["app"]

# a line break within a paragraph of help is kept: paragraphs are written as one line
_HELP = """Cluster samples that come in several views, such as text and images.

[bold]Examples[/bold]

manyview demo

manyview fit news.npz -k 6 --out labels.csv

manyview compare news.npz --methods all --repeats 20
"""

_COMPARE_HELP = (
    """Compare methods on data sets whose classes are known.

A row is a method with its label-free defaults, mean and standard deviation over seeds; """
    "--tune adds one with the setting of the method's grid that the classes choose, on other "
    """seeds. Published figures stand beside ours where the paper has the set.

[bold]Examples[/bold]

manyview compare 3sources fox cnn --repeats 20 --json results.json

manyview compare views.mat --methods MMC,CoRegSC --repeats 5 --tune
"""
)

_PAPER_HELP = (
    """Make the paper's table and figures anew.

Nine methods on its three sets, which are looked for by their names; the published figures """
    "stand beside ours. Also the processor time against the number of samples, and the objective "
    """of MMC against the sweeps.

What is done is kept: the same command goes on where it was stopped.

[bold]Examples[/bold]

manyview paper --out paper

manyview paper --repeats 3 --no-tune --time-limit 60
"""
)

_FIT_HELP = (
    """Cluster the samples of DATA by MMC and write the cluster of each.

DATA is a native file (.npz) or a MATLAB file (.mat, version 7 or older). """
    "Classes that it holds score the clusters and take no part in finding them. "
    """Ctrl-C ends the sweeps early, and the labels so far are written.

[bold]Examples[/bold]

manyview fit news.npz -k 6

manyview fit news.npz -k 6 --gamma 0.1 --n-init 5 --out labels.csv --force

manyview fit views.mat -k 10 --normalize columns --out - | sort -t, -k2n
"""
)

app = typer.Typer(
    name="manyview",
    cls=Commands,
    help=_HELP,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Penalty(StrEnum):
    """Penalties of MMC."""

    l21 = "l21"
    frobenius = "frobenius"


class Indicator(StrEnum):
    """Indicators of MMC."""

    discrete = "discrete"
    orthogonal = "orthogonal"


class Init(StrEnum):
    """Starts of MMC that have a name."""

    graph = "graph"
    kmeans = "kmeans"
    random = "random"


class Normalize(StrEnum):
    """Scalings of the views."""

    rows = "rows"
    columns = "columns"
    none = "none"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"manyview {__version__}")
        raise typer.Exit


def _at_least(least: int, most: float = math.inf) -> Callable[[float | None], Any]:
    # typer's own limits crowd the help, and their message leaves out the value
    def check(value: Any) -> Any:
        if value is not None and not least <= value <= most:
            expected = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise typer.BadParameter(f"{value}; expected {expected}")
        return value

    return check


_seed = _at_least(0, 2**32 - 1)


@app.callback()
def manyview(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Carry the options that stand before any command."""


@app.command(help="Cluster the embedded digits, by MMC and by k-means: a look at what it does.")
def demo(
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="Page of tables and figures to write.")
    ] = Path("report.html"),
) -> None:
    """Run :func:`manyview.cli.demo.demo_digits`."""
    demo_digits(report)


@app.command(help=_FIT_HELP)
def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="File of views.", show_default=False)
    ],
    n_clusters: Annotated[
        int,
        typer.Option(
            "--clusters",
            "-k",
            callback=_at_least(1),
            metavar="K",
            help="Number of clusters.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="CSV file of labels; - is standard output."
        ),
    ] = Path("labels.csv"),
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace an older file of labels.")
    ] = False,
    rank: Annotated[
        int | None,
        typer.Option(
            callback=_at_least(1),
            metavar="R",
            help="Rank of the weight tensor, at least K.",
            show_default="twice K, at least 20",
        ),
    ] = None,
    gamma: Annotated[
        float,
        typer.Option(
            callback=_at_least(0),
            metavar="X",
            help="Weight of the penalty; more drops more features.",
        ),
    ] = 0.01,
    penalty: Annotated[
        Penalty, typer.Option(help="l21 drops features, frobenius keeps all.")
    ] = Penalty.l21,
    indicator: Annotated[
        Indicator,
        typer.Option(help="One cluster a sample in every sweep, or the paper's relaxation."),
    ] = Indicator.discrete,
    init: Annotated[Init, typer.Option(help="Where the clusters start.")] = Init.graph,
    n_init: Annotated[
        int,
        typer.Option(
            callback=_at_least(1), metavar="N", help="Number of starts; the best objective is kept."
        ),
    ] = 1,
    max_iter: Annotated[
        int, typer.Option(callback=_at_least(1), metavar="N", help="Most sweeps.")
    ] = 100,
    tol: Annotated[
        float,
        typer.Option(
            callback=_at_least(0),
            metavar="X",
            help="Stop when a sweep lowers the objective by less than this part.",
        ),
    ] = 1e-3,
    normalize: Annotated[
        Normalize,
        typer.Option(help="Samples to unit length, features to unit variance, or neither."),
    ] = Normalize.rows,
    seed: Annotated[int, typer.Option(callback=_seed, metavar="N", help="Seed of the start.")] = 0,
    n_jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", help="Threads; -1 for all processors.", show_default="one"
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")
    ] = False,
) -> None:
    """Run :func:`manyview.cli.fit.fit_file`."""
    model = MMC(
        n_clusters,
        rank=rank,
        gamma=gamma,
        penalty=penalty.value,
        indicator=indicator.value,
        init=init.value,
        n_init=n_init,
        max_iter=max_iter,
        tol=tol,
        normalize=None if normalize is Normalize.none else normalize.value,
        random_state=seed,
        n_jobs=n_jobs,
        verbose=0 if quiet else 1,
    )
    fit_file(data, out, model, force=force, quiet=quiet)


@app.command(help=_COMPARE_HELP)
def compare(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="Files of views, or names of sets in the folder MANYVIEW_DATA.",
            show_default=False,
        ),
    ],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Names with commas between them, or all.")
    ] = "all",
    repeats: Annotated[
        int, typer.Option(callback=_at_least(1), metavar="N", help="Number of seeds.")
    ] = 20,
    tune: Annotated[
        bool, typer.Option("--tune", help="Add rows whose parameters the classes choose.")
    ] = False,
    scaled: Annotated[
        str,
        typer.Option(
            metavar="KINDS",
            help="How views are scaled, a row each: default (the method's own way), none, rows "
            "(samples of unit length), columns (standardised features); commas between them.",
        ),
    ] = "default",
    n_jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", callback=_at_least(1), metavar="N", help="Runs side by side."),
    ] = os.cpu_count() or 1,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop a run that takes longer.", show_default=False),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(metavar="GB", help="Stop a run that holds more.", show_default=False),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add every run to this file as it is done; the same command goes on from it. "
            "Given --json or --report, a file beside it by default.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every reported run to a JSON file.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page of tables and figures.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the tables and errors only.")
    ] = False,
) -> None:
    """Run :func:`manyview.cli.compare.compare_files`."""
    compare_files(
        data,
        methods,
        repeats=repeats,
        tune=tune,
        preprocessings=_scalings(scaled),
        n_jobs=n_jobs,
        limits=_limits(time_limit, memory_limit),
        outputs=Outputs(results, json, report),
        quiet=quiet,
    )


def _scalings(names: str) -> list[str]:
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    known = ("default", "none", "rows", "columns")
    for name in wanted:
        if name not in known:
            raise ValueError(f"no scaling {name!r}; expected some of {', '.join(known)}")
    return wanted or ["default"]


def _limits(seconds: float | None, gigabytes: float | None) -> Limits:
    for name, value in (("--time-limit", seconds), ("--memory-limit", gigabytes)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} {value}; expected a number above 0")
    return Limits(seconds, None if gigabytes is None else gigabytes * 1e9)


@app.command(help=_PAPER_HELP)
def paper(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where tables and figures go.")
    ] = Path("paper"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA", help="A set in place of the paper's; repeatable.", show_default=False
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(callback=_at_least(1), metavar="N", help="Number of seeds.")
    ] = 20,
    tune: Annotated[
        bool, typer.Option("--tune/--no-tune", help="Rows whose parameters the classes choose.")
    ] = True,
    scaled: Annotated[
        str, typer.Option(metavar="KINDS", help="How views are scaled; see compare --help.")
    ] = "default",
    n_jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", callback=_at_least(1), metavar="N", help="Runs side by side."),
    ] = os.cpu_count() or 1,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop a run that takes longer.", show_default=False),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(metavar="GB", help="Stop a run that holds more.", show_default=False),
    ] = None,
    growth_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="The same, for the figure of times.")
    ] = 60.0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the tables and errors only.")
    ] = False,
) -> None:
    """Run :func:`manyview.cli.paper.reproduce_paper`."""
    reproduce_paper(
        out,
        data=data or (),
        repeats=repeats,
        tune=tune,
        preprocessings=_scalings(scaled),
        n_jobs=n_jobs,
        limits=_limits(time_limit, memory_limit),
        growth_seconds=growth_limit,
        quiet=quiet,
    )
