"""Files that hold a table: plain, compressed, or members of a zip archive."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from manyview.datasets.dataset import first_few

__all__ = ["ARROW", "SUFFIXES", "TEXT", "WORKBOOKS", "Source", "check_expansion", "members"]

TEXT = {".csv": ",", ".tsv": "\t"}
"""Suffixes of text tables, with the separator that is tried first."""

ARROW = (".parquet", ".feather")
SUFFIXES = (*TEXT, *ARROW)
WORKBOOKS = (".xlsx", ".xlsm")

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DAMAGES = (
    EOFError,
    RuntimeError,  # a password
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
_ALWAYS_ACCEPTED = 1 << 31  # bytes
_LARGEST_EXPANSION = 200


@dataclass(frozen=True)
class Source:
    """A file, or a member of a zip archive; compressed files are read uncompressed.

    Examples
    --------
    >>> source = Source(Path("news/text.csv.gz"))
    >>> source.name, source.stem, source.suffix
    ('text.csv.gz', 'text', '.csv')
    """

    path: Path
    member: str | None = None

    @property
    def name(self) -> str:
        """Name of the file or member, without folders."""
        return self.path.name if self.member is None else PurePosixPath(self.member).name

    @property
    def suffix(self) -> str:
        """Suffix of the table in lower case, without that of the compression."""
        return self._bare.suffix.lower()

    @property
    def stem(self) -> str:
        """Name without suffixes."""
        return self._bare.stem

    @property
    def _bare(self) -> PurePosixPath:
        name = PurePosixPath(self.name)
        return PurePosixPath(name.stem) if name.suffix.lower() in (*_OPENERS, ".zip") else name

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the bytes of the table. Tables that expand without bound are rejected."""
        try:
            if self.member is not None or self.path.suffix.lower() == ".zip":
                with (
                    zipfile.ZipFile(self.path) as archive,
                    archive.open(self.member or _only_member(archive)) as member,
                ):
                    yield self._bounded(member)
                return
            opener = _OPENERS.get(self.path.suffix.lower())
            if opener is None:
                with self.path.open("rb") as plain:
                    yield plain
            else:
                with opener(self.path, "rb") as file:
                    yield self._bounded(file)
        except (*_DAMAGES, OSError) as error:
            if getattr(error, "errno", None) is not None:  # the file cannot be read at all
                raise
            raise ValueError(f"{self.name}: cannot be unpacked ({error})") from error

    def _bounded(self, file: Any) -> IO[bytes]:
        return io.BufferedReader(_Bounded(file, self.name, _limit(self.path)))


class _Bounded(io.RawIOBase):
    """A stream that raises after so many bytes."""

    def __init__(self, file: Any, name: str, most: int) -> None:
        self._file, self._name, self._left = file, name, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(_expands(self._name))
        buffer[: len(content)] = content
        return len(content)


def members(path: Path) -> list[Source]:
    """Return the tables of a zip archive, sorted by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [Source(path, name) for name in _members(archive)]
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"not a readable zip archive ({error})") from error
    tables = [source for source in found if source.suffix in SUFFIXES]
    if not tables:
        raise ValueError(
            f"the archive holds {first_few([source.name for source in found], 5) or 'no files'}; "
            f"expected tables: {', '.join(SUFFIXES)}"
        )
    return sorted(tables, key=lambda source: source.name)


def check_expansion(path: Path) -> None:
    """Raise if a file that is a zip archive, such as a workbook, expands without bound."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError(f"not a readable workbook ({error})") from error
    if size > _limit(path):
        raise ValueError(_expands(path.name))


def _members(archive: zipfile.ZipFile) -> list[str]:
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    return [
        name
        for name in names
        if not name.startswith("__MACOSX/") and not PurePosixPath(name).name.startswith(".")
    ]


def _only_member(archive: zipfile.ZipFile) -> str:
    names = _members(archive)
    if len(names) != 1:
        raise ValueError(
            f"{Path(str(archive.filename)).name} holds {len(names)} files; expected one table"
        )
    return names[0]


def _limit(path: Path) -> int:
    return max(_ALWAYS_ACCEPTED, _LARGEST_EXPANSION * path.stat().st_size)


def _expands(name: str) -> str:
    return (
        f"{name} expands to more than {_LARGEST_EXPANSION} times its size; if you trust it, unpack "
        "it first"
    )
