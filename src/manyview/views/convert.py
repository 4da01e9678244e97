"""Conversion of arrays, data frames, AnnData and MuData objects to Views.

Dense arrays, memory-mapped ones included, are not copied. Sparse arrays become CSR, which copies
those of another format. AnnData and MuData objects are recognised by their attributes, so neither
package is required.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.views.align import placed_rows
from manyview.views.backends import (
    as_tensor_view,
    blank_rows,
    check_collection,
    dtype_of,
    is_within,
    place_of,
    value_range,
)
from manyview.views.checks import (
    check_compressed,
    check_finite,
    check_indexes,
    check_rows,
    position,
    size_within_range,
    warn_of_view,
)
from manyview.views.container import Array, Views, listed
from manyview.views.frames import (
    MAX_CATEGORIES,
    as_numbers,
    chosen_columns,
    encoded_frame,
    first_non_number,
    frame_values,
    is_frame,
    is_pandas,
)
from manyview.views.missing import (
    check_present,
    has_unknown,
    present_in_order,
    read_unknown,
    warn_of_unknown,
)

__all__ = ["as_views", "first_index", "unchecked_views"]


def as_views(
    views: Any,
    *,
    present: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    join: Literal["inner", "outer"] | None = None,
    categories: Sequence[str] = (),
    max_categories: int = MAX_CATEGORIES,
    min_samples: int = 1,
    warn: bool = True,
) -> Views:
    """Validate data and return them as :class:`Views`.

    Parameters
    ----------
    views : list, tuple or dict of array-likes, MuData, Views, or DataFrame
        One 2-D array, SciPy sparse array, torch tensor, Dask array, DataFrame of pandas or polars,
        or AnnData object (its ``X``) per view, with samples as rows. NaN in a dense array or tensor
        and masked entries are unknown cells; a row of them is a missing view. The keys of a dict
        name the views, the columns of a DataFrame the features. Every modality of a MuData object
        is a view, which may be missing for some samples. A single DataFrame of pandas needs
        `columns`.
    present : array-like of bool of shape (n_samples, n_views), or dict, optional
        True where a sample has a view. The columns of a DataFrame name the views, and so do the
        keys of a dict with one array-like of shape (n_samples,) per view. The row of a sample in a
        missing view is ignored, and may hold NaN. Views that are missing already, in Views
        or a MuData object, stay missing.
    columns : dict, optional
        The columns of each view of a single DataFrame: names, or patterns with ``*`` and ``?``, as
        in ``{"clinic": ["age", "sex"], "genes": "ENSG*"}``. Other columns are left out.
    join : {"inner", "outer"}, optional
        How DataFrames of different samples are joined by their indexes: the samples of all of
        them, or those of any, which then may miss views. By default, indexes have to be equal.
    categories : sequence of str, default=()
        Columns of DataFrames of pandas that are encoded as categories, whatever they hold.
        Columns of the dtype ``category`` always are: each value has a feature of 0 and 1, such as
        ``sex=f``.
    max_categories : int, default=20
        Most values of a column of strings that is encoded like a category.
    min_samples : int, default=1
        Smallest number of samples accepted.
    warn : bool, default=True
        Whether to warn about constant or absent views, index columns, and views of which more than
        half of the cells are unknown.

    Returns
    -------
    Views
        The validated views.

    Raises
    ------
    TypeError, ValueError
        If the views are invalid. The message names the view, the value received and what is
        expected.

    Examples
    --------
    >>> import numpy as np
    >>> from manyview import as_views
    >>> as_views([np.eye(3), np.ones((2, 4))])
    Traceback (most recent call last):
    ...
    ValueError: view 'view1' has 2 rows, view 'view0' has 3; all views must have the same samples...

    Tables of pandas are joined, and cut into views:

    >>> import pandas as pd
    >>> clinic = pd.DataFrame({"age": [31, 45], "sex": ["f", "m"]}, index=["ann", "bob"])
    >>> genes = pd.DataFrame({"TP53": [0.1, 2.0]}, index=["bob", "cy"])
    >>> tables = {"clinic": clinic, "genes": genes}
    >>> views = as_views(tables, join="outer", categories=["sex"])
    >>> list(views.sample_ids), views.present.tolist(), views.feature_names[0].tolist()
    (['ann', 'bob', 'cy'], [[True, False], [True, True], [False, True]], ['age', 'sex=f', 'sex=m'])
    >>> as_views(clinic, columns={"years": ["age"], "other": "*"}, categories=["sex"])
    Views(2 samples; years: 1 x int64, other: 2 x float64)
    """
    if columns is not None:
        views = _cut(views, columns)
    if join is not None:
        gathered = _joined(views, join, categories, max_categories)
    elif isinstance(views, Views):
        gathered = views
    else:
        gathered = unchecked_views(views, categories=categories, max_categories=max_categories)
    if present is not None:
        index = gathered.sample_ids  # the ids of a file are text, which would equal no number
        mask = present_in_order(present, gathered, index if hasattr(index, "equals") else None)
        if gathered.present is not None:
            # views that are missing already stay missing
            both = (check_present(each, gathered) for each in (mask, gathered.present))
            if known := [each for each in both if each is not None]:
                mask = np.logical_and.reduce(known)
        gathered = replace(gathered, present=mask, checked=False)
    if not gathered.checked:
        gathered = _validated(gathered, warn)
    elif gathered.ranges is not None:
        gathered = replace(gathered, ranges=None)  # arrays may have changed in place since
    if gathered.n_samples < min_samples:
        raise ValueError(
            f"received {gathered.n_samples} sample(s) in view {gathered.names[0]!r}; "
            f"expected at least {min_samples}"
        )
    return gathered


def _cut(frame: Any, columns: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    """Return the parts of a DataFrame that hold the columns of each view."""
    if not is_pandas(frame):
        raise TypeError(
            f"received columns with {type(frame).__name__}; expected a single DataFrame of pandas"
        )
    names = [str(column) for column in frame.columns]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the DataFrame has several columns {repeated!r}; expected distinct names")
    places = {name: d for d, name in enumerate(names)}
    chosen = chosen_columns(names, columns, "the DataFrame")
    return {view: frame.iloc[:, [places[name] for name in own]] for view, own in chosen.items()}


def _joined(views: Any, join: str, categories: Sequence[str], max_categories: int) -> Views:
    """Return DataFrames with an index as Views of the samples of all of them, or of any."""
    if join not in ("inner", "outer"):
        raise ValueError(f"join={join!r}; expected 'inner' or 'outer'")
    if isinstance(views, Views) or _modalities(views) is not None:
        raise TypeError(
            f"received join with {type(views).__name__}; expected a list or dict of DataFrames"
        )
    named, items = _named_items(views)
    indexes = []
    for name, item in items:
        index = _index_of(item)
        if index is None:
            raise TypeError(
                f"view {name!r} is a {type(item).__name__} without an index; join expects "
                "DataFrames of pandas or AnnData objects"
            )
        indexes.append(index)
    names, arrays, feature_names = _converted(items, None, categories, max_categories)
    samples = indexes[0]
    for index in indexes[1:]:
        samples = samples.append(index)
    samples = samples.unique()
    placed, present = _all_rows(names, arrays, indexes, samples, "expected one row for each")
    found = Views(tuple(placed), names, feature_names, present, named, sample_ids=samples)
    if join == "inner" and present is not None:
        if not present.all(axis=1).any():
            shown = "; ".join(
                f"{name}: {listed(i[:3], 2)}" for name, i in zip(names, indexes, strict=True)
            )
            raise ValueError(f"no sample is in all views ({shown}); expected common indexes")
        found = found.take(present.all(axis=1))
    return found


def unchecked_views(
    views: Any,
    *,
    known: Mapping[str, npt.NDArray[np.str_] | None] | None = None,
    categories: Sequence[str] = (),
    max_categories: int = MAX_CATEGORIES,
) -> Views:
    """Return data as Views of 2-D numeric arrays whose rows and values are not validated yet.

    `known` holds the features of a fit by view, in its order, for categories of new samples.
    """
    if isinstance(views, Views):
        return views
    modalities = _modalities(views)
    named, items = _named_items(views if modalities is None else modalities)
    if known is not None and not named:
        known = dict(zip([name for name, _ in items], known.values(), strict=False))
    names, arrays, feature_names = _converted(items, known, categories, max_categories)
    holders = [_holder(array) for array in arrays]
    for name, holder in zip(names, holders, strict=True):
        if holder != holders[0]:
            raise TypeError(
                f"view {names[0]!r} is {holders[0]}, view {name!r} is {holder}; all views must be "
                "of one kind and on one device"
            )
    indexes = [(name, index) for name, item in items if (index := _index_of(item)) is not None]
    if modalities is None:
        check_indexes(indexes)
        # indexes of different lengths belong to views that are rejected later
        ids = indexes[0][1] if indexes else None
        return Views(arrays, names, feature_names, named=named, sample_ids=ids)
    ids = views.obs_names
    given = [index for _, index in indexes]
    placed, present = _all_rows(names, arrays, given, ids, "use obs_names_make_unique()")
    return Views(tuple(placed), names, feature_names, present, named, sample_ids=ids)


def _converted(
    items: Sequence[tuple[str, Any]],
    known: Mapping[str, npt.NDArray[np.str_] | None] | None,
    categories: Sequence[str],
    max_categories: int,
) -> tuple[tuple[str, ...], tuple[Array, ...], tuple[npt.NDArray[np.str_] | None, ...]]:
    """Return the names of views, their arrays and the names of their features."""
    found = []
    for name, item in items:
        features = (known or {}).get(name)
        if is_pandas(item):
            _reject_lazy(name, item)
            own = None if features is None else features.tolist()
            item = encoded_frame(item, known=own, categories=categories, most=max_categories)
        found.append(_as_array(name, item))
    arrays, feature_names = zip(*found, strict=True)
    return tuple(name for name, _ in items), arrays, feature_names


def first_index(views: Any) -> Any:
    """Return the index of the first DataFrame or AnnData object among the views, or None."""
    if isinstance(views, Views):
        return views.sample_ids
    if _modalities(views) is not None:
        return views.obs_names
    items = views.values() if isinstance(views, Mapping) else views
    return next((index for item in items if (index := _index_of(item)) is not None), None)


def _validated(views: Views, warn: bool) -> Views:
    """Return views with finite values, after reading each of them once."""
    check_rows(views)
    present = None if views.present is None else check_present(views.present, views)
    arrays, ranges = [], []
    unknown = [0.0] * views.n_views
    for v, (name, features) in enumerate(zip(views.names, views.feature_names, strict=True)):
        here = None if present is None else present[:, v]
        array, bounds = _read(views.arrays[v], here, size_within_range(views, v))
        if np.isnan(bounds[0]) and has_unknown(array):
            array, bounds, there, unknown[v] = read_unknown(array, here)
            if not there.all():  # rows without a known cell are missing views
                present = np.ones(views.shape, dtype=bool) if present is None else present.copy()
                present[:, v] = here = there
        check_finite(name, array, features, bounds)
        if warn:
            warn_of_view(name, array, features, bounds, here)
            warn_of_unknown(name, unknown[v])
        arrays.append(array)
        ranges.append(bounds)
    if present is not None:
        present = check_present(present, views)
    return replace(
        views,
        arrays=tuple(arrays),
        present=present,
        checked=True,
        ranges=tuple(ranges),
        unknown=tuple(unknown) if any(unknown) else None,
    )


def _read(
    array: Array, here: npt.NDArray[np.bool_] | None, size: float
) -> tuple[Array, tuple[float, float]]:
    """Return an array and its range, with zeros in rows that are not `here` and do harm.

    These rows are multiplied by zero wherever they are used, so only NaN, infinity and entries
    larger than `size` have to go.
    """
    if here is not None and place_of(array) == "dask":
        array = blank_rows(array, here, size)
        return array, value_range(array)
    bounds = value_range(array)
    if here is None or is_within(bounds, size):
        return array, bounds
    blanked = blank_rows(array, here, size)
    return blanked, bounds if blanked is array else value_range(blanked)


def _named_items(views: Any) -> tuple[bool, list[tuple[str, Any]]]:
    """Return whether the caller named the views, and pairs of name and view."""
    if isinstance(getattr(views, "views", None), Views):  # a Dataset
        raise TypeError(f"received a {type(views).__name__}; expected its .views")
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
        raise TypeError(
            f"received {type(views).__name__}; expected a list, tuple or dict of 2-D views"
        )
    if not items:
        raise ValueError("received no views; expected at least one 2-D array")
    return isinstance(views, Mapping), items


def _holder(array: Array) -> str:
    place = place_of(array)
    if place == "torch":
        return f"a torch tensor on {array.device}"
    return "a Dask array" if place == "dask" else "a NumPy or SciPy array"


# One view


def _as_array(name: str, item: Any) -> tuple[Array, npt.NDArray[np.str_] | None]:
    """Return a view as a 2-D array of real numbers, and the names of its features or None."""
    columns = None
    if isinstance(item, Views):
        raise TypeError(
            f"view {name!r} is a Views object of {item.n_samples} samples; expected an array. Pass "
            "a Views object by itself: fit(views), not fit([views])"
        )
    _reject_lazy(name, item)
    if _is_annotated(item):
        columns, item = item.var_names, _annotated_matrix(name, item)
        _reject_lazy(name, item)
    if is_frame(item):
        columns, item = item.columns, frame_values(name, item)
    array = _numeric(name, item)
    if array.ndim != 2:
        raise ValueError(
            f"view {name!r} has {array.ndim} dimension(s), shape {tuple(array.shape)}; "
            "expected 2: samples as rows, features as columns, [X] for a single table X"
        )
    if dtype_of(array).kind not in "fiub":
        raise ValueError(f"view {name!r} holds {array.dtype}; expected real numbers")
    if array.shape[1] == 0:
        raise ValueError(f"view {name!r} has no features (shape {tuple(array.shape)})")
    if dtype_of(array).itemsize > 8:
        array = array.astype(np.float64)
    if sp.issparse(array):
        array = _csr(name, array)
    names = None if columns is None else np.asarray([str(c) for c in columns], dtype=np.str_)
    return array, names


def _numeric(name: str, item: Any) -> Array:
    """Return a view as an array of numbers, where it is and without a copy if it is one."""
    if place_of(item) == "torch":
        return as_tensor_view(name, item)
    if place_of(item) == "dask":
        check_collection(name, item)
        return item
    if sp.issparse(item):
        return item
    if item is None or isinstance(item, str | bytes):
        raise TypeError(f"view {name!r} is {item!r}; expected a 2-D array of numbers")
    if np.ma.is_masked(item) and item.dtype.kind in "fiubO":
        wide = np.result_type(item, np.float16)  # has NaN
        item = item.astype(wide).filled(np.nan)
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"view {name!r} is ragged: its rows differ in length") from error
    if array.dtype.kind != "O":
        return array
    numbers = as_numbers(array)
    if numbers is None:
        at, shown = first_non_number(array)
        raise ValueError(f"view {name!r} holds {shown} at {position(at)}; expected real numbers")
    return numbers


def _csr(name: str, array: Any) -> sp.csr_array:
    """Return a sparse array as CSR with sorted indices, no duplicates and short indices."""
    try:
        if array.format == "csc":
            check_compressed(array)  # before SciPy follows its indices
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


_DASK_FRAME = "a Dask DataFrame; pass its to_dask_array(lengths=True)"
_BACKED = "on disk; pass its to_memory()"
_STORED = "a {} array on disk; pass dask.array.{}(...), or read it with [:] if it fits into memory"

# By the package and the name of a type, or any name: data that NumPy would read whole or misread.
_LAZY = {
    ("dask", "DataFrame"): _DASK_FRAME,
    ("dask_expr", "DataFrame"): _DASK_FRAME,
    ("dask", "Delayed"): "a result that is not computed; use dask.array.from_delayed",
    ("polars", "LazyFrame"): "a frame that is not computed; pass its collect()",
    ("pyarrow", ""): "a pyarrow object; pass its to_pandas()",
    ("anndata", "CSRDataset"): _BACKED,
    ("anndata", "CSCDataset"): _BACKED,
    ("zarr", ""): _STORED.format("zarr", "from_zarr"),
    ("h5py", ""): _STORED.format("h5py", "from_array"),
}


def _reject_lazy(name: str, item: Any) -> None:
    """Raise TypeError for data on disk or not computed, with what to pass instead."""
    kind = type(item)
    package = kind.__module__.partition(".")[0]
    instead = _LAZY.get((package, kind.__name__.lstrip("_"))) or _LAZY.get((package, ""))
    if instead is not None:
        raise TypeError(f"view {name!r} is {instead}")


# AnnData and MuData


def _is_annotated(item: Any) -> bool:
    # without asking for X, which is copied on every access to a slice of an AnnData object
    return all(hasattr(item, name) for name in ("obs_names", "var_names", "isbacked"))


def _annotated_matrix(name: str, item: Any) -> Any:
    if item.isbacked:
        raise TypeError(f"view {name!r} is {_BACKED}")
    if hasattr(item, "mod"):
        raise TypeError(f"view {name!r} is a MuData object; pass it alone, or its .mod")
    matrix = item.X
    if matrix is None:
        raise ValueError(f"view {name!r} is an AnnData object without X; expected a matrix X")
    return matrix


def _index_of(item: Any) -> Any:
    """Return the names of the rows of a DataFrame or AnnData object, else None."""
    if _is_annotated(item):
        return item.obs_names
    return item.index if is_pandas(item) else None


def _modalities(views: Any) -> Mapping[str, Any] | None:
    """Return the AnnData objects of a MuData object by name, else None."""
    modalities = getattr(views, "mod", None)
    if not isinstance(modalities, Mapping) or not hasattr(views, "obs_names"):
        return None
    if getattr(views, "axis", 0) == 1:
        raise ValueError(
            "received a MuData object with axis=1, whose modalities share features; "
            "expected axis=0, shared samples"
        )
    return modalities


def _all_rows(
    names: Sequence[str], arrays: Sequence[Any], indexes: Sequence[Any], samples: Any, remedy: str
) -> tuple[list[Any], npt.NDArray[np.bool_] | None]:
    """Return views with a row for every sample, zero where a view is missing, and `present`.

    `indexes` holds the names of the samples of each view, `samples` those of all samples.
    """
    for index in (*indexes, samples):
        if not index.is_unique:
            repeated = index[index.duplicated()][0]
            raise ValueError(f"several samples are named {str(repeated)!r}; {remedy}")
    present = np.zeros((len(samples), len(arrays)), dtype=np.bool_)
    placed = []
    for v, (name, array, index) in enumerate(zip(names, arrays, indexes, strict=True)):
        at = samples.get_indexer(index)
        if (at < 0).any():
            raise ValueError(
                f"view {name!r} has a sample {str(index[at < 0][0])!r} that is not among those of "
                "the MuData object; call its update() first"
            )
        present[at, v] = True
        if place_of(array) != "numpy" and not np.array_equal(at, np.arange(len(samples))):
            raise TypeError(
                f"view {name!r} is {_holder(array)} without all samples in their order; expected a "
                "NumPy or SciPy array"
            )
        placed.append(placed_rows(array, at, len(samples)))
    return placed, None if present.all() else present
