"""The files that a fit leaves, each written whole or not at all."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.atomic import file_place, whole_file
from manyview.cli.streams import print_bytes
from manyview.mmc.explain import Combination
from manyview.warn import warn_user

__all__ = [
    "REPORT_MARK",
    "STDOUT",
    "check_target",
    "check_targets",
    "refuse_another",
    "unoccupied",
    "write_combinations",
    "write_labels",
]

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
