"""MuData files: several modalities of the same cells or samples, one view each."""

# Read with h5py alone: mudata would bring anndata, zarr and a range of pandas with it to read
# three kinds of element, and could not say which part of a damaged file is at fault.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manyview._typing import Strings
from manyview.datasets.anndata_parts import column, index, matrix
from manyview.datasets.assemble import assemble
from manyview.datasets.dataset import Dataset
from manyview.datasets.hdf5 import attribute, is_group, listed, member, opened, text
from manyview.datasets.join import Table, first_few, join
from manyview.warn import warn_user

__all__ = ["read_h5mu"]

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
