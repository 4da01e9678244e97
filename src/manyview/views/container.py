"""The class Views: several arrays that describe the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NoReturn, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.views.backends import Place, dtype_of, place_of, tensor_rows

__all__ = ["Array", "Views", "listed"]

Array: TypeAlias = Any
"""A dense NumPy array, SciPy CSR array, torch tensor or Dask array with samples as rows."""

Rows: TypeAlias = slice | Sequence[int] | Sequence[bool] | npt.NDArray[Any]
"""Samples: a slice, a mask with one entry per sample, or indices."""


@dataclass(frozen=True, eq=False)
class Views:
    """Several views of the same samples: row ``n`` of every array is sample ``n``.

    A table of samples, like a DataFrame: ``len(views)`` is the number of samples,
    ``views[10:20]``, ``views[mask]`` and ``views[indices]`` are the Views of some samples, and
    ``views["text"]`` is the array of a view. scikit-learn splits such a table by its samples.
    Iteration, as in ``X_text, X_image = views``, goes through the arrays. A single integer is
    rejected, because it could mean a view as well as a sample: write ``views.arrays[0]`` or
    ``views[0:1]``. Built by :func:`as_views`.

    Attributes
    ----------
    arrays : tuple of ndarray, csr_array, torch tensor or Dask array
        One array of shape (n_samples, n_features) per view.
    names : tuple of str
        Names of the views, ``view0``, ``view1``, ... where the caller gave none.
    feature_names : tuple of ndarray of str or None
        Names of the features of each view, None where the caller gave none.
    present : ndarray of bool of shape (n_samples, n_views), or None
        True where a sample has a view; None if every sample has every view.
    named : bool
        True if the caller named the views.
    checked : bool
        True if :func:`as_views` has validated the arrays.
    ranges : tuple of (float, float), or None
        Smallest and largest entry of each view, where :func:`as_views` has just read them. They
        are dropped when the views are passed to it again: arrays may have changed in place.
    sample_ids : pandas Index, ndarray of str, or None
        Names of the samples: the index of DataFrames and AnnData objects, the ids of a file.
    unknown : tuple of float, or None
        Part of the cells of each view that are unknown (NaN), among the samples that have the view;
        None if all cells are known.
    known : tuple of boolean arrays or None, or None
        Which cells of each view are known. Only :func:`fill_unknown` sets it, which puts means in
        the place of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from manyview import as_views
    >>> views = as_views({"text": np.eye(3), "image": np.ones((3, 2)) * [[1], [2], [3]]})
    >>> views.names, views.n_features, views["image"].shape
    (('text', 'image'), [3, 2], (3, 2))
    >>> len(views), views.shape, views[1:]
    (3, (3, 2), Views(2 samples; text: 3 x float64, image: 2 x float64))
    """

    arrays: tuple[Array, ...]
    names: tuple[str, ...]
    feature_names: tuple[npt.NDArray[np.str_] | None, ...]
    present: npt.NDArray[np.bool_] | None = None
    named: bool = False
    checked: bool = False
    ranges: tuple[tuple[float, float], ...] | None = None
    sample_ids: Any = None
    unknown: tuple[float, ...] | None = None
    known: tuple[Array | None, ...] | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.arrays[0].shape[0])

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and number of views."""
        return self.n_samples, self.n_views

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return [int(array.shape[1]) for array in self.arrays]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of computations on these views: float32 unless a view needs more."""
        return np.result_type(np.float32, *(dtype_of(array) for array in self.arrays))

    @property
    def place(self) -> Place:
        """Package that holds the arrays: ``"numpy"`` (and SciPy), ``"torch"`` or ``"dask"``."""
        return place_of(self.arrays[0])

    def take(self, rows: npt.ArrayLike | slice) -> Views:
        """Return the views of some samples.

        Parameters
        ----------
        rows : int, slice, or array-like of int or bool
            Indices of the samples, in the order wanted, a slice, or a mask with one entry per
            sample.

        Returns
        -------
        Views
            The same views of these samples.

        Examples
        --------
        >>> import numpy as np
        >>> from manyview import as_views
        >>> views = as_views([np.arange(6).reshape(3, 2), np.eye(3)])
        >>> views.take([2, 0]).arrays[0].tolist()
        [[4, 5], [0, 1]]
        >>> views.take(slice(0, 2)).n_samples, views.take([False, True, True]).n_samples
        (2, 2)
        """
        index = _row_index(rows, self.n_samples)

        def some(array: Array) -> Array:
            return tensor_rows(array, index) if self.place == "torch" else array[index]

        present = None if self.present is None else self.present[index]
        if present is not None and present.all():
            present = None
        arrays, known, unknown = tuple(map(some, self.arrays)), None, self.unknown
        if self.known is not None:
            known = tuple(None if cells is None else some(cells) for cells in self.known)
        elif unknown is not None:
            held = [None if present is None else present[:, v] for v in range(self.n_views)]
            parts = tuple(
                _unknown_part(*of_view) if part else 0.0
                for part, *of_view in zip(unknown, arrays, held, strict=True)
            )
            unknown = parts if any(parts) else None
        ids = None if self.sample_ids is None else self.sample_ids[index]
        return replace(
            self,
            arrays=arrays,
            present=present,
            ranges=None,
            sample_ids=ids,
            known=known,
            unknown=unknown,
        )

    def items(self) -> Iterator[tuple[str, Array]]:
        """Iterate over pairs of the name and the array of a view.

        Returns
        -------
        iterator of (str, array)
            The views in their order.

        Examples
        --------
        >>> import numpy as np
        >>> from manyview import as_views
        >>> {name: X.shape for name, X in as_views({"text": np.eye(3)}).items()}
        {'text': (3, 3)}
        """
        return zip(self.names, self.arrays, strict=True)

    def __len__(self) -> int:
        return self.n_samples

    def __iter__(self) -> Iterator[Array]:
        return iter(self.arrays)

    __reversed__ = None  # would take the number of samples for that of the arrays

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        # NumPy would stack views of one shape, and take the views for samples
        raise TypeError(
            f"Views hold several arrays ({listed(self.names)}) and are not one; use one of them, "
            "views[name], or np.hstack(views.arrays)"
        )

    @overload
    def __getitem__(self, key: str) -> Array: ...
    @overload
    def __getitem__(self, key: Rows | tuple[Any, ...]) -> Views: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no view {key!r}; the views are {listed(self.names)}")
            return self.arrays[self.names.index(key)]
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # as scikit-learn selects rows of anything with a shape
        if isinstance(key, tuple):
            raise TypeError(
                f"Views cannot be indexed by {key!r}; expected samples or the name of a view"
            )
        if isinstance(key, Integral) or getattr(key, "ndim", None) == 0:
            raise TypeError(
                f"views[{key}] could be a view or a sample; expected views.arrays[{key}] or a name "
                f"({listed(self.names)}) for a view, views.take({key}) for a sample"
            )
        return self.take(key)

    def __contains__(self, key: object) -> bool:
        return key in self.names if isinstance(key, str) else any(key is a for a in self.arrays)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the position of a view.

        Parameters
        ----------
        value : str or array
            Name of the view, or the array itself (not an equal one).
        start, stop : int, optional
            Positions to search, as in ``list.index``.

        Returns
        -------
        int
            Position of the view, counted from 0.

        Raises
        ------
        ValueError
            If there is no such view.

        Examples
        --------
        >>> import numpy as np
        >>> from manyview import as_views
        >>> as_views({"text": np.eye(3), "image": np.eye(3)}).index("image")
        1
        """
        for v in range(*slice(start, stop).indices(self.n_views)):
            if value is self.arrays[v] or (isinstance(value, str) and value == self.names[v]):
                return v
        what = repr(value) if isinstance(value, str) else "such array"
        raise ValueError(f"no {what}; the views are {listed(self.names)}")

    def __repr__(self) -> str:
        unknown = self.unknown or (0.0,) * self.n_views
        shares = [f" ({share:.0%} unknown)" if share else "" for share in unknown]
        parts = ", ".join(
            f"{name}: {'sparse ' if sp.issparse(array) else ''}{array.shape[1]} x {array.dtype}"
            f"{share}"
            for (name, array), share in zip(self.items(), shares, strict=True)
        )
        return f"Views({self.n_samples} samples; {parts})"


def _unknown_part(array: Array, here: npt.NDArray[np.bool_] | None) -> float:
    """Return the part of unknown cells in a dense view, of which other rows than `here` are 0."""
    rows, width = array.shape
    count = rows if here is None else int(here.sum())
    return float((array != array).sum()) / float(max(count * width, 1))


def _row_index(rows: Any, n_samples: int) -> Any:
    """Return a slice, or a one-dimensional array of integers or of one boolean per sample."""
    if isinstance(rows, slice):
        return rows
    index = np.atleast_1d(np.asarray(rows))
    if index.size == 0:
        index = index.ravel().astype(np.intp)
    if index.ndim != 1 or index.dtype.kind not in "iub":
        raise IndexError(
            f"samples are indexed by {index.dtype} of shape {index.shape}; expected a slice, a "
            "mask with one entry per sample, or a list of integers"
        )
    if index.dtype.kind == "b":
        if index.size and index.size != n_samples:
            raise IndexError(f"the mask has {index.size} entries; expected {n_samples} samples")
        return index.copy()
    outside = (index >= n_samples) | (index < -n_samples)
    if outside.any():
        raise IndexError(f"no sample {index[outside][0]}; there are {n_samples} samples")
    return index.astype(np.intp, order="C")  # a copy: torch takes no read-only or reversed arrays


def listed(names: Sequence[str] | npt.NDArray[np.str_], most: int | None = None) -> str:
    """Return names in quotes for a message, the first `most` of them if there are more."""
    shown = [repr(str(name)) for name in names[:most]]
    return ", ".join([*shown, "..."] if len(shown) < len(names) else shown)
