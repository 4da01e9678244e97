"""News data sets: 3Sources and the archives behind fox and cnn."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from manyview.datasets.dataset import Dataset, Table, assemble, first_few, join
from manyview.datasets.fetch import fetch
from manyview.datasets.files import read_views

__all__ = [
    "MARK",
    "NEWS",
    "cache_folder",
    "load_3sources",
    "load_cnn",
    "load_fox",
    "read_three_sources",
]


MARK = "3sources_bbc.mtx"
_SOURCES = ("bbc", "guardian", "reuters")
_CLASSES = "3sources.disjoint.clist"


def read_three_sources(folder: Path, *, samples: str = "common") -> Dataset:
    """Read the archive's files: for each source counts of terms in documents, and the classes.

    Parameters
    ----------
    folder : Path
        The folder of ``3sources_bbc.mtx`` and its like.
    samples : {"common", "all"}, default="common"
        The 169 stories that all three sources report, or all 416.

    Returns
    -------
    Dataset
        Stories in the order of their numbers; term counts as sparse float32, as whole numbers
        exact; the dominant topic of each story as its class.
    """
    tables = [_table(folder, source) for source in _SOURCES]
    everything = np.unique(np.concatenate([table.ids for table in tables]))
    joined = join(tables, samples=samples, order=everything)
    classes = _classes(folder / _CLASSES)
    lacking = [story for story in joined.ids.tolist() if story not in classes]
    if lacking:
        raise ValueError(f"{_CLASSES} has no class for stories {first_few(lacking)}")
    return assemble(
        joined.arrays,
        view_names=list(_SOURCES),
        feature_names=[table.feature_names for table in tables],
        present=joined.present,
        labels=[classes[story] for story in joined.ids.tolist()],
        name="3sources",
        sample_ids=joined.ids,
    )


def _table(folder: Path, source: str) -> Table:
    matrix, terms, documents = (
        folder / f"3sources_{source}.{suffix}" for suffix in ("mtx", "terms", "docs")
    )
    names, ids = (np.asarray(_lines(file), dtype=np.str_) for file in (terms, documents))
    with _existing(matrix).open("rb") as file:
        try:
            counts = scipy.io.mmread(file)
        # a damaged file fails in as many ways as there are bytes in it
        except Exception as error:
            raise ValueError(
                f"{matrix.name}: not a readable Matrix Market file ({error})"
            ) from error
    if counts.shape != (len(names), len(ids)):
        raise ValueError(
            f"{matrix.name} has shape {counts.shape}; expected the {len(names)} lines of "
            f"{terms.name} by the {len(ids)} lines of {documents.name}"
        )
    # the archive has terms in rows
    array = sp.csr_array(counts.T, dtype=np.float32)
    return Table(source, documents.name, ids, array, names)


def _classes(path: Path) -> dict[str, str]:
    """Class of each story, from lines such as ``business, 001,013``."""
    classes: dict[str, str] = {}
    for line in _lines(path):
        name, *stories = re.split(r"\s*[,:]\s*", line.strip(" ,"))
        for story in stories:
            if classes.setdefault(story, name) != name:
                raise ValueError(
                    f"{path.name}: story {story!r} is in {classes[story]!r} and in {name!r}; "
                    "expected one class a story"
                )
    return classes


def _lines(path: Path) -> list[str]:
    try:
        content = _existing(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: not a text in UTF-8 ({error})") from error
    return [line.strip() for line in content.split("\n") if line.strip()]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing beside {MARK}")
    return path


_SUFFIXES = (".npz", ".mat", ".h5mu")

Folder = str | os.PathLike[str] | None


def load_3sources(
    *,
    data_dir: Folder = None,
    url: str | None = None,
    sha256: str | None = None,
    verbose: bool = True,
) -> Dataset:
    """169 news stories as the BBC, the Guardian and Reuters report them: counts of terms.

    Read from ``3sources.npz``, or from the folder ``3sources_raw`` or ``3sources`` of the archive
    that University College Dublin publishes (``3sources_bbc.mtx`` and its like), of which the
    stories that all three sources report are taken. Both give the same data set. It is made for
    non-commercial and research purposes only.

    Parameters
    ----------
    data_dir : str or path-like, optional
        The folder to look in. By default the one that the environment variable ``MANYVIEW_DATA``
        names, then the cache: the folder that ``MANYVIEW_CACHE`` names, or ``manyview`` in the
        user's cache.
    url, sha256 : str, optional
        Where to download the archive or file from if it is in none of these folders, and its
        checksum; by default ``MANYVIEW_3SOURCES_URL`` and ``MANYVIEW_3SOURCES_SHA256``. It is
        kept in ``data_dir``, or else in the cache. This needs the extra ``io``.
    verbose : bool, default=True
        Whether to show the progress of a download on standard error.

    Returns
    -------
    Dataset
        Views ``bbc`` (3560 terms), ``guardian`` (3631) and ``reuters`` (3068), sparse, as
        published, the dominant topic of each story as its class and its number as its id.

    Raises
    ------
    FileNotFoundError
        Where there are no such data and no address is given; it says where they come from.

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
    """1523 news of Fox News, each a text and an image, in 4 classes.

    Read from the native ``fox.npz``. In which form the archive of its author is published is not
    known to this function: beside the native file it takes ``fox.mat``, ``fox.h5mu`` or a folder
    ``fox`` that :func:`read_views` understands, as they are and without a check of their content.

    Parameters
    ----------
    data_dir, url, sha256, verbose
        As :func:`load_3sources` takes them; ``MANYVIEW_FOX_URL`` and ``MANYVIEW_FOX_SHA256``.

    Returns
    -------
    Dataset
        In the native file, views ``image`` (996 features of colour and texture) and ``text``
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
    """2107 news of CNN, each a text and an image, in 7 classes.

    Read from the native ``cnn.npz``. In which form the archive of its author is published is not
    known to this function: beside the native file it takes ``cnn.mat``, ``cnn.h5mu`` or a folder
    ``cnn`` that :func:`read_views` understands, as they are and without a check of their content.

    Parameters
    ----------
    data_dir, url, sha256, verbose
        As :func:`load_3sources` takes them; ``MANYVIEW_CNN_URL`` and ``MANYVIEW_CNN_SHA256``.

    Returns
    -------
    Dataset
        In the native file, views ``image`` (996 features of colour and texture) and ``text``
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
"""The loaders by the names of their sets."""

_WHENCE = {
    "3sources": "University College Dublin, whose archive names the page "
    "mlg.ucd.ie/datasets/3sources.html",
    "fox": "Mingjie Qian's archive of news with texts and images",
    "cnn": "Mingjie Qian's archive of news with texts and images",
}


def cache_folder() -> Path:
    """Return the folder where downloads are kept: ``MANYVIEW_CACHE``, or the user's cache."""
    chosen = os.environ.get("MANYVIEW_CACHE")
    if chosen:
        return Path(chosen)
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "manyview"


def _load(
    name: str, data_dir: Folder, url: str | None, sha256: str | None, verbose: bool
) -> Dataset:
    shared = os.environ.get("MANYVIEW_DATA")
    if data_dir is not None:
        folders = [Path(data_dir)]
    else:
        folders = [*([Path(shared)] if shared else []), cache_folder()]
    wanted = [*(f"{name}{suffix}" for suffix in _SUFFIXES), f"{name}_raw", name]
    for folder in folders:
        for entry in wanted:
            if (folder / entry).exists():
                return _read(folder / entry, name)
    variable = f"MANYVIEW_{name.upper()}"
    url = url or os.environ.get(f"{variable}_URL")
    sha256 = sha256 or os.environ.get(f"{variable}_SHA256")
    if not url:
        raise FileNotFoundError(
            f"no {name}: looked in {' and '.join(map(str, folders))} for {', '.join(wanted)}. "
            f"{_of_folder(shared) if data_dir is None else ''}The data come from {_WHENCE[name]}. "
            f"Put them there, or give the address and the checksum of a copy by {variable}_URL and "
            f"{variable}_SHA256, in Python also by url= and sha256="
        )
    return fetch(url, sha256, folders[-1], name, lambda path: _read(path, name), verbose=verbose)


def _of_folder(shared: str | None) -> str:
    """Say where the folder of data is not looked in, or in vain."""
    if not shared:
        return "MANYVIEW_DATA, which can name the folder that holds them, is not set. "
    return "" if Path(shared).is_dir() else f"MANYVIEW_DATA names {shared}, which is no folder. "


def _read(path: Path, name: str) -> Dataset:
    inner = _innermost(path)
    if (inner / MARK).is_file():
        try:
            return read_three_sources(inner)
        except ValueError as error:
            raise ValueError(f"{inner}: {error}") from error
    if inner.is_dir():
        files = [inner / f"{name}{suffix}" for suffix in _SUFFIXES]
        inner = next((file for file in files if file.is_file()), inner)
    return replace(read_views(inner), name=name)


def _innermost(path: Path) -> Path:
    """Follow folders that hold nothing but a folder, as archives often do."""
    while path.is_dir():
        inside = [entry for entry in path.iterdir() if not entry.name.startswith((".", "__"))]
        if len(inside) != 1 or not inside[0].is_dir() or inside[0].is_symlink():
            break
        path = inside[0]
    return path
