"""Folders of CSV, TSV and Parquet tables."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.datasets.dataset import (
    Dataset,
    Table,
    assemble,
    extra,
    first_few,
    join,
)
from manyview.exceptions import warn_user

__all__ = [
    "SEPARATORS",
    "SUFFIXES",
    "column_names",
    "read_column",
    "read_folder",
    "read_table",
]


SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet")
_LARGEST_BLOCK = 1 << 30
_SAVE = "save it as CSV in UTF-8"


def column_names(path: Path) -> list[str]:
    r"""Return the names of the columns of a table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "text.csv"
    ...     written = path.write_text("id,apple,pear\na,1,2\n")
    ...     column_names(path)
    ['id', 'apple', 'pear']
    """
    with path.open("rb") as file:
        if not file.read(1):
            raise ValueError(f"{path.name} is empty; expected a table")
    separator = _separator(path)
    if separator is None:
        names = list(_parquet(path).schema_arrow.names)
    else:
        names = [name.strip() for name in _header(path, separator)]
    doubled = sorted({name for name in names if names.count(name) > 1}) if _repeats(names) else []
    if doubled:
        raise ValueError(f"{path.name} has more than one column {doubled[0]!r}")
    return names


def read_table(path: Path, id_column: str) -> Table:
    r"""Read a view: a column of ids, the others are features, but for an index of pandas.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "text.csv"
    ...     written = path.write_text("id,apple,pear\na,1,2\n")
    ...     table = read_table(path, "id")
    >>> table.name, table.ids.tolist(), table.array.tolist()
    ('text', ['a'], [[1.0, 2.0]])
    """
    left_out = (id_column, *_indexes(path))
    features = [name for name in column_names(path) if name not in left_out]
    if not features:
        raise ValueError(f"{path.name} has no column beside {id_column!r}; expected features")
    read = _read(path, dict.fromkeys(features, "float64") | {id_column: "string"})
    if not read.num_rows:
        raise ValueError(f"{path.name} has no rows; expected one a sample")
    ids = _as_strings(path, read, id_column)
    columns = [_numbers(path, read, name, ids) for name in features]
    array = np.empty((len(ids), len(columns)), dtype=np.result_type(*columns))
    for d, values in enumerate(columns):
        array[:, d] = values
    return Table(path.stem, path.name, ids, array, np.asarray(features, dtype=np.str_))


def read_column(path: Path, id_column: str, name: str) -> tuple[Strings, Strings]:
    r"""Read the ids and one other column of a table as strings, missing values as "".

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.csv"
    ...     written = path.write_text("id,label\na,cat\nb,dog\n")
    ...     ids, labels = read_column(path, "id", "label")
    >>> labels.tolist()
    ['cat', 'dog']
    """
    read = _read(path, {id_column: "string", name: "string"})
    return _as_strings(path, read, id_column), _as_strings(path, read, name)


def _read(path: Path, types: dict[str, str]) -> Any:
    separator = _separator(path)
    if separator is None:
        try:
            return _parquet(path).read(columns=list(types))
        except Exception as error:
            raise ValueError(f"{path.name}: not a readable Parquet file ({error})") from error
    arrow, arrow_csv = _arrow(), _arrow("csv")
    # pyarrow knows a column by its name with the blanks around it
    as_written = {name.strip(): name for name in _header(path, separator)}
    kinds = {as_written[name]: kind for name, kind in types.items()}
    try:
        try:
            read = _read_csv(arrow_csv, path, separator, kinds)
        except arrow.ArrowInvalid as error:
            if not re.search(r"invalid value '(true|false)'", str(error), re.IGNORECASE):
                raise
            # what pandas writes for columns of truth values
            kinds |= _truths(path, separator, kinds)
            read = _read_csv(arrow_csv, path, separator, kinds)
        return read.rename_columns(list(types))
    except Exception as error:
        raise ValueError(f"{path.name}: {_told(str(error), column_names(path))}") from error


def _read_csv(arrow_csv: Any, path: Path, separator: str, types: dict[str, str]) -> Any:
    return arrow_csv.read_csv(
        path,
        # a line must fit into a block; without threads, errors name the row
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=min(path.stat().st_size + 1, _LARGEST_BLOCK)
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types={name: getattr(_arrow(), kind)() for name, kind in types.items()},
            include_columns=list(types),
        ),
    )


def _truths(path: Path, separator: str, types: dict[str, str]) -> dict[str, str]:
    """Return the columns of numbers whose first row is true or false, as such."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file, delimiter=separator) if row)
        first = dict(zip(next(rows), next(rows, ()), strict=False))
    return {
        name: "bool_"
        for name, kind in types.items()
        if kind != "string" and first.get(name, "").lower() in ("true", "false")
    }


def _told(message: str, columns: list[str]) -> str:
    """Name the column that pyarrow numbers."""
    match = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", message, re.DOTALL)
    if match is None or int(match[1]) >= len(columns):
        return message
    value = re.search(r"invalid value (.*)", match[3], re.DOTALL)
    line = f" in line {match[2]}" if match[2] else ""
    what = f"holds {value[1]}{line}; expected {_expected(match[3])}" if value else match[3] + line
    if "invalid UTF8" in message:
        what = f"is not UTF-8{line}; {_SAVE}"
    return f"column {columns[int(match[1])]!r} {what}"


def _expected(message: str) -> str:
    return "true or false, as in its first row" if "to bool" in message else "numbers"


def _numbers(path: Path, read: Any, name: str, ids: Strings) -> npt.NDArray[Any]:
    types, column = _arrow().types, read.column(name)
    kind = column.type
    if not any(
        is_kind(kind)
        for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    ):
        raise ValueError(f"{path.name}: column {name!r} holds {kind}; expected numbers")
    if column.null_count:
        at = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(
            f"{path.name}: column {name!r} is empty for id {str(ids[at])!r}; expected a number. "
            "Fill it in, or leave the column out; a sample that lacks the whole view has no row"
        )
    if types.is_decimal(kind):
        column = column.cast(_arrow().float64())
    return np.asarray(column.to_numpy())


def _as_strings(path: Path, read: Any, name: str) -> Strings:
    column = read.column(name)
    try:
        column = column.cast(_arrow().string())
    except Exception as error:
        raise ValueError(
            f"{path.name}: column {name!r} holds {column.type}; expected strings or whole numbers"
        ) from error
    return np.asarray([value or "" for value in column.to_pylist()], dtype=np.str_)


def _header(path: Path, separator: str) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next((row for row in csv.reader(file, delimiter=separator) if row), None)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: not UTF-8 ({error}); {_SAVE}") from error
    except csv.Error as error:
        raise ValueError(f"{path.name}: not a readable table of text ({error})") from error
    if header is None:
        raise ValueError(f"{path.name} is empty; expected a line of column names")
    return header


def _parquet(path: Path) -> Any:
    try:
        return _arrow("parquet").ParquetFile(path)
    # a damaged file fails in as many ways as there are bytes in it
    except Exception as error:
        if isinstance(error, ImportError):
            raise
        raise ValueError(f"{path.name}: not a readable Parquet file ({error})") from error


def _indexes(path: Path) -> list[str]:
    """Return the columns of a Parquet file that were the index of a DataFrame of pandas."""
    if _separator(path) is not None:
        return []
    described = (_parquet(path).schema_arrow.metadata or {}).get(b"pandas", b"{}")
    try:
        return [name for name in json.loads(described)["index_columns"] if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # not as pandas writes it today
        return []


def _repeats(names: list[str]) -> bool:
    return len(set(names)) < len(names)


def _separator(path: Path) -> str | None:
    """Return what stands between the columns, None in a Parquet file."""
    return SEPARATORS.get(path.suffix.lower())


def _arrow(part: str = "") -> Any:
    return extra(f"pyarrow.{part}" if part else "pyarrow", "reading folders of tables")


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
