"""MATLAB files: version 7 and older through SciPy, version 7.3 through h5py."""

from __future__ import annotations

import mmap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io
import scipy.sparse as sp

from manyview.atomic import whole_file
from manyview.datasets.dataset import Dataset
from manyview.datasets.layouts import find_dataset
from manyview.datasets.mat5 import check_elements
from manyview.datasets.mat73 import read_variables
from manyview.views.compressed import check_compressed

__all__ = ["read_matlab", "write_matlab"]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER = 512


def read_matlab(path: Path) -> Dataset:
    """Read a MATLAB file; see :func:`manyview.datasets.read_views`."""
    with path.open("rb") as file:
        start = file.read(_HEADER + len(_HDF5))
    if start.startswith(_HDF5) or start[_HEADER:] == _HDF5:
        return find_dataset(read_variables(path), path.stem)
    return find_dataset(_read_version_5(path), path.stem)


def write_matlab(path: Path, dataset: Dataset, *, compress: bool) -> None:
    """Write a MATLAB file; see :func:`manyview.datasets.write_views`."""
    views = dataset.views
    variables: dict[str, Any] = {
        "X": _cell([_storable(array) for array in views], (1, -1)),
        "view_names": _cell(views.names, (1, -1)),
    }
    if any(names is not None for names in views.feature_names):
        terms = [_cell([] if names is None else names, (-1, 1)) for names in views.feature_names]
        variables["terms"] = _cell(terms, (1, -1))
    if views.present is not None:
        variables["present"] = views.present
    if dataset.y is not None:
        # MATLAB counts from 1
        variables["Y"] = (dataset.y + 1).astype(np.float64)[:, None]
        variables["class_names"] = _cell(dataset.class_names, (-1, 1))
    if dataset.sample_ids is not None:
        variables["sample_ids"] = _cell(dataset.sample_ids, (-1, 1))
    with whole_file(path) as file:
        scipy.io.savemat(file, variables, do_compression=compress)


def _read_version_5(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                check_elements(buffer)
            with warnings.catch_warnings():
                # SciPy warns of a damaged variable and puts the message in its place
                warnings.filterwarnings("error", message="Unreadable variable")
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                # mat_dtype: MATLAB packs whole doubles into bytes, and they are doubles still
                variables = scipy.io.loadmat(file, mat_dtype=True)
            for value in variables.values():
                _check_sparse(value)
        except np.exceptions.ComplexWarning as error:
            raise ValueError("a variable holds complex numbers; expected real ones") from error
        # a damaged file fails in as many ways as there are bytes in it
        except Exception as error:
            raise ValueError(
                f"not a readable MATLAB file ({type(error).__name__}: {error})"
            ) from error
    return {key: value for key, value in variables.items() if not key.startswith("__")}


def _check_sparse(value: Any) -> None:
    if sp.issparse(value):
        # version 4 keeps coordinates, which SciPy does check
        if value.format != "coo":
            check_compressed(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
        for item in value.ravel():
            _check_sparse(item)


def _storable(array: Any) -> Any:
    # MATLAB has sparse doubles only, and no half precision
    if sp.issparse(array) or array.dtype == np.float16:
        return array.astype(np.float64)
    return array


def _cell(items: Any, shape: tuple[int, int]) -> npt.NDArray[np.object_]:
    cell = np.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        cell[at] = str(item) if isinstance(item, str) else item
    return cell.reshape(shape)
