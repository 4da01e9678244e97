"""Alignment of samples by position and of views and features by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview.exceptions import warn_user
from manyview.views.backends import absent_view
from manyview.views.checks import check_same_views
from manyview.views.container import Array, Views, listed

__all__ = ["align_to", "placed_rows", "with_absent"]

Names = npt.NDArray[np.str_]


def align_to(
    views: Views,
    *,
    names: Sequence[str],
    n_features: Sequence[int],
    feature_names: Sequence[Names | None],
    sample_ids: Names | None = None,
) -> Views:
    """Bring views and features into the order of a fit, by their names.

    Data for prediction often come with columns in another order, with features that the fit did
    not have, or without one of the views. Unknown views and features are ignored and views that
    are absent are missing for every sample, both with a warning. Views without names are taken by
    position.

    Parameters
    ----------
    views : Views
        Views of NumPy or SciPy arrays; see :func:`manyview.as_views`.
    names : sequence of str
        Names of the views of the fit, an estimator's ``view_names_``.
    n_features : sequence of int
        Number of features of each view of the fit, ``n_features_in_``.
    feature_names : sequence of ndarray of str or None
        Names of the features of each view of the fit, ``feature_names_in_``.
    sample_ids : ndarray of str of shape (n_samples,), optional
        Names of the samples, for errors.

    Returns
    -------
    Views
        The views of the fit, with its features in its order.

    Raises
    ------
    ValueError
        If a view does not have all features of the fit, or a sample has none of the views.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from manyview import as_views
    >>> frame = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 5.0]})
    >>> known = [np.array(["a", "b"])]
    >>> aligned = align_to(
    ...     as_views({"text": frame}), names=["text"], n_features=[2], feature_names=known
    ... )
    >>> aligned["text"].tolist()
    [[3.0, 1.0], [5.0, 2.0]]
    """
    if views.place != "numpy":
        raise TypeError(f"align_to needs NumPy or SciPy arrays; received views of {views.place}")
    if not views.named and views.n_views == len(names):
        views = replace(views, names=tuple(names))
    elif not views.named or not set(views.names) & set(names):
        return check_same_views(  # raises
            views, names=names, n_features=n_features, feature_names=feature_names
        )
    if unknown := [name for name in views.names if name not in names]:
        warn_user(f"views that the fit did not have are ignored: {listed(unknown)}")
    arrays: list[Array] = []
    aligned_names: list[Names | None] = []
    present = np.ones((views.n_samples, len(names)), dtype=np.bool_)
    for v, (name, known) in enumerate(zip(names, feature_names, strict=True)):
        if name not in views.names:
            warn_user(f"view {name!r} is absent; it is treated as missing for every sample")
            arrays.append(absent_view(views.arrays[0], n_features[v], views.dtype))
            aligned_names.append(known)
            present[:, v] = False
            continue
        at = views.index(name)
        array, given = views.arrays[at], views.feature_names[at]
        if given is not None and known is not None and not np.array_equal(given, known):
            array, given = array[:, _feature_order(name, given, known)], known
        arrays.append(array)
        aligned_names.append(given)
        if views.present is not None:
            present[:, v] = views.present[:, at]
    check_some_view(present, names, sample_ids)
    return replace(
        views,
        arrays=tuple(arrays),
        names=tuple(names),
        feature_names=tuple(aligned_names),
        present=None if present.all() else present,
        ranges=None,
    )


def with_absent(
    views: Views,
    *,
    names: Sequence[str],
    n_features: Sequence[int],
    feature_names: Sequence[Names | None],
) -> Views:
    """Return named views with those of a fit that they leave out, which no sample has.

    Views that the fit does not have, or none of its views, are left as they are.
    """
    given = set(views.names)
    absent = [v for v, name in enumerate(names) if name not in given]
    if not views.named or not absent or not given < set(names):
        return views
    here = np.ones(views.shape, dtype=bool) if views.present is None else views.present
    present = np.column_stack([here, np.zeros((views.n_samples, len(absent)), dtype=bool)])
    check_some_view(present, names, None)
    added = [absent_view(views.arrays[0], n_features[v], views.dtype) for v in absent]
    return replace(
        views,
        arrays=(*views.arrays, *added),
        names=(*views.names, *(names[v] for v in absent)),
        feature_names=(*views.feature_names, *(feature_names[v] for v in absent)),
        present=present,
        ranges=None,
        unknown=None if views.unknown is None else (*views.unknown, *(0.0 for _ in absent)),
    )


def check_some_view(
    present: npt.NDArray[np.bool_], names: Sequence[str], sample_ids: Names | None
) -> None:
    """Raise if a sample has none of the views of a fit."""
    without = np.flatnonzero(~present.any(axis=1))
    if without.size:
        shown = without.astype(np.str_) if sample_ids is None else sample_ids[without]
        raise ValueError(
            f"{without.size} samples ({listed(shown, 3)}) have none of the views of the fit "
            f"({listed(names)}); drop them"
        )


def _feature_order(view: str, given: Names, known: Names) -> npt.NDArray[np.intp]:
    """Return the columns of the features of the fit."""
    for names in (given, known):
        name, times = Counter(names.tolist()).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"view {view!r}: {times} features are named {name!r}, so they cannot be aligned by "
                "name; expected the features of fit, in their order"
            )
    columns = {name: d for d, name in enumerate(given.tolist())}
    if absent := [name for name in known.tolist() if name not in columns]:
        raise ValueError(
            f"view {view!r} misses {len(absent)} of the {len(known)} features of the fit "
            f"({listed(absent, 3)})"
        )
    wanted = set(known.tolist())
    if unknown := [name for name in columns if name not in wanted]:
        warn_user(
            f"view {view!r}: {len(unknown)} features that the fit did not have are ignored "
            f"({listed(unknown, 3)})"
        )
    return np.array([columns[name] for name in known.tolist()], dtype=np.intp)


def placed_rows(array: Any, at: npt.NDArray[np.integer[Any]], n_samples: int) -> Array:
    """Return a view of all `n_samples` with row i of `array` at ``at[i]`` and zeros elsewhere.

    Examples
    --------
    >>> placed_rows(np.array([[7], [5]]), np.array([2, 0]), 3).tolist()
    [[5], [0], [7]]
    """
    if len(at) == n_samples and (at == np.arange(n_samples)).all():
        return sp.csr_array(array) if sp.issparse(array) else array
    if sp.issparse(array):
        # samples without the view take an empty last row
        longer = sp.vstack([array, sp.csr_array((1, array.shape[1]), dtype=array.dtype)], "csr")
        source = np.full(n_samples, array.shape[0])
        source[at] = np.arange(len(at))
        return longer[source]
    placed = np.zeros((n_samples, array.shape[1]), dtype=array.dtype)
    placed[at] = array
    return placed
