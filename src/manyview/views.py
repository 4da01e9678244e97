"""What a set of views is, and how a list, a dict or DataFrames become one.

Every view that a user hands over passes :func:`as_views`; nothing behind it checks data again.
The arrays are kept as they were given: dense arrays (memory-mapped ones too) are not copied,
sparse ones become CSR, which costs a copy only when they are in another format.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["Array", "Views", "as_views", "check_n_clusters", "check_same_views"]

Array: TypeAlias = Any
"""A dense NumPy array or a SciPy CSR array with rows as samples."""

_CHECK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Views(Sequence[Array]):
    """The same samples in several forms: one array a view, row ``n`` of each is sample ``n``.

    A sequence of arrays that can also be indexed by name. Built by :func:`as_views`.

    Attributes
    ----------
    arrays : tuple of ndarray or csr_array
        One array of shape (n_samples, n_features) a view.
    names : tuple of str
        Names of the views, ``view0``, ``view1``, ... where the caller gave none.
    feature_names : tuple of ndarray of str or None
        Names of the features of each view, None where the caller gave none.
    present : ndarray of bool of shape (n_samples, n_views), or None
        Which sample has which view; None means that every sample has every view.
    named : bool
        Whether the caller named the views.

    Examples
    --------
    >>> import numpy as np
    >>> from manyview import as_views
    >>> views = as_views({"text": np.eye(3), "image": np.ones((3, 2)) * [[1], [2], [3]]})
    >>> views.names, views.n_features, views["image"].shape
    (('text', 'image'), [3, 2], (3, 2))
    """

    arrays: tuple[Array, ...]
    names: tuple[str, ...]
    feature_names: tuple[npt.NDArray[np.str_] | None, ...]
    present: npt.NDArray[np.bool_] | None = None
    named: bool = False

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.arrays[0].shape[0])

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return [int(array.shape[1]) for array in self.arrays]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which these views are worked on: float32 unless a view needs more."""
        return np.result_type(np.float32, *(array.dtype for array in self.arrays))

    def take(self, rows: npt.ArrayLike) -> Views:
        """Return the views of some samples only, chosen by index, mask or slice."""
        index: Any = rows if isinstance(rows, slice) else np.asarray(rows)
        present = None if self.present is None else self.present[index]
        arrays = tuple(array[index] for array in self.arrays)
        return Views(arrays, self.names, self.feature_names, present, self.named)

    def __len__(self) -> int:
        return len(self.arrays)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.arrays)

    @overload
    def __getitem__(self, key: int | str) -> Array: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Array, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no view {key!r}; the views are {_listed(self.names)}")
            return self.arrays[self.names.index(key)]
        return self.arrays[key]

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}: {'sparse ' if sp.issparse(array) else ''}{array.shape[1]} x {array.dtype}"
            for name, array in zip(self.names, self.arrays, strict=True)
        )
        return f"Views({self.n_samples} samples; {parts})"


def as_views(views: Any, *, present: npt.ArrayLike | None = None, min_samples: int = 1) -> Views:
    """Check what the caller calls views and return them as :class:`Views`.

    Parameters
    ----------
    views : list, tuple or dict of array-likes, or Views
        One 2-D array, SciPy sparse array or pandas DataFrame a view, rows as samples. The keys
        of a dict name the views, the columns of a DataFrame the features.
    present : array-like of bool of shape (n_samples, n_views), optional
        Which sample has which view. A sample takes no feature from a view that it lacks,
        whatever that row holds.
    min_samples : int, default=1
        Fewest samples that will do.

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
    if isinstance(views, Views):
        checked = views
    else:
        named, items = _named_items(views)
        arrays, feature_names = [], []
        for name, item in items:
            array, columns = _as_array(name, item)
            arrays.append(array)
            feature_names.append(columns)
        names = tuple(name for name, _ in items)
        _check_indexes(items)
        checked = Views(tuple(arrays), names, tuple(feature_names), None, named)
        _check_rows(checked)
        for name, array in zip(checked.names, checked.arrays, strict=True):
            _check_values(name, array)
    if checked.n_samples < min_samples:
        raise ValueError(
            f"received {checked.n_samples} sample(s) in view {checked.names[0]!r}; "
            f"at least {min_samples} are needed"
        )
    if present is None:
        return checked
    mask = _as_present(present, checked)
    return Views(checked.arrays, checked.names, checked.feature_names, mask, checked.named)


def check_n_clusters(n_clusters: int, views: Views) -> None:
    """Raise unless ``n_clusters`` clusters can be made of the samples at hand."""
    if n_clusters > views.n_samples:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {views.n_samples} samples received: "
            "every cluster needs at least one sample"
        )


def check_same_views(
    views: Views,
    *,
    names: Sequence[str],
    n_features: Sequence[int],
    feature_names: Sequence[npt.NDArray[np.str_] | None],
) -> Views:
    """Return `views` in the order of those that fit saw, or raise where they differ.

    A dict may list its views in any order; views without names are taken by position.
    """
    names = tuple(names)
    if len(views) != len(names):
        raise ValueError(
            f"received {len(views)} view(s) ({_listed(views.names)}); "
            f"fit saw {len(names)} ({_listed(names)})"
        )
    if views.named and views.names != names:
        if set(views.names) != set(names):
            raise ValueError(
                f"received views named {_listed(views.names)}; fit saw {_listed(names)}"
            )
        order = [views.names.index(name) for name in names]
        views = Views(
            tuple(views.arrays[v] for v in order),
            names,
            tuple(views.feature_names[v] for v in order),
            None if views.present is None else views.present[:, order],
            True,
        )
    for v, name in enumerate(names):
        if views.n_features[v] != n_features[v]:
            raise ValueError(
                f"view {name!r} has {views.n_features[v]} features; fit saw {n_features[v]}"
            )
        new, old = views.feature_names[v], feature_names[v]
        if new is not None and old is not None and not np.array_equal(new, old):
            d = int(np.flatnonzero(new != old)[0])
            raise ValueError(
                f"view {name!r}: feature {d} is named {str(new[d])!r}, fit saw {str(old[d])!r}: "
                "features must come in the order of fit"
            )
    return views


def _named_items(views: Any) -> tuple[bool, list[tuple[str, Any]]]:
    if hasattr(views, "shape") or hasattr(views, "iloc"):
        raise TypeError(
            f"received a single {type(views).__name__} of shape {tuple(views.shape)}; "
            "expected a list, tuple or dict of 2-D views: pass [X] for one view"
        )
    if isinstance(views, Mapping):
        names = [str(key) for key in views]
        if len(set(names)) < len(names):
            raise ValueError(f"view names must differ; received {_listed(names)}")
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


def _as_array(name: str, item: Any) -> tuple[Array, npt.NDArray[np.str_] | None]:
    if _is_frame(item):
        columns = np.asarray([str(column) for column in item.columns], dtype=np.str_)
        array = _frame_values(name, item)
    elif sp.issparse(item):
        columns, array = None, item
    elif item is None or isinstance(item, str | bytes):
        raise TypeError(f"view {name!r} is {item!r}; expected a 2-D array of numbers")
    else:
        columns, array = None, _dense(name, item)
    if array.ndim != 2:
        raise ValueError(
            f"view {name!r} has {array.ndim} dimension(s), shape {tuple(array.shape)}; "
            "expected 2: one row a sample, one column a feature"
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(f"view {name!r} holds {array.dtype}; expected real numbers")
    if array.shape[1] == 0:
        raise ValueError(f"view {name!r} has no features (shape {tuple(array.shape)})")
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    return (_csr(array) if sp.issparse(array) else array), columns


def _dense(name: str, item: Any) -> Array:
    if isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item):
        raise ValueError(
            f"view {name!r} is a masked array; say which samples lack the view with present="
        )
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"view {name!r} is ragged: its rows differ in length") from error
    if array.dtype.kind != "O":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        at, value = next(
            (at, value) for at, value in np.ndenumerate(array) if not _is_number(value)
        )
        raise ValueError(
            f"view {name!r} holds {value!r} at {_position(at)}; expected real numbers"
        ) from None


def _frame_values(name: str, frame: Any) -> Array:
    kinds = [(str(column), dtype) for column, dtype in frame.dtypes.items()]
    bad = [f"{column!r} ({dtype})" for column, dtype in kinds if not _is_numeric_dtype(dtype)]
    if bad:
        raise ValueError(
            f"view {name!r} has {len(bad)} non-numeric column(s): {', '.join(bad[:5])}"
            f"{', ...' if len(bad) > 5 else ''}; expected numbers only"
        )
    if kinds and all(hasattr(dtype, "fill_value") for _, dtype in kinds):
        return frame.sparse.to_coo()
    if any(hasattr(dtype, "na_value") for _, dtype in kinds):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return frame.to_numpy()


def _csr(array: Any) -> Array:
    csr = sp.csr_array(array)
    if not csr.has_canonical_format:
        csr = csr.copy() if csr.data is getattr(array, "data", None) else csr
        csr.sum_duplicates()
    if csr.indices.dtype != np.int32 and max(csr.shape[1], csr.nnz) < np.iinfo(np.int32).max:
        parts = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
        csr = sp.csr_array(parts, shape=csr.shape)
    return csr


def _check_rows(views: Views) -> None:
    first = views.arrays[0].shape[0]
    for name, array in zip(views.names, views.arrays, strict=True):
        if array.shape[0] != first:
            raise ValueError(
                f"view {name!r} has {array.shape[0]} rows, view {views.names[0]!r} has {first}: "
                "views describe the same samples, row by row"
            )
    if first == 0:
        raise ValueError(f"view {views.names[0]!r} has no rows; expected at least one sample")


def _check_indexes(items: list[tuple[str, Any]]) -> None:
    frames = [(name, item) for name, item in items if _is_frame(item)]
    for name, frame in frames[1:]:
        first_name, first = frames[0]
        if len(frame) != len(first) or frame.index.equals(first.index):
            continue
        ours, theirs = np.asarray(frame.index), np.asarray(first.index)
        n = next(n for n in range(len(ours)) if ours[n] != theirs[n])
        raise ValueError(
            f"views {first_name!r} and {name!r} have different indexes: row {n} is "
            f"{theirs[n]!r} in {first_name!r} and {ours[n]!r} in {name!r}; align them first, "
            "for example with DataFrame.reindex"
        )


def _check_values(name: str, array: Array) -> None:
    """Refuse NaN and infinity, and warn of a view that carries nothing."""
    if sp.issparse(array):
        low, high = _range(array.data)
        if array.nnz < array.shape[0] * array.shape[1]:
            low, high = min(low, 0.0), max(high, 0.0)
        finite = not array.nnz or bool(np.isfinite([low, high]).all())
    else:
        low, high = np.inf, -np.inf
        step = max(1, _CHECK_BYTES // max(1, array[:1].nbytes))
        for begin in range(0, array.shape[0], step):
            bounds = _range(array[begin : begin + step])
            low, high = min(low, bounds[0]), max(high, bounds[1])
            if not np.isfinite(bounds).all():
                break
        finite = bool(np.isfinite([low, high]).all())
    if not finite:
        at, value = _first_not_finite(array)
        raise ValueError(
            f"view {name!r} holds {value} at {_position(at)}; expected finite numbers. "
            "For samples that lack a view use zeros and as_views(..., present=...)"
        )
    if low == high and array.shape[0] > 1:
        warnings.warn(
            f"view {name!r} is {low:g} everywhere: it carries nothing and takes no part",
            UserWarning,
            stacklevel=4,
        )


def _range(values: npt.NDArray[Any]) -> tuple[float, float]:
    if values.size == 0:
        return 0.0, 0.0
    # min and max propagate NaN, so that one pass tells finiteness and constancy
    return float(values.min()), float(values.max())


def _first_not_finite(array: Array) -> tuple[tuple[int, ...], float]:
    if sp.issparse(array):
        at = int(np.flatnonzero(~np.isfinite(array.data))[0])
        row = int(np.searchsorted(array.indptr, at, side="right")) - 1
        return (row, int(array.indices[at])), float(array.data[at])
    for row in range(array.shape[0]):
        bad = np.flatnonzero(~np.isfinite(array[row]))
        if bad.size:
            return (row, int(bad[0])), float(array[row, bad[0]])
    raise AssertionError("no such entry")


def _as_present(present: npt.ArrayLike, views: Views) -> npt.NDArray[np.bool_]:
    mask = np.asarray(present)
    expected = (views.n_samples, len(views))
    if mask.shape != expected:
        raise ValueError(f"present has shape {mask.shape}; expected (samples, views) = {expected}")
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("present must hold True and False (or 1 and 0) only")
    mask = mask.astype(bool)
    if not mask.any(axis=1).all():
        n = int(np.flatnonzero(~mask.any(axis=1))[0])
        raise ValueError(f"sample {n} is present in no view; leave such samples out")
    return mask


def _is_frame(item: Any) -> bool:
    return hasattr(item, "iloc") and hasattr(item, "columns")


def _is_numeric_dtype(dtype: Any) -> bool:
    kind = getattr(getattr(dtype, "subtype", dtype), "kind", "O")
    return kind in "fiub"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _position(at: tuple[int, ...]) -> str:
    return f"row {at[0]}, column {at[1]}" if len(at) == 2 else f"position {at}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
