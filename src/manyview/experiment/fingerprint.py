"""A name for the content of a data set: a change of any entry changes it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyview.datasets import Dataset

__all__ = ["fingerprint"]


def fingerprint(dataset: Dataset) -> str:
    """Return sixteen hexadecimal digits that follow from the views and the classes.

    Parameters
    ----------
    dataset : Dataset

    Returns
    -------
    str

    Examples
    --------
    >>> from manyview.datasets import make_views
    >>> data = make_views(50, 3, random_state=0)
    >>> fingerprint(data) == fingerprint(make_views(50, 3, random_state=0))
    True
    >>> fingerprint(data) == fingerprint(make_views(50, 3, random_state=1))
    False
    """
    digest = hashlib.sha256()
    for name, array in zip(dataset.views.names, dataset.views.arrays, strict=True):
        _add(digest, name)
        if sp.issparse(array):
            for part in (array.data, array.indices, array.indptr):
                _add(digest, part)
        _add(digest, array.shape if sp.issparse(array) else array)
    for extra in (dataset.views.present, dataset.y):
        _add(digest, extra)
    return digest.hexdigest()[:16]


def _add(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray) and not part.dtype.hasobject:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        for begin in range(0, part.shape[0], 4096):  # a memory-mapped array is not read at once
            digest.update(np.ascontiguousarray(part[begin : begin + 4096]).tobytes())
    else:
        # the bytes of an array of objects say where they lie in memory
        content = part.tolist() if isinstance(part, np.ndarray) else part
        digest.update(repr(content).encode())
