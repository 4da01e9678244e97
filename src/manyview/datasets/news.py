"""News data sets of the literature: 3Sources, FOX and CNN."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.io
import scipy.sparse as sp

from manyview.datasets.dataset import Dataset, Table, assemble, join, labels_of
from manyview.datasets.fetch import fetch
from manyview.datasets.files import data_folders, read_views

__all__ = ["NEWS", "load_3sources", "load_cnn", "load_fox", "read_three_sources"]

_SUFFIXES = (".npz", ".mat", ".h5mu")
_ORIGIN = {
    "3sources": "University College Dublin, mlg.ucd.ie/datasets/3sources.html",
    "fox": "Mingjie Qian's archive of news with texts and images",
    "cnn": "Mingjie Qian's archive of news with texts and images",
}

Folder = str | os.PathLike[str] | None


def load_3sources(
    *,
    data_dir: Folder = None,
    url: str | None = None,
    sha256: str | None = None,
    verbose: bool = True,
) -> Dataset:
    """Load 169 news stories as term counts of the BBC, the Guardian and Reuters.

    Reads ``3sources.npz``, or the folder ``3sources_raw`` or ``3sources`` with the archive of
    University College Dublin (``3sources_bbc.mtx`` etc.), of which the stories reported by all
    three sources are used. Both give the same data set. The data are for non-commercial and
    research purposes only.

    Parameters
    ----------
    data_dir : str or path-like, optional
        The folder to look in. By default the folder that the environment variable
        ``MANYVIEW_DATA`` names, then the cache: the folder that ``MANYVIEW_CACHE`` names, or
        ``manyview`` in the user's cache.
    url, sha256 : str, optional
        Address and checksum of an archive or file to download if the data are in none of these
        folders; by default ``MANYVIEW_3SOURCES_URL`` and ``MANYVIEW_3SOURCES_SHA256``. It is
        kept in ``data_dir`` or in the cache. Downloads need the extra ``io``.
    verbose : bool, default=True
        Whether to show the progress of a download on standard error.

    Returns
    -------
    Dataset
        Sparse views ``bbc`` (3560 terms), ``guardian`` (3631) and ``reuters`` (3068), the dominant
        topic of each story as its class and its number as its id.

    Raises
    ------
    FileNotFoundError
        If the data are not found and no address is given. The message names their origin.

    Examples
    --------
    >>> from manyview.datasets import load_3sources
    >>> load_3sources(data_dir="nowhere")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no 3sources: looked in nowhere for 3sources.npz, ...
    """
    return _load("3sources", data_dir, url, sha256, verbose)


def load_fox(
    *,
    data_dir: Folder = None,
    url: str | None = None,
    sha256: str | None = None,
    verbose: bool = True,
) -> Dataset:
    """Load 1523 articles of Fox News, each a text and an image, in 4 classes.

    Reads the native ``fox.npz``, or ``fox.mat``, ``fox.h5mu`` or a folder ``fox`` that
    :func:`read_views` can read; their content is not checked.

    Parameters
    ----------
    data_dir, url, sha256, verbose
        See :func:`load_3sources`. The variables are ``MANYVIEW_FOX_URL`` and
        ``MANYVIEW_FOX_SHA256``.

    Returns
    -------
    Dataset
        For the native file, views ``image`` (996 features of colour and texture) and ``text``
        (2711 words, tf-idf).

    Examples
    --------
    >>> from manyview.datasets import load_fox
    >>> load_fox(data_dir="nowhere")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no fox: looked in nowhere for fox.npz, ...
    """
    return _load("fox", data_dir, url, sha256, verbose)


def load_cnn(
    *,
    data_dir: Folder = None,
    url: str | None = None,
    sha256: str | None = None,
    verbose: bool = True,
) -> Dataset:
    """Load 2107 articles of CNN, each a text and an image, in 7 classes.

    Reads the native ``cnn.npz``, or ``cnn.mat``, ``cnn.h5mu`` or a folder ``cnn`` that
    :func:`read_views` can read; their content is not checked.

    Parameters
    ----------
    data_dir, url, sha256, verbose
        See :func:`load_3sources`. The variables are ``MANYVIEW_CNN_URL`` and
        ``MANYVIEW_CNN_SHA256``.

    Returns
    -------
    Dataset
        For the native file, views ``image`` (996 features of colour and texture) and ``text``
        (1686 words, tf-idf).

    Examples
    --------
    >>> from manyview.datasets import load_cnn
    >>> load_cnn(data_dir="nowhere")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no cnn: looked in nowhere for cnn.npz, ...
    """
    return _load("cnn", data_dir, url, sha256, verbose)


NEWS: Mapping[str, Callable[..., Dataset]] = {
    "3sources": load_3sources,
    "fox": load_fox,
    "cnn": load_cnn,
}
"""The loaders by the names of their data sets."""


def _load(
    name: str, data_dir: Folder, url: str | None, sha256: str | None, verbose: bool
) -> Dataset:
    folders = data_folders() if data_dir is None else [Path(data_dir)]
    wanted = [*(f"{name}{suffix}" for suffix in _SUFFIXES), f"{name}_raw", name]
    for folder in folders:
        for entry in wanted:
            if (folder / entry).exists():
                return _read(folder / entry, name)
    variable = f"MANYVIEW_{name.upper()}"
    url = url or os.environ.get(f"{variable}_URL")
    sha256 = sha256 or os.environ.get(f"{variable}_SHA256")
    if url:
        read = partial(_read, name=name)
        return fetch(url, sha256, folders[-1], name, read, verbose=verbose)
    shared, hint = os.environ.get("MANYVIEW_DATA"), ""
    if data_dir is None and not shared:
        hint = "MANYVIEW_DATA, which can name the folder of the data, is not set. "
    elif data_dir is None and not folders[0].is_dir():
        hint = f"MANYVIEW_DATA={shared} is not a folder. "
    raise FileNotFoundError(
        f"no {name}: looked in {' and '.join(map(str, folders))} for {', '.join(wanted)}. {hint}"
        f"The data come from {_ORIGIN[name]}. Put them into one of these folders, or give the "
        f"address and the checksum of a copy by {variable}_URL and {variable}_SHA256, in Python "
        "also by url= and sha256="
    )


def _read(path: Path, name: str) -> Dataset:
    # archives often hold nothing but a folder
    while path.is_dir():
        inside = [entry for entry in path.iterdir() if not entry.name.startswith((".", "__"))]
        if len(inside) != 1 or not inside[0].is_dir() or inside[0].is_symlink():
            break
        path = inside[0]
    if (path / "3sources_bbc.mtx").is_file():
        try:
            return read_three_sources(path)
        except FileNotFoundError as error:
            raise ValueError(f"{path}: {Path(error.filename).name} is missing") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    if path.is_dir():
        files = [path / f"{name}{suffix}" for suffix in _SUFFIXES]
        path = next((file for file in files if file.is_file()), path)
    return replace(read_views(path), name=name)


def read_three_sources(folder: Path, *, samples: Literal["all", "common"] = "common") -> Dataset:
    """Read the published archive: per source term counts, and the classes.

    `samples` selects the 169 stories in all three sources ("common") or all 416 ("all"). Stories
    are sorted by number; counts are float32, which is exact.
    """
    tables = [_table(folder, source) for source in ("bbc", "guardian", "reuters")]
    order = np.unique(np.concatenate([table.ids for table in tables]))
    ids, parts = join(tables, samples=samples, order=order)
    classes = folder / "3sources.disjoint.clist"
    return assemble(
        **parts, labels=labels_of(ids, _read_classes(classes), classes.name), name="3sources"
    )


def _table(folder: Path, source: str) -> Table:
    matrix, terms, documents = (
        folder / f"3sources_{source}.{suffix}" for suffix in ("mtx", "terms", "docs")
    )
    names, ids = (np.asarray(_lines(file), dtype=np.str_) for file in (terms, documents))
    try:
        with matrix.open("rb") as file:
            counts = scipy.io.mmread(file)
    except FileNotFoundError:
        raise
    # a damaged file can raise almost any exception
    except Exception as error:
        raise ValueError(f"{matrix.name}: not a readable Matrix Market file ({error})") from error
    if counts.shape != (len(names), len(ids)):
        raise ValueError(
            f"{matrix.name} has shape {counts.shape}; expected the {len(names)} lines of "
            f"{terms.name} by the {len(ids)} lines of {documents.name}"
        )
    # terms are rows in the archive
    return Table(source, documents.name, ids, sp.csr_array(counts.T, dtype=np.float32), names)


def _read_classes(path: Path) -> dict[str, str]:
    """Return the class of each story, from lines such as ``business, 001,013``."""
    classes: dict[str, str] = {}
    for line in _lines(path):
        name, *stories = re.split(r"\s*[,:]\s*", line.strip(" ,"))
        for story in stories:
            if classes.setdefault(story, name) != name:
                raise ValueError(
                    f"{path.name}: story {story!r} is in {classes[story]!r} and in {name!r}; "
                    "expected one class per story"
                )
    return classes


def _lines(path: Path) -> list[str]:
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: not a text in UTF-8 ({error})") from error
    return [line.strip() for line in content.split("\n") if line.strip()]
