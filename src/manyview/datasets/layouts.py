"""Recognition of the views and labels among the variables of a MATLAB file.

There is no standard. Multi-view data sets are distributed as a cell array of matrices, as
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

__all__ = ["is_cell", "recognise_layout"]

# compared in lower case, without underscores
_CELLS = ("x", "data", "fea", "views", "view", "features", "feature")
_LABELS = ("y", "gt", "truth", "gnd", "label", "labels", "truelabel", "truelabels", "groundtruth")
_NUMBERED = re.compile(r"(x|views?|v|fea|features?|data)_?(\d+)", re.IGNORECASE)
_ABOUT = ("view_names", "class_names", "terms", "present", "sample_ids")


def recognise_layout(variables: Mapping[str, Any], name: str = "") -> Dataset:
    """Find the views and the labels among the variables of a MATLAB file.

    The variables are those that :func:`scipy.io.loadmat` returns. Labels are found first: their
    number shows whether the samples of a view are rows or columns. Without labels, samples are
    rows unless only the numbers of columns agree. docs/files.md gives the order of the search.

    Examples
    --------
    >>> recognise_layout({"X1": np.eye(2, 3), "X2": np.eye(2), "gt": np.array([[1], [2]])}).views
    Views(2 samples; X1: 3 x float64, X2: 2 x float64)
    """
    label_key, labels = _find_labels(variables)
    names, arrays = _find_views(variables, label_key, None if labels is None else len(labels))
    keys = names or [f"view{v}" for v in range(len(arrays))]
    view_names, class_names, sample_ids = (
        _strings(variables.get(key)) for key in ("view_names", "class_names", "sample_ids")
    )
    terms: Any = variables.get("terms")
    feature_names = None
    if is_cell(terms) and terms.size == len(arrays):
        feature_names = [_strings(item) if item.size else None for item in terms.ravel()]
    oriented = _samples_as_rows(dict(zip(keys, arrays, strict=True)), label_key, labels)
    if labels is not None and class_names is not None:
        first = _first_code(labels, len(class_names))
        if first is None:
            class_names = None
        else:
            labels = labels.astype(np.int64) - first
    return assemble(
        oriented,
        view_names=names if view_names is None else view_names.tolist(),
        feature_names=feature_names,
        present=variables.get("present"),
        labels=labels,
        class_names=class_names,
        name=name,
        sample_ids=sample_ids,
    )


def _find_labels(variables: Mapping[str, Any]) -> tuple[str | None, npt.NDArray[Any] | None]:
    keys = _known_keys(variables, _LABELS)
    for key in keys:
        labels = _as_labels(key, variables[key])
        if labels is not None:
            return key, labels
    for key in keys:
        if not _is_second_view(key, variables[key]):
            warn_user(
                f"variable {key!r} {_described(variables[key])} is ignored; expected one label "
                "per sample"
            )
    return None, None


def _as_labels(key: str, value: Any) -> npt.NDArray[Any] | None:
    """Return one label per sample, or None if `value` does not hold labels."""
    if sp.issparse(value):
        # do not make a large sparse view dense only to find that it holds no labels
        if 1 not in value.shape and value.nnz not in value.shape:
            return None
        value = value.toarray()
    strings = _strings(value)
    if strings is not None:
        return strings
    if is_cell(value):
        return _labels_in_cell(key, value.ravel().tolist())
    if not _is_matrix(value) or not value.size:
        return None
    numbers: npt.NDArray[Any] = value.astype(np.int64) if value.dtype == bool else value
    if 1 in numbers.shape:
        return numbers.ravel()
    if np.isin(numbers, (0, 1)).all():
        for indicator in (numbers, numbers.T):
            if (indicator.sum(axis=1) == 1).all():
                # MATLAB counts columns from 1
                return np.asarray(indicator.argmax(axis=1) + 1)
    return None


def _labels_in_cell(key: str, items: list[Any]) -> npt.NDArray[Any] | None:
    """Return the labels of a cell array of single labels, or of one array of labels per view."""
    found: list[Any] = [_as_labels(key, item) for item in items]
    if not found or found[0] is None:
        return None
    if all(labels is not None and labels.size == 1 for labels in found):
        return np.concatenate(found)
    if not all(np.array_equal(labels, found[0]) for labels in found):
        warn_user(f"the labels in {key!r} differ between views; those of the first view are used")
    first: npt.NDArray[Any] = found[0]
    return first


def _first_code(labels: npt.NDArray[Any], n_classes: int) -> int | None:
    """Return the label of the first class, 0 or 1; None if the labels are not class codes."""
    if labels.dtype.kind not in "iuf" or not np.isfinite(labels).all():
        return None
    first = 0 if labels.min() == 0 else 1
    fits = first <= labels.min() and labels.max() < n_classes + first
    return first if fits and (labels == np.rint(labels)).all() else None


def _find_views(
    variables: Mapping[str, Any], label_key: str | None, n_samples: int | None
) -> tuple[list[str] | None, list[Any]]:
    """Return the names of the views, None if the file has none, and their arrays."""
    candidates = {
        key: value
        for key, value in variables.items()
        if key not in (*_ABOUT, label_key)
        and (_plain(key) not in _LABELS or _is_second_view(key, value))
    }
    for key in _known_keys(candidates, _CELLS):
        items = _unpacked(candidates[key])
        bad = [v for v, item in enumerate(items) if not _is_matrix(item)]
        if items and not bad:
            return None, items
        if len(bad) < len(items):
            raise ValueError(
                f"element {bad[0] + 1} of cell array {key!r} is {_described(items[bad[0]])}; "
                "expected a matrix of numbers"
            )
    found = _numbered_matrices(candidates)
    if not found:
        # a cell array with an unknown name may also hold settings or cross-validation folds
        for value in candidates.values():
            items = _unpacked(value)
            if items and all(_is_table(item, n_samples) for item in items):
                return None, items
        found = _plain_matrices(candidates, n_samples)
    if not found:
        raise ValueError(
            f"no views found among {_all_described(variables)}; expected a cell array 'X' of "
            "matrices, or matrices 'X1', 'X2', ..., with one row per sample"
        )
    return list(found), list(found.values())


def _numbered_matrices(candidates: Mapping[str, Any]) -> dict[str, Any]:
    """Return the longest numbered series of matrices, such as X1, X2, ..., in order."""
    series: dict[str, list[tuple[int, str]]] = {}
    for key, value in candidates.items():
        match = _NUMBERED.fullmatch(key)
        if match and _is_matrix(value):
            series.setdefault(match[1], []).append((int(match[2]), key))
    longest = max(series.values(), key=len, default=[])
    return {key: candidates[key] for _, key in sorted(longest)} if len(longest) > 1 else {}


def _plain_matrices(candidates: Mapping[str, Any], n_samples: int | None) -> dict[str, Any]:
    """Return the matrices with a side of `n_samples`, or else the most common number of rows."""
    matrices = {key: value for key, value in candidates.items() if _is_table(value, n_samples)}
    if n_samples is not None:
        return matrices
    rows = Counter(value.shape[0] for value in matrices.values()).most_common(2)
    if len(rows) == 2 and rows[0][1] == rows[1][1]:
        raise ValueError(
            f"{_all_described(matrices)} have different numbers of rows, and there are no labels "
            "that show which of them are views; name the views 'X1', 'X2', ..."
        )
    return {key: value for key, value in matrices.items() if value.shape[0] == rows[0][0]}


def _samples_as_rows(
    views: Mapping[str, Any], label_key: str | None, labels: npt.NDArray[Any] | None
) -> list[Any]:
    """Transpose the views whose samples are columns."""
    if labels is None:
        rows, columns = (len({value.shape[side] for value in views.values()}) for side in (0, 1))
        transposed = dict.fromkeys(views, rows > 1 and columns == 1)
    else:
        for key, value in views.items():
            if len(labels) not in value.shape:
                raise ValueError(
                    f"view {key!r} has shape {value.shape} and {label_key!r} holds {len(labels)} "
                    "labels; expected one row, or one column, per label"
                )
        transposed = {key: value.shape[0] != len(labels) for key, value in views.items()}
    arrays = [value.T if transposed[key] else value for key, value in views.items()]
    # MATLAB stores arrays by column
    return [array if sp.issparse(array) else np.ascontiguousarray(array) for array in arrays]


def _is_second_view(key: str, value: Any) -> bool:
    # X and Y can be two views, but an indicator matrix of classes is not a view
    if _plain(key) != "y" or not _is_matrix(value) or sp.issparse(value) or 1 in value.shape:
        return False
    return not np.isin(value, (0, 1)).all()


def _is_table(value: Any, n_samples: int | None) -> bool:
    """Return True for a matrix that is not a vector and has a side of `n_samples`, if given."""
    if not _is_matrix(value) or min(value.shape) < 2:
        return False
    return n_samples is None or n_samples in value.shape


def is_cell(value: Any) -> bool:
    """Return True for a cell array."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def _is_matrix(value: Any) -> bool:
    if sp.issparse(value):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiubc"


def _unpacked(value: Any) -> list[Any]:
    """Return the items of a cell array, without nested cell arrays of one item."""
    items = [value] if is_cell(value) else []
    while len(items) == 1 and is_cell(items[0]):
        items = items[0].ravel().tolist()
    for v in range(len(items)):
        while is_cell(items[v]) and items[v].size == 1:
            items[v] = items[v].item()
    return items


def _strings(value: Any) -> Strings | None:
    """Return the strings of a cell array or a character matrix, None for other values."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        # MATLAB pads the rows of a character matrix with blanks
        return np.char.rstrip(value.ravel(), " ")
    if not is_cell(value) or not value.size:
        return None
    items = value.ravel().tolist()
    if not all(isinstance(item, np.ndarray) and item.dtype.kind == "U" for item in items):
        return None
    return np.asarray(["".join(item.ravel()) for item in items], dtype=np.str_)


def _described(value: Any) -> str:
    kind = "cell array" if is_cell(value) else str(getattr(value, "dtype", type(value).__name__))
    sides = " x ".join(str(side) for side in getattr(value, "shape", ()))
    return f"({sides} {kind})" if sides else f"({kind})"


def _all_described(variables: Mapping[str, Any]) -> str:
    parts = [f"{name!r} {_described(value)}" for name, value in variables.items()]
    return ", ".join(parts) or "nothing"


def _known_keys(variables: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Return the variables with one of these names, in the order of the names."""
    known = [key for key in variables if _plain(key) in names]
    return sorted(known, key=lambda key: names.index(_plain(key)))


def _plain(key: str) -> str:
    return key.lower().replace("_", "")
