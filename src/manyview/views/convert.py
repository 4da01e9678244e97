"""Conversion of arrays, data frames, AnnData and MuData to Views.

AnnData and MuData objects as views.

They are known by what they have, so that neither package is needed: whoever has such an object at
hand has imported it.

From what a user calls views to Views.

Dense arrays, memory-mapped ones too, are not copied; sparse ones become CSR, which costs a copy
only when they are in another format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.exceptions import ViewWarning, warn_user
from manyview.views.align import placed_rows
from manyview.views.backends import (
    as_tensor_view,
    blanked_collection,
    blanked_tensor,
    check_collection,
    dtype_of,
    place_of,
    value_range,
)
from manyview.views.checks import (
    check_compressed,
    check_indexes,
    check_rows,
    check_values,
    size_within_range,
    warn_of_numbers,
)
from manyview.views.container import Array, Views, listed
from manyview.views.frames import frame_columns, frame_values, is_frame, is_pandas, numbers_of
from manyview.views.missing import check_present, present_in_order

__all__ = ["as_views", "first_index", "modalities_of", "rows_of_all", "unchecked_views"]


_DASK_FRAME = "a Dask DataFrame; hand over its to_dask_array(lengths=True)"
_BACKED = "on disk; hand over its to_memory()"
_STORED = (
    "of {} on disk, which would be read whole; hand it over as dask.array.{}(...), or read it "
    "with [:] if it fits into memory"
)

# by the package of its type and the type's name, or any name
_INSTEAD = {
    ("dask", "DataFrame"): _DASK_FRAME,
    ("dask_expr", "DataFrame"): _DASK_FRAME,
    ("dask", "Delayed"): "a result that is not computed; use dask.array.from_delayed",
    ("polars", "LazyFrame"): "a frame that is not computed; hand over its collect()",
    ("pyarrow", ""): "of pyarrow; hand over its to_pandas()",
    ("anndata", "CSRDataset"): _BACKED,
    ("anndata", "CSCDataset"): _BACKED,
    ("zarr", ""): _STORED.format("zarr", "from_zarr"),
    ("h5py", ""): _STORED.format("h5py", "from_array"),
}


def refuse_others(name: str, item: Any) -> None:
    """Raise TypeError for what is known to hold a view, and would not do as it is."""
    kind = type(item)
    root = kind.__module__.partition(".")[0]
    told = _INSTEAD.get((root, kind.__name__.lstrip("_"))) or _INSTEAD.get((root, ""))
    if told is not None:
        raise TypeError(f"view {name!r} is {told}")


# which NumPy would make numbers of
def is_annotated(item: Any) -> bool:
    """Return whether a view is an AnnData object: a matrix with names of rows and columns."""
    # not whether it has X, which of a part of another is copied whenever it is asked for
    return all(hasattr(item, name) for name in ("obs_names", "var_names", "isbacked"))


def annotated_matrix(name: str, item: Any) -> tuple[Any, npt.NDArray[np.str_]]:
    """Return the matrix ``X`` of an AnnData object and the names of its features."""
    if item.isbacked:
        raise TypeError(f"view {name!r} is on disk; bring it here first with .to_memory()")
    if hasattr(item, "mod"):
        raise TypeError(f"view {name!r} is a MuData object; hand it over by itself, or its .mod")
    matrix = item.X
    if matrix is None:
        raise ValueError(f"view {name!r} has no X, the matrix that is taken of AnnData objects")
    return matrix, np.asarray([str(feature) for feature in item.var_names], dtype=np.str_)


def modalities_of(views: Any) -> Mapping[str, Any] | None:
    """Return the AnnData objects of a MuData object by their names; None of anything else."""
    modalities = getattr(views, "mod", None)
    if not isinstance(modalities, Mapping) or not hasattr(views, "obs_names"):
        return None
    if getattr(views, "axis", 0) == 1:
        raise ValueError(
            f"received a MuData object with axis={views.axis}, whose modalities have features in "
            "common; expected samples in common, axis=0"
        )
    return modalities


def rows_of_all(
    names: Sequence[str], arrays: Sequence[Any], indexes: Sequence[Any], everything: Any
) -> tuple[list[Any], npt.NDArray[np.bool_] | None]:
    """Bring views of some of the samples into the order of all; lacking rows are zero.

    Parameters
    ----------
    names : sequence of str
        Names of the views.
    arrays : sequence of ndarray or sparse array
        The views.
    indexes : sequence of pandas Index
        Names of the samples of each.
    everything : pandas Index
        Names of all samples.

    Returns
    -------
    arrays : list of ndarray or sparse array
    present : ndarray of bool of shape (n_samples, n_views), or None
        Which sample has which view; None where every sample has every view.
    """
    for index in (*indexes, everything):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(f"{str(twice)!r} names several samples: use obs_names_make_unique()")
    present = np.zeros((len(everything), len(arrays)), dtype=np.bool_)
    placed = []
    for v, (name, array, index) in enumerate(zip(names, arrays, indexes, strict=True)):
        at = everything.get_indexer(index)
        if (at < 0).any():
            raise ValueError(
                f"view {name!r} has a sample {str(index[at < 0][0])!r} that is not among those of "
                "the MuData object: call its update() first"
            )
        present[at, v] = True
        if place_of(array) != "numpy" and not np.array_equal(at, np.arange(len(everything))):
            raise TypeError(
                f"view {name!r} is of {place_of(array)}, and not of all samples in their order; "
                "bring it to this process first"
            )
        placed.append(placed_rows(array, at, len(everything)))
    return placed, None if present.all() else present


def as_views(
    views: Any,
    *,
    present: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
    min_samples: int = 1,
    warn: bool = True,
) -> Views:
    """Check what the caller calls views and return them as :class:`Views`.

    Parameters
    ----------
    views : list, tuple or dict of array-likes, MuData, or Views
        One 2-D array, SciPy sparse array, DataFrame of pandas or polars, or AnnData object (its
        ``X``) a view, rows as samples. The keys of a dict name the views, the columns of a
        DataFrame the features. Of a MuData object every modality is a view, which a sample may lack.
    present : array-like of bool of shape (n_samples, n_views), or dict, optional
        Which sample has which view; the columns of a DataFrame name the views, and so do the keys
        of a dict of one array-like of shape (n_samples,) a view. A sample takes no feature from a
        view that it lacks, whatever that row holds, be it NaN. What Views, or a MuData object, lack
        already stays so.
    min_samples : int, default=1
        Fewest samples that will do.
    warn : bool, default=True
        Whether to warn of a view that carries nothing, and of a feature that numbers the samples.

    Returns
    -------
    Views
        The checked views.

    Raises
    ------
    TypeError, ValueError
        With the name of the view, what was received and what is expected.

    Examples
    --------
    >>> import numpy as np
    >>> from manyview import as_views
    >>> as_views([np.eye(3), np.ones((2, 4))])
    Traceback (most recent call last):
    ...
    ValueError: view 'view1' has 2 rows, view 'view0' has 3: views describe the same samples, row by row
    """  # noqa: E501 - the message is shown as it is printed
    gathered = views if isinstance(views, Views) else unchecked_views(views)
    if present is not None:
        mask = present_in_order(present, gathered, first_index(views))
        if gathered.present is not None:
            # rows that a MuData object or Views lack are no rows, whatever the caller says of them
            both = (check_present(each, gathered) for each in (mask, gathered.present))
            if known := [each for each in both if each is not None]:
                mask = np.logical_and.reduce(known)
        gathered = replace(gathered, present=mask, checked=False)
    checked = gathered if gathered.checked else _checked(gathered, warn)
    if checked.n_samples < min_samples:
        raise ValueError(
            f"received {checked.n_samples} sample(s) in view {checked.names[0]!r}; "
            f"at least {min_samples} are needed"
        )
    return checked


def unchecked_views(views: Any) -> Views:
    """Return what the caller calls views, each a 2-D array of numbers, for :func:`as_views`."""
    modalities = modalities_of(views)
    named, items = _named_items(views if modalities is None else modalities)
    names = tuple(name for name, _ in items)
    arrays, feature_names = zip(*(_as_array(name, item) for name, item in items), strict=True)
    _check_places(dict(zip(names, arrays, strict=True)))
    indexes = [(name, index) for name, item in items if (index := _index_of(item)) is not None]
    if modalities is None:
        check_indexes(indexes)
        return Views(arrays, names, feature_names, named=named)
    placed, present = rows_of_all(names, arrays, [index for _, index in indexes], views.obs_names)
    return Views(tuple(placed), names, feature_names, named=named, present=present)


def _checked(views: Views, warn: bool) -> Views:
    check_rows(views)
    arrays, present = list(views.arrays), views.present
    if present is not None:
        present = check_present(present, views)
    if present is not None:
        # whatever the rows of samples that lack a view hold, it must not reach a product
        arrays = [
            _blanked(array, present[:, v], size_within_range(views, v))
            for v, array in enumerate(arrays)
        ]
        for name, here in zip(views.names, present.T, strict=True):
            if warn and not here.any():
                warn_user(f"no sample has view {name!r}: it carries nothing", ViewWarning)
    for v, (name, array) in enumerate(zip(views.names, arrays, strict=True)):
        features = views.feature_names[v]
        here = None if present is None else present[:, v]
        told = warn and (here is None or bool(here.any()))
        check_values(name, array, features, here, warn=told)
        if told:
            warn_of_numbers(name, array, features, here)
    return replace(views, arrays=tuple(arrays), present=present, checked=True)


def _blanked(array: Array, here: npt.NDArray[np.bool_], size: float) -> Array:
    """Return the array, a copy with zeros if rows that are not here hold NaN or more than `size`.

    What is smaller may stay: these rows meet a factor of zero wherever they are used.
    """

    def is_harmless(values: Array) -> bool:
        low, high = value_range(values)
        return -size <= low and high <= size

    if sp.issparse(array):
        lacking = np.repeat(~here, np.diff(array.indptr))
        if is_harmless(array.data[lacking]):
            return array
        parts = (np.where(lacking, array.dtype.type(0), array.data), array.indices, array.indptr)
        return sp.csr_array(parts, shape=array.shape)
    if place_of(array) == "torch":
        return blanked_tensor(array, here, is_harmless)
    if place_of(array) == "dask":
        return blanked_collection(array, here)
    blank = np.flatnonzero(~here)
    # of a view on disk, which may be larger than memory, some rows at a time
    count = blank.size // 512 + 1
    if all(is_harmless(array[rows]) for rows in np.array_split(blank, count)):
        return array
    return np.where(here[:, None], array, array.dtype.type(0))


def _named_items(views: Any) -> tuple[bool, list[tuple[str, Any]]]:
    if hasattr(views, "shape") or hasattr(views, "iloc"):
        raise TypeError(
            f"received a single {type(views).__name__} of shape {tuple(views.shape)}; "
            "expected a list, tuple or dict of 2-D views: [X] for one view, [X, Y] for two"
        )
    if isinstance(views, Mapping):
        names = [str(key) for key in views]
        if len(set(names)) < len(names):
            raise ValueError(f"view names must differ; received {listed(names)}")
        items = list(zip(names, views.values(), strict=True))
    elif isinstance(views, Sequence) and not isinstance(views, str | bytes):
        items = [(f"view{v}", item) for v, item in enumerate(views)]
    else:
        hint = ": pass its .views" if hasattr(views, "views") else ""
        raise TypeError(
            f"received {type(views).__name__}; expected a list, tuple or dict of 2-D views{hint}"
        )
    if not items:
        raise ValueError("received no views; expected at least one 2-D array")
    return isinstance(views, Mapping), items


def _check_places(arrays: Mapping[str, Array]) -> None:
    """Raise unless all views are in one place: the rows decide where the work is done."""
    kinds = {name: _kind(array) for name, array in arrays.items()}
    (first, kind), *others = kinds.items()
    for name, other in others:
        if other != kind:
            raise TypeError(
                f"view {first!r} is {kind}, view {name!r} {other}: views of one call live in one "
                "place; bring them together first"
            )


def _kind(array: Array) -> str:
    place = place_of(array)
    if place == "torch":
        return f"a torch tensor on {array.device}"
    return {"numpy": "in this process", "dask": "a Dask array"}[place]


def _as_array(name: str, item: Any) -> tuple[Array, npt.NDArray[np.str_] | None]:
    columns: npt.NDArray[np.str_] | None
    refuse_others(name, item)
    if is_annotated(item):
        matrix, columns = annotated_matrix(name, item)
        return _as_array(name, matrix)[0], columns
    if is_frame(item):
        columns, array = frame_columns(item), frame_values(name, item)
    elif sp.issparse(item) or place_of(item) != "numpy":
        columns, array = None, _elsewhere(name, item)
    elif item is None or isinstance(item, str | bytes):
        raise TypeError(f"view {name!r} is {item!r}; expected a 2-D array of numbers")
    else:
        columns, array = None, _dense(name, item)
    if array.ndim != 2:
        raise ValueError(
            f"view {name!r} has {array.ndim} dimension(s), shape {tuple(array.shape)}; "
            "expected 2: one row a sample, one column a feature"
        )
    if dtype_of(array).kind not in "fiub":
        raise ValueError(f"view {name!r} holds {array.dtype}; expected real numbers")
    if array.shape[1] == 0:
        raise ValueError(f"view {name!r} has no features (shape {tuple(array.shape)})")
    if dtype_of(array).itemsize > 8:
        array = array.astype(np.float64)
    return (_csr(name, array) if sp.issparse(array) else array), columns


def _elsewhere(name: str, item: Any) -> Array:
    """Return an array that is not NumPy's as its engine takes it."""
    if place_of(item) == "torch":
        return as_tensor_view(name, item)
    if place_of(item) == "dask":
        check_collection(name, item)
    return item


def _dense(name: str, item: Any) -> Array:
    if isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item):
        raise ValueError(
            f"view {name!r} is a masked array; say which samples lack the view with present="
        )
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"view {name!r} is ragged: its rows differ in length") from error
    return numbers_of(name, array) if array.dtype.kind == "O" else array


def _csr(name: str, array: Any) -> Array:
    try:
        if array.format == "csc":
            check_compressed(array)  # before it is followed to become the other
        csr = sp.csr_array(array)
        check_compressed(csr)
    except ValueError as error:
        raise ValueError(f"view {name!r} is a broken sparse array: {error}") from error
    if not csr.has_canonical_format:
        csr = csr.copy()  # the caller's array stays as it is
        csr.sum_duplicates()
    if csr.indices.dtype != np.int32 and max(csr.shape[1], csr.nnz) < np.iinfo(np.int32).max:
        parts = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
        csr = sp.csr_array(parts, shape=csr.shape)
    return csr


def first_index(views: Any) -> Any:
    """Return the index of the first DataFrame or AnnData among the caller's views, or None."""
    if modalities_of(views) is not None:
        return views.obs_names
    items = views.values() if isinstance(views, Mapping) else views
    return next((index for item in items if (index := _index_of(item)) is not None), None)


def _index_of(item: Any) -> Any:
    """Return the names of the rows of a DataFrame or AnnData object, None of anything else."""
    if is_annotated(item):
        return item.obs_names
    return item.index if is_pandas(item) else None
