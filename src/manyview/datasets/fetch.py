"""Download, checksum and safe unpacking of archives."""

from __future__ import annotations

import re
import shutil
import stat
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from manyview.datasets.dataset import extra
from manyview.iterate import ProgressBar

__all__ = ["ARCHIVES", "fetch", "unpack"]


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


_FILES = (".npz", ".mat", ".h5mu")
_CHUNK = 1 << 16
_MOST_BYTES_FETCH = 2 << 30
_SECONDS = 30

Read = TypeVar("Read")


def fetch(
    url: str,
    sha256: str | None,
    folder: Path,
    name: str,
    read: Callable[[Path], Read],
    *,
    verbose: bool = True,
    most_bytes: int = _MOST_BYTES_FETCH,
) -> Read:
    """Download a file or an archive, read it, and only then keep it.

    What was downloaded becomes ``folder/name`` with the suffix of a file, or the folder
    ``folder/name`` of an archive's members. Where the download, the checksum, the unpacking or
    the reading fails, nothing stays behind.

    Parameters
    ----------
    url : str
        Where from, by ``http`` or ``https``. The suffix says what it is: ``.zip``, ``.tar.gz`` or
        ``.tgz`` for an archive, ``.npz``, ``.mat`` or ``.h5mu`` for a file.
    sha256 : str
        Checksum of the file or archive, in 64 hexadecimal digits.
    folder : Path
        Where to; made if there is none.
    name : str
        What the set is called.
    read : callable
        Reads the file, or the folder of the archive's members.
    verbose : bool, default=True
        Whether to show the progress on standard error.
    most_bytes : int
        The download may not be larger.

    Returns
    -------
    object
        What ``read`` returned.

    Raises
    ------
    OSError
        Where the server does not answer, does not have the file or stops halfway.
    ValueError
        Where the checksum does not match or the content is not what it should be.

    Examples
    --------
    >>> fetch("https://example.org/set.zip", None, Path("nowhere"), "set", print)
    Traceback (most recent call last):
    ...
    ValueError: sha256=None for https://example.org/set.zip; expected the 64 hexadecimal digits of
    its checksum: what comes from the network is not read unverified
    """
    suffix = _check(url, sha256)
    pooch = extra("pooch", f"downloading {name}")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        work.mkdir()
        _download(pooch, url, str(sha256), work, f"{name}{suffix}", verbose, most_bytes)
        if suffix in _FILES:
            found, target = work / f"{name}{suffix}", folder / f"{name}{suffix}"
        else:
            found, target = work / name, folder / name
            unpack(work / f"{name}{suffix}", found)
        result = read(found)
        # another process may have been faster, with the same content
        if not target.exists():
            found.rename(target)
        return result
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _check(url: str, sha256: str | None) -> str:
    """Return the suffix of what is at ``url``."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"url={url!r}; expected an address that starts with http:// or https://")
    if sha256 is None or not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ValueError(
            f"sha256={sha256!r} for {url}; expected the 64 hexadecimal digits of its checksum: "
            "what comes from the network is not read unverified"
        )
    known = (*ARCHIVES, *_FILES)
    for suffix in known:
        if parts.path.lower().endswith(suffix):
            return suffix
    raise ValueError(f"url={url!r}; expected it to end in {', '.join(known[:-1])} or {known[-1]}")


def _download(
    pooch: Any, url: str, sha256: str, folder: Path, file: str, verbose: bool, most_bytes: int
) -> None:
    bar = _Bytes(file, verbose, most_bytes)
    # a proxy's or a server's own error page is no answer: pooch raises for any status but success
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=_SECONDS)
    try:
        pooch.retrieve(url, f"sha256:{sha256.lower()}", file, folder, downloader=downloader)
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from error
    except Exception as error:
        raise OSError(f"{url} could not be downloaded ({error})") from error
    finally:
        bar.close()


class _Bytes:
    """What pooch tells of its progress, and the end of a download that is too large."""

    def __init__(self, file: str, shown: bool, most: int) -> None:
        self._file, self._shown, self._most = file, shown, most
        self._done = 0
        self._bar: ProgressBar | None = None
        # set by pooch: what the server says, 0 where it does not
        self.total = 0

    def update(self, n: int) -> None:
        self._done += n
        if max(self._done - _CHUNK, self.total) > self._most:
            raise ValueError(f"{max(self._done, self.total)} bytes; expected at most {self._most}")
        if self._bar is None:
            total = max(self.total, 1) >> 10
            self._bar = ProgressBar(self._file, total=total, shown=self._shown and self.total > 0)
        self._bar.step(min(self._done, self.total) >> 10, "KiB")

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(*sys.exc_info())
            self._bar = None
