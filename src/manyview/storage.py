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


def file_place(path: Path) -> Path:
    """Return the place of a file that is to be written: `path`, or what it links to.

    Raises
    ------
    OSError
        If there is no folder for it, or something other than a file in its place.

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
    except RuntimeError as error:  # of some versions of Python
        raise OSError(f"{path}: links go round in circles") from error
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file")
    # a file that takes the place of a device or of a named pipe ends it
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file; expected the name of a file")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"no folder {place.parent} to write {path.name} in")
    return place


@contextmanager
def whole_file(
    path: Path, *, sync: bool = False, temporary: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of ``path`` once it is written.

    Where writing fails, the temporary file is removed and what was at ``path`` stays.

    Parameters
    ----------
    path : Path
        The file to replace; see :func:`file_place`.
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
    target = file_place(path)
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


class Form(NamedTuple):
    """What a kind of archive calls itself.

    Attributes
    ----------
    name : str
        By which an archive is known.
    version : int
        Of its parts; others are refused.
    what : str
        What it is to those who read an error.
    """

    name: str
    version: int
    what: str

    def members(self, header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
        """Return what is to be written: arrays, and the header as one of them."""
        # a damaged directory of the archive may hide some
        told = {"format": self.name, "version": self.version, "arrays": sorted(arrays)} | header
        return {"header": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)} | arrays

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the header and the arrays of an archive.

        Raises
        ------
        OSError
            If there is none, or it cannot be opened.
        ValueError
            If it is damaged or of another form.
        """
        with path.open("rb") as file:
            try:
                with np.load(file, allow_pickle=False) as archive:
                    arrays = {key: archive[key] for key in archive.files}
            # a damaged archive fails in as many ways as there are bytes in it
            except Exception as error:
                raise ValueError(
                    f"it is damaged or no .npz archive ({type(error).__name__})"
                ) from error
        if "header" not in arrays:
            raise ValueError(f"it is an archive of {sorted(arrays)}, no {self.what}")
        try:
            header = json.loads(arrays.pop("header").tobytes())
            form, version = header["format"], header["version"]
        except Exception as error:
            raise ValueError(f"its header is none of a {self.what}") from error
        if form != self.name or version != self.version:
            raise ValueError(
                f"it has the form {form!r}, version {version!r}; "
                f"expected {self.name!r}, {self.version}"
            )
        if header.get("arrays") != sorted(arrays):
            raise ValueError("it is damaged: some of its arrays are not there")
        return header, arrays


def as_json(value: Any) -> Any:
    """Return a number of any kind, or a string, as JSON has it; None for anything else.

    Examples
    --------
    >>> as_json(np.float32(0.5)), as_json(np.int64(3)), as_json(True), as_json([1, 2])
    (0.5, 3, True, None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None
