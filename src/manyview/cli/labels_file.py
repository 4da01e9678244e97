"""The file of labels: one line a sample, written whole or not at all."""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.datasets.atomic import whole_file

__all__ = ["STDOUT", "check_file", "check_labels_path", "write_labels"]

STDOUT = Path("-")


def check_labels_path(
    path: Path, data: Path, *, checkpoint: Path | None = None, force: bool
) -> None:
    """Raise unless labels can be written to ``path``, before any time is spent on making them.

    Parameters
    ----------
    path : Path
        Where the labels are to go.
    data : Path
        The data that they are made from, which they must not replace.
    checkpoint : Path, optional
        The file of sweeps, which they must not replace either.
    force : bool
        Whether a file may be replaced.
    """
    if path == STDOUT:
        return
    if checkpoint is not None and path.resolve() == checkpoint.resolve():
        raise ValueError(f"--out and --checkpoint name the same file {path}; give another --out")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file for the labels")
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{path} is not a regular file; use --out - for standard output")
        if data.exists() and path.samefile(data):
            raise ValueError(f"the labels would replace the data {data}; give another --out")
        if not force:
            raise FileExistsError(f"{path} exists; give another --out, or --force to replace it")
    # through a link, labels go where it points
    folder = path.resolve().parent
    if data.is_dir() and folder == data.resolve():
        raise ValueError(f"the labels would lie among the views in {data}; give another --out")
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder} to write {path.name} in")
    _check_folder(folder)


def check_file(path: Path) -> None:
    """Raise unless a file can be written at a path."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"{path}: the folder does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file to write")
    _check_folder(folder)


def _check_folder(folder: Path) -> None:
    """Raise unless files can be written in a folder."""
    try:
        # permissions do not tell all: a file system may be read-only, or full
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(f"cannot write in folder {folder}: {error.strerror}") from error


def write_labels(
    path: Path, labels: npt.NDArray[np.integer[Any]], ids: Sequence[str] | None = None
) -> None:
    """Write the cluster of each sample, by its id or number, as CSV; ``-`` is standard output."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(("sample", "cluster"))
    names = range(labels.size) if ids is None else ids
    writer.writerows(zip(names, labels.tolist(), strict=True))
    text = made.getvalue()
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with whole_file(path) as file:
        file.write(text.encode())
