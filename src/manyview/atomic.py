"""Files that are written whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of ``path`` once it is written.

    Where writing fails, the temporary file is removed and what was at ``path`` stays.

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
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # a full disk does not say which file it is
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
