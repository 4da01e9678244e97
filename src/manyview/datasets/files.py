"""Data sets from files and folders, and to files, by suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyview.datasets.dataset import SAMPLES, Dataset, check_ids, encode_labels
from manyview.datasets.h5mu import read_h5mu
from manyview.datasets.matlab import read_matlab, write_matlab
from manyview.datasets.native import read_native, write_native
from manyview.datasets.tables import SUFFIXES, read_folder
from manyview.views import as_views, first_index

__all__ = ["read_views", "write_views"]

_READERS: dict[str, Callable[..., Dataset]] = {
    ".npz": read_native,
    ".mat": read_matlab,
    ".h5mu": read_h5mu,
}
_OPTIONS: dict[Any, set[str]] = {
    read_h5mu: {"labels", "samples"},
    read_folder: {"labels", "id_column", "samples"},
}
_WITH_COLUMNS = {"labels": "a folder or a .h5mu file", "id_column": "a folder"}
_WRITERS: dict[str, Callable[..., None]] = {".npz": write_native, ".mat": write_matlab}


def read_views(
    path: str | os.PathLike[str],
    *,
    labels: str | None = None,
    id_column: str | None = None,
    samples: str = "all",
) -> Dataset:
    """Read views, and the classes of their samples where the file has them.

    Parameters
    ----------
    path : str or path-like
        A native file (``.npz``), a MATLAB file (``.mat``), a MuData file (``.h5mu``), or a folder
        of CSV, TSV or Parquet files. MATLAB files of version 7.3, MuData files and folders
        need the extra ``io``: ``pip install 'manyview[io]'``.

        In a MATLAB file the views are looked for in a cell array (``X``, ``data``, ``fea`` or
        ``views``), then in numbered variables (``X1``, ``X2``, ... or ``view1``, ...), then in
        any cell array of matrices, then in any matrices that have one row a sample. Labels are
        looked for in ``Y``, ``gt``, ``truth``, ``gnd``, ``label`` or ``labels``, in capitals or
        not. Their number tells whether a view has its samples in rows or in columns; without
        labels, samples are rows unless only the numbers of columns agree.

        In a MuData file the modalities are the views and the names of observations tell the
        samples.

        In a folder each file is a view, in the order of their names, with a column of ids that
        all files have; the other columns are features. ``labels.csv`` (``.tsv``,
        ``.parquet``) holds ids and labels. Files of other kinds are ignored.
    labels : str, optional
        Column of classes: of ``obs`` in a MuData file, for all samples or of a modality
        (``"cell_type"``, ``"rna:cell_type"``), or of the file of labels in a folder. By default,
        ``cell_type``, ``label``, ``class`` or ``y``, in capitals or not, where there is one.
    id_column : str, optional
        Column of ids in the files of a folder. By default ``id``, ``sample`` or ``index`` and
        the like, or the only column that all files have.
    samples : {"all", "common"}, default="all"
        Whether to keep samples that some views lack, which ``views.present`` then tells, or only
        those that have all views.

    Returns
    -------
    Dataset
        Views, classes numbered from 0, and the names of views, features and classes that the
        file has. Classes without names are named by their labels in the file.

    Warns
    -----
    UserWarning
        Where a file of a folder lacks ids that others have, or the labels some samples: then there
        are no classes.

    Raises
    ------
    FileNotFoundError
        Where there is no such file.
    ValueError
        Where the file cannot be read or does not hold views; it names the file and what is wrong.
    ImportError
        Where the format needs the extra ``io``, which is not installed.

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
    if samples not in SAMPLES:
        raise ValueError(f"samples={samples!r}; expected one of {', '.join(map(repr, SAMPLES))}")
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    read = _reader(path)
    given = {"labels": labels, "id_column": id_column, "samples": samples}
    taken = _OPTIONS.get(read, set())
    for option in ("labels", "id_column"):
        if given[option] is not None and option not in taken:
            raise ValueError(
                f"{path}: received {option}={given[option]!r}, which names a column of "
                f"{_WITH_COLUMNS[option]}"
            )
    try:
        dataset = read(path, **{option: given[option] for option in taken})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return dataset if samples == "all" else _common(dataset, path)


def write_views(
    path: str | os.PathLike[str],
    views: Any,
    y: Any = None,
    *,
    class_names: Any = None,
    compress: bool = True,
) -> None:
    """Write views, and the classes of their samples, to a file that ``read_views`` reads.

    The file is written whole or not at all: where writing fails, an older file stays.

    Parameters
    ----------
    path : str or path-like
        Where to; the suffix says the format. ``.npz`` is the native file and keeps everything as
        it is. ``.mat`` (MATLAB version 7) holds a cell array ``X`` of views with samples in rows
        and a column ``Y`` of classes numbered from 1; sparse and half-precision views become
        double there.
    views : Views, list, tuple or dict of array-likes, or Dataset
        The views, in this process, as :func:`manyview.as_views` takes them. A Dataset brings its
        classes along, DataFrames the index of their samples.
    y : array-like of shape (n_samples,), optional
        Labels, numbers or strings. They are numbered from 0 in sorted order.
    class_names : array-like of str of shape (n_classes,), optional
        Names of the classes; ``y`` then holds 0 to ``n_classes - 1``. By default the labels.
    compress : bool, default=True
        Whether to trade time for a smaller file.

    See Also
    --------
    read_views : Read the file back.

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
    if sample_ids is None and index is not None and not _counts(index):
        sample_ids = np.asarray([str(sample) for sample in index], dtype=np.str_)
    if sample_ids is not None:
        check_ids("the ids of samples", sample_ids)
    if checked.place != "numpy":
        raise TypeError(
            f"received views of {checked.place}; expected NumPy or SciPy arrays, or DataFrames: "
            "bring them to this process first"
        )
    if y is not None:
        y, class_names = encode_labels(y, checked.n_samples, class_names)
    elif class_names is not None:
        raise ValueError("received class_names without y: they name the classes of y")
    write(path, Dataset(checked, y, class_names, name, sample_ids), compress=compress)


def _counts(index: Any) -> bool:
    """Return whether an index says no more than the places of rows."""
    return bool(np.array_equal(np.asarray(index), np.arange(len(index))))


def _common(dataset: Dataset, path: Path) -> Dataset:
    present = dataset.views.present
    if present is None:
        return dataset
    rows = present.all(axis=1)
    if not rows.any():
        raise ValueError(f"{path}: no sample has all views, and samples='common' asks for those")
    return replace(
        dataset,
        views=dataset.views.take(rows),
        y=None if dataset.y is None else dataset.y[rows],
        sample_ids=None if dataset.sample_ids is None else dataset.sample_ids[rows],
    )


def _reader(path: Path) -> Callable[..., Dataset]:
    if path.is_dir():
        return read_folder
    if path.suffix.lower() in SUFFIXES:
        raise ValueError(
            f"{path} is a single table; expected the folder that holds one for each view, or "
            + _known(_READERS)
        )
    if path.suffix.lower() == ".h5ad":
        raise ValueError(
            f"{path} holds one view; read it with anndata, and give the objects to MMC"
        )
    return _READERS[_suffix(path, _READERS)]


def _suffix(path: Path, known: dict[str, Any]) -> str:
    suffix = path.suffix.lower()
    if suffix not in known:
        given = f"suffix {path.suffix!r}" if suffix else "no suffix"
        raise ValueError(f"{path} has {given}; expected {_known(known)}")
    return suffix


def _known(formats: dict[str, Any]) -> str:
    *others, last = formats
    return f"{', '.join(others)} or {last}"
