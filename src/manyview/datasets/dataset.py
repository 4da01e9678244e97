"""What every loader returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.views import Views

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Views and, where they are known, the classes of their samples.

    Unpacks as ``views, y = dataset``.

    Attributes
    ----------
    views : Views
        The checked views, with the names of views and features where the source has them.
    y : ndarray of int of shape (n_samples,), or None
        Classes, for scoring only.
    class_names : ndarray of str, or None
        ``class_names[k]`` names class ``k`` of ``y``.
    name : str
        What the set is called.
    sample_ids : ndarray of str of shape (n_samples,), or None
        What the source calls each sample.

    Examples
    --------
    >>> from manyview import as_views
    >>> data = Dataset(as_views({"text": [[1.0, 2.0], [0.0, 3.0]]}), np.array([0, 1]), name="two")
    >>> data
    Dataset('two', Views(2 samples; text: 2 x float64), 2 classes)
    >>> views, y = data
    """

    views: Views
    y: npt.NDArray[np.int64] | None = None
    class_names: npt.NDArray[np.str_] | None = None
    name: str = ""
    sample_ids: npt.NDArray[np.str_] | None = None

    def __repr__(self) -> str:
        classes = "no classes" if self.y is None else f"{np.unique(self.y).size} classes"
        return f"Dataset({self.name!r}, {self.views!r}, {classes})"

    def __iter__(self) -> Iterator[Any]:
        return iter((self.views, self.y))
