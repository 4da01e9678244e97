"""Archives from elsewhere, unpacked so that nothing lands outside the folder meant for them."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

__all__ = ["ARCHIVES", "unpack"]

ARCHIVES = (".zip", ".tar.gz", ".tgz")
_MOST_BYTES = 4 << 30
_MOST_MEMBERS = 100_000


def unpack(
    archive: Path, folder: Path, *, most_bytes: int = _MOST_BYTES, most_members: int = _MOST_MEMBERS
) -> None:
    """Unpack a ``.zip`` or ``.tar.gz`` archive into a folder.

    All names are checked before anything is written: one that leads out of the folder, a link
    or a device refuses the archive.

    Parameters
    ----------
    archive : Path
        The archive.
    folder : Path
        Where its members go; made if there is none.
    most_bytes, most_members : int
        The archive may not unpack to more.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     with zipfile.ZipFile(folder / "set.zip", "w") as file:
    ...         file.writestr("../outside.txt", "text")
    ...     unpack(folder / "set.zip", folder / "set")
    Traceback (most recent call last):
    ...
    ValueError: set.zip: member '../outside.txt' leads out of the folder; nothing was unpacked
    """
    try:
        with _members(archive) as (members, open_member):
            _check_amount(archive.name, members, most_bytes, most_members)
            places = {name: _place(archive.name, name) for name, _, _ in members}
            folder.mkdir(parents=True, exist_ok=True)
            left = most_bytes
            for name, _, is_folder in members:
                target = folder / places[name]
                if is_folder:
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with open_member(name) as source, target.open("xb") as file:
                    left -= _copy(source, file, left, archive.name)
    except ValueError:
        raise
    # a damaged archive fails in as many ways as there are bytes in it
    except Exception as error:
        raise ValueError(
            f"{archive.name}: cannot be unpacked ({type(error).__name__}: {error})"
        ) from error


@contextmanager
def _members(archive: Path) -> Iterator[tuple[list[tuple[str, int, bool]], Any]]:
    """Name, size and whether it is a folder of each member, and how to open one."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            infos = zipped.infolist()
            for info in infos:
                kind = stat.S_IFMT(info.external_attr >> 16)
                _check_kind(archive.name, info.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            yield [(i.filename, i.file_size, i.is_dir()) for i in infos], zipped.open
        return
    with tarfile.open(archive, "r:gz") as tarred:
        found = tarred.getmembers()
        for member in found:
            _check_kind(archive.name, member.name, member.isreg() or member.isdir())
        yield [(member.name, member.size, member.isdir()) for member in found], tarred.extractfile


def _check_kind(archive: str, name: str, is_plain: bool) -> None:
    if not is_plain:
        raise ValueError(
            f"{archive}: member {name!r} is a link or a device; expected files. "
            "Nothing was unpacked"
        )


def _check_amount(
    archive: str, members: list[tuple[str, int, bool]], most_bytes: int, most_members: int
) -> None:
    size = sum(size for _, size, _ in members)
    if size > most_bytes or len(members) > most_members:
        raise ValueError(
            f"{archive}: {len(members)} members of {size} bytes; expected at most "
            f"{most_members} and {most_bytes}"
        )


def _place(archive: str, name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    # on Windows, a backslash and a drive lead out as well
    if place.is_absolute() or ".." in place.parts or "\\" in name or ":" in name or not name:
        raise ValueError(
            f"{archive}: member {name!r} leads out of the folder; nothing was unpacked"
        )
    return place


def _copy(source: IO[bytes], target: IO[bytes], most: int, archive: str) -> int:
    # the sizes that an archive states need not be true
    copied = 0
    while chunk := source.read(1 << 20):
        copied += len(chunk)
        if copied > most:
            raise ValueError(f"{archive}: holds more than it states")
        target.write(chunk)
    return copied
