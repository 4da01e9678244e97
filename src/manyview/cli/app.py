"""The commands, their options and what their help says."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from manyview import MMC, __version__
from manyview.cli.comparisons import COMPARE_HELP, PAPER_HELP, compare, paper
from manyview.cli.demo import demo_digits
from manyview.cli.errors import Commands
from manyview.cli.fit import fit_file
from manyview.cli.options import Classes, IdColumn, at_least, not_empty, not_zero
from manyview.cli.predict import predict_file

__all__ = ["app"]

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
    """Run :func:`manyview.cli.predict.predict_file`."""
    predict_file(saved, data, out, force=force, quiet=quiet, classes=classes, id_column=id_column)


app.command(help=COMPARE_HELP)(compare)
app.command(help=PAPER_HELP)(paper)
