"""The class Views: several arrays that describe the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.views.backends import Place, dtype_of, place_of, tensor_rows

__all__ = ["Array", "Views", "listed"]

Array: TypeAlias = Any
"""A dense NumPy array, SciPy CSR array, torch tensor or Dask array with samples as rows."""


@dataclass(frozen=True, eq=False)
class Views(Sequence[Array]):
    """Several views of the same samples: row ``n`` of every array is sample ``n``.

    A sequence of arrays that can also be indexed by view name. Built by :func:`as_views`.

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
    checked: bool = False
    ranges: tuple[tuple[float, float], ...] | None = None

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
        >>> views.take([2, 0])[0].tolist()
        [[4, 5], [0, 1]]
        >>> views.take(slice(0, 2)).n_samples, views.take([False, True, True]).n_samples
        (2, 2)
        """
        index: Any = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        if not isinstance(index, slice) and index.size == 0:
            index = index.astype(np.intp)
        present = None if self.present is None else self.present[index]
        if present is not None and present.all():
            present = None
        if self.place == "torch":
            arrays = tuple(tensor_rows(array, index) for array in self.arrays)
        else:
            arrays = tuple(array[index] for array in self.arrays)
        return replace(self, arrays=arrays, present=present, ranges=None)

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
                raise KeyError(f"no view {key!r}; the views are {listed(self.names)}")
            return self.arrays[self.names.index(key)]
        return self.arrays[key]

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
        for v in range(*slice(start, stop).indices(len(self))):
            if value is self.arrays[v] or (isinstance(value, str) and value == self.names[v]):
                return v
        what = repr(value) if isinstance(value, str) else "such array"
        raise ValueError(f"no {what}; the views are {listed(self.names)}")

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}: {'sparse ' if sp.issparse(array) else ''}{array.shape[1]} x {array.dtype}"
            for name, array in zip(self.names, self.arrays, strict=True)
        )
        return f"Views({self.n_samples} samples; {parts})"


def listed(names: Sequence[str] | npt.NDArray[np.str_], most: int | None = None) -> str:
    """Return names in quotes for a message, the first `most` of them if there are more."""
    shown = [repr(str(name)) for name in names[:most]]
    return ", ".join([*shown, "..."] if len(shown) < len(names) else shown)
