"""NumPy ``.npz`` archives without pickles that have a header, as JSON, of what they are."""

from __future__ import annotations

import json
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Form", "as_json"]


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
