"""Data sets read from and written to files and folders, and data sets found by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manyview._typing import Strings
from manyview.datasets.dataset import Dataset, check_ids, encode_labels
from manyview.datasets.digits import load_digits_views
from manyview.datasets.matlab import read_matlab, write_matlab
from manyview.datasets.native import read_native, write_native
from manyview.datasets.single_cells import read_h5ad, read_h5mu, read_tenx
from manyview.datasets.sources import SUFFIXES, WORKBOOKS, Source
from manyview.datasets.tables import (
    TableOptions,
    columns_in_file,
    read_archive,
    read_folder,
    read_table,
    read_workbook,
)
from manyview.views import MAX_CATEGORIES, as_views, first_index

__all__ = ["data_folders", "find_dataset", "read_views", "sources_of", "write_views"]

_READERS: dict[str, Callable[..., Dataset]] = {
    ".npz": read_native,
    ".mat": read_matlab,
    ".h5mu": read_h5mu,
    ".h5ad": read_h5ad,
    ".h5": read_tenx,
}
_CELL_READERS = (read_h5mu, read_h5ad, read_tenx)
_TABLE_READERS = (read_archive, read_folder, read_table, read_workbook)
_TEXT_FILES = (*SUFFIXES, ".txt", ".tab", ".dat")
_WRITERS: dict[str, Callable[..., None]] = {".npz": write_native, ".mat": write_matlab}


def read_views(
    path: str | os.PathLike[str],
    *,
    labels: str | None = None,
    id_column: str | None = None,
    samples: Literal["all", "common"] = "all",
    views: Mapping[str, str | Sequence[str]] | str | os.PathLike[str] | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    max_categories: int = MAX_CATEGORIES,
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
    encoding: str | None = None,
    like: Mapping[str, Strings | None] | None = None,
) -> Dataset:
    """Read views, and the classes of their samples if the file has them.

    Parameters
    ----------
    path : str or path-like
        A native file (``.npz``), a MATLAB file (``.mat``), a file of cells (``.h5mu`` of MuData,
        ``.h5ad`` of AnnData, ``.h5`` of 10x Genomics), a table (``.csv``, ``.tsv``, ``.txt``,
        ``.parquet``, ``.feather``, also ``.gz``), a workbook (``.xlsx``), or a folder or ``.zip``
        of tables. MATLAB files of version 7.3, files of cells and tables need the extra ``io``:
        ``pip install 'manyview[io]'``.

        In a MATLAB file the views are a cell array (``X``, ``data``, ``fea`` or ``views``), else
        numbered variables (``X1``, ``X2``, ...), else matrices with one row per sample; labels
        are ``Y``, ``gt``, ``label`` or similar. In a MuData file the modalities are the views, in
        an AnnData file ``X``, in one of 10x Genomics the feature types. Of modalities and ``X``
        the highly variable features are read if ``var`` marks them as ``highly_variable``. In a
        folder, an archive or a workbook each table is a view with a column of ids, and
        ``labels.csv`` (``.tsv``, ``.parquet``) or the sheet ``labels`` holds ids and labels. The
        guide to files describes the details.
    labels : str, optional
        Column of classes: in a file of cells a column of ``obs``, for all samples or of a modality
        (``"cell_type"``, ``"rna:cell_type"``), in a folder a column of the file of labels, in a
        single table one of its columns. By default ``cell_type``, ``label``, ``class`` or ``y``,
        in upper or lower case, if it exists.
    id_column : str, optional
        Column of ids in tables. By default ``id``, ``sample``, ``index`` or similar, or the only
        column that all tables have.
    samples : {"all", "common"}, default="all"
        Whether to keep samples with missing views, which ``views.present`` then marks, or only
        samples that have all views.
    views : dict or path-like, optional
        Columns of each view of a single table: names, or patterns with ``*`` and ``?``, as in
        ``{"clinic": ["age", "sex"], "genes": "ENSG*"}``, or a JSON or YAML file that holds them.
        By default all columns are one view. In a file of cells, the address of each view, as in
        ``{"rna": "rna:layers/counts", "pca": "obsm/X_pca"}``, or its feature type.
    drop : list of str, optional
        Columns of tables that are left out: names or patterns.
    categories : list of str, optional
        Columns of tables, names or patterns, that are encoded as categories, whatever they hold.
    max_categories : int, default=20
        Most values of a column of text that is taken for a category. Text of more values is
        dropped with a warning.
    sep, decimal, encoding : str, optional
        Separator, decimal mark and encoding of text tables. By default they are detected.
    like : dict, optional
        Names of the features of each view of a fitted model, so that new samples get the same
        features: ``dict(zip(model.view_names_, model.feature_names_in_))``.

    Returns
    -------
    Dataset
        Views, classes numbered from 0, and the names of views, features and classes in the file.
        Classes without names are named by their labels. ``notes`` says how tables were read.
        Empty cells are NaN, and a sample without any value in a view misses the view.

    Warns
    -----
    UserWarning
        If some samples have no row in a file of a folder, or no label: the latter leaves out the
        classes. If columns of dates or text are dropped.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file cannot be read or does not hold views. The message names the file.
    ImportError
        If the format needs the extra ``io`` and it is not installed.

    See Also
    --------
    write_views : Write a file that this function reads.

    Notes
    -----
    Nothing is unpickled: a file cannot run code.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from manyview.datasets import load_digits_views, read_views, write_views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "digits.npz"
    ...     write_views(path, load_digits_views(n_samples=100))
    ...     views, y = read_views(path)
    >>> views.names, views.n_samples
    (('pixels', 'fourier', 'projections', 'gradients'), 100)
    """
    path = Path(path)
    if samples not in ("all", "common"):
        raise ValueError(f"samples={samples!r}; expected 'all' or 'common'")
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    read = _reader(path)
    of_tables: dict[str, Any] = {
        "id_column": id_column,
        "views": columns_in_file(Path(views)) if isinstance(views, str | os.PathLike) else views,
        "drop": drop,
        "categories": categories,
        "sep": sep,
        "decimal": decimal,
        "encoding": encoding,
    }
    _check_options(path, read, of_tables, labels)
    try:
        if read in _TABLE_READERS:
            options = TableOptions(labels=labels, samples=samples, like=like, **of_tables)
            dataset = read(path, replace(options, max_categories=max_categories))
        elif read in _CELL_READERS:
            views = of_tables["views"]
            dataset = read(path, labels=labels, samples=samples, views=views, like=like)
        else:
            dataset = read(path)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return dataset if samples == "all" else _complete(path, dataset)


def _complete(path: Path, dataset: Dataset) -> Dataset:
    """Return the samples that have all views."""
    present = dataset.views.present
    if present is None:
        return dataset
    rows = present.all(axis=1)
    if not rows.any():
        raise ValueError(f"{path}: no sample has all views; samples='common' would leave none")
    return replace(
        dataset,
        views=dataset.views.take(rows),
        y=None if dataset.y is None else dataset.y[rows],
        sample_ids=None if dataset.sample_ids is None else dataset.sample_ids[rows],
    )


def _reader(path: Path) -> Callable[..., Dataset]:
    if path.is_dir():
        return read_folder
    if path.suffix.lower() in WORKBOOKS:
        return read_workbook
    if path.suffix.lower() == ".zip":
        return read_archive
    if Source(path).suffix in _TEXT_FILES:
        return read_table
    return _READERS[_suffix(path, _READERS)]


def _check_options(
    path: Path, read: Callable[..., Dataset], of_tables: Mapping[str, Any], labels: str | None
) -> None:
    """Raise if options were received that do not apply to the file."""
    if read in _TABLE_READERS:
        return
    given = {option: value for option, value in of_tables.items() if value}
    if read in _CELL_READERS:
        given.pop("views", None)
    if labels is not None and read not in (read_h5mu, read_h5ad):
        given["labels"] = labels
    where = {"labels": "tables, .h5mu and .h5ad files", "views": "tables and files of cells"}
    for option, value in given.items():
        raise ValueError(
            f"{path}: received {option}={value!r}, which is for {where.get(option, 'tables')}"
        )


def _suffix(path: Path, known: Iterable[str]) -> str:
    suffix = path.suffix.lower()
    if suffix not in known:
        found = f"suffix {path.suffix!r}" if suffix else "no suffix"
        raise ValueError(f"{path} has {found}; expected {' or '.join(known)}")
    return suffix


def write_views(
    path: str | os.PathLike[str],
    views: Any,
    y: Any = None,
    *,
    class_names: Any = None,
    compress: bool = True,
) -> None:
    """Write views, and the classes of their samples, to a file that ``read_views`` reads.

    The file is written completely or not at all: if writing fails, an existing file is kept.

    Parameters
    ----------
    path : str or path-like
        The file. ``.npz`` is the native format, which keeps everything as it is. ``.mat`` (MATLAB
        version 7) holds a cell array ``X`` of views with samples in rows and a column ``Y`` of
        classes numbered from 1. Sparse and half-precision views become double in it.
    views : Views, list, tuple or dict of array-likes, or Dataset
        The views, in this process, as :func:`manyview.as_views` accepts them. The classes of a
        Dataset and the index of DataFrames are written too.
    y : array-like of shape (n_samples,), optional
        Labels, numbers or strings. They are numbered from 0 in sorted order.
    class_names : array-like of str of shape (n_classes,), optional
        Names of the classes; ``y`` then holds 0 to ``n_classes - 1``. By default the labels.
    compress : bool, default=True
        Whether to compress the file, which takes longer.

    See Also
    --------
    read_views : Read the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from manyview.datasets import read_views, write_views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "small.mat"
    ...     write_views(path, {"text": np.eye(3), "image": np.eye(3, 2)}, ["cat", "dog", "cat"])
    ...     small = read_views(path)
    >>> small.views.names, small.y, small.class_names
    (('text', 'image'), array([0, 1, 0]), array(['cat', 'dog'], dtype='<U3'))
    """
    path = Path(path)
    write = _WRITERS[_suffix(path, _WRITERS)]
    name, sample_ids = path.stem, None
    if isinstance(views, Dataset):
        if y is None and class_names is None and views.y is not None:
            y, class_names = views.y, views.class_names
        name, sample_ids, views = views.name, views.sample_ids, views.views
    checked = as_views(views)
    index = first_index(views)
    # an index that only counts the rows is not an id
    counts = index is not None and np.array_equal(np.asarray(index), np.arange(len(index)))
    if sample_ids is None and index is not None and not counts:
        sample_ids = np.asarray([str(sample) for sample in index], dtype=np.str_)
    if sample_ids is not None:
        check_ids("the sample ids", sample_ids)
    if checked.place != "numpy":
        raise TypeError(
            f"received views of {checked.place}; expected NumPy or SciPy arrays, or DataFrames, "
            "in this process"
        )
    if y is not None:
        y, class_names = encode_labels(y, checked.n_samples, class_names)
    elif class_names is not None:
        raise ValueError("received class_names without y; expected the labels that they name")
    write(path, Dataset(checked, y, class_names, name, sample_ids), compress=compress)


def find_dataset(name: str, **options: Any) -> Dataset:
    """Return a data set by its path or by its name.

    Parameters
    ----------
    name : str
        A path, or the name of a native file without suffix in the folder that ``MANYVIEW_DATA``
        names, ``"digits"``, or one of the news sets ``"3sources"``, ``"fox"`` and ``"cnn"``.
    **options
        Options of :func:`manyview.datasets.read_views`, for paths only.

    Returns
    -------
    Dataset
        The data set.

    Raises
    ------
    ValueError
        If there is no such data set. The message lists the known names.

    Examples
    --------
    >>> find_dataset("digits").views.n_samples
    1797
    """
    # this module reads the files of the news sets
    from manyview.datasets.news import NEWS

    if not name:
        raise ValueError("an empty name; expected a file, a folder or the name of a data set")
    if Path(name).exists() or Path(name).suffix:
        return read_views(name, **options)
    if given := [option for option, value in options.items() if value and option != "like"]:
        raise ValueError(
            f"the options of files ({', '.join(given)}) do not apply to {name!r}, which is a set"
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
    hint = f"did you mean {near[0]}? " if near else ""
    if not folder:
        more = ". MANYVIEW_DATA can name a folder with more"
    else:
        more = "" if Path(folder).is_dir() else f". MANYVIEW_DATA={folder} is not a folder"
    raise ValueError(
        f"no file or data set {name!r}; {hint}the known sets are {', '.join(known)}{more}"
    )


def sources_of(name: str) -> list[Path]:
    """Return the files and folders that :func:`find_dataset` may read for a name."""
    if Path(name).exists() or Path(name).suffix:
        return [Path(name)]
    return [
        entry
        for folder in data_folders()
        if folder.is_dir()
        for entry in sorted(folder.iterdir())
        if entry.stem in (name, f"{name}_raw")
    ]


def data_folders() -> list[Path]:
    """Return the folders in which data sets are looked for: ``MANYVIEW_DATA``, then the cache."""
    shared = os.environ.get("MANYVIEW_DATA")
    return [*([Path(shared)] if shared else []), _cache_folder()]


def _cache_folder() -> Path:
    """Return the folder of downloads: ``MANYVIEW_CACHE``, or ``manyview`` in the user's cache."""
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
