"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["whole_file"]


@contextmanager
def whole_file(
    path: Path, *, sync: bool = False, temporary: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of ``path`` once it is written.

    Where writing fails, the temporary file is removed and what was at ``path`` stays.

    Parameters
    ----------
    path : Path
        The file to replace.
    sync : bool
        Whether the file is forced to the disk before it takes the place, and its folder after, so
        that a whole file is there also after the system has crashed.
    temporary : Path, optional
        The temporary file, in the same folder, which is overwritten if a killed process has left
        it; by default one that nobody else has.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "greeting"
    >>> with whole_file(path) as file:
    ...     written = file.write(b"hello")
    >>> path.read_bytes()
    b'hello'
    >>> folder.cleanup()
    """
    # through a link, the file that it points to is replaced and the link stays
    target = path.resolve()
    # only within a folder is the replacement atomic; open() honours the umask, mkstemp does not
    if temporary is None:
        temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # a full disk does not say which file it is
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    if sync:
        _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk, where the system lets one ask for it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
