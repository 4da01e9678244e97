"""Folders of CSV, TSV or Parquet tables, one per view, joined by sample id."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.datasets.dataset import Dataset, Table, assemble, extra, first_few, join, labels_of
from manyview.exceptions import warn_user

__all__ = ["SUFFIXES", "read_folder"]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*_SEPARATORS, ".parquet")
_UNSUPPORTED = (".txt", ".tab", ".dat", ".xlsx", ".xls", ".ods")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
_LARGEST_BLOCK = 1 << 30

# names of columns, in lower case, without underscores and hyphens
_PANDAS_INDEX = "indexlevel0"  # an index without a name, in a Parquet file
_UNNAMED = ("", "unnamed: 0")
_IDS = ("id", "ids", "sample", "sampleid", "samples", "index", *_UNNAMED, _PANDAS_INDEX)
_LABELS = ("label", "labels", "y", "class", "gt", "truth")

Columns = Mapping[str, Sequence[str]]  # names of the columns of each file


def read_folder(
    path: Path,
    *,
    labels: str | None = None,
    id_column: str | None = None,
    samples: Literal["all", "common"] = "all",
) -> Dataset:
    """Read a folder of tables; see :func:`manyview.datasets.read_views`."""
    files, label_file = _files(path)
    columns = {file.name: _column_names(file) for file in files}
    key = _id_column(columns, id_column)
    _check_named(columns, key)
    tables = [_read_table(file, key) for file in files]
    ids, parts = join(tables, samples=samples)
    if "present" in parts:
        for table, here in zip(tables, parts["present"].T, strict=True):
            if not here.all():
                warn_user(
                    f"{path}: {table.source} misses {np.sum(~here)} of {len(here)} ids "
                    f"({first_few(ids[~here].tolist())}): the view is missing for these samples"
                )
    if label_file is not None:
        known = _read_labels(label_file, key, labels)
        everywhere = {i for table in tables for i in table.ids.tolist()}
        unknown = [i for i in known if i not in everywhere]
        if unknown:
            warn_user(
                f"{path}: {label_file.name} has labels for {len(unknown)} ids that are in no view "
                f"({first_few(unknown)})"
            )
        y = labels_of(ids, known, label_file.name, warn_about=path)
        # whole numbers are sorted as numbers; '01' is a name
        if y and all(re.fullmatch(r"-?\d+", i) and str(int(i)) == i for i in y):
            y = [int(label) for label in y]
        parts["labels"] = y
    elif labels is not None:
        raise ValueError(
            f"labels={labels!r} names a column of 'labels.csv' (or .tsv, .parquet), but the folder "
            "has no such file"
        )
    return assemble(**parts, name=path.resolve().name)


def _files(folder: Path) -> tuple[list[Path], Path | None]:
    """Return the files of views, sorted by name, and the file of labels."""
    # Excel and LibreOffice leave hidden files beside open ones
    inside = [file for file in folder.iterdir() if not file.name.startswith((".", "~$"))]
    inside.sort(key=lambda file: file.name)
    tables = [file for file in inside if file.suffix.lower() in SUFFIXES and file.is_file()]
    left_out = defaultdict(list)
    for file in inside:
        suffix = file.suffix.lower()
        is_about = file.stem.lower().startswith(("readme", "license", "notes"))
        if suffix in _COMPRESSED and Path(file.stem).suffix.lower() in SUFFIXES:
            left_out["compressed; unpack it first"].append(file.name)
        elif suffix in SUFFIXES and not file.exists():
            left_out["a broken link"].append(file.name)
        elif suffix in _UNSUPPORTED and file.is_file() and not is_about:
            left_out["not a .csv, .tsv or .parquet file"].append(file.name)
    for reason, names in left_out.items():
        warn_user(f"{folder}: {first_few(names)} is ignored: {reason}")
    label_files = [file for file in tables if file.stem.lower() == "labels"]
    views = [file for file in tables if file not in label_files]
    if len({file.suffix.lower() for file in views}) != 1:
        kinds = "several kinds of tables: " if views else ""
        found = first_few([file.name for file in views or inside], 5) or "no files"
        raise ValueError(
            f"the folder contains {kinds}{found}; expected .csv, .tsv or .parquet files of one "
            "kind, one per view"
        )
    if len(label_files) > 1:
        found = " and ".join(file.name for file in label_files)
        raise ValueError(f"{found} both hold labels; expected one file")
    return views, label_files[0] if label_files else None


def _id_column(columns: Columns, wanted: str | None) -> str:
    """Return the name of the column of ids, which all files must have."""
    if wanted is not None:
        for file, names in columns.items():
            if wanted not in names:
                raise ValueError(f"{file} has no column {wanted!r}; it has {first_few(names, 5)}")
        return wanted
    first, *others = columns.values()
    shared = [name for name in first if all(name in names for names in others)]
    usual = [name for name in shared if _plain(name) in _IDS]
    usual.sort(key=lambda name: _IDS.index(_plain(name)))
    # an index that pandas wrote identifies the samples only if no other column may
    if usual and (_plain(usual[0]) != _PANDAS_INDEX or len(shared) == 1):
        return usual[0]
    if len(shared) == 1 and others:
        _check_header(columns, shared[0])
        return shared[0]
    if shared and others:
        raise ValueError(
            f"{len(shared)} columns are in all files ({first_few(shared, 5)}) and none is named "
            "'id'; rename the column of ids to 'id', or name it (id_column, --id-column)"
        )
    for file, names in columns.items():
        expected = _SEPARATORS.get(Path(file).suffix.lower())
        other = next((mark for mark in ",;\t|" if mark != expected and mark in names[0]), None)
        if expected and len(names) == 1 and other:
            raise ValueError(
                f"{file} has one column, {names[0]!r}, which seems to be separated by {other!r}; "
                "expected commas in .csv files, tabs in .tsv files"
            )
    found = "; ".join(f"{file}: {first_few(names, 5)}" for file, names in columns.items())
    raise ValueError(
        "no id column is common to all files; expected a column 'id', or name another (id_column, "
        f"--id-column). Found {found}"
    )


def _check_named(columns: Columns, key: str) -> None:
    """Reject columns without a name, such as an index that pandas wrote, as features."""
    for file, names in columns.items():
        if any(name != key and _plain(name) in _UNNAMED for name in names):
            raise ValueError(
                f"{file} has a column without a name besides {key!r}, perhaps an index that pandas "
                "wrote; delete it, or name it if it is a feature"
            )


def _check_header(columns: Columns, key: str) -> None:
    """Reject files whose first line holds the numbers of a sample instead of feature names."""
    for file, names in columns.items():
        features = [name for name in names if name != key]
        counted = [str(at) for at in range(len(features))]  # the default names of pandas
        if features and features != counted and all(map(_is_number, features)):
            raise ValueError(
                f"{file} begins with {first_few(names, 5)}, which looks like a sample; expected "
                "the names of the columns in the first line"
            )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _read_labels(path: Path, key: str, wanted: str | None) -> dict[str, str]:
    """Return the known labels by id."""
    names = [name for name in _column_names(path) if name == key or _plain(name) != _PANDAS_INDEX]
    if key not in names:
        raise ValueError(f"{path.name} has no column {key!r}; it has {first_few(names, 5)}")
    chosen = [name for name in names if name != key]
    if wanted is not None:
        chosen = [name for name in chosen if name == wanted]
    elif len(chosen) > 1:
        chosen = [name for name in chosen if _plain(name) in _LABELS]
    if len(chosen) != 1:
        raise ValueError(
            f"{path.name} has columns {first_few(names, 5)}; expected {key!r} and "
            f"{'one other, or one named label' if wanted is None else repr(wanted)} (labels, "
            "--classes)"
        )
    read = _read(path, {key: "string", chosen[0]: "string"})
    known: dict[str, str] = {}
    ids, labels = (_as_strings(path, read, name).tolist() for name in (key, chosen[0]))
    for i, label in zip(ids, labels, strict=True):
        if known.setdefault(i, label) != label:
            raise ValueError(f"{path.name}: id {i!r} has labels {known[i]!r} and {label!r}")
    return {i: label for i, label in known.items() if label}


def _read_table(path: Path, id_column: str) -> Table:
    """Read a view: all columns but the ids, and an index that pandas wrote, are features."""
    left_out = {id_column, *_pandas_indexes(path)}
    features = [name for name in _column_names(path) if name not in left_out]
    if not features:
        raise ValueError(f"{path.name} has no column besides {id_column!r}; expected features")
    read = _read(path, dict.fromkeys(features, "float64") | {id_column: "string"})
    if not read.num_rows:
        raise ValueError(f"{path.name} has no rows; expected one per sample")
    ids = _as_strings(path, read, id_column)
    columns = [_numbers(path, read, name, ids) for name in features]
    array = np.empty((len(ids), len(columns)), dtype=np.result_type(*columns))
    for d, values in enumerate(columns):
        array[:, d] = values
    return Table(path.stem, path.name, ids, array, np.asarray(features, dtype=np.str_))


def _column_names(path: Path) -> list[str]:
    with path.open("rb") as file:
        if not file.read(1):
            raise ValueError(f"{path.name} is empty; expected a table")
    if path.suffix.lower() in _SEPARATORS:
        names = [name.strip() for name in _first_rows(path, 1)[0]]
    else:
        names = _parquet(path, lambda file: list(file.schema_arrow.names))
    if len(set(names)) < len(names):
        repeated = Counter(names).most_common(1)[0][0]
        raise ValueError(f"{path.name} has more than one column {repeated!r}")
    return names


def _first_rows(path: Path, n: int) -> list[list[str]]:
    """Return the first rows of a CSV or TSV file; the header may have to be there."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=_SEPARATORS[path.suffix.lower()])
            found = [row for _, row in zip(range(n), filter(None, rows), strict=False)]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: not UTF-8 ({error}); save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise ValueError(f"{path.name}: not a readable table ({error})") from error
    if not found:
        raise ValueError(f"{path.name} is empty; expected a line of column names")
    return found


def _parquet(path: Path, read: Callable[[Any], Any]) -> Any:
    """Return what a function reads from a Parquet file."""
    parquet = _arrow("parquet")
    try:
        with parquet.ParquetFile(path) as file:
            return read(file)
    # a damaged file can raise almost any exception
    except Exception as error:
        raise ValueError(f"{path.name}: not a readable Parquet file ({error})") from error


def _pandas_indexes(path: Path) -> list[str]:
    """Return the columns of a Parquet file that were the index of a pandas DataFrame."""
    if path.suffix.lower() in _SEPARATORS:
        return []
    metadata = _parquet(path, lambda file: file.schema_arrow.metadata) or {}
    try:
        columns = json.loads(metadata.get(b"pandas", b"{}"))["index_columns"]
        return [name for name in columns if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # metadata in an unknown form
        return []


def _read(path: Path, types: dict[str, str]) -> Any:
    """Read some columns with pyarrow. The types are those of a CSV or TSV file."""
    if path.suffix.lower() not in _SEPARATORS:
        return _parquet(path, lambda file: file.read(columns=list(types)))
    # pyarrow keeps the blanks around the names of columns
    arrow = _arrow()
    header, *first = _first_rows(path, 2)
    as_written = {name.strip(): name for name in header}
    kinds = {as_written[name]: kind for name, kind in types.items()}
    try:
        try:
            read = _read_csv(path, kinds)
        except arrow.ArrowInvalid as error:
            if not re.search(r"invalid value '(true|false)'", str(error), re.IGNORECASE):
                raise
            # a column is boolean if its first value is
            values = dict(zip(header, first[0], strict=False))
            for name, kind in kinds.items():
                if kind != "string" and values.get(name, "").lower() in ("true", "false"):
                    kinds[name] = "bool_"
            read = _read_csv(path, kinds)
        return read.rename_columns(list(types))
    except Exception as error:
        raise ValueError(f"{path.name}: {_explained(str(error), list(as_written))}") from error


def _read_csv(path: Path, types: dict[str, str]) -> Any:
    arrow, arrow_csv = _arrow(), _arrow("csv")
    return arrow_csv.read_csv(
        path,
        # a line must fit into a block; without threads, errors name the row
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=min(path.stat().st_size + 1, _LARGEST_BLOCK)
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=_SEPARATORS[path.suffix.lower()], newlines_in_values=True
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={name: getattr(arrow, kind)() for name, kind in types.items()},
            include_columns=list(types),
        ),
    )


def _explained(message: str, columns: list[str]) -> str:
    """Replace the number of a column in a message of pyarrow by its name."""
    match = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", message, re.DOTALL)
    if match is None or int(match[1]) >= len(columns):
        return message
    column, line = repr(columns[int(match[1])]), f" in line {match[2]}" if match[2] else ""
    if "invalid UTF8" in message:
        return f"column {column} is not UTF-8{line}; save it as CSV in UTF-8"
    value = re.search(r"invalid value (.*)", match[3], re.DOTALL)
    if value is None:
        return f"column {column} {match[3]}{line}"
    expected = "true or false, as in its first row" if "to bool" in match[3] else "numbers"
    return f"column {column} holds {value[1]}{line}; expected {expected}"


def _numbers(path: Path, read: Any, name: str, ids: Strings) -> npt.NDArray[Any]:
    types, column = _arrow().types, read.column(name)
    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise ValueError(f"{path.name}: column {name!r} holds {column.type}; expected numbers")
    if column.null_count:
        at = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(
            f"{path.name}: column {name!r} is empty for id {str(ids[at])!r}; expected a number. "
            "Fill it in or remove the column; if a sample misses the whole view, remove its row"
        )
    if types.is_decimal(column.type):
        column = column.cast(_arrow().float64())
    return np.asarray(column.to_numpy())


def _as_strings(path: Path, read: Any, name: str) -> Strings:
    """Return a column as strings; missing values are empty."""
    column = read.column(name)
    try:
        column = column.cast(_arrow().string())
    except Exception as error:
        raise ValueError(
            f"{path.name}: column {name!r} holds {column.type}; expected strings or whole numbers"
        ) from error
    return np.asarray([value or "" for value in column.to_pylist()], dtype=np.str_)


def _arrow(part: str = "") -> Any:
    return extra(f"pyarrow.{part}" if part else "pyarrow", "reading folders of tables")
