"""Views of a file in the form that a model knows: by the names of views and features."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview import MMC, Views
from manyview.datasets.join import first_few

__all__ = ["as_fitted"]

Names = npt.NDArray[np.str_]


def as_fitted(views: Views, model: MMC) -> Views:
    """Bring views and their features into the order of a model, as far as they have names.

    Files are made anew for new samples, with columns in another order, with words that were not
    there before, or without one of the views. What the model does not know is left out, and views
    that are not there are lacking, both with a warning.

    Parameters
    ----------
    views : Views
        Of a file.
    model : MMC
        A fitted model.

    Returns
    -------
    Views

    Raises
    ------
    ValueError
        If a view lacks features that the model knows.
    """
    known, n = model.view_names_, views.n_samples
    if not views.named or not set(views.names) & set(known):
        return views  # by their places, or for predict to refuse
    unknown = [name for name in views.names if name not in known]
    if unknown:
        _warn(f"the model does not know {_listed('view', unknown)}: left out")
    lacking = [name for name in known if name not in views.names]
    if lacking:
        _warn(f"there is no {_listed('view', lacking)}: all samples lack it")
    arrays: list[Any] = []
    feature_names: list[Names | None] = []
    for v, (name, names) in enumerate(zip(known, model.feature_names_in_, strict=True)):
        if name in lacking:
            arrays.append(sp.csr_array((n, model.n_features_in_[v]), dtype=views.dtype))
            feature_names.append(names)
            continue
        array, given = views[name], views.feature_names[views.index(name)]
        order = None if given is None or names is None else _order(name, given, names)
        arrays.append(array if order is None else array[:, order])
        feature_names.append(given if order is None else names)
    present = np.ones((n, len(known)), dtype=np.bool_)
    for v, name in enumerate(known):
        if name in lacking:
            present[:, v] = False
        elif views.present is not None:
            present[:, v] = views.present[:, views.index(name)]
    return replace(
        views,
        arrays=tuple(arrays),
        names=tuple(known),
        feature_names=tuple(feature_names),
        present=None if present.all() else present,
        checked=False,  # a sample may be left with no view
    )


def _order(view: str, given: Names, known: Names) -> npt.NDArray[np.intp] | None:
    """Return where the features that a model knows are, None where they are in order."""
    if np.array_equal(given, known):
        return None
    places = {name: d for d, name in enumerate(given.tolist())}
    missing = [name for name in known.tolist() if name not in places]
    if missing:
        raise ValueError(
            f"view {view!r} lacks {len(missing)} of the {len(known)} features that the model knows "
            f"({first_few(missing)})"
        )
    if len(given) > len(known):
        unknown = sorted(set(places) - set(known.tolist()), key=places.__getitem__)
        _warn(
            f"view {view!r} has {len(unknown)} features that the model does not know "
            f"({first_few(unknown)}): left out"
        )
    return np.array([places[name] for name in known.tolist()], dtype=np.intp)


def _listed(what: str, names: list[str]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {first_few(names)}"


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=3)
