"""Native files: NumPy ``.npz`` archives without pickles.

An archive holds ``n_views``, ``view_names``, for each view ``v`` either ``X{v}`` or the parts
``X{v}_data``, ``X{v}_indices``, ``X{v}_indptr`` and ``X{v}_shape`` of a CSR array and,
optionally, ``terms{v}`` (feature names), ``present`` (samples x views), ``y``, ``class_names`` and
``sample_ids``. Other keys are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets.dataset import Dataset, as_strings, assemble, compressed
from manyview.storage import whole_file
from manyview.views import Array

__all__ = ["read_native", "write_native"]

_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")  # NumPy takes all else for pickles
_CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_native(path: Path) -> Dataset:
    """Read a native file; see :func:`manyview.datasets.read_views`."""
    with path.open("rb") as file:
        start = file.read(16)
        if not start.startswith(_SIGNATURES):
            found = f"it begins with {start!r}" if start else "it is empty"
            raise ValueError(f"not a readable .npz archive ({found})")
        file.seek(0)
        try:
            opened = np.load(file, allow_pickle=False)
        # a damaged archive can raise almost any exception
        except Exception as error:
            raise ValueError(f"not a readable .npz archive ({error!r})") from error
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise ValueError("holds a single array; expected a .npz archive of named arrays")
        with opened as archive:
            numbers = range(_n_views(archive))
            view_names = _strings(archive, "view_names")
            terms = [_strings(archive, f"terms{v}", f"image_feature_names{v}") for v in numbers]
            names = {"present": "present", "labels": "y", "class_names": "class_names"}
            given: dict[str, Any] = {
                name: _member(archive, key) for name, key in names.items() if key in archive
            }
            return assemble(
                [_view(archive, v) for v in numbers],
                view_names=None if view_names is None else view_names.ravel().tolist(),
                feature_names=terms,
                **given,
                name=path.stem,
                sample_ids=_strings(archive, "sample_ids", "doc_ids"),
            )


def write_native(path: Path, dataset: Dataset, *, compress: bool) -> None:
    """Write a native file; see :func:`manyview.datasets.write_views`."""
    views = dataset.views
    members: dict[str, Any] = {
        "n_views": views.n_views,
        "view_names": np.asarray(views.names),
        "present": views.present,
        "y": dataset.y,
        "class_names": dataset.class_names,
        "sample_ids": dataset.sample_ids,
    }
    for v, (array, terms) in enumerate(zip(views, views.feature_names, strict=True)):
        members[f"terms{v}"] = terms
        if sp.issparse(array):
            for part in _CSR_PARTS:
                members[f"X{v}_{part}"] = np.asarray(getattr(array, part))
        else:
            members[f"X{v}"] = array
    known = {key: value for key, value in members.items() if value is not None}
    with whole_file(path) as file:
        (np.savez_compressed if compress else np.savez)(file, **known)


def _n_views(archive: Any) -> int:
    if "n_views" not in archive:
        raise ValueError(
            f"key 'n_views' is missing; found {', '.join(sorted(archive)) or 'nothing'}; "
            "manyview.datasets.write_views(path, {name: array, ...}) writes such files"
        )
    value = _member(archive, "n_views")
    if value.size != 1 or value.dtype.kind not in "iu" or value.item() < 1:
        raise ValueError(f"n_views is {value!r}; expected a whole number of at least 1")
    return int(value.item())


def _view(archive: Any, v: int) -> Array:
    if f"X{v}" in archive:
        return _member(archive, f"X{v}")
    keys = [f"X{v}_{part}" for part in _CSR_PARTS]
    if not all(key in archive for key in keys):
        raise ValueError(
            f"view {v} is missing; expected either key 'X{v}' or the CSR parts "
            f"{', '.join(map(repr, keys))}"
        )
    parts = [_member(archive, key) for key in keys]
    return compressed(sp.csr_array, f"view {v}", *parts)


def _strings(archive: Any, *keys: str) -> Strings | None:
    """Return the strings under the first of the keys that exists."""
    return next((as_strings(_member(archive, key)) for key in keys if key in archive), None)


def _member(archive: Any, key: str) -> npt.NDArray[Any]:
    try:
        member = archive[key]
    except Exception as error:
        if "allow_pickle" in str(error):  # an option that NumPy names and users cannot set here
            raise ValueError(
                f"key {key!r} is an array of Python objects, which could run code; save it as "
                f"strings or numbers: {key}.astype(str) or {key}.astype(float)"
            ) from error
        raise ValueError(f"key {key!r} cannot be read ({error!r})") from error
    if not isinstance(member, np.ndarray):
        raise ValueError(f"key {key!r} is not an array")
    return member
