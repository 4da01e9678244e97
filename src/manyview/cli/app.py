"""The manyview command: options and help."""

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
from manyview.cli.console import Commands
from manyview.cli.demo import demo_digits
from manyview.cli.fit import fit_file, predict_file
from manyview.cli.paper import reproduce_paper
from manyview.experiment import Limits

__all__ = [
    "COMPARE_HELP",
    "PAPER_HELP",
    "Classes",
    "IdColumn",
    "app",
    "at_least",
    "compare",
    "not_empty",
    "not_zero",
    "paper",
]


Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of known classes, for scoring, in a folder's labels file or a .h5mu file.",
        show_default=False,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of sample ids in the files of a folder.",
        show_default="id, or a similar name",
    ),
]


def at_least(least: int, most: float = math.inf) -> Callable[[float | None], Any]:
    """Return a check that a number lies within bounds."""

    # typer's own limits crowd the help, and their message leaves out the value
    def check(value: Any) -> Any:
        if value is not None and not least <= value <= most:
            expected = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise typer.BadParameter(f"{value}; expected {expected}")
        return value

    return check


def not_zero(value: int | None) -> int | None:
    """Refuse zero, where a negative number counts from the end."""
    if value == 0:
        raise typer.BadParameter("0; expected at least 1, or -1 for all")
    return value


def not_empty(name: str) -> str:
    """Refuse the empty name, which as a path is the folder at hand."""
    if not name:
        raise typer.BadParameter("an empty name; expected a file, a folder or a set")
    return name


# a line break within a paragraph of help is kept: paragraphs are written as one line
_HELP = """Cluster samples that come in several views, such as text and images.

[bold]Examples[/bold]

manyview demo

manyview fit news.npz -k 6 --out labels.csv --model news.model

manyview predict news.model more.npz --out more.csv

manyview compare news.npz --methods all --repeats 20
"""

_DEMO_HELP = """Cluster the embedded digits by MMC, and by what anyone would try: a first look.

[bold]Examples[/bold]

manyview demo

manyview demo --report digits.html
"""

_FIT_HELP = (
    """Cluster the samples of DATA by MMC and write the cluster of each.

DATA is a native file (.npz), a MATLAB file (.mat), a MuData file (.h5mu) or a folder of .csv, """
    """.tsv or .parquet files, one per view, joined by their ids; or the name of a set, as """
    "in compare. Classes that it holds score the clusters and take no part in finding them. "
    """Ctrl-C ends the sweeps early, and the labels so far are written.

[bold]Examples[/bold]

manyview fit news.npz -k 6

manyview fit news.npz -k 6 --gamma 0.1 --n-init 5 --out labels.csv --force

manyview fit views.mat -k 10 --normalize columns --out - | sort -t, -k2n

manyview fit news.npz -k 6 --out groups.csv --explain features.csv

manyview fit patients -k 5 --id-column barcode --model patients.model

manyview fit large.npz -k 100 --checkpoint fit.ckpt
"""
)

_PREDICT_HELP = """Write the cluster of each sample of DATA, by a model that fit has written.

DATA has the views and features that the model was fitted to, by their names; what the model does \
not know is left out, and a view that DATA does not have counts as lacking in every sample.

[bold]Examples[/bold]

manyview fit news.npz -k 6 --model news.model

manyview predict news.model more.npz --out more.csv

manyview predict news.model more.npz --out - | cut -d, -f2 | sort | uniq -c
"""

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


_seed = at_least(0, 2**32 - 1)


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


@app.command(help=_DEMO_HELP)
def demo(
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="Page of tables and figures to write.")
    ] = Path("report.html"),
) -> None:
    """Run :func:`manyview.cli.demo.demo_digits`."""
    demo_digits(report)


Data = Annotated[
    str,
    typer.Argument(
        callback=not_empty,
        metavar="DATA",
        help="File of views, or name of a set, such as digits.",
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="FILE", help="CSV file of labels; - is standard output."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace older files.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]


@app.command(help=_FIT_HELP)
def fit(
    data: Data,
    n_clusters: Annotated[
        int,
        typer.Option(
            "--clusters",
            "-k",
            callback=at_least(1),
            metavar="K",
            help="Number of clusters.",
            show_default=False,
        ),
    ],
    out: Out = Path("labels.csv"),
    explain: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV file of the features, alone and in pairs, that speak for each cluster; "
            "- is standard output.",
            show_default=False,
        ),
    ] = None,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="FILE",
            help="File to write the model to, by which predict finds the clusters of new samples.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    classes: Classes = None,
    id_column: IdColumn = None,
    rank: Annotated[
        int | None,
        typer.Option(
            callback=at_least(1),
            metavar="R",
            help="Rank of the weight tensor, at least K.",
            show_default="twice K, at least 20",
        ),
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            callback=at_least(0),
            metavar="X",
            help="Weight of the penalty; more drops more features.",
            show_default="from the scale of the data",
        ),
    ] = None,
    penalty: Annotated[
        Penalty, typer.Option(help="l21 drops features, frobenius keeps all.")
    ] = Penalty.l21,
    order: Annotated[
        int | None,
        typer.Option(
            callback=at_least(1),
            metavar="N",
            help="How many views' features are multiplied at most; 1 for no interactions.",
            show_default="all",
        ),
    ] = None,
    indicator: Annotated[
        Indicator,
        typer.Option(help="One cluster per sample in every sweep, or the paper's relaxation."),
    ] = Indicator.discrete,
    init: Annotated[Init, typer.Option(help="Where the clusters start.")] = Init.graph,
    n_init: Annotated[
        int,
        typer.Option(
            callback=at_least(1), metavar="N", help="Number of starts; the best objective is kept."
        ),
    ] = 1,
    max_iter: Annotated[
        int, typer.Option(callback=at_least(1), metavar="N", help="Largest number of sweeps.")
    ] = 100,
    tol: Annotated[
        float,
        typer.Option(
            callback=at_least(0),
            metavar="X",
            help="Stop when a sweep lowers the objective by less than this fraction.",
        ),
    ] = 1e-3,
    patience: Annotated[
        int,
        typer.Option(
            callback=at_least(0),
            metavar="N",
            help="Stop after N sweeps in a row that move hardly any sample; 0 for never.",
        ),
    ] = 3,
    normalize: Annotated[
        Normalize,
        typer.Option(
            help="rows: samples to unit length, for counts and pixels; columns: features to unit "
            "variance, for measurements in different units; none: neither."
        ),
    ] = Normalize.rows,
    seed: Annotated[int, typer.Option(callback=_seed, metavar="N", help="Seed of the start.")] = 0,
    n_jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            callback=not_zero,
            metavar="N",
            help="Threads; -1 for all processors.",
            show_default="as many as linear algebra uses",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the fit after every sweep; the same command goes on from there (with "
            "--force, where labels have been written).",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run :func:`manyview.cli.fit.fit_file`."""
    model = MMC(
        n_clusters,
        rank=rank,
        gamma=gamma,
        penalty=penalty.value,
        order=order,
        indicator=indicator.value,
        init=init.value,
        n_init=n_init,
        max_iter=max_iter,
        tol=tol,
        patience=patience or None,
        normalize=None if normalize is Normalize.none else normalize.value,
        random_state=seed,
        n_jobs=n_jobs,
        checkpoint=checkpoint,
        verbose=0 if quiet else 1,
    )
    fit_file(
        data,
        out,
        model,
        explain=explain,
        saved=saved,
        force=force,
        quiet=quiet,
        classes=classes,
        id_column=id_column,
    )


@app.command(help=_PREDICT_HELP)
def predict(
    saved: Annotated[
        Path, typer.Argument(metavar="MODEL", help="File of a model.", show_default=False)
    ],
    data: Data,
    out: Out = Path("labels.csv"),
    force: Force = False,
    classes: Classes = None,
    id_column: IdColumn = None,
    quiet: Quiet = False,
) -> None:
    """Run :func:`manyview.cli.fit.predict_file`."""
    predict_file(saved, data, out, force=force, quiet=quiet, classes=classes, id_column=id_column)


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


app.command(help=COMPARE_HELP)(compare)
app.command(help=PAPER_HELP)(paper)
