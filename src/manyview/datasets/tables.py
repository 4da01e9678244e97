"""Tables in CSV, TSV and Parquet files, through pyarrow."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.datasets.extras import extra
from manyview.datasets.join import Table

__all__ = ["SEPARATORS", "SUFFIXES", "column_names", "read_column", "read_table"]

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
