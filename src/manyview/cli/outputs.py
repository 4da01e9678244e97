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

from manyview.atomic import whole_file
from manyview.mmc.explain import Combination
from manyview.warn import warn_user

__all__ = [
    "REPORT_MARK",
    "STDOUT",
    "check_file",
    "check_targets",
    "refuse_another",
    "unoccupied",
    "write_combinations",
    "write_labels",
]

STDOUT = Path("-")
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
    for (option, path), (other, same) in combinations(given.items(), 2):
        if _resolved(path) == _resolved(same):
            named = "are both standard output" if path == STDOUT else f"name the same file {path}"
            raise ValueError(f"{option} and {other} {named}; give another {other}")
    files = {option: path for option, path in given.items() if path != STDOUT}
    for (what, source), (option, path) in product(sources, files.items()):
        if path.is_file() and source.exists() and path.samefile(source):
            raise ValueError(f"{option} would replace the {what} {source}; give another {option}")
        if source.is_dir() and _resolved(path).parent == _resolved(source):
            raise ValueError(
                f"{option} would be written among the views in {source}; give another {option}"
            )
    for option, path in files.items():
        if option in written:
            _check_target(path, option, force=force)


def _check_target(path: Path, option: str, *, force: bool) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file for {option}")
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{path} is not a regular file; give another {option}")
        if not force:
            raise FileExistsError(f"{path} exists; give another {option}, or --force to replace it")
    # through a link, results go where it points
    folder = _resolved(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder} to write {path.name} in")
    _check_folder(folder)


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


def check_file(path: Path) -> None:
    """Raise unless a file can be written at a path."""
    folder = _resolved(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path}: the folder does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file to write")
    _check_folder(folder)


def refuse_another(path: Path | None, mark: bytes, what: str) -> None:
    """Refuse to replace a file that does not begin as what is written there."""
    if path is None or not path.exists():
        return
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if beginning and mark not in beginning:
        raise ValueError(f"{path} exists and is not {what}; give another file")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:  # of some versions of Python
        raise OSError(f"{path}: links go round in circles") from error


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
    # a name may hold half a character, or one that a terminal does not have
    if path == STDOUT:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
        sys.stdout.flush()
        return
    with whole_file(path) as file:
        file.write(text.encode(errors="replace"))
