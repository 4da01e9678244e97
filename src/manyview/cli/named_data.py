"""Data sets as a command line names them: by file, or by name."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from manyview.datasets import Dataset, load_digits_views, read_views
from manyview.datasets.news import NEWS, cache_folder

__all__ = ["find_dataset", "sources_of"]


def find_dataset(name: str, *, classes: str | None = None, id_column: str | None = None) -> Dataset:
    """Return a data set by its file, or by its name in the folder of ``MANYVIEW_DATA``.

    Parameters
    ----------
    name : str
        A path, the name of a file of that folder without its suffix, ``digits``, or one of the news
        sets, which are looked for in their published form and in the cache too.
    classes, id_column : str, optional
        Columns of a folder or a MuData file, as :func:`manyview.datasets.read_views` takes them.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If there is none, or it has no such columns; lists the known ones and the nearest.
    """
    if not name:
        raise ValueError("an empty name; expected a file, a folder or a set")
    if Path(name).exists() or Path(name).suffix:
        return read_views(name, labels=classes, id_column=id_column)
    if classes is not None or id_column is not None:
        raise ValueError(
            f"--classes and --id-column name columns of a file or a folder; {name!r} is a set"
        )
    if name == "digits":
        return load_digits_views()
    if name in NEWS:
        return NEWS[name]()
    folder = os.environ.get("MANYVIEW_DATA")
    files = {path.stem: path for path in sorted(Path(folder).glob("*.npz"))} if folder else {}
    if name in files:
        return read_views(files[name])
    known = list(dict.fromkeys([*files, *NEWS, "digits"]))
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ";"
    more = "" if folder else ". MANYVIEW_DATA can name a folder with more"
    if folder and not Path(folder).is_dir():
        more = f". MANYVIEW_DATA names {folder}, which is no folder"
    raise ValueError(f"no file or set {name!r}{hint} the known sets are {', '.join(known)}{more}")


def sources_of(name: str) -> list[Path]:
    """Return the files and folders that a name may stand for, none of which is to be replaced."""
    if Path(name).exists() or Path(name).suffix:
        return [Path(name)]
    shared = os.environ.get("MANYVIEW_DATA")
    folders = [*([Path(shared)] if shared else []), cache_folder()]
    return [
        entry
        for folder in folders
        if folder.is_dir()
        for entry in sorted(folder.iterdir())
        if entry.stem in (name, f"{name}_raw")
    ]
