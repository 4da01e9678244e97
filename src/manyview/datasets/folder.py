"""A folder of tables, one file a view, whose rows are told by ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyview._typing import Strings
from manyview.datasets.assemble import assemble
from manyview.datasets.dataset import Dataset
from manyview.datasets.join import first_few, join
from manyview.datasets.tables import SEPARATORS, SUFFIXES, column_names, read_column, read_table
from manyview.warn import warn_user

__all__ = ["read_folder"]

_PANDAS_INDEX = "indexlevel0"  # that has no name, in a Parquet file
_IDS = ("id", "ids", "sample", "sampleid", "samples", "index", "", "unnamed: 0", _PANDAS_INDEX)
_TABLES = (".txt", ".tab", ".dat", ".xlsx", ".xls", ".ods")
_PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")
_LABELS = ("label", "labels", "y", "class", "gt", "truth")


def read_folder(
    path: Path,
    *,
    labels: str | None = None,
    id_column: str | None = None,
    samples: str = "all",
) -> Dataset:
    """Read a folder of tables; see :func:`manyview.datasets.read_views`."""
    files, label_file = _files(path)
    columns = {file.name: column_names(file) for file in files}
    key = _id_column(columns, id_column)
    _check_named(columns, key)
    tables = [read_table(file, key) for file in files]
    joined = join(tables, samples=samples)
    if joined.present is not None:
        for table, here in zip(tables, joined.present.T, strict=True):
            if not here.all():
                warn_user(
                    f"{path}: {table.source} lacks {np.sum(~here)} of {len(here)} ids "
                    f"({first_few(joined.ids[~here].tolist())}): these samples lack the view"
                )
    y = None
    if label_file is not None:
        known = _read_labels(label_file, key, labels)
        everywhere = {i for table in tables for i in table.ids.tolist()}
        unknown = [i for i in known if i not in everywhere]
        if unknown:
            warn_user(
                f"{path}: {label_file.name} has labels for {len(unknown)} ids that no view has "
                f"({first_few(unknown)})"
            )
        unlabelled = [i for i in joined.ids.tolist() if i not in known]
        if unlabelled:
            warn_user(
                f"{path}: {label_file.name} has no label for {len(unlabelled)} of "
                f"{len(joined.ids)} ids ({first_few(unlabelled)}): classes are left out"
            )
        else:
            y = _labels_of(joined.ids, known)
    elif labels is not None:
        raise ValueError(
            f"labels={labels!r} names a column of a file 'labels.csv' (.tsv, .parquet); there is "
            "none"
        )
    return assemble(
        joined.arrays,
        view_names=[table.name for table in tables],
        feature_names=[table.feature_names for table in tables],
        present=joined.present,
        labels=y,
        name=path.resolve().name,
        sample_ids=joined.ids,
    )


def _files(folder: Path) -> tuple[list[Path], Path | None]:
    """Find the files of views, in the order of their names, and the one of labels."""
    inside = sorted(folder.iterdir(), key=lambda file: file.name)
    tables = [
        file
        for file in inside
        if file.suffix.lower() in SUFFIXES and not _hidden(file) and file.is_file()
    ]
    packed = [
        file.name
        for file in inside
        if file.suffix.lower() in _PACKED and Path(file.stem).suffix.lower() in SUFFIXES
    ]
    if packed:
        warn_user(f"{folder}: {first_few(packed)} left out, as compressed; unpack it first")
    unread = [file.name for file in inside if _seems_a_table(file)]
    if unread:
        warn_user(f"{folder}: {first_few(unread)} left out; views are .csv, .tsv or .parquet files")
    broken = [file.name for file in inside if file.suffix.lower() in SUFFIXES and not file.exists()]
    if broken:
        warn_user(f"{folder}: {first_few(broken)} left out, as a link to nothing")
    of_labels = [file for file in tables if file.stem.lower() == "labels"]
    views = [file for file in tables if file not in of_labels]
    if not views:
        raise ValueError(
            f"a folder of {first_few([file.name for file in inside], 5) or 'nothing'}; "
            "expected .csv, .tsv or .parquet files, one a view"
        )
    if len({file.suffix.lower() for file in views}) > 1:
        raise ValueError(
            f"a folder of several kinds of table ({first_few([file.name for file in views], 5)}); "
            "expected files of one kind: .csv, .tsv or .parquet"
        )
    if len(of_labels) > 1:
        raise ValueError(f"both {of_labels[0].name} and {of_labels[1].name}; expected one of them")
    return views, of_labels[0] if of_labels else None


def _hidden(file: Path) -> bool:
    """Whether a file is none of the user's: Excel and LibreOffice leave some beside open ones."""
    return file.name.startswith((".", "~$"))


def _seems_a_table(file: Path) -> bool:
    """Whether a file that is not read may have been meant as a view."""
    told = file.stem.lower().startswith(("readme", "license", "notes"))
    return file.suffix.lower() in _TABLES and file.is_file() and not (told or _hidden(file))


def _id_column(columns: Mapping[str, Sequence[str]], wanted: str | None) -> str:
    """Name of the column of ids, which all files have."""
    if wanted is not None:
        for file, names in columns.items():
            if wanted not in names:
                raise ValueError(f"{file} has no column {wanted!r}; it has {first_few(names, 5)}")
        return wanted
    first, *others = columns.values()
    shared = [name for name in first if all(name in names for names in others)]
    usual = sorted((name for name in shared if _plain(name) in _IDS), key=_rank)
    # an index that pandas has written tells samples only where nothing else may
    if usual and (_plain(usual[0]) != _PANDAS_INDEX or len(shared) == 1):
        return usual[0]
    if len(shared) == 1 and others:
        _check_header(columns, shared[0])
        return shared[0]
    told = "; ".join(f"{file}: {first_few(names, 5)}" for file, names in columns.items())
    if shared and others:
        raise ValueError(
            f"{len(shared)} columns are in all files ({first_few(shared, 5)}) and none is named "
            "'id'; call the one that holds the ids so, or name it (id_column, --id-column)"
        )
    for file, names in columns.items():
        other = _other_separator(file, names)
        if other:
            raise ValueError(
                f"{file} has one column, {names[0]!r}: columns seem to be separated by {other!r}; "
                "expected commas in .csv files, tabs in .tsv files"
            )
    raise ValueError(
        "no column of ids is in all files; expected one named 'id', or name it (id_column, "
        f"--id-column). Found {told}"
    )


def _other_separator(file: str, names: Sequence[str]) -> str | None:
    """Return what seems to separate the columns of a file that has but one."""
    expected = SEPARATORS.get(Path(file).suffix.lower())
    if expected is None or len(names) != 1:
        return None
    return next((mark for mark in ",;\t|" if mark != expected and mark in names[0]), None)


def _check_named(columns: Mapping[str, Sequence[str]], key: str) -> None:
    """Raise where a column without a name, as pandas writes an index, would be a feature."""
    for file, names in columns.items():
        for name in names:
            if name != key and _plain(name) in ("", "unnamed: 0"):
                raise ValueError(
                    f"{file} has a column without a name beside {key!r}, as pandas writes an "
                    "index; delete it, or name it if it is a feature"
                )


def _check_header(columns: Mapping[str, Sequence[str]], key: str) -> None:
    """Raise where what should be names of features are the numbers of a first sample."""
    for file, names in columns.items():
        features = [name for name in names if name != key]
        counted = [str(at) for at in range(len(features))]  # as pandas calls them
        if features != counted and features and all(map(_is_number, features)):
            raise ValueError(
                f"{file} begins with {first_few(names, 5)}, which looks like a sample; expected a "
                "line with the names of the columns first"
            )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _read_labels(path: Path, key: str, wanted: str | None) -> dict[str, str]:
    names = [name for name in column_names(path) if name == key or _plain(name) != _PANDAS_INDEX]
    if key not in names:
        raise ValueError(f"{path.name} has no column {key!r}; it has {first_few(names, 5)}")
    others = [name for name in names if name != key]
    if wanted is not None:
        chosen = [name for name in others if name == wanted]
    elif len(others) == 1:
        chosen = others
    else:
        chosen = [name for name in others if _plain(name) in _LABELS]
    if len(chosen) != 1:
        raise ValueError(
            f"{path.name} has columns {first_few(names, 5)}; expected {key!r} and "
            f"{repr(wanted) if wanted is not None else 'one other, or one named label'} (labels, "
            "--classes)"
        )
    ids, values = read_column(path, key, chosen[0])
    known: dict[str, str] = {}
    for i, value in zip(ids.tolist(), values.tolist(), strict=True):
        if known.setdefault(i, value) != value:
            raise ValueError(f"{path.name}: id {i!r} has labels {known[i]!r} and {value!r}")
    return {i: value for i, value in known.items() if value}


def _labels_of(ids: Strings, known: Mapping[str, str]) -> list[Any]:
    labels = [known[i] for i in ids.tolist()]
    # whole numbers sort as numbers; '01' is a name
    if all(label.removeprefix("-").isdecimal() and str(int(label)) == label for label in labels):
        return [int(label) for label in labels]
    return labels


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _rank(name: str) -> int:
    return _IDS.index(_plain(name))
