"""How results look on a screen."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from manyview import MMC, Views
from manyview.cli.outputs import STDOUT
from manyview.metrics import score_all

__all__ = [
    "SCORES",
    "about_files",
    "about_labels",
    "cluster_sizes",
    "described",
    "facts",
    "kept_features",
    "new_console",
    "objective_span",
    "plus_minus",
    "print_parts",
    "scores",
    "table",
]

SCORES = ("ACC", "NMI (geometric)", "ARI")
_SHOWN_SIZES = 20

Labels = npt.NDArray[np.integer[Any]]


def new_console(*, stderr: bool = False) -> Console:
    """Return a console that takes names from files as they are, with no markup in them."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def plus_minus() -> str:
    """Return the sign, or two where standard output cannot write it."""
    try:
        "±".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "+-"
    return "±"


def print_parts(console: Console, *parts: str | Table) -> None:
    """Print the parts of a result with a blank line before each but the first."""
    for at, part in enumerate(parts):
        if at:
            console.print()
        console.print(part)


def described(name: str, views: Views) -> str:
    """Say in a line what a data set holds."""
    plural = "s" if len(views) > 1 else ""
    names = ", ".join(views.names)
    return f"{name}: {views.n_samples} samples in {len(views)} view{plural}: {names}"


def scores(y: npt.ArrayLike, labels: Labels) -> list[str]:
    """Return the figures named in ``SCORES``."""
    found = score_all(y, labels)
    return [f"{found[key]:.3f}" for key in ("acc", "nmi_geometric", "ari")]


def objective_span(model: MMC) -> str:
    """Return the objective after the first and the last sweep."""
    return f"{model.objective_[0]:.4g} to {model.objective_[-1]:.4g}"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of names on the left and figures to the right of them."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, column in enumerate(columns):
        made.add_column(column, justify="right" if at else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and what there is to say of each."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def kept_features(model: MMC) -> Table:
    """Return a table of how many features of each view take part in the model."""
    kept = [int(np.any(factor[:-1], axis=1).sum()) for factor in model.view_factors_]
    rows = zip(model.view_names_, model.n_features_in_, kept, strict=True)
    return table(
        ("view", "features", "kept"), ((name, str(of), str(count)) for name, of, count in rows)
    )


def cluster_sizes(labels: Labels, n_clusters: int) -> str:
    """Return how many samples each cluster has, or the range where there are many."""
    sizes = np.bincount(labels, minlength=n_clusters)
    if n_clusters > _SHOWN_SIZES:
        return f"{n_clusters} ({sizes.min()} to {sizes.max()} samples)"
    return f"{n_clusters} ({', '.join(map(str, sizes))} samples)"


def about_labels(
    labels: Labels, n_clusters: int, y: npt.ArrayLike | None
) -> Iterator[tuple[str, str]]:
    """Yield what there is to say of the clusters of samples, whose classes may be known."""
    yield "samples", str(len(labels))
    yield "clusters", cluster_sizes(labels, n_clusters)
    if y is not None:
        figures = zip(SCORES, scores(y, labels), strict=True)
        told = ", ".join(f"{name} {figure}" for name, figure in figures)
        yield "classes", f"{told} (scored only: they take no part in the clusters)"


def about_files(written: Mapping[str, Path | None]) -> Iterator[tuple[str, str]]:
    """Yield where what was written is, by its name; None for what was not wanted."""
    for name, path in written.items():
        if path is not None:
            yield name, "standard output" if path == STDOUT else str(path)
