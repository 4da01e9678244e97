"""The manyview command: options and help.

Each command imports its own code when it runs, so that fit does not wait for the comparison, the
plots or the report.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyview._version import __version__
from manyview.cli.console import Commands

if TYPE_CHECKING:
    from manyview.experiment import Limits

__all__ = ["app", "fit"]


def _help(text: str, *examples: str) -> str:
    """Return the help of a command. Line breaks are kept, so a paragraph is one line."""
    return "\n\n".join([text, "[bold]Examples[/bold]", *examples])


_HELP = _help(
    "Cluster samples that come in several views, such as text and images.",
    "manyview demo",
    "manyview check news.npz",
    "manyview choose-k news.npz",
    "manyview fit news.npz -k 6 --out labels.csv --model news.model",
    "manyview predict news.model more.npz --out more.csv",
    "manyview compare news.npz --methods all --repeats 20",
)

_DEMO_HELP = _help(
    "Compare MMC with k-means and spectral clustering on the bundled digits.",
    "manyview demo",
    "manyview demo --report digits.html",
)

_FIT_HELP = _help(
    """Cluster the samples of DATA with MMC and write the cluster and confidence of each sample.

DATA is a table (.csv, .tsv, .txt, .xlsx, .parquet, .feather, also .gz), a folder, .zip or \
workbook of tables with one per view and a common column of sample ids, a native file (.npz), a \
MATLAB file (.mat), a file of cells (.h5mu of MuData, .h5ad of AnnData, .h5 of 10x Genomics), or \
the name of a data set, such as digits. A single table is cut into views by --view, which also \
gives the addresses of views in a file of cells. Known classes in DATA are used for scoring only. \
The command check shows what would be read.

With --out FILE.h5mu or FILE.h5ad, a copy of the file of cells gets the results.

-k auto compares 2 to 20 clusters like the command choose-k and takes the recommended number.

Existing files are kept unless you pass --force. Ctrl-C stops the iterations early and writes the \
labels found so far, or leaves out confidences and weights of views if the iterations are done.""",
    "manyview fit news.npz -k 6",
    "manyview fit news.npz -k auto",
    "manyview fit news.npz -k 6 --gamma 0.1 --n-init 5 --out labels.csv --force",
    "manyview fit views.mat -k 10 --normalize columns --out - | sort -t, -k2n",
    "manyview fit news.npz -k 6 --out groups.csv --explain features.csv",
    "manyview fit news.npz -k auto --report page.html",
    "manyview fit patients.csv -k 5 --view clinic=age,sex,bmi --view 'genes=ENSG*'",
    "manyview fit patients -k 5 --id-column barcode --model patients.model",
    "manyview fit cells.h5mu -k 8 --out clustered.h5mu",
    "manyview fit cells.h5ad -k 8 --view rna=obsm/X_pca --view protein=obsm/protein",
    "manyview fit large.npz -k 100 --checkpoint fit.ckpt",
)

_CHECK_HELP = _help(
    """Show what a fit would read from DATA: views, features, empty cells, scaling and warnings.

Nothing is written. The exit code is 2 if a fit would reject the data. DATA and the options are as \
in the command fit.""",
    "manyview check patients.csv",
    "manyview check patients.csv --view clinic=age,sex,bmi --view 'genes=ENSG*' --drop notes",
    "manyview check study.xlsx -k 5",
)

_CHOOSE_HELP = _help(
    """Compare numbers of clusters of DATA by their stability, and recommend one.

The samples are split into halves several times, and both halves are clustered. The table shows \
for each number K how well the clusters of a half agree with those that the other half predicts \
for it: 1 if they are the same, 0 if they agree by chance. DATA is as in the command fit. Known \
classes are not used.""",
    "manyview choose-k news.npz",
    "manyview choose-k news.npz --from 5 --to 30 --splits 10 --plot stability.png",
)

_PREDICT_HELP = _help(
    """Assign new samples to the clusters of a model that fit has written, and write the cluster \
and confidence of each sample.

Views and features of DATA are matched to those of the model by name. Views and features that the \
model does not know are ignored, and a view that DATA does not have counts as missing in every \
sample. Existing files are kept unless you pass --force.""",
    "manyview fit news.npz -k 6 --model news.model",
    "manyview predict news.model more.npz --out more.csv",
    "manyview predict news.model more.npz --out - | cut -d, -f2 | sort | uniq -c",
)

_COMPARE_HELP = _help(
    """Compare methods on data sets whose classes are known.

Each row shows a method with its default parameters: mean and standard deviation over seeds, and \
the scores published in the paper, if any. --tune adds a row with the parameters that have the \
best accuracy on other seeds.""",
    "manyview compare 3sources fox cnn --repeats 20 --json results.json",
    "manyview compare views.mat --methods MMC,CoRegSC --repeats 5 --tune",
)

_PAPER_HELP = _help(
    """Reproduce the table and figures of the paper.

The table compares nine methods on three data sets and shows the published scores. The figures \
show the processor time against the number of samples, and the objective of MMC in every iteration.

Finished runs are kept: run the same command again to continue.""",
    "manyview paper --out paper",
    "manyview paper --repeats 3 --no-tune --time-limit 60",
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


def _option(
    help: str,  # noqa: A002 - as typer calls it
    metavar: str | None = None,
    *names: str,
    default: bool | str = True,
    least: int | None = None,
    most: float = math.inf,
) -> Any:
    """Return an option; `default` is shown for it, and numbers are at least `least`."""

    # typer's own limits crowd the help, and their message omits the value
    def check(value: Any) -> Any:
        if least is not None and value is not None and not least <= value <= most:
            expected = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise typer.BadParameter(f"{value}; expected {expected}")
        return value

    return typer.Option(*names, metavar=metavar, help=help, show_default=default, callback=check)


def _number_or_auto(value: str) -> Any:
    """Return a number of clusters as an integer, or "auto"."""
    if value == "auto":
        return value
    if not value.isdecimal() or int(value) < 1:
        shown = value if value.lstrip("-").isdecimal() else repr(value)
        raise typer.BadParameter(f"{shown}; expected an integer of at least 1, or auto")
    return int(value)


def _not_empty(name: str) -> str:
    """Reject the empty name, which as a path would be the current folder."""
    if not name:
        raise typer.BadParameter("an empty name; expected a file, a folder or a data set")
    return name


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"manyview {__version__}")
        raise typer.Exit


Penalty = StrEnum("Penalty", ["l21", "frobenius"])
Indicator = StrEnum(
    "Indicator",
    {"leave_one_out": "leave-one-out", "discrete": "discrete", "orthogonal": "orthogonal"},
)
Init = StrEnum("Init", ["graph", "kmeans", "random"])

Data = Annotated[
    str,
    typer.Argument(
        callback=_not_empty, metavar="DATA", help="File, folder, or data set such as digits."
    ),
]
Out = Annotated[
    Path,
    _option("CSV file of labels and confidences; - is standard output.", "FILE", "--out", "-o"),
]
Force = Annotated[bool, _option("Replace existing files.", None, "--force", "-f")]
Quiet = Annotated[bool, _option("Print warnings and errors only.", None, "--quiet", "-q")]
Classes = Annotated[
    str | None,
    _option(
        "Column of known classes, for scoring, in a table, the labels file of a folder, or a .h5mu "
        "or .h5ad file.",
        "NAME",
    ),
]
IdColumn = Annotated[
    str | None,
    _option("Column of sample ids in tables.", "NAME", default="id, or a similar name"),
]
View = Annotated[
    list[str] | None,
    _option(
        "View of a single table: its name and columns, with * for any characters. May be "
        "repeated: --view clinic=age,sex --view genes='ENSG*'. Of a file of cells: its name and "
        "address, such as rna=rna:layers/counts or pca=obsm/X_pca.",
        "NAME=COLUMNS",
        "--view",
        default="one view",
    ),
]
ViewsFile = Annotated[
    Path | None,
    _option("JSON or YAML file of the columns of each view of a single table.", "FILE"),
]
Drop = Annotated[
    list[str] | None,
    _option("Columns of tables to leave out; may be repeated.", "COLUMNS", "--drop"),
]
Category = Annotated[
    list[str] | None,
    _option(
        "Columns of tables that are categories, whatever they hold; may be repeated.",
        "COLUMNS",
        "--category",
    ),
]
MaxCategories = Annotated[
    int, _option("Most values of a column of text that is a category.", "N", least=0)
]
Sep = Annotated[str | None, _option("Separator of text tables.", "MARK", default="detected")]
Decimal = Annotated[
    str | None, _option("Decimal mark of tables, . or a comma.", "MARK", default="detected")
]
Encoding = Annotated[
    str | None, _option("Encoding of text tables, such as cp1252.", "NAME", default="detected")
]
Repeats = Annotated[int, _option("Number of seeds.", "N", least=1)]
Scaled = Annotated[
    str,
    _option(
        "Scalings of the views, separated by commas; each has its own rows: default (that of the "
        "method), none, rows (samples of unit length), columns (standardised features).",
        "NAMES",
    ),
]
Jobs = Annotated[int, _option("Number of runs at the same time.", "N", "--jobs", "-j", least=1)]
Threads = Annotated[int, _option("Linear algebra threads of each run.", "N", "--threads", least=1)]
TimeLimit = Annotated[float | None, _option("Stop a run that takes longer.", "SECONDS")]
MemoryLimit = Annotated[float | None, _option("Stop a run that needs more memory.", "GB")]
TablesOnly = Annotated[bool, _option("Print tables and errors only.", None, "--quiet", "-q")]

Normalize = Annotated[
    str,
    _option(
        "Scaling of the views. rows: samples to unit length, for words and pixels; columns: "
        "features to unit variance, for measurements in different units; log: rows of counts "
        "divided by their mean, then logarithms; auto: log for counts, and of the others the one "
        "that shows clearer clusters; none: no scaling. clinic=columns,genes=rows sets single "
        "views.",
        "SCALING",
    ),
]

_CPUS = os.cpu_count() or 1
_MAX_CATEGORIES = 20  # manyview.views.MAX_CATEGORIES, without its import


@app.callback()
def manyview(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Accept the options that precede a command."""


@app.command(help=_DEMO_HELP)
def demo(
    report: Annotated[Path, _option("HTML page of tables and figures to write.", "FILE")] = (
        Path("report.html")
    ),
) -> None:
    """Run :func:`manyview.cli.demo.demo_digits`."""
    from manyview.cli.demo import demo_digits

    demo_digits(report)


@app.command(help=_FIT_HELP)
def fit(
    data: Data,
    n_clusters: Annotated[
        str,
        typer.Option(
            "--clusters",
            "-k",
            metavar="K",
            callback=_number_or_auto,
            help="Number of clusters, or auto to choose it by stability.",
        ),
    ],
    out: Out = Path("labels.csv"),
    explain: Annotated[
        Path | None,
        _option(
            "CSV file of the features and pairs of features that characterise each cluster by high "
            "or low values; - is standard output.",
            "FILE",
        ),
    ] = None,
    saved: Annotated[
        Path | None,
        _option("Model file to write, for the command predict.", "FILE", "--model"),
    ] = None,
    report: Annotated[
        Path | None,
        _option(
            "HTML page to write: sizes and confidence of the clusters, a map of the samples, and "
            "what characterises each cluster.",
            "FILE",
        ),
    ] = None,
    force: Force = False,
    classes: Classes = None,
    id_column: IdColumn = None,
    view: View = None,
    views_file: ViewsFile = None,
    drop: Drop = None,
    category: Category = None,
    max_categories: MaxCategories = _MAX_CATEGORIES,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    rank: Annotated[
        int | None,
        _option(
            "Rank of the weight tensor, at least K.", "R", default="twice K, at least 20", least=1
        ),
    ] = None,
    gamma: Annotated[
        float | None,
        _option(
            "Weight of the penalty; a larger weight drops more features.",
            "X",
            default="from the scale of the data",
            least=0,
        ),
    ] = None,
    penalty: Annotated[Penalty, _option("l21 drops features, frobenius keeps all.")] = Penalty.l21,
    order: Annotated[
        int | None,
        _option(
            "Largest number of views that interact; 1 for no interactions.",
            "N",
            default="all",
            least=1,
        ),
    ] = None,
    indicator: Annotated[
        Indicator,
        _option(
            "leave-one-out: each sample is in the cluster that the others predict for it; "
            "discrete: iterations move samples to what the model predicts; orthogonal: the "
            "relaxation of the paper."
        ),
    ] = Indicator.leave_one_out,
    init: Annotated[Init, _option("Initialisation of the clusters.")] = Init.graph,
    n_init: Annotated[
        int, _option("Number of initialisations; the best objective is kept.", "N", least=1)
    ] = 1,
    max_iter: Annotated[int, _option("Maximum number of iterations.", "N", least=1)] = 100,
    tol: Annotated[
        float, _option("Stop when the objective falls by less than this fraction.", "X", least=0)
    ] = 1e-3,
    patience: Annotated[
        int, _option("Stop after N iterations that change few labels; 0 for never.", "N", least=0)
    ] = 3,
    normalize: Normalize = "auto",
    seed: Annotated[int, _option("Seed of the random numbers.", "N", least=0, most=2**32 - 1)] = 0,
    n_jobs: Annotated[
        int | None,
        _option(
            "Number of threads; -1 for all processors.",
            "N",
            "--jobs",
            "-j",
            default="as set for BLAS",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        _option(
            "Save the fit after every iteration. Run the same command again to continue, with "
            "--force if the labels have been written.",
            "FILE",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run :func:`manyview.cli.fit.fit_file`."""
    from manyview import MMC
    from manyview.cli.fit import fit_file

    choices: Any = {
        "n_clusters": n_clusters,
        "penalty": penalty.value,
        "indicator": indicator.value,
        "init": init.value,
        "normalize": _scaling(normalize),
    }
    model = MMC(
        rank=rank,
        gamma=gamma,
        order=order,
        n_init=n_init,
        max_iter=max_iter,
        tol=tol,
        patience=patience or None,
        random_state=seed,
        n_jobs=n_jobs,
        checkpoint=checkpoint,
        verbose=0 if quiet else 1,
        **choices,
    )
    fit_file(
        data,
        out,
        model,
        explain=explain,
        saved=saved,
        report=report,
        force=force,
        quiet=quiet,
        reading=_reading(
            labels=classes,
            id_column=id_column,
            view=view,
            views_file=views_file,
            drop=drop,
            category=category,
            max_categories=max_categories,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
        ),
    )


@app.command(help=_CHECK_HELP)
def check(
    data: Data,
    n_clusters: Annotated[
        int | None,
        _option("Number of clusters of the fit.", "K", "--clusters", "-k", default="10", least=1),
    ] = None,
    normalize: Normalize = "auto",
    seed: Annotated[int, _option("Seed of the fit.", "N", least=0, most=2**32 - 1)] = 0,
    classes: Classes = None,
    id_column: IdColumn = None,
    view: View = None,
    views_file: ViewsFile = None,
    drop: Drop = None,
    category: Category = None,
    max_categories: MaxCategories = _MAX_CATEGORIES,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Run :func:`manyview.cli.check.check_data`."""
    from manyview.cli.check import check_data

    check_data(
        data,
        n_clusters,
        reading=_reading(
            labels=classes,
            id_column=id_column,
            view=view,
            views_file=views_file,
            drop=drop,
            category=category,
            max_categories=max_categories,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
        ),
        normalize=_scaling(normalize),
        random_state=seed,
    )


@app.command("choose-k", help=_CHOOSE_HELP)
def choose_k(
    data: Data,
    first: Annotated[int, _option("Smallest number of clusters.", "K", "--from", least=2)] = 2,
    last: Annotated[
        int | None,
        _option(
            "Largest number of clusters.",
            "K",
            "--to",
            default="12, fewer for less than 48 samples",
            least=2,
        ),
    ] = None,
    n_splits: Annotated[
        int, _option("Number of splits into halves.", "N", "--splits", least=1)
    ] = 5,
    max_samples: Annotated[
        int, _option("Most samples to use; of more, so many random ones.", "N", least=1)
    ] = 5000,
    normalize: Normalize = "auto",
    plot: Annotated[
        Path | None,
        _option("Figure of the table to write; its suffix is the format.", "FILE"),
    ] = None,
    force: Force = False,
    seed: Annotated[int, _option("Seed of the random numbers.", "N", least=0, most=2**32 - 1)] = 0,
    n_jobs: Annotated[
        int | None,
        _option(
            "Number of splits at the same time; -1 for all processors.",
            "N",
            "--jobs",
            "-j",
            default="1",
        ),
    ] = None,
    id_column: IdColumn = None,
    view: View = None,
    views_file: ViewsFile = None,
    drop: Drop = None,
    category: Category = None,
    max_categories: MaxCategories = _MAX_CATEGORIES,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    quiet: TablesOnly = False,
) -> None:
    """Run :func:`manyview.cli.choose.choose_for_file`."""
    from manyview.cli.choose import choose_for_file

    choose_for_file(
        data,
        first,
        last,
        plot=plot,
        force=force,
        quiet=quiet,
        reading=_reading(
            id_column=id_column,
            view=view,
            views_file=views_file,
            drop=drop,
            category=category,
            max_categories=max_categories,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
        ),
        normalize=_scaling(normalize),
        n_splits=n_splits,
        max_samples=max_samples,
        random_state=seed,
        n_jobs=n_jobs,
    )


@app.command(help=_PREDICT_HELP)
def predict(
    saved: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file that fit has written.")
    ],
    data: Data,
    out: Out = Path("labels.csv"),
    force: Force = False,
    classes: Classes = None,
    id_column: IdColumn = None,
    view: View = None,
    views_file: ViewsFile = None,
    drop: Drop = None,
    category: Category = None,
    max_categories: MaxCategories = _MAX_CATEGORIES,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    quiet: Quiet = False,
) -> None:
    """Run :func:`manyview.cli.fit.predict_file`."""
    from manyview.cli.fit import predict_file

    predict_file(
        saved,
        data,
        out,
        force=force,
        quiet=quiet,
        reading=_reading(
            labels=classes,
            id_column=id_column,
            view=view,
            views_file=views_file,
            drop=drop,
            category=category,
            max_categories=max_categories,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
        ),
    )


@app.command(help=_COMPARE_HELP)
def compare(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="Files, folders, or data sets: digits, or those in the folder MANYVIEW_DATA.",
        ),
    ],
    methods: Annotated[
        str,
        _option(
            "Names of methods, separated by commas; paper stands for the nine of the paper, "
            "all for these and the other multi-view methods, package.module:Class for your own.",
            "NAMES",
        ),
    ] = "paper",
    repeats: Repeats = 20,
    tune: Annotated[bool, _option("Add rows with tuned parameters.", None, "--tune")] = False,
    scaled: Scaled = "default",
    n_jobs: Jobs = _CPUS,
    n_threads: Threads = 1,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    results: Annotated[
        Path | None,
        _option(
            "Add every finished run to this file; run the same command again to continue.",
            "FILE",
            default="a file beside that of --json or --report",
        ),
    ] = None,
    json: Annotated[
        Path | None, _option("JSON file of all reported runs to write.", "FILE")
    ] = None,
    report: Annotated[
        Path | None,
        _option(
            "HTML page of tables and figures to write. MMC is fitted once more for it, without "
            "limits, even if --methods does not name it.",
            "FILE",
        ),
    ] = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    view: View = None,
    views_file: ViewsFile = None,
    drop: Drop = None,
    category: Category = None,
    max_categories: MaxCategories = _MAX_CATEGORIES,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    quiet: TablesOnly = False,
) -> None:
    """Run :func:`manyview.cli.compare.compare_files`."""
    from manyview.cli.compare import compare_files

    compare_files(
        data,
        methods,
        repeats=repeats,
        tune=tune,
        preprocessings=_split(scaled),
        n_jobs=n_jobs,
        n_threads=n_threads,
        limits=_limits(time_limit, memory_limit),
        results=results,
        json=json,
        report=report,
        quiet=quiet,
        reading=_reading(
            labels=classes,
            id_column=id_column,
            view=view,
            views_file=views_file,
            drop=drop,
            category=category,
            max_categories=max_categories,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
        ),
    )


@app.command(help=_PAPER_HELP)
def paper(
    out: Annotated[
        Path, _option("Folder of the tables and figures.", "FOLDER", "--out", "-o")
    ] = Path("paper"),
    data: Annotated[
        list[str] | None,
        _option("File or data set to use instead of those of the paper; may be repeated.", "DATA"),
    ] = None,
    repeats: Repeats = 20,
    tune: Annotated[
        bool, _option("Add rows with tuned parameters.", None, "--tune/--no-tune")
    ] = True,
    scaled: Scaled = "default",
    n_jobs: Jobs = _CPUS,
    n_threads: Threads = 1,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    times: Annotated[
        bool,
        _option("Add the figure of processor times; takes longest.", None, "--times/--no-times"),
    ] = True,
    growth_limit: Annotated[
        float, _option("Stop a run of the figure of times that takes longer.", "SECONDS")
    ] = 60.0,
    quiet: TablesOnly = False,
) -> None:
    """Run :func:`manyview.cli.paper.reproduce_paper`."""
    limits = _limits(time_limit, memory_limit)
    growth_limits = _limits(growth_limit, memory_limit, option="--growth-limit")
    from manyview.cli.paper import reproduce_paper

    reproduce_paper(
        out,
        data=data or (),
        repeats=repeats,
        tune=tune,
        preprocessings=_split(scaled),
        n_jobs=n_jobs,
        n_threads=n_threads,
        limits=limits,
        times=times,
        growth_limits=growth_limits,
        quiet=quiet,
    )


def _reading(
    *,
    view: list[str] | None,
    views_file: Path | None,
    drop: list[str] | None,
    category: list[str] | None,
    max_categories: int,
    **options: Any,
) -> dict[str, Any]:
    """Return the options of the reader that were given."""
    views: dict[str, list[str]] = {}
    for text in view or ():
        name, equals, columns = text.partition("=")
        if not name or not equals or not _split_list([columns]):
            raise typer.BadParameter(
                f"{text!r}; expected NAME=COLUMN,COLUMN or NAME='PREFIX*'", param_hint="--view"
            )
        views.setdefault(name, []).extend(_split_list([columns]))
    if views and views_file is not None:
        raise typer.BadParameter("received both; expected one of them", param_hint="--views-file")
    options |= {"views": views or views_file}
    options |= {"drop": _split_list(drop or ()), "categories": _split_list(category or ())}
    if max_categories != _MAX_CATEGORIES:
        options["max_categories"] = max_categories
    return {name: value for name, value in options.items() if value not in (None, [])}


def _split_list(texts: Sequence[str]) -> list[str]:
    return [name for text in texts for name in map(str.strip, text.split(",")) if name]


def _scaling(text: str) -> str | dict[str, str | None] | None:
    """Return the scaling of all views, or of each one by its name."""
    found: dict[str, str | None] = {}
    for value in text.split(","):
        view, equals, scaling = value.rpartition("=")
        alone = value == text and not equals
        known = scaling in ("rows", "columns", "log", "auto", "none")
        if not known or view in found or not (view or alone):
            raise typer.BadParameter(
                f"{text!r}; expected rows, columns, log, auto or none, or VIEW=rows and so on",
                param_hint="--normalize",
            )
        found[view] = None if scaling == "none" else scaling
    return found.get("", found)


def _split(names: str) -> list[Any]:
    """Return the different names in a text with commas between them."""
    return list(dict.fromkeys(filter(None, map(str.strip, names.split(","))))) or ["default"]


def _limits(
    seconds: float | None, gigabytes: float | None, *, option: str = "--time-limit"
) -> Limits:
    from manyview.experiment import Limits

    for name, value in ((option, seconds), ("--memory-limit", gigabytes)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} {value}; expected a number above 0")
    return Limits(seconds, None if gigabytes is None else gigabytes * 1e9)
