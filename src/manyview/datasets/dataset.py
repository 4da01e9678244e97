"""The Dataset container, and the checks and joins that readers of files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from manyview._typing import Strings
from manyview.exceptions import warn_user
from manyview.views import Array, Views, as_views, unchecked_views
from manyview.views.align import placed_rows
from manyview.views.checks import check_compressed

__all__ = [
    "Classes",
    "Dataset",
    "Table",
    "as_strings",
    "assemble",
    "check_ids",
    "compressed",
    "encode_labels",
    "extra",
    "first_few",
    "join",
    "labels_of",
]

Classes: TypeAlias = npt.NDArray[np.int64]
"""One class per sample, numbered from 0."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar as _TypeVarWithDefault

    KnownClasses = _TypeVarWithDefault(
        "KnownClasses", bound=Classes | None, default=Classes | None, covariant=True
    )
else:
    KnownClasses = TypeVar("KnownClasses", covariant=True)


@dataclass(frozen=True, eq=False)
class Dataset(tuple[Views, KnownClasses], Generic[KnownClasses]):
    """Views and, if they are known, the classes of their samples.

    Unpacks as ``views, y = dataset``. It is a tuple of the two, so that type checkers know the type
    of either: ``Dataset[Classes]`` certainly has classes, ``Dataset`` may have none.

    Attributes
    ----------
    views : Views
        The checked views, with the names of views and features that the source has.
    y : ndarray of int of shape (n_samples,), or None
        Classes, for scoring only.
    class_names : ndarray of str, or None
        ``class_names[k]`` is the name of class ``k`` of ``y``.
    name : str
        Name of the data set.
    sample_ids : ndarray of str of shape (n_samples,), or None
        Ids of the samples in the source.
    notes : tuple of str
        How tables were read: what was detected, encoded and dropped.

    Examples
    --------
    >>> from manyview import as_views
    >>> data = Dataset(as_views({"text": [[1.0, 2.0], [0.0, 3.0]]}), np.array([0, 1]), name="two")
    >>> data
    Dataset('two', Views(2 samples; text: 2 x float64), 2 classes)
    >>> views, y = data
    """

    views: Views
    y: KnownClasses = None  # type: ignore[assignment]
    class_names: npt.NDArray[np.str_] | None = None
    name: str = ""
    sample_ids: npt.NDArray[np.str_] | None = None
    notes: tuple[str, ...] = ()

    def __new__(
        cls,
        views: Views,
        y: Any = None,
        class_names: npt.NDArray[np.str_] | None = None,
        name: str = "",
        sample_ids: npt.NDArray[np.str_] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Create the tuple of views and classes; the other attributes are set by ``__init__``."""
        return tuple.__new__(cls, (views, y))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.views, self.y

    def __eq__(self, other: object) -> bool:
        return self is other  # arrays have no single answer

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        classes = "no classes" if self.y is None else f"{np.unique(self.y).size} classes"
        return f"Dataset({self.name!r}, {self.views!r}, {classes})"


def assemble(
    arrays: Sequence[Array],
    *,
    view_names: Sequence[str] | None = None,
    feature_names: Sequence[Strings | None] | None = None,
    present: Any = None,
    labels: Any = None,
    class_names: Any = None,
    name: str = "",
    sample_ids: Strings | None = None,
    notes: Sequence[str] = (),
) -> Dataset:
    """Check the parts of a data set against each other and return the Dataset.

    Examples
    --------
    >>> assemble([np.eye(2), np.eye(2, 3)], view_names=["text", "image"], labels=[1, 2]).views
    Views(2 samples; text: 2 x float64, image: 3 x float64)
    """
    if view_names is not None and len(view_names) != len(arrays):
        raise ValueError(f"{len(view_names)} names for {len(arrays)} views: {list(view_names)}")
    # names that only count the views are dropped: such views may meet others without names
    if view_names is None or list(view_names) == [f"view{v}" for v in range(len(arrays))]:
        views = unchecked_views(list(arrays))
    elif len(set(view_names)) < len(view_names):
        raise ValueError(f"the views are named {list(view_names)}; expected distinct names")
    else:
        views = unchecked_views(dict(zip(view_names, arrays, strict=True)))
    if feature_names is not None:
        for view, width, features in zip(views.names, views.n_features, feature_names, strict=True):
            if features is not None and features.shape != (width,):
                raise ValueError(
                    f"view {view!r} has {width} features and feature names of shape "
                    f"{features.shape}; expected one name per feature"
                )
        views = replace(views, feature_names=tuple(feature_names))
    views = as_views(views, present=present)
    if sample_ids is not None:
        views = _with_ids(views, sample_ids)
    if labels is None:
        return Dataset(views, name=name, sample_ids=sample_ids, notes=tuple(notes))
    y, classes = encode_labels(labels, views.n_samples, class_names)
    return Dataset(views, y, classes, name, sample_ids, tuple(notes))


def _with_ids(views: Views, sample_ids: Strings) -> Views:
    if sample_ids.shape != (views.n_samples,):
        raise ValueError(
            f"the sample ids have shape {sample_ids.shape}; expected one for each of "
            f"{views.n_samples} samples"
        )
    check_ids("the sample ids", sample_ids)
    return replace(views, sample_ids=sample_ids)


def encode_labels(
    labels: Any, n_samples: int, class_names: Any = None
) -> tuple[npt.NDArray[np.int64], Strings]:
    """Return class codes from 0 and the names of the classes.

    With `class_names`, the labels must be valid indices into them. Otherwise the classes are the
    sorted labels.

    Examples
    --------
    >>> encode_labels([2.0, 1.0, 2.0], 3)
    (array([1, 0, 1]), array(['1', '2'], dtype='<U1'))
    """
    array = _label_array(labels)
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
        # MATLAB stores whole numbers as floats, and 1.0 is a poor name for class 1
        if (np.abs(array) < 2**53).all() and (array == np.rint(array)).all():
            array = array.astype(np.int64)
    if class_names is None:
        classes, codes = np.unique(array, return_inverse=True)
        return codes.astype(np.int64), as_strings(classes)
    names = as_strings(np.asarray(class_names))
    if names.ndim != 1 or not len(names):
        raise ValueError(f"class_names have shape {names.shape}; expected one name per class")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels hold {array.dtype}; with class_names, expected whole numbers")
    if array.min() < 0 or array.max() >= len(names):
        raise ValueError(
            f"labels range from {array.min()} to {array.max()}; with {len(names)} class_names, "
            f"expected 0 to {len(names) - 1}"
        )
    return array.astype(np.int64), names


def _label_array(labels: Any) -> npt.NDArray[Any]:
    array = np.asarray(labels)
    if array.dtype.kind not in "OUT":
        return array
    # NumPy would turn a mixture, and missing values, into strings
    objects = np.asarray(labels, dtype=object)
    others = [label for label in objects.ravel() if not isinstance(label, str)]
    if not others:
        return objects.astype(np.str_)
    if len(others) < objects.size:
        raise ValueError(
            f"labels mix strings with {others[0]!r}; expected all numbers or all strings"
        )
    return np.asarray(objects.tolist())


def as_strings(array: npt.NDArray[Any]) -> Strings:
    """Return the elements as strings. Bytes are decoded as UTF-8."""
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    return np.asarray([str(item) for item in array.ravel().tolist()], np.str_).reshape(array.shape)


@dataclass(frozen=True, eq=False)
class Table:
    """One view with its sample ids; `source` names the table in messages."""

    name: str
    source: str
    ids: Strings
    array: Array
    feature_names: Strings | None


def join(
    tables: Sequence[Table],
    *,
    samples: Literal["all", "common"] = "all",
    order: Strings | None = None,
) -> tuple[Strings, dict[str, Any]]:
    """Align tables by sample id.

    Returns the ids, and the views with their names as keyword arguments of :func:`assemble`.
    Samples come in the order of `order`, else of the tables. They are those of any table, or
    those of all tables with ``samples="common"``. Rows of missing views are zero.
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
    arrays = []
    for v, table in enumerate(tables):
        unknown = [i for i in table.ids.tolist() if i not in rows]
        if unknown:
            raise ValueError(
                f"{table.source} has {len(unknown)} samples that are not in the list of all "
                f"samples ({first_few(unknown)})"
            )
        at = np.asarray([rows[i] for i in table.ids.tolist()], dtype=np.int64)
        present[at, v] = True
        arrays.append(placed_rows(table.array, at, len(ids)))
    everyone = np.asarray(ids, dtype=np.str_)
    parts: dict[str, Any] = {
        "view_names": [table.name for table in tables],
        "feature_names": [table.feature_names for table in tables],
    }
    common = present.all(axis=1)
    if samples == "all" and not common.all() and present.sum(axis=1).max() > 1:
        return everyone, parts | {"arrays": arrays, "present": present, "sample_ids": everyone}
    if not common.any():
        which = "all" if samples == "common" else "any two"
        sources = ", ".join(f"{t.source} ({first_few(t.ids.tolist())})" for t in tables)
        raise ValueError(f"no id occurs in {which} of {sources}; expected common ids")
    if not common.all():
        everyone, arrays = everyone[common], [array[common] for array in arrays]
    return everyone, parts | {"arrays": arrays, "sample_ids": everyone}


def labels_of(
    ids: Strings, known: Mapping[str, Any], source: str, *, warn_about: Path | None = None
) -> list[Any] | None:
    """Return one label per sample.

    If some are missing, raise, or with `warn_about` warn about this file and return None.
    """
    missing = [i for i in ids.tolist() if i not in known]
    if not missing:
        return [known[i] for i in ids.tolist()]
    message = f"{source} has no label for {len(missing)} of {len(ids)} samples"
    if warn_about is None:
        raise ValueError(f"{message} ({first_few(missing)}); expected one per sample")
    warn_user(f"{warn_about}: {message} ({first_few(missing)}); the data set has no classes")
    return None


def check_ids(source: str, ids: Strings) -> None:
    """Raise unless every sample has an id of its own.

    Examples
    --------
    >>> check_ids("text.csv", np.array(["a", "b", "a"]))
    Traceback (most recent call last):
    ValueError: text.csv: id 'a' is in row 1 and in row 3; expected one row per sample
    """
    first: dict[str, int] = {}
    for row, i in enumerate(ids.tolist(), start=1):
        if not i:
            raise ValueError(f"{source}: row {row} has no id")
        if first.setdefault(i, row) != row:
            raise ValueError(
                f"{source}: id {i!r} is in row {first[i]} and in row {row}; "
                "expected one row per sample"
            )


def compressed(kind: Any, name: str, data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    """Return a CSR or CSC array of checked parts. SciPy would follow wrong indices unchecked."""
    try:
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
            raise TypeError(f"indices are {indices.dtype} and {indptr.dtype}, not integers")
        # SciPy expects signed integers
        pointers = [p.astype(np.int64) if p.dtype.kind == "u" else p for p in (indices, indptr)]
        array = kind((data, *pointers), shape=tuple(np.ravel(shape).tolist()))
        check_compressed(array)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a valid sparse matrix ({error!r})") from error
    return array


def first_few(ids: Sequence[str], n: int = 3) -> str:
    """Return the first ids, for a message.

    Examples
    --------
    >>> first_few(["a", "b", "c", "d"])
    "'a', 'b', 'c', ..."
    """
    return ", ".join([*(repr(str(i)) for i in ids[:n]), *(["..."] if len(ids) > n else [])])


def extra(module: str, purpose: str) -> Any:
    """Import a module of the extra ``io``, or raise an error with the install line."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install 'manyview[io]'", name=package
        ) from error
