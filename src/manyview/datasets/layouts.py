"""Which of a MATLAB file's variables are views and which are labels.

There is no standard. Multi-view data sets are passed around as a cell array of matrices, as
numbered variables or as a few matrices, with samples in rows or in columns, and with labels under
half a dozen names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from manyview._typing import Strings
from manyview.datasets.dataset import Dataset, assemble
from manyview.exceptions import warn_user

__all__ = ["cell_strings", "described", "find_dataset", "is_cell", "is_matrix", "unpacked"]


def is_cell(value: Any) -> bool:
    """Whether ``value`` is a cell array."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def is_matrix(value: Any) -> bool:
    """Whether ``value`` is a matrix of numbers, dense or sparse."""
    if sp.issparse(value):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiubc"


def cell_strings(value: Any) -> npt.NDArray[np.str_] | None:
    """Return the strings of a cell array or a character matrix, None where it is neither.

    Examples
    --------
    >>> cell_strings(np.array(["cat ", "bird"]))
    array(['cat', 'bird'], dtype='<U4')
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        # MATLAB pads the rows of a character matrix with blanks
        return np.char.rstrip(value.ravel(), " ")
    if not is_cell(value) or not value.size:
        return None
    items = value.ravel().tolist()
    if not all(isinstance(item, np.ndarray) and item.dtype.kind == "U" for item in items):
        return None
    return np.asarray(["".join(item.ravel()) for item in items], dtype=np.str_)


def unpacked(value: Any) -> list[Any]:
    """Return the items of a cell array, out of cell arrays of one item; no items of others."""
    if not is_cell(value):
        return []
    while value.size == 1 and is_cell(value.item()):
        value = value.item()
    return [_bare(item) for item in value.ravel().tolist()]


def described(value: Any) -> str:
    """Return the shape and the type of a value, or of each one by name, for a message.

    Examples
    --------
    >>> described({"X": np.eye(2), "k": np.array([[3]])})
    "'X' (2 x 2 float64), 'k' (1 x 1 int64)"
    """
    if isinstance(value, Mapping):
        parts = [f"{name!r} {described(item)}" for name, item in value.items()]
        return ", ".join(parts) or "nothing"
    kind = "cell array" if is_cell(value) else str(getattr(value, "dtype", type(value).__name__))
    sides = " x ".join(str(side) for side in getattr(value, "shape", ()))
    return f"({sides} {kind})" if sides else f"({kind})"


def _bare(item: Any) -> Any:
    while is_cell(item) and item.size == 1:
        item = item.item()
    return item


_CELLS = ("x", "data", "fea", "views", "view", "features", "feature")
_NUMBERED = re.compile(r"(x|views?|v|fea|features?|data)_?(\d+)", re.IGNORECASE)
_LABELS = ("y", "gt", "truth", "gnd", "label", "labels", "truelabel", "truelabels", "groundtruth")
_ABOUT = ("view_names", "class_names", "terms", "present", "sample_ids")


def find_dataset(variables: Mapping[str, Any], name: str = "") -> Dataset:
    """Find the views and the labels among the variables of a MATLAB file.

    Parameters
    ----------
    variables : mapping of str to object
        As :func:`scipy.io.loadmat` returns them, without the ``__header__`` and its like, or
        :func:`manyview.datasets.matlab.read_variables` for version 7.3.
    name : str, default=""
        What the set is called.

    Returns
    -------
    Dataset
        The data set; see :func:`manyview.datasets.read_views` for where things are looked for.

    Examples
    --------
    >>> find_dataset({"X1": np.eye(2, 3), "X2": np.eye(2), "gt": np.array([[1], [2]])}).views
    Views(2 samples; X1: 3 x float64, X2: 2 x float64)
    """
    label_key, labels = _find_labels(variables)
    n_samples = None if labels is None else len(labels)
    names, arrays = _find_views(variables, label_key, n_samples)
    keys = names or [f"view{v}" for v in range(len(arrays))]
    oriented = _oriented(dict(zip(keys, arrays, strict=True)), n_samples, label_key)
    given = cell_strings(variables.get("view_names"))
    class_names = None
    if labels is not None:
        labels, class_names = _with_class_names(labels, cell_strings(variables.get("class_names")))
    return assemble(
        oriented,
        view_names=names if given is None else given.tolist(),
        feature_names=_find_feature_names(variables.get("terms"), len(arrays)),
        present=variables.get("present"),
        labels=labels,
        class_names=class_names,
        name=name,
        sample_ids=cell_strings(variables.get("sample_ids")),
    )


def _find_labels(variables: Mapping[str, Any]) -> tuple[str | None, npt.NDArray[Any] | None]:
    for key in _sorted_by(variables, _LABELS):
        labels = _as_labels(key, variables[key])
        if labels is not None:
            return key, labels
    for key in _sorted_by(variables, _LABELS):
        if not _is_second_view(key, variables[key]):
            warn_user(
                f"variable {key!r} {described(variables[key])} is left out: it does not hold one "
                "label a sample"
            )
    return None, None


def _as_labels(key: str, value: Any) -> npt.NDArray[Any] | None:
    """One label a sample, or None where ``value`` is nothing of the kind."""
    if sp.issparse(value):
        # a large sparse view is not to be made dense to learn that it holds no labels
        if 1 not in value.shape and value.nnz not in value.shape:
            return None
        value = value.toarray()
    strings = cell_strings(value)
    if strings is not None:
        return strings
    if is_cell(value):
        return _labels_in_cell(key, value.ravel().tolist())
    if not is_matrix(value) or not value.size:
        return None
    numbers: npt.NDArray[Any] = value.astype(np.int64) if value.dtype == bool else value
    if 1 in numbers.shape:
        return numbers.ravel()
    if not np.isin(numbers, (0, 1)).all():
        return None
    for indicator in (numbers, numbers.T):
        if (indicator.sum(axis=1) == 1).all():
            # columns count from 1, as they do where the file comes from
            return np.asarray(indicator.argmax(axis=1) + 1)
    return None


def _labels_in_cell(key: str, items: list[Any]) -> npt.NDArray[Any] | None:
    found = [_as_labels(key, item) for item in items]
    first = found[0] if found else None
    if first is None:
        return None
    if all(labels is not None and labels.size == 1 for labels in found):
        return np.concatenate([labels for labels in found if labels is not None])
    if any(labels is None or not np.array_equal(labels, first) for labels in found):
        warn_user(f"the labels in {key!r} differ from view to view: the first view's are taken")
    return first


def _find_views(
    variables: Mapping[str, Any], label_key: str | None, n_samples: int | None
) -> tuple[list[str] | None, list[Any]]:
    """Names, None where the file has none, and arrays of the views."""
    candidates = {
        key: value
        for key, value in variables.items()
        if key not in (*_ABOUT, label_key)
        and (_plain(key) not in _LABELS or _is_second_view(key, value))
    }
    if cell := _find_named_cell(candidates):
        return None, cell
    found = _find_numbered(candidates)
    if not found:
        if cell := _find_other_cell(candidates, n_samples):
            return None, cell
        found = _find_matrices(candidates, n_samples)
    if not found:
        raise ValueError(
            f"no views found among {described(variables)}; expected a cell array 'X' of "
            "matrices, or matrices 'X1', 'X2', ..., with as many rows as there are samples"
        )
    return list(found), list(found.values())


def _is_second_view(key: str, value: Any) -> bool:
    # X and Y can be two views, but classes as columns of 0 and 1 must not become one
    if _plain(key) != "y" or not is_matrix(value) or sp.issparse(value) or 1 in value.shape:
        return False
    return not np.isin(value, (0, 1)).all()


def _find_named_cell(candidates: Mapping[str, Any]) -> list[Any] | None:
    for key in _sorted_by(candidates, _CELLS):
        items = unpacked(candidates[key])
        bad = [v for v, item in enumerate(items) if not is_matrix(item)]
        if items and not bad:
            return items
        if len(bad) < len(items):
            raise ValueError(
                f"element {bad[0] + 1} of cell array {key!r} is {described(items[bad[0]])}; "
                "expected a matrix of numbers"
            )
    return None


def _find_other_cell(candidates: Mapping[str, Any], n_samples: int | None) -> list[Any] | None:
    # under an unknown name, a cell array may as well hold settings or the folds of a split
    for value in candidates.values():
        items = unpacked(value)
        if items and all(_is_table(item, n_samples) for item in items):
            return items
    return None


def _find_numbered(candidates: Mapping[str, Any]) -> dict[str, Any] | None:
    series: dict[str, list[tuple[int, str]]] = {}
    for key, value in candidates.items():
        match = _NUMBERED.fullmatch(key)
        if match and is_matrix(value):
            series.setdefault(match[1], []).append((int(match[2]), key))
    longest = max(series.values(), key=len, default=[])
    if len(longest) < 2:
        return None
    return {key: candidates[key] for _, key in sorted(longest)}


def _find_matrices(candidates: Mapping[str, Any], n_samples: int | None) -> dict[str, Any]:
    matrices = {key: value for key, value in candidates.items() if _is_table(value, n_samples)}
    if n_samples is not None:
        return matrices
    rows = Counter(value.shape[0] for value in matrices.values()).most_common(2)
    if len(rows) == 2 and rows[0][1] == rows[1][1]:
        raise ValueError(
            f"{described(matrices)} have different numbers of rows and there are no labels: "
            "which ones are views cannot be told; name them 'X1', 'X2', ..."
        )
    return {key: value for key, value in matrices.items() if value.shape[0] == rows[0][0]}


def _oriented(views: Mapping[str, Any], n_samples: int | None, label_key: str | None) -> list[Any]:
    """Turn the views so that samples are rows."""
    if n_samples is None:
        rows, columns = (len({value.shape[side] for value in views.values()}) for side in (0, 1))
        turned = dict.fromkeys(views, rows > 1 and columns == 1)
    else:
        for key, value in views.items():
            if n_samples not in value.shape:
                raise ValueError(
                    f"view {key!r} has shape {value.shape} and {label_key!r} holds {n_samples} "
                    "labels; expected as many rows, or columns, as labels"
                )
        turned = {key: value.shape[0] != n_samples for key, value in views.items()}
    return [_by_rows(value.T if turned[key] else value) for key, value in views.items()]


def _by_rows(array: Any) -> Any:
    # MATLAB stores columns; rows are what is worked on
    return array if sp.issparse(array) else np.ascontiguousarray(array)


def _with_class_names(
    labels: npt.NDArray[Any], class_names: Strings | None
) -> tuple[npt.NDArray[Any], Strings | None]:
    """Labels from 0 with their names, where the file's names fit its labels."""
    if class_names is None or labels.dtype.kind not in "iuf":
        return labels, None
    if not (np.isfinite(labels).all() and (labels == np.rint(labels)).all()):
        return labels, None
    first = 0 if labels.min() == 0 else 1
    if labels.min() < first or labels.max() >= len(class_names) + first:
        return labels, None
    return labels.astype(np.int64) - first, class_names


def _find_feature_names(terms: Any, n_views: int) -> list[Strings | None] | None:
    if not is_cell(terms) or terms.size != n_views:
        return None
    return [cell_strings(names) if names.size else None for names in terms.ravel()]


def _is_table(value: Any, n_samples: int | None) -> bool:
    """Whether ``value`` is a matrix, no vector, with a side of the samples where they are known."""
    if not is_matrix(value) or min(value.shape) < 2:
        return False
    return n_samples is None or n_samples in value.shape


def _sorted_by(variables: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    known = [key for key in variables if _plain(key) in names]
    return sorted(known, key=lambda key: names.index(_plain(key)))


def _plain(key: str) -> str:
    return key.lower().replace("_", "")
