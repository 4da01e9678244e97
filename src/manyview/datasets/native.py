"""The native file of manyview: a NumPy ``.npz`` archive without pickles.

It holds ``n_views``, ``view_names``, for each view ``v`` either ``X{v}`` or the parts
``X{v}_data``, ``X{v}_indices``, ``X{v}_indptr`` and ``X{v}_shape`` of a CSR array and,
optionally, ``terms{v}`` (names of features), ``present`` (samples x views), ``y``,
``class_names`` and ``sample_ids``. Other keys are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.datasets.dataset import Dataset, as_strings, assemble
from manyview.storage import whole_file
from manyview.views import Array
from manyview.views.checks import check_compressed

__all__ = ["read_native", "write_native"]

_MARKS = (b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")  # NumPy takes all else for pickles
_OF_PICKLES = "allow_pickle"  # an option that NumPy names where it meets them
_CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_native(path: Path) -> Dataset:
    """Read a native file; see :func:`manyview.datasets.read_views`."""
    with path.open("rb") as file:
        begins = file.read(16)
        if not begins.startswith(_MARKS):
            held = f"it begins with {begins!r}" if begins else "it is empty"
            raise ValueError(f"not a readable .npz archive ({held})")
        file.seek(0)
        try:
            opened = np.load(file, allow_pickle=False)
        # a damaged archive fails in as many ways as there are bytes in it
        except Exception as error:
            raise ValueError(f"not a readable .npz archive ({_told(error)})") from error
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise ValueError("holds a single array; expected a .npz archive of named arrays")
        with opened as archive:
            return _dataset(archive, path.stem)


def write_native(path: Path, dataset: Dataset, *, compress: bool) -> None:
    """Write a native file; see :func:`manyview.datasets.write_views`."""
    views = dataset.views
    members: dict[str, Any] = {"n_views": len(views), "view_names": np.asarray(views.names)}
    for v, (array, terms) in enumerate(zip(views, views.feature_names, strict=True)):
        if sp.issparse(array):
            for part in _CSR_PARTS:
                members[f"X{v}_{part}"] = np.asarray(getattr(array, part))
        else:
            members[f"X{v}"] = array
        if terms is not None:
            members[f"terms{v}"] = terms
    if views.present is not None:
        members["present"] = views.present
    if dataset.y is not None:
        members["y"], members["class_names"] = dataset.y, dataset.class_names
    if dataset.sample_ids is not None:
        members["sample_ids"] = dataset.sample_ids
    with whole_file(path) as file:
        (np.savez_compressed if compress else np.savez)(file, **members)


def _dataset(archive: Any, name: str) -> Dataset:
    n_views = _n_views(archive)

    def optional(key: str) -> Any:
        return _member(archive, key) if key in archive else None

    view_names = optional("view_names")
    return assemble(
        [_array(archive, v) for v in range(n_views)],
        view_names=None if view_names is None else as_strings(view_names).ravel().tolist(),
        feature_names=[
            _first(archive, f"terms{v}", f"image_feature_names{v}") for v in range(n_views)
        ],
        present=optional("present"),
        labels=optional("y"),
        class_names=optional("class_names"),
        name=name,
        sample_ids=_first(archive, "sample_ids", "doc_ids"),
    )


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


def _array(archive: Any, v: int) -> Array:
    if f"X{v}" in archive:
        return _member(archive, f"X{v}")
    missing = [part for part in _CSR_PARTS if f"X{v}_{part}" not in archive]
    if missing:
        raise ValueError(
            f"view {v} is missing; expected either key 'X{v}' or the CSR parts "
            f"{', '.join(repr(f'X{v}_{part}') for part in _CSR_PARTS)}"
        )
    data, indices, indptr, shape = (_member(archive, f"X{v}_{part}") for part in _CSR_PARTS)
    try:
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
            raise TypeError(f"indices are {indices.dtype} and {indptr.dtype}, not integers")
        array = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        check_compressed(array)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"view {v} is not a CSR array ({_told(error)})") from error
    return array


def _first(archive: Any, *keys: str) -> npt.NDArray[np.str_] | None:
    """Return the strings under the first of the keys that is there."""
    for key in keys:
        if key in archive:
            return as_strings(_member(archive, key))
    return None


def _member(archive: Any, key: str) -> npt.NDArray[Any]:
    try:
        member = archive[key]
    except Exception as error:
        if _OF_PICKLES in str(error):
            raise ValueError(
                f"key {key!r} is an array of Python objects, which are not read, as they could run "
                f"code; save it as strings or numbers: {key}.astype(str) or {key}.astype(float)"
            ) from error
        raise ValueError(f"key {key!r} cannot be read ({_told(error)})") from error
    if not isinstance(member, np.ndarray):
        raise ValueError(f"key {key!r} is not an array")
    return member


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
