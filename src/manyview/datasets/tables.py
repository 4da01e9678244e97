"""Tables of samples: folders, archives and workbooks of them, and single tables cut into views."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.datasets.dataset import (
    Dataset,
    Table,
    assemble,
    check_ids,
    extra,
    first_few,
    join,
    labels_of,
)
from manyview.datasets.delimited import (
    MISSING,
    Blocks,
    TextTable,
    as_text_column,
    check_distinct,
    column_of_text,
    decimal_mark,
    parsed_numbers,
)
from manyview.datasets.sources import (
    ARROW,
    SUFFIXES,
    Source,
    check_expansion,
    members,
)
from manyview.exceptions import warn_user
from manyview.views import (
    MAX_CATEGORIES,
    Text,
    chosen_columns,
    column_matches,
    encoded_in,
    encoded_text,
    matching_columns,
)

__all__ = [
    "TableOptions",
    "columns_in_file",
    "read_archive",
    "read_folder",
    "read_table",
    "read_workbook",
]

_NOT_IN_FOLDERS = (".txt", ".tab", ".dat", ".xlsx", ".xlsm", ".xls", ".ods")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")

# names of columns, in lower case, without underscores and hyphens
_PANDAS_INDEX = "indexlevel0"  # an index without a name, in a Parquet file
_UNNAMED = ("", "unnamed: 0")
_IDS = ("id", "ids", "sample", "sampleid", "samples", "index", *_UNNAMED, _PANDAS_INDEX)
_LABELS = ("label", "labels", "y", "class", "gt", "truth")
_LABELS_IN_TABLE = ("label", "labels", "class", "truth")  # y may be a coordinate
_ID_LIKE = re.compile(
    r"(.*[_\-. ])(id|ID|Id)|.*[a-z](ID|Id)|(barcode|sample[_\- ]?name)", re.DOTALL
)

_LARGEST_FILE_OF_VIEWS = 1 << 24

Columns = Mapping[str, Sequence[str]]  # names of the columns of each file


@dataclass(frozen=True)
class TableOptions:
    """How tables are read; see :func:`manyview.datasets.read_views`.

    `like` holds the names of the features of each view of a fit, for prediction.
    """

    labels: str | None = None
    id_column: str | None = None
    samples: Literal["all", "common"] = "all"
    views: Mapping[str, str | Sequence[str]] | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    max_categories: int = MAX_CATEGORIES
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    like: Mapping[str, Strings | None] | None = None

    def __post_init__(self) -> None:
        for name in ("drop", "categories"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, [getattr(self, name)])
        if self.max_categories < 0:
            raise ValueError(f"max_categories={self.max_categories}; expected at least 0")


class _RawTable(Protocol):
    """A table whose columns are not read yet."""

    name: str
    names: list[str]

    @property
    def note(self) -> str:
        """What was detected."""

    def read(self, columns: Sequence[str], strings: Collection[str] = ()) -> dict[str, Any]:
        """Return columns: numbers or dates as arrays, others as Text, `strings` as lists."""

    def where(self, row: int) -> str:
        """Return the place of a row, for a message."""


def columns_in_file(path: Path) -> dict[str, list[str]]:
    """Read the columns of each view from a JSON or YAML file."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path} of views")
    if path.stat().st_size > _LARGEST_FILE_OF_VIEWS:
        raise ValueError(f"{path} is too large for a file of the columns of views")
    text = path.read_text("utf-8-sig")
    is_json = path.suffix.lower() == ".json"
    try:
        if is_json:
            found = json.loads(text)
        else:
            yaml = extra("yaml", "reading YAML files")
            found = yaml.safe_load(text)
    except ImportError:
        raise
    except Exception as error:
        kind = "JSON" if is_json else "YAML"
        raise ValueError(f"{path}: not a readable {kind} file ({error})") from error
    if isinstance(found, dict) and found:
        lists = {k: [v] if isinstance(v, str) else v for k, v in found.items()}
        names = [*lists, *(name for v in lists.values() if isinstance(v, list) for name in v)]
        if all(isinstance(v, list) and v for v in lists.values()) and all(
            isinstance(name, str) for name in names
        ):
            return lists
    raise ValueError(
        f"{path}: expected the columns of each view, all of them text, such as "
        '{"clinic": ["age", "sex"], "genes": "ENSG*"}'
    )


# Where tables are


def read_folder(path: Path, options: TableOptions) -> Dataset:
    """Read a folder of tables, one per view."""
    views, labels = _files(path)
    return _joined(path, *_opened(views, labels, options), options, path.resolve().name)


def read_archive(path: Path, options: TableOptions) -> Dataset:
    """Read a zip archive: a table, or one per view."""
    views, labels = _label_file(members(path), str(path.name))
    if len(views) == 1 and labels is None:
        return _cut(_opened_table(views[0], options), options, path.stem.partition(".")[0])
    return _joined(path, *_opened(views, labels, options), options, path.stem)


def read_table(path: Path, options: TableOptions) -> Dataset:
    """Read a table in a file; each of its views has some of the columns."""
    source = Source(path)
    return _cut(_opened_table(source, options), options, source.stem)


def read_workbook(path: Path, options: TableOptions) -> Dataset:
    """Read a workbook: a table, or a sheet per view."""
    check_expansion(path)
    pandas = extra("pandas", "reading workbooks")
    extra("openpyxl", "reading workbooks")
    try:
        sheets = pandas.read_excel(
            path,
            sheet_name=None,
            header=None,
            dtype=object,
            engine="openpyxl",
            keep_default_na=False,
            na_values=[""],
        )
    # a damaged file can raise almost any exception
    except Exception as error:
        raise ValueError(f"not a readable workbook ({error})") from error
    tables = {
        name: _SheetTable(name, frame, options.decimal)
        for name, frame in sheets.items()
        if not frame.isna().all(axis=None) and not _is_about(name)
    }
    labels = next((name for name in tables if name.lower() == "labels"), None)
    known = None if labels is None else tables.pop(labels)
    if not tables:
        raise ValueError("the workbook holds no table; expected a sheet per view")
    if len(tables) == 1 and known is None:
        return _cut(next(iter(tables.values())), options, path.stem)
    return _joined(path, tables, known, options, path.stem)


def _files(folder: Path) -> tuple[list[Source], Source | None]:
    """Return the files of views, sorted by name, and the file of labels."""
    # Excel and LibreOffice leave hidden files beside open ones
    inside = [Source(file) for file in folder.iterdir() if not file.name.startswith((".", "~$"))]
    inside.sort(key=lambda file: file.name)
    tables = [file for file in inside if file.suffix in SUFFIXES and file.path.is_file()]
    left_out = defaultdict(list)
    for file in inside:
        if file.suffix in SUFFIXES and not file.path.exists():
            left_out["a broken link"].append(file.name)
        elif file.suffix in _NOT_IN_FOLDERS and file.path.is_file() and not _is_about(file.stem):
            left_out["not a .csv, .tsv, .parquet or .feather file"].append(file.name)
    for reason, names in left_out.items():
        warn_user(f"{folder}: {first_few(names)} is ignored: {reason}")
    views, labels = _label_file(tables, "the folder")
    if len({file.suffix for file in views}) != 1:
        kinds = "several kinds of tables: " if views else ""
        found = first_few([file.name for file in views or inside], 5) or "no files"
        raise ValueError(
            f"the folder contains {kinds}{found}; expected .csv, .tsv or .parquet files of one "
            "kind, one per view"
        )
    return views, labels


def _is_about(stem: str) -> bool:
    return stem.lower().startswith(("readme", "license", "notes"))


def _label_file(tables: list[Source], where: str) -> tuple[list[Source], Source | None]:
    labels = [file for file in tables if file.stem.lower() == "labels"]
    if len(labels) > 1:
        found = " and ".join(file.name for file in labels)
        raise ValueError(f"{found} both hold labels; expected one file")
    views = [file for file in tables if file not in labels]
    repeated, times = Counter(file.stem for file in views).most_common(1)[0] if views else ("", 0)
    if times > 1 and len({file.suffix for file in views}) == 1:
        raise ValueError(f"{where} holds {times} tables named {repeated!r}; expected one per view")
    return views, labels[0] if labels else None


def _opened(
    views: list[Source], labels: Source | None, options: TableOptions
) -> tuple[dict[str, _RawTable], _RawTable | None]:
    known = None if labels is None else _opened_table(labels, options)
    return {file.stem: _opened_table(file, options) for file in views}, known


def _opened_table(source: Source, options: TableOptions) -> _RawTable:
    if source.suffix in ARROW:
        return _ArrowTable(source)
    return TextTable(source, sep=options.sep, decimal=options.decimal, encoding=options.encoding)


# Several tables


def _joined(
    path: Path,
    tables: Mapping[str, _RawTable],
    label_table: _RawTable | None,
    options: TableOptions,
    name: str,
) -> Dataset:
    """Join tables by their ids."""
    if options.views is not None:
        raise ValueError(
            "received views, which cut a single table; each of several tables is a view"
        )
    every = list(dict.fromkeys(column for table in tables.values() for column in table.names))
    dropped = _dropped(every, options, "the folder")
    columns = {
        table.name: [column for column in table.names if column not in dropped]
        for table in tables.values()
    }
    key = _id_column(columns, options.id_column)
    _check_named(columns, key)
    notes = [table.note for table in tables.values() if table.note]
    read = [
        _read_view(table, view, key, columns[table.name], options, notes)
        for view, table in tables.items()
    ]
    ids, parts = join(read, samples=options.samples)
    if "present" in parts:
        for table, here in zip(read, parts["present"].T, strict=True):
            if not here.all():
                warn_user(
                    f"{path}: {table.source} misses {np.sum(~here)} of {len(here)} ids "
                    f"({first_few(ids[~here].tolist())}): the view is missing for these samples"
                )
    if label_table is not None:
        known = _read_labels(label_table, key, options.labels)
        everywhere = {i for table in read for i in table.ids.tolist()}
        unknown = [i for i in known if i not in everywhere]
        if unknown:
            warn_user(
                f"{path}: {label_table.name} has labels for {len(unknown)} ids that are in no view "
                f"({first_few(unknown)})"
            )
        parts["labels"] = _classes(labels_of(ids, known, label_table.name, warn_about=path))
    elif options.labels is not None:
        raise ValueError(
            f"labels={options.labels!r} names a column of 'labels.csv' (or .tsv, .parquet), but "
            "there is no such table"
        )
    return _assembled(parts, name, notes)


def _read_view(
    table: _RawTable,
    view: str,
    key: str,
    columns_left: Sequence[str],
    options: TableOptions,
    notes: list[str],
) -> Table:
    """Read a table whose columns but the ids, and an index that pandas wrote, are features."""
    left_out = {key, *getattr(table, "indexes", ())}
    features = [name for name in columns_left if name not in left_out]
    if not features:
        raise ValueError(f"{table.name} has no column besides {key!r}; expected features")
    columns = table.read([key, *features], {key} | _as_categories(features, options, view))
    ids = columns.pop(key)
    if not ids:
        raise ValueError(f"{table.name} has no rows; expected one per sample")
    array, names = _encoded(table.name, view, columns, options, notes)
    return Table(view, table.name, np.asarray(ids, dtype=np.str_), array, names)


def _assembled(parts: dict[str, Any], name: str, notes: list[str]) -> Dataset:
    """Return a data set in which rows without any value are missing views."""
    arrays = parts["arrays"]
    present = parts.pop("present", None)
    if present is None:
        present = np.ones((len(arrays[0]), len(arrays)), dtype=bool)
    for v, array in enumerate(arrays):
        if array.dtype.kind != "f":
            continue
        rows = np.flatnonzero(present[:, v] & np.isnan(array[:, 0]))
        empty = rows[np.isnan(array[rows]).all(axis=1)]
        present[empty, v] = False
        if empty.size:
            notes.append(
                f"view {parts['view_names'][v]!r}: {empty.size} samples have no value, so they "
                "miss the view"
            )
        here = np.flatnonzero(present[:, v])
        blocks = (array[here[at : at + 4096]] for at in range(0, here.size, 4096))
        unknown = sum(int(np.isnan(block).sum()) for block in blocks)
        if unknown:
            cells = here.size * array.shape[1]
            notes.append(
                f"view {parts['view_names'][v]!r}: {unknown} of {cells} cells are empty "
                f"({unknown / cells:.1%})"
            )
    without = np.flatnonzero(~present.any(axis=1))
    if without.size:
        ids = parts.get("sample_ids")
        shown = [str(n + 1) for n in without] if ids is None else ids[without].tolist()
        raise ValueError(
            f"{without.size} samples have no value in any view ("
            f"{'rows' if ids is None else 'ids'} {first_few(shown)}); remove their rows"
        )
    parts["present"] = None if present.all() else present
    return assemble(**parts, name=name, notes=notes)


def _classes(labels: list[str] | None) -> list[Any] | None:
    """Return labels; whole numbers are sorted as numbers, but '01' is a name."""
    if labels and all(re.fullmatch(r"-?\d+", i) and str(int(i)) == i for i in labels):
        return [int(label) for label in labels]
    return labels


def _id_column(columns: Columns, wanted: str | None) -> str:
    """Return the name of the column of ids, which all files must have."""
    if wanted is not None:
        for file, names in columns.items():
            if wanted not in names:
                raise ValueError(f"{file} has no column {wanted!r}; it has {first_few(names, 5)}")
        return wanted
    first, *others = columns.values()
    in_others = [set(names) for names in others]
    shared = [name for name in first if all(name in names for names in in_others)]
    usual = _usual_ids(shared)
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
    found = "; ".join(f"{file}: {first_few(names, 5)}" for file, names in columns.items())
    raise ValueError(
        "no id column is common to all files; expected a column 'id', or name another (id_column, "
        f"--id-column). Found {found}"
    )


def _usual_ids(names: Sequence[str]) -> list[str]:
    usual = [name for name in names if _plain(name) in _IDS]
    return sorted(usual, key=lambda name: _IDS.index(_plain(name)))


def _check_named(columns: Columns, key: str | None) -> None:
    """Reject columns without a name, such as an index that pandas wrote, as features."""
    for file, names in columns.items():
        if any(name != key and _plain(name) in _UNNAMED for name in names):
            raise ValueError(
                f"{file} has a column without a name besides {key!r}, perhaps an index that pandas "
                "wrote; delete it, or name it if it is a feature"
            )


def _check_header(columns: Columns, key: str | None) -> None:
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


def _read_labels(table: _RawTable, key: str, wanted: str | None) -> dict[str, str]:
    """Return the known labels by id."""
    names = [name for name in table.names if name == key or _plain(name) != _PANDAS_INDEX]
    if key not in names:
        raise ValueError(f"{table.name} has no column {key!r}; it has {first_few(names, 5)}")
    chosen = [name for name in names if name != key]
    if wanted is not None:
        chosen = [name for name in chosen if name == wanted]
    elif len(chosen) > 1:
        chosen = [name for name in chosen if _plain(name) in _LABELS]
    if len(chosen) != 1:
        raise ValueError(
            f"{table.name} has columns {first_few(names, 5)}; expected {key!r} and "
            f"{'one other, or one named label' if wanted is None else repr(wanted)} (labels, "
            "--classes)"
        )
    read = table.read([key, chosen[0]], {key, chosen[0]})
    known: dict[str, str] = {}
    for i, label in zip(read[key], read[chosen[0]], strict=True):
        if known.setdefault(i, label) != label:
            raise ValueError(f"{table.name}: id {i!r} has labels {known[i]!r} and {label!r}")
    return {i: label for i, label in known.items() if label}


# One table


def _cut(table: _RawTable, options: TableOptions, name: str) -> Dataset:
    """Cut a table into views by its columns."""
    key, label, left = _roles(table, options)
    views = _wanted_views(table, left, name, options)
    used = {column for columns in views.values() for column in columns}
    special = {column for column in (key, label) if column is not None}
    # without a column of ids by its name, the first may tell the samples apart
    first = None if key is not None or len(left) == 1 else left[0]
    if first in used and (options.views is not None or options.like):
        first = None
    strings = special | _as_categories(left, options)
    if first is not None and first not in used:
        strings.add(first)
    wanted = used | special | {first}
    columns = table.read([column for column in table.names if column in wanted], strings)
    n_samples = _length(next(iter(columns.values())))
    if not n_samples:
        raise ValueError(f"{table.name} has no rows; expected one per sample")
    ids = _sample_ids(table.name, columns, key, options)
    if first is not None:
        ids = _names_of_samples(columns[first])
        key = None if ids is None else first
        views = {view: [c for c in own if c != key] for view, own in views.items()}
        if first not in used or key == first:
            columns.pop(first)
    notes = [table.note] if table.note else []
    if ids is not None:
        notes.append(f"{table.name}: ids are in column {key!r}")
    if unused := [column for column in left if column not in used and column != key]:
        notes.append(f"{table.name}: {len(unused)} columns are in no view: {first_few(unused, 5)}")
    parts: dict[str, Any] = {"view_names": list(views), "sample_ids": ids}
    if label is not None:
        parts["labels"] = _own_classes(table.name, label, columns.pop(label))
        notes.append(f"{table.name}: classes are in column {label!r}, for scoring only")
    of_views = (
        (view, {column: columns.pop(column) for column in own}) for view, own in views.items()
    )
    made = [_encoded(table.name, view, own, options, notes) for view, own in of_views]
    parts["arrays"], parts["feature_names"] = map(list, zip(*made, strict=True))
    return _assembled(parts, name, notes)


def _roles(table: _RawTable, options: TableOptions) -> tuple[str | None, str | None, list[str]]:
    """Return the columns of ids and of classes, if there are any, and all others."""
    dropped = _dropped(table.names, options, table.name)
    names = [column for column in table.names if column not in dropped]
    named = {
        column
        for columns in (options.views or {}).values()
        for column in ([columns] if isinstance(columns, str) else columns)
    }
    free = [column for column in names if column not in named]
    like_ids = [column for column in free if _ID_LIKE.fullmatch(column)]
    key = _wanted(table.name, names, options.id_column) or next(
        iter([*_usual_ids(free), *like_ids]), None
    )
    label = _wanted(table.name, names, options.labels)
    if label is None:
        usual = [column for column in free if _plain(column) in _LABELS_IN_TABLE]
        label = usual[0] if len(usual) == 1 else None
    indexes = getattr(table, "indexes", ())
    left = [column for column in names if column not in (key, label, *indexes)]
    if not left:
        raise ValueError(f"{table.name} has no column besides those of ids and classes")
    _check_named({table.name: left}, key)
    _check_header({table.name: left}, None)
    return key, label, left


def _wanted(source: str, names: Sequence[str], column: str | None) -> str | None:
    if column is not None and column not in names:
        raise ValueError(f"{source} has no column {column!r}; it has {first_few(names, 5)}")
    return column


def _sample_ids(
    source: str, columns: dict[str, Any], key: str | None, options: TableOptions
) -> Strings | None:
    """Return the ids of samples, and take them out of the columns."""
    if key is None:
        return None
    ids = np.asarray(columns.pop(key), dtype=np.str_)
    is_guess = options.id_column is None and not _usual_ids([key])
    if is_guess and (np.unique(ids).size < ids.size or "" in ids):
        warn_user(
            f"{source}: column {key!r} seems to hold ids, but some are missing or in several rows; "
            "it is dropped and the samples are numbered"
        )
        return None
    check_ids(source, ids)
    return ids


def _own_classes(source: str, column: str, labels: list[str]) -> list[Any] | None:
    missing = labels.count("")
    if missing:
        warn_user(
            f"{source}: column {column!r} has no label for {missing} of {len(labels)} samples; the "
            "data set has no classes"
        )
        return None
    return _classes(labels)


def _dropped(names: Sequence[str], options: TableOptions, source: str) -> set[str]:
    """Return the columns to leave out; raise if these or categories do not exist."""
    for column in options.categories:
        matching_columns(names, column, "categories (--category)", source)
    found = (matching_columns(names, column, "drop", source) for column in options.drop)
    return {column for columns in found for column in columns}


def _wanted_views(
    table: _RawTable, names: Sequence[str], name: str, options: TableOptions
) -> dict[str, list[str]]:
    """Return the columns of each view: as asked, as in a fit, or all in one view."""
    if options.views is not None:
        return chosen_columns(names, options.views, table.name)
    if options.like:
        own: dict[str, list[str]] = {}
        for view, features in options.like.items():
            fitted = set() if features is None else set(features.tolist())
            fitted |= encoded_in(fitted)
            own[view] = [column for column in names if column in fitted]
        if found := {view: columns for view, columns in own.items() if columns}:
            return found
    return {name: list(names)}


def _names_of_samples(column: Any) -> Strings | None:
    """Return the values of a column of text that tells all samples apart."""
    if isinstance(column, list) and not isinstance(column, Blocks):
        is_text = any(not _is_number(cell) or re.match(r"0\d", cell) for cell in column)
        column = Text.of(np.arange(len(column)), column) if is_text else None
    if not isinstance(column, Text) or len(column.levels) < len(column) or "" in column.levels:
        return None
    if encoded_text("", column) == "dates":
        return None
    ids: Strings = np.asarray(column.levels, np.str_)[column.codes]
    return ids


# The features of a view


def _encoded(
    source: str,
    view: str,
    columns: dict[str, Any],
    options: TableOptions,
    notes: list[str],
) -> tuple[npt.NDArray[Any], Strings]:
    """Return columns as one array, and the names of its features. Consumes the columns."""
    known = options.like.get(view) if options.like else None
    features = None if known is None else known.tolist()
    fitted = set(features or ())
    parts: list[tuple[str, Any]] = []
    left_out: dict[str, list[str]] = defaultdict(list)
    kinds = Counter[str]()
    for name in list(columns):
        column = columns.pop(name)
        chosen = isinstance(column, list) and not isinstance(column, Blocks)
        if chosen:
            places: dict[str, int] = {}
            codes = np.asarray([places.setdefault(cell, len(places)) for cell in column])
            column = Text.of(codes, list(places), MISSING)
        if isinstance(column, Text):
            found = encoded_text(
                name, column, known=features, always=chosen, most=options.max_categories
            )
            if isinstance(found, str):
                left_out[found].append(name)
                continue
            kinds["category" if len(found) > 1 else "boolean"] += 1
            parts += found
        elif column.dtype.kind in "mM":
            left_out["dates"].append(name)
        elif name not in fitted and _is_empty(column):
            left_out["empty"].append(name)
        else:
            kinds["boolean" if column.dtype.kind == "b" else "number"] += 1
            parts.append((name, column))
    told = [f"{first_few(names, 5)} ({reason})" for reason, names in left_out.items()]
    if not parts:
        raise ValueError(
            f"{source}: view {view!r} has no features left; dropped: {'; '.join(told)}"
        )
    if told:
        is_text = any(reason.startswith("text") for reason in left_out)
        hint = "; categories encodes text of many values (--category)" if is_text else ""
        warn_user(f"{source}: columns dropped from view {view!r}: {'; '.join(told)}{hint}")
    plural = {"category": "categories"}
    shown = [f"{n} {kind if n == 1 else plural.get(kind, kind + 's')}" for kind, n in kinds.items()]
    notes.append(f"view {view!r}: {', '.join(shown)}; {len(parts)} features")
    array = _stacked([part for _, part in parts])
    made = np.asarray([name for name, _ in parts], dtype=np.str_)
    return array, made


def _length(column: Any) -> int:
    return sum(map(len, column)) if isinstance(column, Blocks) else len(column)


def _is_empty(column: Any) -> bool:
    blocks = column if isinstance(column, Blocks) else [column]
    return column.dtype.kind == "f" and all(bool(np.isnan(block).all()) for block in blocks)


def _stacked(parts: list[Any]) -> npt.NDArray[Any]:
    """Return columns as one array, and release their blocks on the way."""
    n_samples = _length(parts[0])
    dtype = np.result_type(*(part.dtype for part in parts))
    array = np.empty((n_samples, len(parts)), dtype=dtype)
    blocks = next((part for part in parts if isinstance(part, Blocks)), [range(n_samples)])
    begin = 0
    for k, length in enumerate([len(block) for block in blocks]):
        end = begin + length
        for d, part in enumerate(parts):
            if isinstance(part, Blocks):
                array[begin:end, d] = part[k]
                part[k] = part[k][:0].copy()
            else:
                array[begin:end, d] = part[begin:end]
        begin = end
    return array


def _as_categories(
    names: Sequence[str], options: TableOptions, view: str | None = None
) -> set[str]:
    """Return the columns that are categories whatever they hold: as asked, or as in a fit."""
    wanted: set[str] = set()
    for pattern in options.categories:
        wanted.update(name for name in names if column_matches(name, pattern))
    for name, features in (options.like or {}).items():
        if view in (None, name) and features is not None:
            wanted |= encoded_in(features.tolist())
    return wanted & set(names)


# Parquet, Feather and Excel


class _ArrowTable:
    """A Parquet or Feather file."""

    note = ""

    def __init__(self, source: Source) -> None:
        self.source, self.name = source, source.name
        self._kind = {".parquet": "Parquet", ".feather": "Feather"}[source.suffix]
        with source.open() as file:
            if not file.read(1):
                raise ValueError(f"{self.name} is empty; expected a table")
        schema = self._with_file(lambda file: file.schema_arrow, lambda file: file.schema)
        self.names = list(schema.names)
        check_distinct(self.name, self.names)
        self.indexes = _pandas_indexes(schema.metadata or {})

    def read(self, columns: Sequence[str], strings: Collection[str] = ()) -> dict[str, Any]:
        """Return columns by name."""
        read = self._with_file(
            lambda file: _validated(file.read(columns=list(columns))),
            lambda file: _validated(file.read_all().select(list(columns))),
        )
        return {
            name: self._strings(name, read.column(name))
            if name in strings
            else self._values(name, read.column(name))
            for name in columns
        }

    def where(self, row: int) -> str:
        """Return the place of a row, for a message."""
        return f"row {row + 1}"

    def _with_file(self, of_parquet: Callable[[Any], Any], of_feather: Callable[[Any], Any]) -> Any:
        try:
            with self._file() as file:
                if self._kind == "Parquet":
                    with _arrow("parquet").ParquetFile(file) as opened:
                        return of_parquet(opened)
                with _arrow("ipc").open_file(file) as opened:
                    return of_feather(opened)
        except ImportError:
            raise
        # a damaged file can raise almost any exception
        except Exception as error:
            raise ValueError(f"{self.name}: not a readable {self._kind} file ({error})") from error

    @contextmanager
    def _file(self) -> Any:
        if self.source.name == self.source.path.name and self.source.path.suffix.lower() in ARROW:
            with self.source.path.open("rb") as file:
                yield file
            return
        with self.source.open() as file:
            yield _arrow().BufferReader(file.read())

    def _values(self, name: str, column: Any) -> Any:
        arrow = _arrow()
        kind, types = column.type, arrow.types
        if types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            text = as_text_column(column.to_pandas())
            return column_of_text(self, name, text, parsed_numbers(text.levels, "."))
        if types.is_temporal(kind):
            return np.empty(len(column), dtype="datetime64[s]")
        kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if not any(is_kind(kind) for is_kind in kinds) and not types.is_null(kind):
            raise ValueError(f"{self.name}: column {name!r} holds {kind}; expected numbers")
        if column.null_count or types.is_decimal(kind):
            column = column.cast(arrow.float64())
        return np.asarray(column.to_numpy())

    def _strings(self, name: str, column: Any) -> list[str]:
        try:
            column = column.cast(_arrow().string())
        except Exception as error:
            raise ValueError(
                f"{self.name}: column {name!r} holds {column.type}; expected strings or whole "
                "numbers"
            ) from error
        return [value or "" for value in column.to_pylist()]


def _validated(table: Any) -> Any:
    """Return an Arrow table; raise if its buffers are wrong, which Arrow would follow."""
    table.validate(full=True)
    return table


def _pandas_indexes(metadata: Mapping[bytes, bytes]) -> list[str]:
    """Return the columns of an Arrow table that were the index of a pandas DataFrame."""
    try:
        columns = json.loads(metadata.get(b"pandas", b"{}"))["index_columns"]
        return [name for name in columns if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # metadata in an unknown form
        return []


class _SheetTable:
    """A sheet of a workbook."""

    def __init__(self, name: str, frame: Any, decimal: str | None) -> None:
        self.name = f"sheet {name!r}"
        filled = frame.notna().to_numpy()
        rows, columns = (np.flatnonzero(filled.any(axis=axis)) for axis in (1, 0))
        self._header = int(rows[0])
        frame = frame.iloc[rows[0] :, columns]
        named = [
            str(value).strip() if filled[rows[0], d] else ""
            for d, value in zip(columns, frame.iloc[0], strict=True)
        ]
        self._rows = rows[1:]
        frame = frame.loc[self._rows]
        self._columns = dict(zip(named, (frame.iloc[:, d] for d in range(len(named))), strict=True))
        self.names = named
        check_distinct(self.name, named)
        strings = (cell.strip() for cell in frame.to_numpy().ravel() if isinstance(cell, str))
        self._decimal = decimal or decimal_mark(strings, source=self.name)

    @property
    def note(self) -> str:
        """What the sheet looks like."""
        return f"{self.name}: {len(self._rows)} rows, {len(self.names)} columns"

    def read(self, columns: Sequence[str], strings: Collection[str] = ()) -> dict[str, Any]:
        """Return columns by name."""
        return {
            name: self._strings(name) if name in strings else self._values(name) for name in columns
        }

    def where(self, row: int) -> str:
        """Return the place of a row, for a message."""
        return f"row {self._rows[row] + 1}"

    def _strings(self, name: str) -> list[str]:
        return [_shown(value) for value in self._columns[name]]

    def _values(self, name: str) -> Any:
        from datetime import date, time, timedelta

        cells = self._columns[name].tolist()
        held = [cell for cell in cells if _shown(cell) not in MISSING]
        if held and all(isinstance(cell, date | time | timedelta) for cell in held):
            return np.empty(len(cells), dtype="datetime64[s]")
        if all(isinstance(cell, bool) for cell in held) and len(held) == len(cells):
            return np.asarray(cells, dtype=bool)
        if all(isinstance(cell, int | float) for cell in held):
            return np.asarray(
                [np.nan if _shown(cell) in MISSING else float(cell) for cell in cells]
            )
        places: dict[Any, int] = {}
        codes = np.asarray([places.setdefault((type(c), c), len(places)) for c in cells])
        levels = [cell for _, cell in places]
        numbers = np.asarray(
            [float(level) if isinstance(level, int | float) else np.nan for level in levels]
        )
        is_text = np.asarray([isinstance(level, str) for level in levels])
        texts = [_shown(level) for level in levels]
        numbers[is_text] = parsed_numbers(
            [t for t, s in zip(texts, is_text, strict=True) if s], self._decimal
        )
        by_text = dict(zip(texts, numbers.tolist(), strict=True))
        text = Text.of(codes, texts, MISSING)
        return column_of_text(self, name, text, np.asarray([by_text[t] for t in text.levels]))


def _shown(value: Any) -> str:
    """Return a cell of a sheet as a string; an id 7.0 is 7."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value % 1 == 0 else str(value).strip()


def _arrow(part: str = "") -> Any:
    return extra(f"pyarrow.{part}" if part else "pyarrow", "reading Parquet and Feather files")
