"""Reader of .h5mu files.

The parts of AnnData and MuData files: matrices and the columns of data frames.

How they are written is fixed and published, and few kinds are needed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets.dataset import Dataset, Table, assemble, first_few, join
from manyview.datasets.hdf5 import attribute, content, is_group, listed, member, opened, text
from manyview.exceptions import warn_user
from manyview.views import Array
from manyview.views.checks import check_compressed

__all__ = ["column", "index", "matrix", "read_h5mu"]


_SPARSE = {"csr_matrix": sp.csr_array, "csc_matrix": sp.csc_array}
_LEGACY = {"csr": sp.csr_array, "csc": sp.csc_array}


def matrix(item: Any) -> Array:
    """Return a dense or sparse matrix."""
    if not is_group(item):
        array = content(item)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{item.name!r} holds {array.dtype} of shape {array.shape}; "
                "expected a matrix of numbers"
            )
        return array
    kind = _SPARSE.get(text(attribute(item, "encoding-type")))
    if kind is None:
        kind = _LEGACY.get(text(attribute(item, "h5sparse_format")))
    if kind is None:
        raise ValueError(
            f"{item.name!r} is encoded as {text(attribute(item, 'encoding-type'))!r}; "
            f"expected an array or one of {', '.join(map(repr, _SPARSE))}"
        )
    shape = attribute(item, "shape", attribute(item, "h5sparse_shape"))
    data, indices, indptr = (content(member(item, part)) for part in ("data", "indices", "indptr"))
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or np.shape(shape) != (2,):
        raise ValueError(f"{item.name!r} is no sparse matrix: its indices or shape are no integers")
    parts = (data, indices.astype(np.int64), indptr.astype(np.int64))
    array = kind(parts, shape=(int(shape[0]), int(shape[1])))
    check_compressed(array)
    return array


def index(frame: Any) -> npt.NDArray[np.str_]:
    """Return the index of a data frame, which names its rows."""
    if not is_group(frame):
        raise ValueError(f"{frame.name!r} is no data frame; it may be of a version before 0.7")
    values, missing = column(frame, text(attribute(frame, "_index")) or "_index")
    if missing.any():
        raise ValueError(f"the index of {frame.name!r} has no name for row {missing.argmax()}")
    return np.asarray([str(value) for value in values.tolist()], dtype=np.str_)


def column(frame: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return a column of a data frame, and which of its values are missing."""
    item = member(frame, name)
    if is_group(item):
        if "codes" in item:
            return _categorical(content(member(item, "codes")), member(item, "categories"))
        if "values" in item and "mask" in item:
            values, missing = _plain(member(item, "values"))
            return values, missing | content(member(item, "mask")).astype(bool)
        kind = text(attribute(item, "encoding-type"))
        raise ValueError(f"column {item.name!r} is encoded as {kind!r}, which is not read")
    if "categories" in item.attrs:
        # before version 0.8 of AnnData, the categories of all columns stood together
        return _categorical(content(item), member(member(frame, "__categories"), name))
    return _plain(item)


def _categorical(codes: Any, categories: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    names, _ = _plain(categories)
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or (codes >= len(names)).any():
        raise ValueError(f"{categories.name!r} has {len(names)} categories, codes go beyond them")
    missing = codes < 0
    if not len(names):
        return np.zeros(len(codes)), missing
    return names[np.where(missing, 0, codes)], missing


def _plain(dataset: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    array = content(dataset)
    if array.ndim != 1 or array.dtype.kind not in "OSUfiub":
        raise ValueError(f"{dataset.name!r} holds {array.dtype} of shape {array.shape}")
    if array.dtype.kind in "OS":
        array = np.asarray([_string(value) for value in array.tolist()], dtype=np.str_)
    return array, np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)


def _string(value: Any) -> str:
    if not isinstance(value, bytes | str):
        raise ValueError(f"received {value!r}; expected a string")
    return value.decode("utf-8") if isinstance(value, bytes) else value


# Read with h5py alone: mudata would bring anndata, zarr and a range of pandas with it to read
# three kinds of element, and could not say which part of a damaged file is at fault.


_LABELS = ("celltype", "celltypes", "label", "labels", "class", "y")


def read_h5mu(path: Path, *, labels: str | None = None, samples: str = "all") -> Dataset:
    """Read a MuData file; see :func:`manyview.datasets.read_views`."""
    with opened(path, "MuData file") as file:
        modalities = _modalities(file)
        tables = [_table(name, modality) for name, modality in modalities.items()]
        order = index(member(file, "obs")) if "obs" in file else None
        joined = join(tables, samples=samples, order=order)
        y = _labels(file, modalities, labels, joined.ids)
    if isinstance(y, str):
        warn_user(f"{path}: {y}")
    return assemble(
        joined.arrays,
        view_names=[table.name for table in tables],
        feature_names=[table.feature_names for table in tables],
        present=joined.present,
        labels=None if isinstance(y, str) else y,
        name=path.stem,
        sample_ids=joined.ids,
    )


def _modalities(file: Any) -> dict[str, Any]:
    if "mod" not in file:
        what = "an AnnData file, of one view" if {"X", "obs", "var"} <= set(file) else "no MuData"
        raise ValueError(f"{what}; expected a group 'mod' of modalities, found {listed(file)}")
    group = member(file, "mod")
    if not is_group(group) or not len(group):
        raise ValueError("'/mod' holds no modalities")
    if int(attribute(file, "axis", 0)) == 1:
        raise ValueError("the modalities share variables; expected them to share samples (axis 0)")
    order = np.ravel(attribute(group, "mod-order", [])).tolist()
    names = [text(name) for name in order]
    if sorted(names) != sorted(group):
        names = sorted(group)
    return {name: member(group, name) for name in names}


def _table(name: str, modality: Any) -> Table:
    source = f"modality {name!r}"
    try:
        if not is_group(modality):
            raise ValueError("is an array; expected a group")
        array = matrix(member(modality, "X"))
        ids, features = (index(member(modality, axis)) for axis in ("obs", "var"))
        if array.shape != (len(ids), len(features)):
            raise ValueError(
                f"X has shape {array.shape} for {len(ids)} observations and "
                f"{len(features)} variables"
            )
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    return Table(name, source, ids, array, features)


def _labels(file: Any, modalities: dict[str, Any], wanted: str | None, ids: Strings) -> Any:
    """One label a sample; None where there are none, a message where some are lacking."""
    frames = {"": member(file, "obs")} if "obs" in file else {}
    frames |= {f"{name}:": member(modality, "obs") for name, modality in modalities.items()}
    found = _column_of_labels(frames, wanted)
    if found is None:
        return None
    prefix, name = found
    values, missing = column(frames[prefix], name)
    rows = zip(index(frames[prefix]).tolist(), values.tolist(), missing.tolist(), strict=True)
    known = {i: value for i, value, is_missing in rows if not is_missing}
    lacking = [i for i in ids.tolist() if i not in known]
    if not lacking:
        return [known[i] for i in ids.tolist()]
    told = (
        f"column {prefix + name!r} of obs has no class for {len(lacking)} of {len(ids)} samples "
        f"({first_few(lacking)})"
    )
    if wanted is not None:
        raise ValueError(f"{told}; expected one a sample")
    return f"{told}: the classes are left out"


def _column_of_labels(frames: dict[str, Any], wanted: str | None) -> tuple[str, str] | None:
    for prefix, frame in frames.items():
        columns = [name for name in frame if name not in (attribute(frame, "_index"), "_index")]
        if wanted is None:
            plain = {name.lower().replace("_", ""): name for name in reversed(columns)}
            for name in _LABELS:
                if name in plain:
                    return prefix, plain[name]
        elif wanted in columns:
            return prefix, wanted
        elif prefix and wanted.startswith(prefix) and wanted[len(prefix) :] in columns:
            return prefix, wanted[len(prefix) :]
    if wanted is None:
        return None
    known = sorted({name for frame in frames.values() for name in frame})
    raise ValueError(f"labels={wanted!r} is no column of obs; found {first_few(known, 20)}")
