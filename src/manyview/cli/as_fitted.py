"""Views of a file in the form that a model knows: by the names of views and features."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview import MMC, Views
from manyview.datasets import Dataset
from manyview.datasets.dataset import first_few
from manyview.exceptions import warn_user

__all__ = ["as_fitted"]

Names = npt.NDArray[np.str_]


def as_fitted(dataset: Dataset, model: MMC) -> Views:
    """Bring views and their features into the order of a model, as far as they have names.

    Files are made anew for new samples, with columns in another order, with words that were not
    there before, or without one of the views. What the model does not know is left out, and views
    that are not there are lacking, both with a warning. Views without names are taken by place.

    Parameters
    ----------
    dataset : Dataset
        Of a file.
    model : MMC
        A fitted model.

    Returns
    -------
    Views

    Raises
    ------
    ValueError
        If a view lacks features that the model knows, or a sample all of its views.
    """
    views, known = dataset.views, model.view_names_
    if not views.named and len(views) == len(known):
        views = replace(views, names=tuple(known))
    elif not views.named or not set(views.names) & set(known):
        return views  # for predict to refuse
    unknown = [name for name in views.names if name not in known]
    if unknown:
        warn_user(f"the model does not know {_counted(unknown, 'view')}: left out")
    lacking = [name for name in known if name not in views.names]
    if lacking:
        told = ", ".join(map(repr, lacking))
        warn_user(f"DATA has no view {told}: predicted as if every sample lacked it")
    arrays: list[Any] = []
    feature_names: list[Names | None] = []
    present = np.ones((views.n_samples, len(known)), dtype=np.bool_)
    for v, (name, names) in enumerate(zip(known, model.feature_names_in_, strict=True)):
        if name in lacking:
            shape = (views.n_samples, model.n_features_in_[v])
            arrays.append(sp.csr_array(shape, dtype=views.dtype))
            feature_names.append(names)
            present[:, v] = False
            continue
        at = views.index(name)
        given = views.feature_names[at]
        order = None if given is None or names is None else _order(name, given, names)
        arrays.append(views[at] if order is None else views[at][:, order])
        feature_names.append(given if order is None else names)
        if views.present is not None:
            present[:, v] = views.present[:, at]
    _check_present(present, dataset.sample_ids)
    return replace(
        views,
        arrays=tuple(arrays),
        names=tuple(known),
        feature_names=tuple(feature_names),
        present=None if present.all() else present,
    )


def _order(view: str, given: Names, known: Names) -> npt.NDArray[np.intp] | None:
    """Return where the features that a model knows are, None where they are in order."""
    if np.array_equal(given, known):
        return None
    for names in (given, known):
        name, times = Counter(names.tolist()).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"view {view!r}: {times} features are named {name!r} and cannot be told apart; "
                "expected the features of fit, in their order"
            )
    places = {name: d for d, name in enumerate(given.tolist())}
    missing = [name for name in known.tolist() if name not in places]
    if missing:
        raise ValueError(
            f"view {view!r} lacks {len(missing)} of the {len(known)} features that the model knows "
            f"({first_few(missing)})"
        )
    unknown = sorted(set(places) - set(known.tolist()), key=places.__getitem__)
    if unknown:
        warn_user(
            f"view {view!r}: the model does not know {_counted(unknown, 'feature')}: left out"
        )
    return np.array([places[name] for name in known.tolist()], dtype=np.intp)


def _check_present(present: npt.NDArray[np.bool_], ids: Names | None) -> None:
    """Raise where a sample has none of the views."""
    without = np.flatnonzero(~present.any(axis=1))
    if without.size:
        told = without.astype(np.str_) if ids is None else ids[without]
        raise ValueError(
            f"{without.size} of the samples have none of the views that the model knows "
            f"({first_few(told.tolist())}); leave them out"
        )


def _counted(names: list[str], what: str) -> str:
    if len(names) == 1:
        return f"{what} {names[0]!r}"
    return f"{len(names)} {what}s ({first_few(names)})"
