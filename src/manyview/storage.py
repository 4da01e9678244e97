"""Files written atomically, and npz archives with a JSON header."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Form", "as_json", "file_place", "whole_file"]


# Files


def file_place(path: Path) -> Path:
    """Return the file to write for `path`, with links resolved; raise OSError if there is none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file_place(Path(folder) / "missing" / "greeting")
    Traceback (most recent call last):
    FileNotFoundError: no folder ...missing to write greeting in
    """
    try:
        place = path.resolve()
    except RuntimeError as error:  # in some versions of Python
        raise OSError(f"{path} is a link that leads back to itself") from error
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file")
    # replacing a device or a named pipe would remove it
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file; expected the name of a file")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"no folder {place.parent} to write {path.name} in")
    return place


@contextmanager
def whole_file(
    path: Path, *, sync: bool = False, temporary: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` once it is written.

    If writing fails, the temporary file is removed and an older file at `path` stays. With `sync`,
    file and folder are flushed to disk, so that the file survives a crash of the system. By default
    `temporary` is a new file; a given one, in the same folder, is overwritten.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "greeting"
    ...     with whole_file(path) as file:
    ...         written = file.write(b"hello")
    ...     path.read_bytes()
    b'hello'
    """
    target = file_place(path)  # a link stays, and the file that it points to is replaced
    # replacement is atomic within a folder only; open() honours the umask, mkstemp does not
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
        # the error of a full disk does not name the file
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    if sync:
        with suppress(OSError):  # not every system can flush a folder
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


# Archives


class Form(NamedTuple):
    """A kind of npz archive: name and version in its header, and what errors call it."""

    name: str
    version: int
    what: str

    def members(self, header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
        """Return the arrays to write, with the header as one of them."""
        # the names of all arrays show if a damaged archive hides some
        whole = {"format": self.name, "version": self.version, "arrays": sorted(arrays)} | header
        return {"header": np.frombuffer(json.dumps(whole).encode(), dtype=np.uint8)} | arrays

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return header and arrays; raise ValueError for damaged and other archives."""
        with path.open("rb") as file:
            try:
                with np.load(file, allow_pickle=False) as archive:
                    arrays = {key: archive[key] for key in archive.files}
            except Exception as error:  # damaged archives raise errors of many types
                raise ValueError(
                    f"it is damaged or not a .npz archive ({type(error).__name__})"
                ) from error
        if "header" not in arrays:
            raise ValueError(f"it contains {sorted(arrays)} and is not a {self.what}")
        try:
            header = json.loads(arrays.pop("header").tobytes())
            form, version = header["format"], header["version"]
        except Exception as error:
            raise ValueError(f"its header is not that of a {self.what}") from error
        if form != self.name or version != self.version:
            raise ValueError(
                f"it has the format {form!r}, version {version!r}; "
                f"expected {self.name!r}, {self.version}"
            )
        if header.get("arrays") != sorted(arrays):
            raise ValueError("it is damaged: some of its arrays are missing")
        return header, arrays


def as_json(value: Any) -> Any:
    """Return numbers of any type, strings, and lists and dicts of them as JSON can store them.

    Anything else becomes None.

    Examples
    --------
    >>> as_json(np.float32(0.5)), as_json(np.int64(3)), as_json((True, "a")), as_json({1, 2})
    (0.5, 3, [True, 'a'], None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None
