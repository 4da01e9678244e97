"""AnnData and MuData objects as views.

They are known by what they have, so that neither package is needed: whoever has such an object at
hand has imported it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.views.align import placed_rows
from manyview.views.places import place_of

__all__ = ["annotated_matrix", "is_annotated", "modalities_of", "rows_of_all"]


def is_annotated(item: Any) -> bool:
    """Return whether a view is an AnnData object: a matrix with names of rows and columns."""
    # not whether it has X, which of a part of another is copied whenever it is asked for
    return all(hasattr(item, name) for name in ("obs_names", "var_names", "isbacked"))


def annotated_matrix(name: str, item: Any) -> tuple[Any, npt.NDArray[np.str_]]:
    """Return the matrix ``X`` of an AnnData object and the names of its features."""
    if item.isbacked:
        raise TypeError(f"view {name!r} is on disk; bring it here first with .to_memory()")
    if hasattr(item, "mod"):
        raise TypeError(f"view {name!r} is a MuData object; hand it over by itself, or its .mod")
    matrix = item.X
    if matrix is None:
        raise ValueError(f"view {name!r} has no X, the matrix that is taken of AnnData objects")
    return matrix, np.asarray([str(feature) for feature in item.var_names], dtype=np.str_)


def modalities_of(views: Any) -> Mapping[str, Any] | None:
    """Return the AnnData objects of a MuData object by their names; None of anything else."""
    modalities = getattr(views, "mod", None)
    if not isinstance(modalities, Mapping) or not hasattr(views, "obs_names"):
        return None
    if getattr(views, "axis", 0) == 1:
        raise ValueError(
            f"received a MuData object with axis={views.axis}, whose modalities have features in "
            "common; expected samples in common, axis=0"
        )
    return modalities


def rows_of_all(
    names: Sequence[str], arrays: Sequence[Any], indexes: Sequence[Any], everything: Any
) -> tuple[list[Any], npt.NDArray[np.bool_] | None]:
    """Bring views of some of the samples into the order of all; lacking rows are zero.

    Parameters
    ----------
    names : sequence of str
        Names of the views.
    arrays : sequence of ndarray or sparse array
        The views.
    indexes : sequence of pandas Index
        Names of the samples of each.
    everything : pandas Index
        Names of all samples.

    Returns
    -------
    arrays : list of ndarray or sparse array
    present : ndarray of bool of shape (n_samples, n_views), or None
        Which sample has which view; None where every sample has every view.
    """
    for index in (*indexes, everything):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(f"{str(twice)!r} names several samples: use obs_names_make_unique()")
    present = np.zeros((len(everything), len(arrays)), dtype=np.bool_)
    placed = []
    for v, (name, array, index) in enumerate(zip(names, arrays, indexes, strict=True)):
        at = everything.get_indexer(index)
        if (at < 0).any():
            raise ValueError(
                f"view {name!r} has a sample {str(index[at < 0][0])!r} that is not among those of "
                "the MuData object: call its update() first"
            )
        present[at, v] = True
        if place_of(array) != "numpy" and not np.array_equal(at, np.arange(len(everything))):
            raise TypeError(
                f"view {name!r} is of {place_of(array)}, and not of all samples in their order; "
                "bring it to this process first"
            )
        placed.append(placed_rows(array, at, len(everything)))
    return placed, None if present.all() else present
