"""Tables in text files: their encoding, separator and decimal mark, and their columns.

Whatever the caller does not say is found from the file and reported. Numbers are read in blocks of
rows, so that a large file needs little more memory than its numbers.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from manyview.datasets.dataset import extra
from manyview.datasets.sources import TEXT, Source
from manyview.exceptions import warn_user
from manyview.views import Text

__all__ = ["MISSING", "Blocks", "TextTable", "column_of_text", "decimal_mark", "parsed_numbers"]

MISSING: tuple[str, ...] = (
    *("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "<NA>", "#N/A", "#NA"),
    *("-", "--", "?", "."),
)
"""Spellings of a missing value."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_SEPARATORS = ",;\t|"
_SPELLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
_HEAD = 1 << 20  # characters that are examined
_LONGEST_LINE = 1 << 28
_CELLS = 1 << 20  # read at once
_FEWEST_ROWS = 2000  # read at once, as every column of a block has its cost

_GROUPS = "[ '\u2019\u00a0\u202f]"  # marks of thousands in any language


class Blocks(list[npt.NDArray[np.float64]]):
    """A column of numbers as blocks of rows, which can be released one by one."""

    dtype = np.dtype(np.float64)


class TextTable:
    """A text file with separated columns, of which only the beginning has been read.

    Parameters
    ----------
    source : Source
        The file.
    sep, decimal, encoding : str, optional
        What is known of its form; the rest is detected.
    """

    def __init__(
        self,
        source: Source,
        *,
        sep: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self.source, self.name = source, source.name
        self._encoding = _known_encoding(encoding) if encoding else detected_encoding(source)
        lines = self._head()
        self._skipped = 0
        said = re.fullmatch(r'"?sep=(.)"?', lines[0].strip()) if lines else None
        if said:  # as Excel writes for itself
            self._skipped = 1
            sep = sep or said[1]
            lines = lines[1:]
        if not any(line.strip() for line in lines):
            raise ValueError(f"{self.name} is empty; expected a line of column names")
        self._sep = _SPELLED.get(sep, sep) if sep else _separator(lines, TEXT.get(source.suffix))
        if len(self._sep) != 1:
            raise ValueError(f"sep={sep!r}; expected one character, or tab")
        if decimal not in (None, ".", ","):
            raise ValueError(f"decimal={decimal!r}; expected '.' or ','")
        header, *rows = self._rows(lines)
        header = [name.strip() for name in header]
        width = max(len(header), *map(len, rows)) if rows else len(header)
        self._all_names = header + [""] * (width - len(header))
        sample = [[cell.strip() for cell in row] for row in rows]
        self._blank = {
            d
            for d, name in enumerate(self._all_names)
            if not name and all(d >= len(row) or row[d] in MISSING for row in sample)
        }
        self._check_width(len(header), lines)
        self.names = [name for d, name in enumerate(self._all_names) if d not in self._blank]
        check_distinct(self.name, self.names)
        self._decimal = decimal or decimal_mark(
            (cell for row in sample for cell in row), self._sep, self.name
        )
        self._texts = {
            name
            for d, name in enumerate(self._all_names)
            if any(d < len(row) and not self._is_number(row[d]) for row in sample)
        }

    @property
    def note(self) -> str:
        """What the file looks like."""
        shown = {"\t": "tab", " ": "space"}.get(self._sep, repr(self._sep))
        encoding = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8"}.get(self._encoding, self._encoding)
        return f"{self.name}: separator {shown}, decimal mark {self._decimal!r}, {encoding}"

    def read(self, columns: Sequence[str], strings: Collection[str] = ()) -> dict[str, Any]:
        """Return columns by name: numbers as Blocks or an array, anything else as Text.

        Those among `strings` are lists of the strings in the file; missing cells are empty.
        """
        places = {name: at for at, name in enumerate(self._all_names) if at not in self._blank}
        found = self._read_blocks({places[name]: name for name in columns}, set(strings))
        mixed = [name for name, parts in found.items() if len(set(map(_kind, parts)) - {None}) > 1]
        if mixed:  # the numbers' spelling is lost
            again = {places[name]: name for name in mixed}
            found |= self._read_blocks(again, set(), as_text=True)
        return {name: self._joined(name, found.pop(name), name in strings) for name in columns}

    def where(self, row: int) -> str:
        """Return the place of a row in the file, for a message."""
        with self._text() as file:
            for _ in range(self._skipped):
                next(file)
            rows = csv.reader(file, delimiter=self._sep)
            next(islice(filter(None, rows), row + 1, None), None)
            return f"line {rows.line_num + self._skipped}"

    @contextmanager
    def _text(self) -> Iterator[IO[str]]:
        with self.source.open() as binary:
            try:
                yield io.TextIOWrapper(binary, encoding=self._encoding, newline="")
            except UnicodeError as error:
                raise ValueError(
                    f"{self.name}: not {self._encoding} ({error}); name another encoding "
                    "(--encoding), or none to have it detected"
                ) from error

    def _head(self) -> list[str]:
        lines: list[str] = []
        size = 0
        with self._text() as file:
            while size < _HEAD or len(lines) < 3:
                line = file.readline(_LONGEST_LINE)
                if not line:
                    return lines
                lines.append(line)
                size += len(line)
        return lines

    def _rows(self, lines: Iterable[str]) -> list[list[str]]:
        try:
            return list(filter(None, csv.reader(lines, delimiter=self._sep)))
        except csv.Error as error:
            raise ValueError(f"{self.name}: not a readable table ({error})") from error

    def _check_width(self, named: int, lines: list[str]) -> None:
        """Raise if a row has more fields than there are names."""
        if all(d in self._blank for d in range(named, len(self._all_names))):
            return
        rows = csv.reader(lines, delimiter=self._sep)
        for row in filter(None, rows):
            if any(row[named:]):
                raise _too_wide(
                    self.name, rows.line_num + self._skipped, len(row), named, self._sep
                )

    def _is_number(self, cell: str) -> bool:
        """Return whether a cell is a number or missing; 00123 is a code."""
        if cell in MISSING:
            return True
        if re.match(r"[+-]?0\d", cell):
            return False
        try:
            float(cell.replace(",", ".") if self._decimal == "," else cell)
        except ValueError:
            return False
        return "." not in cell or self._decimal == "."

    def _read_blocks(
        self, wanted: dict[int, str], strings: set[str], *, as_text: bool = False
    ) -> dict[str, list[Any]]:
        """Return the blocks of the columns at these positions."""
        found: dict[str, list[Any]] = {name: [] for name in wanted.values()}
        raw = {at for at, name in wanted.items() if name in strings}
        begin = 0
        for block in self._blocks(wanted, raw, as_text):
            for at, column in block.items():
                if at in raw:
                    found[wanted[at]].append([cell[1:] for cell in column.tolist()])
                elif at in wanted:
                    found[wanted[at]].append(self._part(column, as_text))
                elif at in self._blank:
                    self._check_blank(at, column, begin)
            begin += len(block)
        return found

    def _blocks(self, wanted: Collection[int], raw: set[int], as_text: bool) -> Iterator[Any]:
        """Iterate over blocks of rows, as DataFrames whose columns are numbered."""
        pandas = extra("pandas", "reading tables")
        width = len(self._all_names)
        as_strings = [
            at
            for at, name in enumerate(self._all_names)
            if at not in raw
            and at not in self._blank
            and (as_text or at not in wanted or name in self._texts)
        ]
        options: dict[str, Any] = {
            "sep": self._sep,
            "decimal": self._decimal,
            "header": None,
            "names": range(width),
            "index_col": False,
            "usecols": list(wanted) if as_text else None,
            "dtype": dict.fromkeys(as_strings, str),
            "converters": dict.fromkeys(raw, _marked),
            "na_values": list(MISSING),
            "keep_default_na": False,
            "chunksize": max(_FEWEST_ROWS, _CELLS // width),
            "low_memory": False,
        }
        if pandas.__version__ < "3.1":  # newer ones always read numbers exactly
            options["float_precision"] = "round_trip"
        with self._text() as file:
            for _ in range(self._skipped):
                next(file)
            head = csv.reader(file, delimiter=self._sep)
            next(filter(None, head))
            try:
                with pandas.read_csv(file, **options) as blocks:
                    yield from blocks
            except pandas.errors.EmptyDataError:
                return
            except pandas.errors.ParserError as error:
                told = re.search(r"in line (\d+), saw (\d+)", str(error))
                if told is None:
                    raise ValueError(f"{self.name}: not a readable table ({error})") from error
                line = int(told[1]) + head.line_num + self._skipped
                named = sum(map(bool, self._all_names))
                raise _too_wide(self.name, line, int(told[2]), named, self._sep) from error

    def _part(self, column: Any, as_text: bool) -> Any:
        """Return a block of a column: an array of floats, or Text."""
        if column.dtype.kind in "iuf":
            return column.to_numpy(np.float64, copy=True)  # a view would keep the block
        part = as_text_column(column)
        if as_text:
            return part
        numbers = parsed_numbers(part.levels, self._decimal)
        return part if _are_codes(part) or np.isnan(numbers).any() else _taken(numbers, part.codes)

    def _check_blank(self, at: int, column: Any, begin: int) -> None:
        rows = np.flatnonzero(column.notna())
        if rows.size:
            raise ValueError(
                f"{self.name}: column {at + 1} has no name and holds {column.iloc[rows[0]]!r} in "
                f"{self.where(begin + int(rows[0]))}; name the column or delete it"
            )

    def _joined(self, name: str, parts: list[Any], is_raw: bool) -> Any:
        if is_raw:
            return [value for part in parts for value in part]
        if not any(isinstance(part, Text) for part in parts):
            return Blocks(parts)
        empty: list[str] = []
        text = Text.joined(
            part if isinstance(part, Text) else Text(np.full(len(part), -1), empty)
            for part in parts
        )
        return column_of_text(self, name, text, parsed_numbers(text.levels, self._decimal))


def _too_wide(name: str, line: int, width: int, named: int, sep: str) -> ValueError:
    return ValueError(
        f"{name}: line {line} has {width} fields and the header names {named} columns; quote "
        f"fields that hold the separator {sep!r}, or name another separator (--sep)"
    )


def check_distinct(source: str, names: Sequence[str]) -> None:
    """Raise if two columns share a name."""
    repeated, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        at = [d + 1 for d, name in enumerate(names) if name == repeated]
        raise ValueError(
            f"{source} has more than one column {repeated!r} (columns {first_numbers(at)}); "
            "rename or delete all but one"
        )


def first_numbers(numbers: Sequence[int], n: int = 5) -> str:
    """Return the first numbers, for a message."""
    return ", ".join([*map(str, numbers[:n]), *(["..."] if len(numbers) > n else [])])


# Detection


def detected_encoding(source: Source) -> str:
    """Return the encoding of a file: by its mark, UTF-8, UTF-16, or that of Windows."""
    with source.open() as file:
        start = file.read(_HEAD)
        if not start:
            raise ValueError(f"{source.name} is empty; expected a table")
        for mark, encoding in _BOMS:
            if start.startswith(mark):
                return encoding
        if b"\0" in start:
            return _wide_encoding(start, source.name)
        decoder = codecs.getincrementaldecoder("utf-8")()
        is_utf8 = is_cp1252 = True
        while is_utf8 or is_cp1252:
            try:
                decoder.decode(start, final=not start)
            except UnicodeDecodeError:
                is_utf8 = False
            is_cp1252 = is_cp1252 and not _NOT_CP1252.search(start)
            if not start:
                break
            start = file.read(_HEAD)
    return "utf-8" if is_utf8 else "cp1252" if is_cp1252 else "latin-1"


def _wide_encoding(start: bytes, name: str) -> str:
    """Return the encoding of text without a mark in which every other byte tends to be zero."""
    zeros = start[0::2].count(0), start[1::2].count(0)
    if 4 * min(zeros) < max(zeros) > 0.2 * len(start):
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    raise ValueError(f"{name} holds bytes of zero; expected a table of text")


def _known_encoding(name: str) -> str:
    try:
        known = codecs.lookup(name).name
    except LookupError as error:
        raise ValueError(
            f"encoding={name!r} is unknown; expected utf-8, cp1252, latin-1, utf-16 or another name"
        ) from error
    return "utf-8-sig" if known == "utf-8" else known


def _separator(lines: list[str], usual: str | None) -> str:
    """Return the separator with which most lines have as many fields as the first."""
    best, most = usual or ",", (0.0, False)
    for mark in _SEPARATORS:
        try:
            header, *rows = list(filter(None, csv.reader(lines[:1000], delimiter=mark)))
        except csv.Error:
            continue
        if len(header) < 2:
            continue
        same = [len(row) == len(header) or not any(row[len(header) :]) for row in rows]
        alike = sum(len(row) > 1 and fits for row, fits in zip(rows, same, strict=True))
        score = (alike / len(rows) if rows else 1.0, mark == usual)
        if score > most or (score[0] == 0.0 == most[0] and mark == usual):
            best, most = mark, score
    return best


_POINT = re.compile(rf"[+-]?(\d*\.\d+|\d{{1,3}}((,|{_GROUPS})\d{{3}})+\.\d+)([eE][+-]?\d+)?\s*%?")
_COMMA = re.compile(rf"[+-]?(\d*,\d+|\d{{1,3}}((\.|{_GROUPS})\d{{3}})+,\d+)([eE][+-]?\d+)?\s*%?")
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}\s*%?")
_MANY_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})+")


def decimal_mark(cells: Iterable[str], sep: str | None = None, source: str | None = None) -> str:
    """Return the decimal mark of numbers; with a source, warn if they would allow either.

    Examples
    --------
    >>> decimal_mark(["1,5", "1.234,5", "7"]), decimal_mark(["1,234", "1.5"])
    (',', '.')
    """
    counts, unsure = Counter[str](), Counter[str]()
    for cell in cells:
        if ("," not in cell and "." not in cell) or cell[-1:].isalpha():
            continue
        if _EITHER.fullmatch(cell):
            unsure["," if "," in cell else "."] += 1
        elif many := _MANY_GROUPS.fullmatch(cell):
            counts["." if many[1] == "," else ","] += 1
        elif _POINT.fullmatch(cell):
            counts["."] += 1
        elif _COMMA.fullmatch(cell):
            counts[","] += 1
    if counts:
        return "," if counts[","] > counts["."] else "."
    found = "," if sep == ";" and not unsure["."] else "."
    # a point is rarely a mark of thousands unless semicolons separate
    mark = "," if unsure[","] else "." if unsure["."] and sep == ";" else None
    if source is not None and mark is not None:
        readings = ["the decimal mark", "a mark of thousands"]
        is_read, may_be = readings if found == mark else readings[::-1]
        warn_user(
            f"{source}: in numbers such as 1{mark}234, {mark!r} is read as {is_read}; if it is "
            f"{may_be}, pass decimal={'.' if found == ',' else ','!r} (--decimal)"
        )
    return found


# Values


def parsed_numbers(levels: Sequence[str], decimal: str) -> npt.NDArray[np.float64]:
    """Return numbers as people write them, NaN for anything else.

    Thousands may be grouped, and all numbers may be percentages.

    Examples
    --------
    >>> parsed_numbers(["1.234,5", "-7", "x", "1.23"], ",").tolist()
    [1234.5, -7.0, nan, nan]
    >>> parsed_numbers(["12%", "7.5 %"], ".").tolist()
    [12.0, 7.5]
    """
    point, group = ("\\.", ",") if decimal == "." else (",", "\\.")
    plain = rf"(?:0|[1-9]\d*)?(?:{point}\d*)?|0+{point}\d*"
    grouped = rf"[1-9]\d{{0,2}}(?P<mark>{group}|{_GROUPS})\d{{3}}(?:(?P=mark)\d{{3}})*"
    pattern = re.compile(
        rf"[+-]?(?:inf|{plain}|{grouped}(?:{point}\d*)?)(?:[eE][+-]?\d+)?", re.IGNORECASE
    )
    percent = bool(levels) and all(level.endswith("%") for level in levels)
    numbers = np.full(len(levels), np.nan)
    for at, level in enumerate(levels):
        text = level.replace("\u2212", "-")
        if percent:
            text = text[:-1].rstrip()
        if pattern.fullmatch(text) is None:
            continue
        bare = re.sub(rf"{group}|{_GROUPS}", "", text).replace(",", ".")
        try:
            numbers[at] = float(bare)
        except ValueError:  # a sign or mark alone
            continue
    return numbers


def as_text_column(column: Any) -> Text:
    """Return a pandas Series as Text: without blanks around the strings, and missing as such."""
    codes, levels = extra("pandas", "reading tables").factorize(column)
    return Text.of(codes, [str(level).strip() for level in levels], MISSING)


def column_of_text(table: Any, name: str, text: Text, numbers: npt.NDArray[np.float64]) -> Any:
    """Return text as it is, or as numbers if all of it is; raise if half of it or more is.

    `numbers` holds what each level is as a number. The table's ``where`` names rows.
    """
    good = ~np.isnan(numbers)
    if good.all() and not _are_codes(text):
        return _taken(numbers, text.codes)
    here = np.flatnonzero(text.codes >= 0)
    is_boolean = text.levels[text.codes[here[0]]].lower() in ("true", "false")
    wrong = here[(good if is_boolean else ~good)[text.codes[here]]]
    if wrong.size and (is_boolean or (2 * wrong.size <= here.size and not _are_codes(text))):
        row = int(wrong[0])
        expected = "true or false, as in its first row" if is_boolean else "numbers"
        raise ValueError(
            f"{table.name}: column {name!r} holds {text.levels[text.codes[row]]!r} in "
            f"{table.where(row)}; expected {expected}. Correct it, or leave it empty if it is "
            "unknown; drop leaves out the column (--drop)"
        )
    return text


def _marked(cell: str) -> str:
    """Return a cell that pandas takes for no missing value."""
    return f"'{cell.strip()}"


def _are_codes(text: Text) -> bool:
    """Return whether there are numbers such as 00123, whose zeros would be lost."""
    return any(re.match(r"[+-]?0\d", level) for level in text.levels)


def _kind(part: Any) -> type | None:
    """Return what a block of a column holds, None if all is missing."""
    is_missing = isinstance(part, np.ndarray) and bool(np.isnan(part).all())
    return None if is_missing else type(part)


def _taken(numbers: npt.NDArray[np.float64], codes: npt.NDArray[np.integer[Any]]) -> Any:
    return np.append(numbers, np.nan)[codes]  # code -1 is missing
