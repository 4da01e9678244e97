"""MuData files (``.h5mu``), read with h5py alone.

Only matrices and data frames are needed, whose format AnnData publishes. This avoids the
dependencies of mudata, and errors can name the damaged part of a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets.dataset import (
    Dataset,
    Table,
    assemble,
    compressed,
    first_few,
    join,
    labels_of,
)
from manyview.datasets.hdf5 import attribute, content, is_group, listed, member, opened, text
from manyview.views import Array

__all__ = ["read_h5mu"]

_LABELS = ("celltype", "celltypes", "label", "labels", "class", "y")
_SPARSE = {
    "csr_matrix": sp.csr_array,
    "csc_matrix": sp.csc_array,
    # before version 0.7 of AnnData
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}

Column = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]  # values, and which are missing


def read_h5mu(
    path: Path, *, labels: str | None = None, samples: Literal["all", "common"] = "all"
) -> Dataset:
    """Read a MuData file; see :func:`manyview.datasets.read_views`."""
    with opened(path, "MuData file") as file:
        modalities = _modalities(file)
        tables = [_table(name, modality) for name, modality in modalities.items()]
        order = _index(member(file, "obs")) if "obs" in file else None
        ids, parts = join(tables, samples=samples, order=order)
        if found := _find_labels(file, modalities, labels):
            warn_about = path if labels is None else None
            parts["labels"] = labels_of(ids, *found, warn_about=warn_about)
    return assemble(**parts, name=path.stem)


def _modalities(file: Any) -> dict[str, Any]:
    if "mod" not in file:
        is_anndata = {"X", "obs", "var"} <= set(file)
        what = "an AnnData file, which holds one view" if is_anndata else "not a MuData file"
        raise ValueError(f"{what}; expected a group 'mod' of modalities, found {listed(file)}")
    group = member(file, "mod")
    if not is_group(group) or not len(group):
        raise ValueError("'/mod' holds no modalities")
    if int(attribute(file, "axis", 0)) == 1:
        raise ValueError("the modalities share variables; expected them to share samples (axis 0)")
    names = [text(name) for name in np.ravel(attribute(group, "mod-order", [])).tolist()]
    if sorted(names) != sorted(group):
        names = sorted(group)
    return {name: member(group, name) for name in names}


def _table(name: str, modality: Any) -> Table:
    source = f"modality {name!r}"
    try:
        if not is_group(modality):
            raise ValueError("is an array; expected a group")
        array = _matrix(member(modality, "X"))
        ids, features = (_index(member(modality, axis)) for axis in ("obs", "var"))
        if array.shape != (len(ids), len(features)):
            raise ValueError(
                f"X has shape {array.shape}; expected {len(ids)} observations by "
                f"{len(features)} variables"
            )
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    return Table(name, source, ids, array, features)


def _matrix(item: Any) -> Array:
    if not is_group(item):
        array = content(item)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{item.name!r} holds {array.dtype} of shape {array.shape}; "
                "expected a matrix of numbers"
            )
        return array
    encoding = text(attribute(item, "encoding-type", attribute(item, "h5sparse_format")))
    if encoding not in _SPARSE:
        raise ValueError(
            f"{item.name!r} is encoded as {encoding!r}; "
            "expected an array, 'csr_matrix' or 'csc_matrix'"
        )
    shape = attribute(item, "shape", attribute(item, "h5sparse_shape"))
    data, indices, indptr = (content(member(item, part)) for part in ("data", "indices", "indptr"))
    return compressed(_SPARSE[encoding], repr(item.name), data, indices, indptr, shape)


def _find_labels(
    file: Any, modalities: dict[str, Any], wanted: str | None
) -> tuple[dict[str, Any], str] | None:
    """Return the known values, by sample id, of the column of labels, and its description."""
    frames = {"": member(file, "obs")} if "obs" in file else {}
    frames |= {f"{name}:": member(modality, "obs") for name, modality in modalities.items()}
    for prefix, frame in frames.items():
        columns = [name for name in frame if name not in (attribute(frame, "_index"), "_index")]
        if wanted is None:
            plain = {name.lower().replace("_", ""): name for name in reversed(columns)}
            name = next((plain[name] for name in _LABELS if name in plain), None)
        else:
            name = next((name for name in columns if wanted in (name, prefix + name)), None)
        if name is not None:
            values, missing = _column(frame, name)
            rows = zip(_index(frame).tolist(), values.tolist(), missing.tolist(), strict=True)
            known = {i: value for i, value, is_missing in rows if not is_missing}
            return known, f"column {prefix + name!r} of obs"
    if wanted is None:
        return None
    columns = sorted({name for frame in frames.values() for name in frame})
    raise ValueError(f"labels={wanted!r} is not a column of obs; found {first_few(columns, 20)}")


def _index(frame: Any) -> Strings:
    """Return the index of a data frame, which names its rows."""
    if not is_group(frame):
        raise ValueError(f"{frame.name!r} is not a data frame; AnnData before 0.7 is not supported")
    values, missing = _column(frame, text(attribute(frame, "_index")) or "_index")
    if missing.any():
        raise ValueError(f"the index of {frame.name!r} has no name for row {missing.argmax()}")
    return np.asarray([str(value) for value in values.tolist()], dtype=np.str_)


def _column(frame: Any, name: str) -> Column:
    item = member(frame, name)
    if not is_group(item):
        if "categories" not in item.attrs:
            return _values(item)
        # before version 0.8 of AnnData, the categories of all columns were stored together
        return _categorical(content(item), member(member(frame, "__categories"), name))
    if "codes" in item:
        return _categorical(content(member(item, "codes")), member(item, "categories"))
    if "values" in item and "mask" in item:
        values, missing = _values(member(item, "values"))
        return values, missing | content(member(item, "mask")).astype(bool)
    kind = text(attribute(item, "encoding-type"))
    raise ValueError(f"column {item.name!r} has the unsupported encoding {kind!r}")


def _categorical(codes: npt.NDArray[Any], categories: Any) -> Column:
    names, _ = _values(categories)
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or (codes >= len(names)).any():
        raise ValueError(f"{categories.name!r} has {len(names)} categories; some codes are larger")
    missing = codes < 0
    return (names[np.where(missing, 0, codes)] if len(names) else np.zeros(len(codes))), missing


def _values(dataset: Any) -> Column:
    array = content(dataset)
    if array.ndim != 1 or array.dtype.kind not in "OSUfiub":
        raise ValueError(
            f"{dataset.name!r} holds {array.dtype} of shape {array.shape}; "
            "expected a column of numbers or strings"
        )
    if array.dtype.kind in "OS":
        items = array.tolist()
        if not all(isinstance(item, bytes | str) for item in items):
            raise ValueError(f"{dataset.name!r} holds objects; expected strings")
        decoded = [item.decode() if isinstance(item, bytes) else item for item in items]
        array = np.asarray(decoded, dtype=np.str_)
    return array, np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)
