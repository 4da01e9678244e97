"""How many samples differ from each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview.views.container import Array, Views
from manyview.warn import warn_user

__all__ = ["warn_of_few_distinct"]

_READ_BYTES = 1 << 24


def warn_of_few_distinct(n_clusters: int, views: Views) -> None:
    """Warn of fewer distinct samples than clusters, which would have to split equal ones.

    Of arrays in this process only.
    """
    if views.place != "numpy":
        return
    distinct = _count_distinct(views, n_clusters)
    if distinct < n_clusters:
        warn_user(
            f"n_clusters={n_clusters} is more than the {distinct} distinct sample(s) among "
            f"{views.n_samples}: samples that are the same come into different clusters; expected "
            f"n_clusters of at most {distinct}",
            ConvergenceWarning,
        )


def _count_distinct(views: Views, enough: int) -> int:
    """Return the number of samples that differ in some view; no more are read than are `enough`."""
    per_row = sum(
        array.data.nbytes // views.n_samples if sp.issparse(array) else array[:1].nbytes
        for array in views.arrays
    )
    most = max(1, _READ_BYTES // max(1, per_row))
    seen: set[int] = set()
    begin = 0
    while begin < views.n_samples and len(seen) < enough:
        # of most data the very first rows differ
        end = begin + min(most, max(begin, enough))
        part = views.take(slice(begin, end))
        seen.update(map(hash, zip(*_keys_of_views(part), strict=True)))
        begin = end
    return len(seen)


def _keys_of_views(views: Views) -> list[list[Any]]:
    keys = [_keys(array) for array in views.arrays]
    if views.present is not None:
        # what a row holds that lacks the view does not matter
        for v, here in enumerate(views.present.T):
            keys[v] = [key if there else None for key, there in zip(keys[v], here, strict=True)]
    return keys


def _keys(array: Array) -> list[Any]:
    """Return of each row what equal ones share and others do not."""
    if sp.issparse(array):
        array = array.copy()
        array.eliminate_zeros()
        return [
            array.indices[row].tobytes() + array.data[row].tobytes()
            for row in (slice(*ends) for ends in pairwise(array.indptr))
        ]
    rows = np.ascontiguousarray(array + array.dtype.type(0))  # of two zeros with a sign each, one
    keys: list[Any] = rows.view(np.dtype((np.void, rows[:1].nbytes))).ravel().tolist()
    return keys
