"""Files of single cells: MuData (``.h5mu``), AnnData (``.h5ad``) and 10x Genomics (``.h5``).

They are read with h5py alone: only matrices and data frames are needed, whose formats are
published. This avoids the dependencies of mudata, and errors can name the damaged part of a file.

A view of a MuData or AnnData object, in memory or in a file, is named by its address: ``"rna"`` is
a modality, ``"rna:layers/counts"`` one of its layers, ``"obsm/X_pca"`` a representation of all
cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets.dataset import (
    Dataset,
    Table,
    as_strings,
    assemble,
    compressed,
    first_few,
    join,
    labels_of,
)
from manyview.datasets.hdf5 import attribute, content, is_group, listed, member, opened, text
from manyview.views import Array

__all__ = [
    "Annotated",
    "Place",
    "contents",
    "joined",
    "read_h5ad",
    "read_h5mu",
    "read_tenx",
    "single_addresses",
    "tables_at",
]

_LABELS = ("celltype", "celltypes", "label", "labels", "class", "y")
_SPARSE = {
    "csr_matrix": sp.csr_array,
    "csc_matrix": sp.csc_array,
    # before version 0.7 of AnnData
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}

Column = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]  # values, and which are missing


# Addresses


class Place(NamedTuple):
    """Where a matrix is in an AnnData object, or in a modality of a MuData object.

    ``modality`` is "" for the object itself, ``slot`` is ``"X"``, ``"layers"`` or ``"obsm"``.
    ``mask`` is a column of ``var`` that is true for the variables to use: "" for all variables,
    None for the highly variable ones where they are marked.
    """

    modality: str
    slot: str
    key: str = ""
    mask: str | None = ""

    @classmethod
    def of(cls, address: str, modalities: Sequence[str] = ()) -> Place:
        """Return the place that an address names; `modalities` are those of a MuData object.

        Examples
        --------
        >>> Place.of("rna:layers/counts[highly_variable]", ["rna"])
        Place(modality='rna', slot='layers', key='counts', mask='highly_variable')
        >>> Place.of("rna", ["rna"])
        Place(modality='rna', slot='X', key='', mask=None)
        >>> Place.of("X_pca")
        Place(modality='', slot='obsm', key='X_pca', mask='')
        """
        inner, mask = address, ""
        if address.endswith("]"):
            inner, _, mask = address[:-1].rpartition("[")
        modality = next((m for m in modalities if inner == m or inner.startswith(f"{m}:")), "")
        if modality:
            inner = inner[len(modality) + 1 :]
        if inner in ("", "X") and (modality or (inner and not modalities)):
            return cls(modality, "X", "", mask if mask or inner else None)
        slot, slash, key = inner.partition("/")
        if not slash:
            slot, key = "obsm", inner
        of_modality = bool(modality) or not modalities
        if not key or slot not in (("layers", "obsm") if of_modality else ("obsm",)):
            raise ValueError(f"{address!r} is no address of a view; {_addresses(modalities)}")
        if mask and slot == "obsm":
            raise ValueError(f"{address!r}: a column of var selects variables of X and layers only")
        return cls(modality, slot, key, mask)


def _addresses(modalities: Sequence[str]) -> str:
    if not modalities:
        return "expected 'X', 'layers/NAME' or 'obsm/NAME'"
    return (
        f"expected a modality ({first_few(modalities, 10)}), 'MODALITY:X', "
        "'MODALITY:layers/NAME', 'MODALITY:obsm/NAME' or 'obsm/NAME'"
    )


class Annotated(Protocol):
    """An AnnData or MuData object, or a modality, in memory or in a file.

    ``what`` is the word for it in messages.
    """

    what: str

    def names(self, slot: str) -> list[str]:
        """Return the keys of ``layers`` or ``obsm``."""

    def ids(self) -> Strings:
        """Return the names of the cells."""

    def variables(self) -> Strings:
        """Return the names of the variables."""

    def marked(self, column: str) -> npt.NDArray[np.bool_] | None:
        """Return a column of booleans of ``var``, or None if there is none of that name."""

    def matrix(self, slot: str, key: str) -> tuple[Array, Strings | None]:
        """Return a matrix, and the names of its columns if it is a data frame."""


def tables_at(
    addresses: Mapping[str, str],
    whole: Annotated,
    modalities: Mapping[str, Annotated],
    like: Mapping[str, Strings | None] | None = None,
) -> tuple[list[Table], list[str]]:
    """Return the tables at some addresses, by the names of the views, and notes about them.

    Of a modality by itself the features `like` those of a fit are used, if they are given.
    """
    tables, notes = [], []
    for name, address in addresses.items():
        place = Place.of(address, list(modalities))
        holder = modalities[place.modality] if place.modality else whole
        try:
            table, note = _table(name, place, holder, (like or {}).get(name))
        except ValueError as error:
            others = "" if place.modality else _addresses(list(modalities))
            raise ValueError(f"{holder.what}: {error}{others and '; ' + others}") from error
        tables.append(table)
        notes += note
    return tables, notes


def _table(
    name: str, place: Place, holder: Annotated, like: Strings | None
) -> tuple[Table, list[str]]:
    if place.slot != "X" and place.key not in holder.names(place.slot):
        raise ValueError(f"view {name!r}: no {place.slot} {place.key!r}; {contents(holder)}")
    array, features = holder.matrix(place.slot, place.key)
    ids = holder.ids()
    if place.slot != "obsm":
        features = holder.variables()
    shown = place.slot if place.slot == "X" else f"{place.slot}/{place.key}"
    width = array.shape[1] if features is None else len(features)
    if array.shape != (len(ids), width):
        raise ValueError(
            f"{shown} has shape {array.shape}; expected {len(ids)} observations by "
            f"{width} variables"
        )
    notes = []
    if features is not None and (kept := _kept(place, holder, features, like)) is not None:
        by = f"by {place.mask or 'highly_variable'!r} of var"
        if like is not None and place.mask is None:
            by = "those of the fit"
        notes.append(f"view {name!r}: {kept.sum()} of {len(kept)} variables, {by}")
        array, features = array[:, kept], features[kept]
    return Table(name, holder.what, ids, array, features), notes


def _kept(
    place: Place, holder: Annotated, features: Strings, like: Strings | None
) -> npt.NDArray[np.bool_] | None:
    """Return which variables are used, or None for all."""
    if place.slot == "obsm" or place.mask == "":
        return None
    if place.mask is None and like is not None:
        of_fit = np.isin(features, like)
        return None if of_fit.all() else of_fit
    column = place.mask or "highly_variable"
    kept = holder.marked(column)
    if kept is None and place.mask:
        raise ValueError(f"var has no column {place.mask!r} of true and false")
    if kept is not None and not kept.any():
        raise ValueError(f"{column!r} of var is true for none")
    return None if kept is None or kept.all() else kept


def contents(holder: Annotated) -> str:
    """Return what can be a view of an object, for a message."""
    found = [
        f"{slot} {first_few(holder.names(slot), 20) or '(none)'}" for slot in ("obsm", "layers")
    ]
    return "it has " + ", ".join(found)


def joined(
    tables: Sequence[Table], order: Strings | None, notes: Sequence[str], **options: Any
) -> tuple[Strings, dict[str, Any]]:
    """Join tables by cell; see :func:`manyview.datasets.dataset.join`.

    Cells of `order` that are in none of the tables are left out with a note.
    """
    notes = list(notes)
    if order is not None:
        known = {i for table in tables for i in table.ids.tolist()}
        there = np.asarray([i in known for i in order.tolist()], dtype=bool)
        if not there.all():
            notes.append(f"{(~there).sum()} cells have none of the views and are left out")
            order = order[there]
    ids, parts = join(tables, order=order, **options)
    return ids, parts | {"notes": notes}


# MuData and AnnData


def read_h5mu(path: Path, **options: Any) -> Dataset:
    """Read a MuData file; see :func:`manyview.datasets.read_views`."""
    with opened(path, "MuData file") as file:
        modalities = {
            name: _Stored(group, f"modality {name!r}") for name, group in _modalities(file).items()
        }
        return _read(path, file, modalities, {name: name for name in modalities}, **options)


def read_h5ad(path: Path, **options: Any) -> Dataset:
    """Read an AnnData file; see :func:`manyview.datasets.read_views`."""
    with opened(path, "AnnData file") as file:
        if "mod" in file:
            raise ValueError("a MuData file; its name should end in .h5mu")
        if not {"obs", "var"} <= set(file):
            raise ValueError(f"not an AnnData file; expected 'obs' and 'var', found {listed(file)}")
        return _read(path, file, {}, {}, **options)


def _read(
    path: Path,
    file: Any,
    modalities: Mapping[str, _Stored],
    usual: Mapping[str, str],
    *,
    labels: str | None = None,
    samples: Literal["all", "common"] = "all",
    views: Mapping[str, str | Sequence[str]] | None = None,
    like: Mapping[str, Strings | None] | None = None,
) -> Dataset:
    whole = _Stored(file, "the file")
    notes: list[str] = []
    addresses = single_addresses(views) if views else usual
    if addresses:
        tables, notes = tables_at(addresses, whole, modalities, like)
    else:
        # a single view, not the others, which may be computed from it
        table, notes = _table("X", Place("", "X", "", None), whole, (like or {}).get("X"))
        tables = [table]
        notes.append(f"one view, X; {contents(whole)}, which can be views too")
    order = whole.ids() if "obs" in file else None
    ids, parts = joined(tables, order, notes, samples=samples)
    frames = {"": member(file, "obs")} if "obs" in file else {}
    frames |= {f"{name}:": member(held.group, "obs") for name, held in modalities.items()}
    if found := _find_labels(frames, labels):
        parts["labels"] = labels_of(ids, *found, warn_about=path if labels is None else None)
    return assemble(**parts, name=path.stem)


def single_addresses(views: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """Return the address of each view."""
    found = {name: [at] if isinstance(at, str) else list(at) for name, at in views.items()}
    for name, several in found.items():
        if len(several) != 1:
            raise ValueError(f"view {name!r} has {several}; expected one address")
    return {name: at for name, (at,) in found.items()}


def _modalities(file: Any) -> dict[str, Any]:
    if "mod" not in file:
        is_anndata = {"X", "obs", "var"} <= set(file)
        what = (
            "an AnnData file, whose name should end in .h5ad" if is_anndata else "not a MuData file"
        )
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


class _Stored:
    """An AnnData or MuData object in a file."""

    def __init__(self, group: Any, what: str) -> None:
        self.group, self.what = group, what
        if not is_group(group):
            raise ValueError(f"{what}: is an array; expected a group")

    def names(self, slot: str) -> list[str]:
        if slot not in self.group:
            return []
        # MuData keeps which cells a modality has in obsm
        return [name for name in member(self.group, slot) if name not in self.group.get("mod", ())]

    def ids(self) -> Strings:
        return _index(member(self.group, "obs"))

    def variables(self) -> Strings:
        return _index(member(self.group, "var"))

    def marked(self, column: str) -> npt.NDArray[np.bool_] | None:
        var = member(self.group, "var")
        if column not in var:
            return None
        values, missing = _column(var, column)
        return (values & ~missing) if values.dtype == np.bool_ else None

    def matrix(self, slot: str, key: str) -> tuple[Array, Strings | None]:
        item = member(self.group, slot)
        item = member(item, key) if key else item
        if not is_group(item) or text(attribute(item, "encoding-type")) != "dataframe":
            return _matrix(item), None
        names = [text(name) for name in np.ravel(attribute(item, "column-order", [])).tolist()]
        columns = [_column(item, name)[0] for name in names]
        for name, values in zip(names, columns, strict=True):
            if values.dtype.kind not in "fiub":
                raise ValueError(f"{item.name!r}: column {name!r} holds no numbers")
        return np.column_stack(columns), np.asarray(names, dtype=np.str_)


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
    frames: Mapping[str, Any], wanted: str | None
) -> tuple[dict[str, Any], str] | None:
    """Return the known values, by sample id, of the column of labels, and its description.

    `frames` are ``obs`` of the file and of its modalities, by the prefix of their columns.
    """
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


# 10x Genomics


def read_tenx(
    path: Path, *, views: Mapping[str, str | Sequence[str]] | None = None, **ignored: Any
) -> Dataset:
    """Read a matrix of 10x Genomics; see :func:`manyview.datasets.read_views`."""
    with opened(path, "10x Genomics file") as file:
        if "matrix" not in file:
            raise ValueError(
                "not a matrix of Cell Ranger 3 or later; expected a group 'matrix', found "
                f"{listed(file)}"
            )
        group = member(file, "matrix")
        ids = _strings(member(group, "barcodes"))
        features = member(group, "features")
        accessions, names, kinds = (
            _strings(member(features, part)) for part in ("id", "name", "feature_type")
        )
        shape = content(member(group, "shape")).tolist()
        if shape != [len(names), len(ids)] or not len(names) == len(kinds) == len(accessions):
            raise ValueError(
                f"'/matrix' has shape {shape}, {len(names)} features and {len(ids)} barcodes"
            )
        # stored with a column for each cell, which is CSR with a row for each
        data, indices, indptr = (
            content(member(group, part)) for part in ("data", "indices", "indptr")
        )
        array = compressed(sp.csr_array, "'/matrix'", data, indices, indptr, shape[::-1])
    found = list(dict.fromkeys(kinds.tolist()))
    addresses = single_addresses(views) if views else {kind: kind for kind in found}
    for kind in addresses.values():
        if kind not in found:
            raise ValueError(f"no features of type {kind!r}; found {first_few(found, 10)}")
    tables = []
    for view, kind in addresses.items():
        of_kind = kinds == kind
        own = _distinct(names[of_kind], accessions[of_kind])
        tables.append(Table(view, f"feature type {kind!r}", ids, array[:, of_kind], own))
    _, parts = join(tables)
    return assemble(**parts, name=path.stem)


def _strings(dataset: Any) -> Strings:
    return as_strings(_values(dataset)[0])


def _distinct(names: Strings, accessions: Strings) -> Strings:
    """Return names of features; those that occur more than once are followed by their id."""
    _, at, counts = np.unique(names, return_inverse=True, return_counts=True)
    pairs = zip(names.tolist(), accessions.tolist(), (counts[at] > 1).tolist(), strict=True)
    return np.asarray([f"{name} ({i})" if twice else name for name, i, twice in pairs], np.str_)
