"""Views whose samples are told by ids, brought into the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.views import Array
from manyview.views.align import placed_rows

__all__ = ["SAMPLES", "Joined", "Table", "check_ids", "first_few", "join"]

SAMPLES = ("all", "common")


@dataclass(frozen=True, eq=False)
class Table:
    """One view with the ids of its samples.

    Attributes
    ----------
    name : str
        Name of the view.
    source : str
        Where it comes from, for messages.
    ids : ndarray of str of shape (n_samples,)
        Ids of the samples.
    array : ndarray or sparse array of shape (n_samples, n_features)
        The view.
    feature_names : ndarray of str of shape (n_features,)
        Names of the features.
    """

    name: str
    source: str
    ids: Strings
    array: Array
    feature_names: Strings


@dataclass(frozen=True, eq=False)
class Joined:
    """Views in the same order.

    Attributes
    ----------
    ids : ndarray of str of shape (n_samples,)
        Ids of the samples.
    arrays : list of ndarray or csr_array
        The views; the row of a sample that lacks a view is zero.
    present : ndarray of bool of shape (n_samples, n_views), or None
        Which sample has which view; None where every sample has every view.
    """

    ids: Strings
    arrays: list[Array]
    present: npt.NDArray[np.bool_] | None


def join(tables: Sequence[Table], *, samples: str = "all", order: Strings | None = None) -> Joined:
    """Bring tables into the same order of samples.

    Parameters
    ----------
    tables : sequence of Table
        The views.
    samples : {"all", "common"}, default="all"
        Whether to keep the samples of any table or those of all tables.
    order : ndarray of str, optional
        Ids of all samples in their order; by default they come as in the first table, then those
        that only later tables have.

    Returns
    -------
    Joined
        The views.

    Examples
    --------
    >>> words = Table("text", "text.csv", np.array(["a", "b"]), np.eye(2), np.array(["p", "q"]))
    >>> sizes = Table("size", "size.csv", np.array(["b"]), np.array([[7.0]]), np.array(["s"]))
    >>> joined = join([words, sizes])
    >>> joined.arrays[1].tolist(), joined.present.tolist()
    ([[0.0], [7.0]], [[True, False], [True, True]])
    """
    for table in tables:
        check_ids(table.source, table.ids)
    if order is None:
        ids = list(dict.fromkeys(i for table in tables for i in table.ids.tolist()))
    else:
        check_ids("the list of all samples", order)
        ids = order.tolist()
    rows = {i: row for row, i in enumerate(ids)}
    present = np.zeros((len(ids), len(tables)), dtype=bool)
    places = []
    for v, table in enumerate(tables):
        unknown = [i for i in table.ids.tolist() if i not in rows]
        if unknown:
            raise ValueError(
                f"{table.source} has {len(unknown)} samples that the list of all samples lacks "
                f"({first_few(unknown)})"
            )
        places.append(np.asarray([rows[i] for i in table.ids.tolist()], dtype=np.int64))
        present[places[v], v] = True
    arrays = [placed_rows(t.array, at, len(ids)) for t, at in zip(tables, places, strict=True)]
    everything = np.asarray(ids, dtype=np.str_)
    if samples == "all" and not present.all() and present.sum(axis=1).max() > 1:
        return Joined(everything, arrays, present)
    common = present.all(axis=1)
    if not common.any():
        which = "all" if samples == "common" else "any two"
        sources = ", ".join(f"{t.source} ({first_few(t.ids.tolist())})" for t in tables)
        raise ValueError(f"no id is in {which} of {sources}; expected ids in common")
    if common.all():
        return Joined(everything, arrays, None)
    return Joined(everything[common], [array[common] for array in arrays], None)


def first_few(ids: Sequence[str], n: int = 3) -> str:
    """Return some ids, for a message.

    Examples
    --------
    >>> first_few(["a", "b", "c", "d"])
    "'a', 'b', 'c', ..."
    """
    return ", ".join([*(repr(str(i)) for i in ids[:n]), *(["..."] if len(ids) > n else [])])


def check_ids(source: str, ids: Strings) -> None:
    """Raise unless every sample has an id of its own.

    Examples
    --------
    >>> check_ids("text.csv", np.array(["a", "b", "a"]))
    Traceback (most recent call last):
    ValueError: text.csv: id 'a' is in row 1 and in row 3; expected one row a sample
    """
    first: dict[str, int] = {}
    for row, i in enumerate(ids.tolist()):
        if not i:
            raise ValueError(f"{source}: row {row + 1} has no id")
        if i in first:
            raise ValueError(
                f"{source}: id {i!r} is in row {first[i] + 1} and in row {row + 1}; "
                "expected one row a sample"
            )
        first[i] = row
