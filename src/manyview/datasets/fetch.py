"""Data sets from the network: verified by their checksum, stored whole or not at all."""

from __future__ import annotations

import re
import shutil
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from manyview.datasets.extras import extra
from manyview.datasets.unpack import ARCHIVES, unpack
from manyview.progress import ProgressBar

__all__ = ["fetch"]

_FILES = (".npz", ".mat", ".h5mu")
_CHUNK = 1 << 16
_MOST_BYTES = 2 << 30
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
    most_bytes: int = _MOST_BYTES,
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
