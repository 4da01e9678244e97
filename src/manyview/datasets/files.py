"""Data sets read from and written to files and folders, and data sets found by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manyview.datasets.dataset import Dataset, check_ids, encode_labels
from manyview.datasets.digits import load_digits_views
from manyview.datasets.h5mu import read_h5mu
from manyview.datasets.matlab import read_matlab, write_matlab
from manyview.datasets.native import read_native, write_native
from manyview.datasets.tables import SUFFIXES, read_folder
from manyview.views import as_views, first_index

__all__ = ["data_folders", "find_dataset", "read_views", "sources_of", "write_views"]

_READERS: dict[str, Callable[..., Dataset]] = {
    ".npz": read_native,
    ".mat": read_matlab,
    ".h5mu": read_h5mu,
}
_OPTIONS: dict[Any, tuple[str, ...]] = {
    read_h5mu: ("labels", "samples"),
    read_folder: ("labels", "id_column", "samples"),
}
_WRITERS: dict[str, Callable[..., None]] = {".npz": write_native, ".mat": write_matlab}


def read_views(
    path: str | os.PathLike[str],
    *,
    labels: str | None = None,
    id_column: str | None = None,
    samples: Literal["all", "common"] = "all",
) -> Dataset:
    """Read views, and the classes of their samples if the file has them.

    Parameters
    ----------
    path : str or path-like
        A native file (``.npz``), a MATLAB file (``.mat``), a MuData file (``.h5mu``), or a folder
        of CSV, TSV or Parquet files. MATLAB files of version 7.3, MuData files and folders
        need the extra ``io``: ``pip install 'manyview[io]'``.

        In a MATLAB file the views are a cell array (``X``, ``data``, ``fea`` or ``views``), else
        numbered variables (``X1``, ``X2``, ...), else matrices with one row per sample; labels
        are ``Y``, ``gt``, ``label`` or similar. In a MuData file the modalities are the views. In
        a folder each file is a view with a column of ids, and ``labels.csv`` (``.tsv``,
        ``.parquet``) holds ids and labels. The guide to files describes the details.
    labels : str, optional
        Column of classes: in a MuData file a column of ``obs``, for all samples or of a modality
        (``"cell_type"``, ``"rna:cell_type"``), in a folder a column of the file of labels. By
        default ``cell_type``, ``label``, ``class`` or ``y``, in upper or lower case, if it exists.
    id_column : str, optional
        Column of ids in the files of a folder. By default ``id``, ``sample``, ``index`` or
        similar, or the only column that all files have.
    samples : {"all", "common"}, default="all"
        Whether to keep samples with missing views, which ``views.present`` then marks, or only
        samples that have all views.

    Returns
    -------
    Dataset
        Views, classes numbered from 0, and the names of views, features and classes in the file.
        Classes without names are named by their labels.

    Warns
    -----
    UserWarning
        If some samples have no row in a file of a folder, or no label: the latter leaves out the
        classes.

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
    options = {"labels": labels, "id_column": id_column, "samples": samples}
    accepted = _OPTIONS.get(read, ())
    for option, where in (("labels", "a folder or a .h5mu file"), ("id_column", "a folder")):
        if options[option] is not None and option not in accepted:
            raise ValueError(
                f"{path}: received {option}={options[option]!r}, which names a column of {where}"
            )
    try:
        dataset = read(path, **{option: options[option] for option in accepted})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    present = dataset.views.present
    if samples == "all" or present is None:
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
    if path.suffix.lower() in SUFFIXES:
        raise ValueError(
            f"{path} is a single table; expected the folder that holds one table per view, or "
            + " or ".join(_READERS)
        )
    if path.suffix.lower() == ".h5ad":
        raise ValueError(
            f"{path} holds one view; read it with anndata and pass the objects to the estimator"
        )
    return _READERS[_suffix(path, _READERS)]


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


def find_dataset(name: str, *, classes: str | None = None, id_column: str | None = None) -> Dataset:
    """Return a data set by its path or by its name.

    Parameters
    ----------
    name : str
        A path, or the name of a native file without suffix in the folder that ``MANYVIEW_DATA``
        names, ``"digits"``, or one of the news sets ``"3sources"``, ``"fox"`` and ``"cnn"``.
    classes, id_column : str, optional
        The `labels` and `id_column` of :func:`manyview.datasets.read_views`, for paths only.

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
