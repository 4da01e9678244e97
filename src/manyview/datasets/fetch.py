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
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from manyview.datasets.dataset import extra
from manyview.iterate import ProgressBar

__all__ = ["fetch", "unpack"]

_ARCHIVES = (".zip", ".tar.gz", ".tgz")
_FILES = (".npz", ".mat", ".h5mu")
_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without an answer

Result = TypeVar("Result")


def fetch(
    url: str,
    sha256: str | None,
    folder: Path,
    name: str,
    read: Callable[[Path], Result],
    *,
    verbose: bool = True,
    most_bytes: int = 2 << 30,
) -> Result:
    """Download a file or an archive, read it, keep it in `folder`, and return what was read.

    It is kept as ``name`` with the suffix of the file, or as the folder ``name`` of the members of
    the archive. If any step fails, nothing is left behind.

    Examples
    --------
    >>> fetch("https://example.org/set.zip", None, Path("nowhere"), "set", print)
    Traceback (most recent call last):
    ...
    ValueError: sha256=None for https://example.org/set.zip; expected the 64 hexadecimal digits of
    its checksum: downloads are not read without verification
    """
    suffix = _check(url, sha256)
    pooch = extra("pooch", f"downloading {name}")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        work.mkdir()
        found = work / f"{name}{suffix}"
        _download(pooch, url, str(sha256), found, verbose, most_bytes)
        if suffix in _ARCHIVES:
            archive, found = found, work / name
            unpack(archive, found)
        result = read(found)
        # another process may have finished first, with the same content
        if not (folder / found.name).exists():
            found.rename(folder / found.name)
        return result
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _check(url: str, sha256: str | None) -> str:
    """Check the arguments of a download and return the suffix of the file."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"url={url!r}; expected an address that starts with http:// or https://")
    if sha256 is None or not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ValueError(
            f"sha256={sha256!r} for {url}; expected the 64 hexadecimal digits of its checksum: "
            "downloads are not read without verification"
        )
    for suffix in (*_ARCHIVES, *_FILES):
        if parts.path.lower().endswith(suffix):
            return suffix
    raise ValueError(f"url={url!r}; expected it to end in one of {(*_ARCHIVES, *_FILES)}")


def _download(
    pooch: Any, url: str, sha256: str, path: Path, verbose: bool, most_bytes: int
) -> None:
    progress = _Progress(path.name, verbose, most_bytes)
    # pooch raises for every HTTP status but success
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=_CHUNK, timeout=_TIMEOUT)
    try:
        known_hash = f"sha256:{sha256.lower()}"
        pooch.retrieve(url, known_hash, path.name, path.parent, downloader=downloader)
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from error
    except Exception as error:
        raise OSError(f"{url} could not be downloaded ({error})") from error
    finally:
        progress.close()


class _Progress:
    """Progress bar with the interface that pooch expects. It stops downloads that are too large."""

    total = 0  # set by pooch; 0 if the server does not state the size

    def __init__(self, file: str, shown: bool, most_bytes: int) -> None:
        self._file, self._shown, self._most = file, shown, most_bytes
        self._done = 0
        self._bar: ProgressBar | None = None

    def update(self, n: int) -> None:
        self._done += n
        if max(self._done - _CHUNK, self.total) > self._most:
            raise ValueError(f"{max(self._done, self.total)} bytes; expected at most {self._most}")
        if self._bar is None:
            shown = self._shown and self.total > 0
            self._bar = ProgressBar(self._file, total=max(self.total, 1) >> 10, shown=shown)
        self._bar.step(min(self._done, self.total) >> 10, "KiB")

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(*sys.exc_info())
            self._bar = None


def unpack(
    archive: Path, folder: Path, *, most_bytes: int = 4 << 30, most_members: int = 100_000
) -> None:
    """Unpack a ``.zip`` or ``.tar.gz`` archive into a folder.

    All members are checked first. An archive with links, devices, names that lead out of the
    folder, too many members or too many bytes is rejected. No member can unpack to more bytes than
    it states, since zipfile and tarfile stop reading there.

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
        is_zip = archive.name.lower().endswith(".zip")
        with zipfile.ZipFile(archive) if is_zip else tarfile.open(archive, "r:gz") as file:
            total = 0
            for count, (name, size, is_plain) in enumerate(_members(file), start=1):
                total += size
                if total > most_bytes or count > most_members:
                    raise ValueError(
                        f"{archive.name}: {count} or more members, {total} or more bytes; "
                        f"expected at most {most_members} members and {most_bytes} bytes"
                    )
                # on Windows, a backslash and a drive lead out as well
                parts = PurePosixPath(name).parts
                if not parts or parts[0] == "/" or ".." in parts or "\\" in name or ":" in name:
                    problem = "leads out of the folder"
                elif is_plain:
                    continue
                else:
                    problem = "is a link or a device"
                raise ValueError(f"{archive.name}: member {name!r} {problem}; nothing was unpacked")
            folder.mkdir(parents=True, exist_ok=True)
            if isinstance(file, tarfile.TarFile) and hasattr(tarfile, "data_filter"):
                # the filter is missing in Python 3.11.0 to 3.11.3
                file.extraction_filter = tarfile.data_filter
            file.extractall(folder)
    except ValueError:
        raise
    # a damaged archive can raise almost any exception
    except Exception as error:
        raise ValueError(f"{archive.name}: cannot be unpacked ({error!r})") from error


def _members(file: Any) -> Iterator[tuple[str, int, bool]]:
    """Yield the name and the size of each member, and whether it is a plain file or a folder."""
    if isinstance(file, tarfile.TarFile):
        for member in file:
            yield member.name, member.size, member.isreg() or member.isdir()
    else:
        for info in file.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            yield info.filename, info.file_size, kind in (0, stat.S_IFREG, stat.S_IFDIR)
