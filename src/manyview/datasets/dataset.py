"""The Dataset container, assembled from what a reader found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.views import Array, Views, as_views, unchecked_views
from manyview.views.align import placed_rows

__all__ = [
    "SAMPLES",
    "Dataset",
    "Joined",
    "Table",
    "as_strings",
    "assemble",
    "check_ids",
    "encode_labels",
    "extra",
    "first_few",
    "join",
]


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


def encode_labels(
    labels: Any, n_samples: int, class_names: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.str_]]:
    """Give every class a number, from 0, and a name.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Numbers or strings; numbers 0 to K - 1 where ``class_names`` names the K classes.
    n_samples : int
        How many labels there should be.
    class_names : array-like of str of shape (n_classes,), optional
        Names of the classes; by default the labels themselves, in sorted order.

    Returns
    -------
    codes : ndarray of int64 of shape (n_samples,)
        The classes.
    names : ndarray of str of shape (n_classes,)
        Their names.

    Examples
    --------
    >>> encode_labels([2.0, 1.0, 2.0], 3)
    (array([1, 0, 1]), array(['1', '2'], dtype='<U1'))
    """
    array = _as_array(labels)
    if array.ndim != 1 or len(array) != n_samples:
        raise ValueError(
            f"labels have shape {array.shape}; expected one for each of {n_samples} samples"
        )
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"labels hold {array.dtype}; expected numbers or strings")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            n = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"the label of sample {n} is {array[n]}; expected a finite number")
        # MATLAB keeps whole numbers as floats, and 1.0 is a poor name for class 1
        if (np.abs(array) < 2**53).all() and (array == np.rint(array)).all():
            array = array.astype(np.int64)
    if class_names is None:
        classes, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.int64), as_strings(classes)
    names = as_strings(np.asarray(class_names))
    if names.ndim != 1 or not len(names):
        raise ValueError(f"class_names have shape {names.shape}; expected one name a class")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels hold {array.dtype}; with class_names, expected whole numbers")
    if array.min() < 0 or array.max() >= len(names):
        raise ValueError(
            f"labels run from {array.min()} to {array.max()}; with the names of {len(names)} "
            f"classes, expected 0 to {len(names) - 1}"
        )
    return array.astype(np.int64), names


def as_strings(array: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    """Return the elements as strings, bytes taken as UTF-8."""
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    return np.asarray([str(item) for item in array.ravel().tolist()], np.str_).reshape(array.shape)


def _as_array(labels: Any) -> npt.NDArray[Any]:
    array = np.asarray(labels)
    if array.dtype.kind not in "OUT":
        return array
    # NumPy would write a mixture as strings, missing values too
    objects = np.asarray(labels, dtype=object)
    others = [label for label in objects.ravel() if not isinstance(label, str)]
    if not others:
        return objects.astype(np.str_)
    if len(others) < objects.size:
        raise ValueError(
            f"labels mix strings with {others[0]!r}; expected all numbers or all strings"
        )
    return np.asarray(objects.tolist())


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
        As :func:`manyview.datasets.dataset.encode_labels` takes them.
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


def extra(module: str, purpose: str) -> Any:
    """Import a module of the extra ``io``, or say how to install it.

    Parameters
    ----------
    module : str
        The module.
    purpose : str
        What needs it, for the message.

    Returns
    -------
    module
        The module.

    Examples
    --------
    >>> extra("no_such_package", "reading .xyz files")
    Traceback (most recent call last):
    ...
    ImportError: reading .xyz files needs no_such_package: pip install 'manyview[io]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install 'manyview[io]'", name=package
        ) from error
