"""Output files and printed tables."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, count, product, starmap, zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from manyview import MMC, Views
from manyview._typing import Matrix
from manyview.cli.console import new_console, print_bytes, status
from manyview.datasets import Dataset
from manyview.datasets.files import find_dataset, sources_of
from manyview.exceptions import warn_user
from manyview.metrics import score_all
from manyview.mmc.explain import Combination
from manyview.mmc.statistics import Difference
from manyview.storage import file_place, whole_file

__all__ = [
    "SCORES",
    "STDOUT",
    "check_replaceable_report",
    "check_target",
    "check_targets",
    "confidence_facts",
    "data_line",
    "facts",
    "file_facts",
    "free_path",
    "label_facts",
    "objective_span",
    "print_data",
    "print_parts",
    "read_data",
    "table",
    "view_table",
    "write_combinations",
    "write_labels",
]

STDOUT = Path("-")
SCORES = {"acc": "ACC", "nmi_geometric": "NMI (geometric)", "ari": "ARI"}

Labels = npt.NDArray[np.integer[Any]]


def check_targets(
    sources: Iterable[tuple[str, Path]],
    targets: Mapping[str, Path | None],
    *,
    new: Sequence[str],
    force: bool,
) -> None:
    """Raise unless all output files can be written, before time is spent on computing them.

    `sources` are the input files, each with the word for it, which must not be replaced. `targets`
    are the output files by option, and `new` the options whose files must not exist unless `force`.
    """
    given = {option: path for option, path in targets.items() if path is not None}
    printed = [option for option in ("--out", "--explain") if given.get(option) == STDOUT]
    if len(printed) > 1:
        raise ValueError(f"{' and '.join(printed)} are both standard output; expected one of them")
    if printed and sys.__stdout__ is None:
        raise ValueError(f"{printed[0]} - is standard output, which is closed; expected a file")
    files = {
        option: check_target(path, option)
        for option, path in given.items()
        if option not in printed
    }
    for (option, place), (other, same) in combinations(files.items(), 2):
        if place == same:
            raise ValueError(
                f"{option} and {other} name the same file {given[option]}; give another {other}"
            )
    for (what, source), (option, place) in product(sources, files.items()):
        if place.exists() and source.exists() and place.samefile(source):
            raise ValueError(f"{option} would replace the {what} {source}; give another {option}")
        if source.is_dir() and place.parent == source.resolve():
            raise ValueError(
                f"{option} would be written among the views in {source}; give another {option}"
            )
    for option in new:
        if option in files and files[option].exists() and not force:
            raise FileExistsError(
                f"{given[option]} exists; pass --force to replace it, or give another {option}"
            )


def check_target(path: Path, option: str) -> Path:
    """Return the resolved path of an output file; raise unless it can be written."""
    if path == STDOUT:
        raise ValueError(f"{option} - is standard output; expected the name of a file")
    try:
        place = file_place(path)
    except OSError as error:
        raise OSError(f"{option}: {error}") from error
    try:
        # permissions are not enough: a file system may be read-only or full
        with tempfile.TemporaryFile(dir=place.parent):
            pass
    except OSError as error:
        raise PermissionError(
            f"{option}: cannot write in folder {place.parent}: {error.strerror}"
        ) from error
    return place


def check_replaceable_report(path: Path) -> None:
    """Raise if a file exists that is not a report."""
    check_replaceable(path, b'<meta name="generator" content="manyview">', "a report")


def check_replaceable(path: Path, mark: bytes, kind: str) -> None:
    """Raise if a file exists that does not have the mark of its kind near its beginning."""
    if not path.exists():
        return
    with path.open("rb") as file:
        beginning = file.read(4096)
    if beginning and mark not in beginning:
        raise ValueError(f"{path} exists and is not {kind}; give another file")


def free_path(path: Path, *, force: bool) -> Path:
    """Return `path`, or a similar one if a file appeared there during the computation."""
    if force or path == STDOUT or not path.exists():
        return path
    similar = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    free = next(other for other in similar if not other.exists())
    warn_user(f"another program wrote {path} in the meantime; the output is in {free}")
    return free


def write_labels(
    path: Path,
    labels: Labels,
    ids: npt.NDArray[np.str_] | None = None,
    membership: Matrix | None = None,
) -> None:
    """Write the cluster of each sample as CSV; ``-`` is standard output.

    With memberships there are two more columns: the sample's membership in its cluster, and the
    other cluster in which it has most.
    """
    names: Iterable[int | str] = range(labels.size) if ids is None else ids.tolist()
    if membership is None:
        _write_csv(path, ("sample", "cluster"), zip(names, labels.tolist(), strict=True))
        return
    confidence = confidence_of(membership, labels)
    parts = (labels.tolist(), map("{:.3f}".format, confidence), runners_up(membership, labels))
    columns = ("sample", "cluster", "confidence", "runner_up")
    _write_csv(path, columns, zip(names, *parts, strict=True))


def confidence_of(membership: Matrix, labels: Labels) -> Matrix:
    """Return the membership of each sample in its own cluster."""
    return np.asarray(membership[np.arange(labels.size), labels])


def runners_up(membership: Matrix, labels: Labels) -> list[int | str]:
    """Return the other cluster in which each sample has most membership; "" if there is none.

    Examples
    --------
    >>> runners_up(np.array([[0.7, 0.1, 0.2], [0.5, 0.3, 0.2]]), np.array([0, 1]))
    [2, 0]
    """
    if membership.shape[1] == 1:
        return [""] * labels.size
    others = membership.copy()
    others[np.arange(labels.size), labels] = -1.0
    found: list[int | str] = others.argmax(axis=1).tolist()
    return found


def write_combinations(path: Path, found: Sequence[Combination], order: int) -> None:
    """Write the features that characterise each cluster as CSV, one combination per line.

    There are columns for `order` features; smaller combinations leave the last ones empty.
    """
    names = ("view", "feature", "direction", "mean", "others")
    columns = (f"{name}_{at}" for at in range(1, order + 1) for name in names)
    rows = (
        (
            entry.cluster,
            f"{entry.weight:.6g}",
            entry.product,
            "" if entry.explains is None else f"{entry.explains:.4g}",
            *chain(*starmap(_feature_cells, zip_longest(entry.features, entry.differences))),
        )
        for entry in found
    )
    padded = ((*row, *[""] * (4 + len(names) * order - len(row))) for row in rows)
    _write_csv(path, ("cluster", "weight", "product", "explains", *columns), padded)


def _feature_cells(feature: tuple[str, str], difference: Difference | None) -> tuple[str, ...]:
    if difference is None:
        return (*feature, "", "", "")
    numbers = (f"{number:.6g}" for number in (difference.mean, difference.others))
    return (*feature, difference.direction, *numbers)


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    lines: list[str] = []
    # With this terminator, the writer quotes both \r and \n within names.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(rows)
    text = "".join(line.removesuffix("\r\n") + "\n" for line in lines)
    content = text.encode(errors="replace")  # a name may hold a lone surrogate
    if path == STDOUT:
        print_bytes(content)
        return
    with whole_file(path) as file:
        file.write(content)


def print_parts(console: Console, *parts: str | Table) -> None:
    """Print texts and tables with blank lines between them."""
    for at, part in enumerate(parts):
        if at:
            console.print()
        console.print(part)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table with names on the left and right-aligned numbers."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, column in enumerate(columns):
        made.add_column(column, justify="right" if at else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and values, without a heading."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def data_line(name: str, views: Views) -> str:
    """Return one line about a data set."""
    plural = "s" if views.n_views > 1 else ""
    names = ", ".join(views.names)
    return f"{name}: {views.n_samples} samples in {views.n_views} view{plural}: {names}"


def read_data(name: str, *, shown: bool = True, **options: Any) -> Dataset:
    """Return a data set by path or name; a terminal shows meanwhile that it is read."""
    size = sum(
        part.stat().st_size
        for path in sources_of(name)
        for part in (path.iterdir() if path.is_dir() else [path])
        if part.is_file()
    )
    text = f"reading {name}" + (f" ({size / 1e6:.0f} MB)" if size >= 1e6 else "")
    with status(text, shown=shown):
        return find_dataset(name, **options)


def print_data(dataset: Dataset) -> None:
    """Print a line about a data set, and how its tables were read, on standard error."""
    console = new_console(stderr=True)
    console.print(data_line(dataset.name, dataset.views))
    for note in dataset.notes:
        console.print(f"  {note}")


def objective_span(model: MMC) -> str:
    """Return the objective after the first and the last iteration."""
    return f"{model.objective_[0]:.4g} to {model.objective_[-1]:.4g}"


def view_table(model: MMC) -> Table:
    """Return a table of the views: their features, those that the model uses, and their weights."""
    kept = [np.any(factor[:-1], axis=1).sum() for factor in model.view_factors_]
    columns: dict[str, Iterable[Any]] = {
        "view": model.view_names_,
        "features": model.n_features_in_,
        "kept": kept,
    }
    if hasattr(model, "view_weights_"):
        for name in ("added", "alone"):
            columns[name] = map("{:.0%}".format, getattr(model.view_weights_, name)[-1])
    return table(columns, (map(str, row) for row in zip(*columns.values(), strict=True)))


def label_facts(
    labels: Labels, n_clusters: int, y: npt.ArrayLike | None, *, max_sizes: int = 20
) -> Iterator[tuple[str, str]]:
    """Yield facts about labels: cluster sizes, or their range for many clusters, and scores."""
    sizes = np.bincount(labels, minlength=n_clusters)
    shown = ", ".join(map(str, sizes))
    if n_clusters > max_sizes:
        shown = f"{sizes.min()} to {sizes.max()}"
    yield "samples", str(len(labels))
    yield "clusters", f"{n_clusters} ({shown} samples)"
    if y is not None:
        found = score_all(y, labels)
        scores = ", ".join(f"{name} {found[key]:.3f}" for key, name in SCORES.items())
        yield "scores", f"{scores} (the known classes are used for scoring only)"


def confidence_facts(labels: Labels, membership: Matrix | None) -> Iterator[tuple[str, str]]:
    """Yield the mean confidence, if it is known."""
    if membership is not None:
        yield "confidence", f"{confidence_of(membership, labels).mean():.2f} on average"


def file_facts(written: Mapping[str, Path | None]) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that was written."""
    for name, path in written.items():
        if path is not None:
            yield name, "standard output" if path == STDOUT else str(path)
