"""From what a reader found in a file to a checked Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.datasets.dataset import Dataset
from manyview.datasets.join import check_ids
from manyview.datasets.labels import encode_labels
from manyview.views import Array, as_views, unchecked_views

__all__ = ["assemble"]

Names = npt.NDArray[np.str_]


def assemble(
    arrays: Sequence[Array],
    *,
    view_names: Sequence[str] | None = None,
    feature_names: Sequence[Names | None] | None = None,
    present: Any = None,
    labels: Any = None,
    class_names: Any = None,
    name: str = "",
    sample_ids: Names | None = None,
) -> Dataset:
    """Check the parts of a data set against each other and put them together.

    Parameters
    ----------
    arrays : sequence of ndarray or sparse array
        The views, rows as samples.
    view_names : sequence of str, optional
        One for each view.
    feature_names : sequence of ndarray of str or None, optional
        For each view, one for each feature.
    present : array-like of bool of shape (n_samples, n_views), optional
        Which sample has which view.
    labels, class_names : array-like, optional
        As :func:`manyview.datasets.labels.encode_labels` takes them.
    name : str, default=""
        What the set is called.
    sample_ids : ndarray of str of shape (n_samples,), optional
        What the source calls each sample.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> assemble([np.eye(2), np.eye(2, 3)], view_names=["text", "image"], labels=[1, 2]).views
    Views(2 samples; text: 2 x float64, image: 3 x float64)
    """
    names = [f"view{v}" for v in range(len(arrays))]
    if view_names is not None and len(view_names) != len(arrays):
        raise ValueError(f"{len(view_names)} names for {len(arrays)} views: {list(view_names)}")
    # names that say no more than the position are none: such views may meet others unnamed
    if view_names is None or list(view_names) == names:
        views = unchecked_views(list(arrays))
    elif len(set(view_names)) < len(view_names):
        raise ValueError(f"the views are named {list(view_names)}; expected names that differ")
    else:
        views = unchecked_views(dict(zip(view_names, arrays, strict=True)))
    if feature_names is not None:
        for view, width, features in zip(views.names, views.n_features, feature_names, strict=True):
            if features is not None and features.shape != (width,):
                raise ValueError(
                    f"view {view!r} has {width} features and names of shape {features.shape}; "
                    "expected one name a feature"
                )
        views = replace(views, feature_names=tuple(feature_names))
    views = as_views(views, present=present)
    if sample_ids is not None:
        if sample_ids.shape != (views.n_samples,):
            raise ValueError(
                f"the ids of samples have shape {sample_ids.shape}; expected one for each of "
                f"{views.n_samples} samples"
            )
        check_ids("the ids of samples", sample_ids)
    if labels is None:
        return Dataset(views, name=name, sample_ids=sample_ids)
    y, classes = encode_labels(labels, views.n_samples, class_names)
    return Dataset(views, y, classes, name, sample_ids)
