"""Writers of the files that the readers are tested on, by h5py alone."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp


class Mat73:
    """Writes variables as MATLAB does in version 7.3, from what scipy.io.savemat takes."""

    def __init__(self, file):
        self.file = file
        self.count = 0

    def write(self, group, name, value):
        if isinstance(value, str):
            value = np.array(value)
        elif not sp.issparse(value):
            value = np.asarray(value)
        if sp.issparse(value):
            self.write_sparse(group, name, value)
        elif value.dtype.kind == "O":
            self.write_cell(group, name, np.atleast_2d(value))
        elif value.dtype.kind == "U":
            self.write_characters(group, name, value)
        else:
            self.write_numbers(group, name, np.atleast_2d(value))

    def write_numbers(self, group, name, value):
        kinds = {"f8": "double", "f4": "single", "b1": "logical", "c16": "double"}
        kind = kinds.get(value.dtype.str[1:], value.dtype.name)
        if value.dtype.kind == "c":
            pairs = np.empty(value.shape, dtype=[("real", "f8"), ("imag", "f8")])
            pairs["real"], pairs["imag"] = value.real, value.imag
            value = pairs
        self.dataset(group, name, value.astype("u1") if value.dtype == bool else value, kind)

    def write_characters(self, group, name, value):
        rows = np.atleast_1d(value).ravel().tolist()
        codes = [np.frombuffer(row.encode("utf-16-le"), dtype="<u2") for row in rows]
        width = max(len(row) for row in codes)
        padded = [np.pad(row, (0, width - len(row)), constant_values=32) for row in codes]
        # MATLAB's '' is 0 x 0
        self.dataset(group, name, np.array(padded) if width else np.empty((0, 0), "u2"), "char")

    def write_cell(self, group, name, value):
        refs = self.file.require_group("#refs#")
        cell = np.empty(value.shape, dtype=h5py.ref_dtype)
        for at, item in np.ndenumerate(value):
            self.count += 1
            key = f"item{self.count}"
            self.write(refs, key, item)
            cell[at] = refs[key].ref
        self.dataset(group, name, cell, "cell")

    def write_sparse(self, group, name, value):
        array = sp.csc_array(value)
        made = group.create_group(name)
        kind = "logical" if array.dtype == bool else "double"
        made.attrs["MATLAB_class"] = np.bytes_(kind)
        made.attrs["MATLAB_sparse"] = np.uint64(array.shape[0])
        made["jc"] = array.indptr.astype("u8")
        if array.nnz:
            made["ir"] = array.indices.astype("u8")
            made["data"] = array.data.astype("u1" if kind == "logical" else "f8")

    def dataset(self, group, name, value, kind):
        if value.size:
            made = group.create_dataset(name, data=value.T)
        else:
            made = group.create_dataset(name, data=np.array(value.shape, dtype="u8"))
            made.attrs["MATLAB_empty"] = np.uint8(1)
        made.attrs["MATLAB_class"] = np.bytes_(kind)


@pytest.fixture
def write_mat73():
    def write(path, variables):
        with h5py.File(path, "w", userblock_size=512) as file:
            writer = Mat73(file)
            for name, value in variables.items():
                writer.write(file, name, value)
        with path.open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")

    return write


def write_frame(parent, name, ids, columns):
    frame = parent.create_group(name)
    frame.attrs.update({"encoding-type": "dataframe", "_index": "_index"})
    frame.attrs["column-order"] = np.array(list(columns), dtype=h5py.string_dtype())
    frame.create_dataset("_index", data=np.array(ids, dtype=object), dtype=h5py.string_dtype())
    for column, values in columns.items():
        if isinstance(values, tuple):
            codes, categories = values
            made = frame.create_group(column)
            made.attrs["encoding-type"] = "categorical"
            made["codes"] = np.array(codes, dtype="i1")
            made["categories"] = np.array(categories, dtype=h5py.string_dtype())
        elif isinstance(values[0], str):
            frame[column] = np.array(values, dtype=h5py.string_dtype())
        else:
            frame[column] = np.asarray(values)


def write_matrix(parent, name, value):
    if not sp.issparse(value):
        parent[name] = value
        return
    made = parent.create_group(name)
    made.attrs["encoding-type"] = f"{value.format}_matrix"
    made.attrs["shape"] = value.shape
    for part in ("data", "indices", "indptr"):
        made[part] = getattr(value, part)


@pytest.fixture
def write_h5mu():
    """Write modalities, each (ids, names of variables, X, columns of obs), as MuData does."""

    def write(path, modalities, obs=None, columns=None, **attributes):
        with h5py.File(path, "w", userblock_size=512) as file:
            file.attrs.update({"encoding-type": "MuData", "axis": 0} | attributes)
            mod = file.create_group("mod")
            mod.attrs["mod-order"] = np.array(list(modalities), dtype=h5py.string_dtype())
            for name, (ids, features, array, *more) in modalities.items():
                group = mod.create_group(name)
                write_frame(group, "obs", ids, more[0] if more else {})
                write_frame(group, "var", features, {})
                write_matrix(group, "X", array)
            if obs is None:
                obs = list(dict.fromkeys(i for ids, *_ in modalities.values() for i in ids))
            write_frame(file, "obs", obs, columns or {})

    return write


@pytest.fixture
def write_h5ad():
    """Write ``X``, and entries of layers, obsm, obs and var by name, as AnnData does."""

    def write(path, array, layers=None, obsm=None, obs=None, var=None):
        n, d = array.shape
        with h5py.File(path, "w") as file:
            write_frame(file, "obs", [f"cell{i}" for i in range(n)], obs or {})
            write_frame(file, "var", [f"g{i}" for i in range(d)], var or {})
            write_matrix(file, "X", array)
            for name, entries in (("layers", layers), ("obsm", obsm)):
                group = file.create_group(name)
                for key, value in (entries or {}).items():
                    if isinstance(value, dict):
                        write_frame(group, key, [f"cell{i}" for i in range(n)], value)
                    else:
                        write_matrix(group, key, value)

    return write


@pytest.fixture
def write_tenx():
    """Write counts, with a row for each cell, as Cell Ranger 3 does."""

    def write(path, counts, names, kinds):
        columns = sp.csc_array(counts.T)
        with h5py.File(path, "w") as file:
            group = file.create_group("matrix")
            group["barcodes"] = np.array([f"AC{n}-1" for n in range(len(counts))], dtype="S")
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(columns, part)
            group["shape"] = np.array(columns.shape, dtype="i4")
            features = group.create_group("features")
            features["id"] = np.array([f"ENSG{d}" for d in range(len(names))], dtype="S")
            features["name"] = np.array(names, dtype="S")
            features["feature_type"] = np.array(kinds, dtype="S")

    return write
