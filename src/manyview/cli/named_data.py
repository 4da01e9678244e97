"""Data sets as a command line names them: by file, or by name."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from manyview.datasets import Dataset, load_digits_views, read_views
from manyview.datasets.news import NEWS

__all__ = ["find_dataset"]


def find_dataset(name: str) -> Dataset:
    """Return a data set by its file, or by its name in the folder of ``MANYVIEW_DATA``.

    Parameters
    ----------
    name : str
        A path, the name of a file of that folder without its suffix, ``digits``, or one of the news
        sets, which are looked for in their published form and in the cache too.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If there is none; lists the known ones and the nearest.
    """
    if Path(name).exists() or Path(name).suffix:
        return read_views(name)
    if name == "digits":
        return load_digits_views()
    if name in NEWS:
        return NEWS[name]()
    folder = os.environ.get("MANYVIEW_DATA")
    if not folder:
        raise ValueError(
            f"no file {name!r}; for sets by name, set MANYVIEW_DATA to the folder of their files"
        )
    path = Path(folder) / f"{name}.npz"
    if not path.exists():
        known = [*sorted(found.stem for found in Path(folder).glob("*.npz")), "digits"]
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ";"
        raise ValueError(f"no set {name!r} in {folder}{hint} there are {', '.join(known)}")
    return read_views(path)
