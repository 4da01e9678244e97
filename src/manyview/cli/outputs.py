"""Output files and printed tables."""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import chain, combinations, count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO, cast

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from manyview import MMC, Views
from manyview.exceptions import warn_user
from manyview.metrics import score_all
from manyview.mmc.explain import Combination
from manyview.storage import file_place, whole_file

__all__ = [
    "REPORT_MARK",
    "SCORES",
    "STDOUT",
    "about_files",
    "about_labels",
    "check_target",
    "check_targets",
    "cluster_sizes",
    "described",
    "facts",
    "kept_features",
    "new_console",
    "objective_span",
    "plus_minus",
    "print_bytes",
    "print_parts",
    "readers_may_leave",
    "refuse_another",
    "scores",
    "table",
    "unoccupied",
    "write_combinations",
    "write_labels",
]


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Let the work go on where nobody reads what is printed, from the start or any more."""
    with redirect_stdout(_unfailing(sys.stdout)), redirect_stderr(_unfailing(sys.stderr)):
        try:
            yield
        finally:
            sys.stdout.flush()


def print_bytes(content: bytes) -> None:
    """Write text in UTF-8 to standard output as it is, whichever encoding that has."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # it takes text only, as that of a notebook
        sys.stdout.write(content.decode())
        sys.stdout.flush()
        return
    binary.write(content)
    binary.flush()


def _unfailing(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the caller, who wants to hear of nothing
        stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end
    return cast(TextIO, _Unfailing(stream))


class _Unfailing:
    """A stream that takes what is written also when its reader has left."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> _Unfailing:
        return _Unfailing(self._stream.buffer)

    def write(self, content: str | bytes) -> int:
        with self._to_nowhere_once_unread():
            self._stream.write(self._writable(content) if isinstance(content, str) else content)
        return len(content)

    def _writable(self, text: str) -> str:
        """Return text with what the stream's encoding lacks written out, as in error messages."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return text.encode(encoding, errors="backslashreplace").decode(encoding)

    def flush(self) -> None:
        with self._to_nowhere_once_unread():
            self._stream.flush()

    @contextmanager
    def _to_nowhere_once_unread(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # what is buffered is written once more, at the latest when the process ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


STDOUT = Path("-")
_PRINTABLE = ("--out", "--explain")  # of text, which standard output may take
REPORT_MARK = b'<meta name="generator" content="manyview">'
_BEGINNING = 4096  # bytes of a file, among which it says what it is


def check_targets(
    sources: Iterable[tuple[str, Path]],
    targets: Mapping[str, Path | None],
    *,
    written: Sequence[str],
    force: bool,
) -> None:
    """Raise unless all results can be written, before any time is spent on making them.

    Parameters
    ----------
    sources : iterable of tuple of str and Path
        What they are made from, which they must not replace, and what to call it.
    targets : mapping of str to Path or None
        Where they are to go, by option; None for those that are not wanted.
    written : sequence of str
        Options whose files are made anew, so that older ones are in the way.
    force : bool
        Whether a file may be replaced.
    """
    given = {option: path for option, path in targets.items() if path is not None}
    printed = [option for option in _PRINTABLE if given.get(option) == STDOUT]
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
    for option, place in files.items():
        if option in written and place.exists() and not force:
            raise FileExistsError(
                f"{given[option]} exists; give another {option}, or --force to replace it"
            )


def check_target(path: Path, option: str) -> Path:
    """Return the place of a file that an option names; raise unless it can be written there."""
    if path == STDOUT:
        raise ValueError(f"{option} - is standard output; expected the name of a file")
    try:
        place = file_place(path)
    except OSError as error:
        raise OSError(f"{option}: {error}") from error
    _check_folder(place.parent)
    return place


def unoccupied(path: Path, *, force: bool) -> Path:
    """Return where a result goes: beside `path`, where a file came to be there meanwhile."""
    if force or path == STDOUT or not path.exists():
        return path
    beside = next(
        other
        for number in count(2)
        if not (other := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists()
    )
    warn_user(f"{path} was made by another program meanwhile: written to {beside} instead")
    return beside


def refuse_another(path: Path | None, mark: bytes, what: str) -> None:
    """Refuse to replace a file that does not begin as what is written there."""
    if path is None or not path.exists():
        return
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if beginning and mark not in beginning:
        raise ValueError(f"{path} exists and is not {what}; give another file")


def _check_folder(folder: Path) -> None:
    """Raise unless files can be written in a folder."""
    try:
        # permissions do not tell all: a file system may be read-only, or full
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(f"cannot write in folder {folder}: {error.strerror}") from error


def write_labels(
    path: Path, labels: npt.NDArray[np.integer[Any]], ids: npt.NDArray[np.str_] | None = None
) -> None:
    """Write the cluster of each sample, by its id or number, as CSV; ``-`` is standard output."""
    names: Iterable[int | str] = range(labels.size) if ids is None else ids.tolist()
    _write(path, ("sample", "cluster"), zip(names, labels.tolist(), strict=True))


def write_combinations(path: Path, found: Sequence[Combination], order: int) -> None:
    """Write what speaks for each cluster as CSV, one combination per line; ``-`` for stdout.

    There are columns for `order` features, of which single ones leave the last empty.
    """
    columns = (f"{what}_{at}" for at in range(1, order + 1) for what in ("view", "feature"))
    rows = ((entry.cluster, f"{entry.weight:.6g}", *chain(*entry.features)) for entry in found)
    padded = ((*row, *[""] * (2 + 2 * order - len(row))) for row in rows)
    _write(path, ("cluster", "weight", *columns), padded)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    lines: list[str] = []
    # what ends a line is quoted: either character may, where the file is read
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(rows)
    text = "".join(line.removesuffix("\r\n") + "\n" for line in lines)
    content = text.encode(errors="replace")  # a name may hold half a character
    if path == STDOUT:
        print_bytes(content)
        return
    with whole_file(path) as file:
        file.write(content)


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
