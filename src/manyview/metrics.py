"""How well a clustering agrees with known classes.

Every score is at most 1 and does not change when clusters are renamed. The numbers of clusters
and of classes may differ, and labels may be of any type whose values can be told apart.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

__all__ = [
    "adjusted_rand",
    "clustering_accuracy",
    "normalized_mutual_info",
    "pairwise_f",
    "purity",
    "score_all",
]

Codes: TypeAlias = npt.NDArray[np.int64]

_AVERAGES = ("arithmetic", "geometric", "max", "min")
_DENSE = 250_000  # cells of a contingency table; of larger ones most are empty, and not stored


def clustering_accuracy(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> float:
    """Share of samples whose cluster is matched to their class, under the best matching.

    The matching is one to one, found by the Hungarian method on the contingency table; where
    there are more clusters than classes, the samples of clusters left over count as errors.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    true, pred = _codes(y_true, y_pred)
    small = (int(true.max()) + 1) * (int(pred.max()) + 1) <= _DENSE
    return (_matched if small else _matched_sparsely)(true, pred) / len(true)


def normalized_mutual_info(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, average: str = "geometric"
) -> float:
    """Mutual information of classes and clusters over an average of their entropies.

    The same labels score differently under each normaliser, and the literature rarely says which
    it used; which one the MMC paper used is not known. The default here is the geometric mean
    of Strehl and Ghosh (2002), which lies between the other choices; a number should always be
    reported with the name of its normaliser.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.
    average : {"geometric", "arithmetic", "max", "min"}, default="geometric"
        What the mutual information is divided by: this average of the two entropies.

    Returns
    -------
    float
        Between 0 and 1; 1 when both put all samples together, 0 when only one of them does.

    Examples
    --------
    >>> y_true, y_pred = [0, 0, 1, 1], [0, 1, 2, 3]
    >>> round(normalized_mutual_info(y_true, y_pred), 3)
    0.707
    >>> round(normalized_mutual_info(y_true, y_pred, average="max"), 3)
    0.5
    """
    if average not in _AVERAGES:
        raise ValueError(f"average={average!r}; expected one of {', '.join(map(repr, _AVERAGES))}")
    true, pred = _codes(y_true, y_pred)
    score = normalized_mutual_info_score(true, pred, average_method=average)
    # rounding can carry a perfect agreement past 1
    return float(np.clip(score, 0.0, 1.0))


def adjusted_rand(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> float:
    """Agreement on pairs of samples, corrected so that chance scores 0.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    float
        At most 1; negative where the agreement is worse than chance.

    Examples
    --------
    >>> adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    return float(adjusted_rand_score(*_codes(y_true, y_pred)))


def purity(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> float:
    """Share of samples that belong to the commonest class of their cluster.

    It grows with the number of clusters: clusters of one sample each are pure.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> purity([0, 0, 1, 1], [0, 1, 2, 2])
    1.0
    """
    true, pred = _codes(y_true, y_pred)
    clusters, _, counts = _cells(pred, true)
    largest = np.zeros(pred.max() + 1, dtype=np.int64)
    np.maximum.at(largest, clusters, counts)
    return float(largest.sum() / len(true))


def pairwise_f(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> float:
    """F1 score of the pairs of samples put in one cluster against those of one class.

    Precision is the share of the pairs put together that belong together, recall the share of
    the pairs that belong together that are put together. Both come from the counts of the
    contingency table; the pairs themselves are never listed.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    float
        Between 0 and 1; 1 when neither puts any two samples together.

    Examples
    --------
    >>> pairwise_f([0, 0, 1, 1], [0, 0, 0, 0])
    0.5
    """
    true, pred = _codes(y_true, y_pred)
    in_both = _pairs(_cells(true, pred)[-1])
    in_either = _pairs(np.bincount(true)) + _pairs(np.bincount(pred))
    return 2 * in_both / in_either if in_either else 1.0


def score_all(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> dict[str, float]:
    """Every score of this module, by name.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    dict of str to float
        With keys ``acc``, ``nmi_geometric``, ``nmi_arithmetic``, ``nmi_max``, ``ari``,
        ``purity`` and ``pairwise_f``.

    Examples
    --------
    >>> for name, score in score_all([0, 0, 1, 1], [0, 0, 1, 2]).items():
    ...     print(f"{name} {score:.3f}")
    acc 0.750
    nmi_geometric 0.816
    nmi_arithmetic 0.800
    nmi_max 0.667
    ari 0.571
    purity 1.000
    pairwise_f 0.667
    """
    true, pred = _codes(y_true, y_pred)
    return {
        "acc": clustering_accuracy(true, pred),
        "nmi_geometric": normalized_mutual_info(true, pred, average="geometric"),
        "nmi_arithmetic": normalized_mutual_info(true, pred, average="arithmetic"),
        "nmi_max": normalized_mutual_info(true, pred, average="max"),
        "ari": adjusted_rand(true, pred),
        "purity": purity(true, pred),
        "pairwise_f": pairwise_f(true, pred),
    }


def _codes(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> tuple[Codes, Codes]:
    """Check both labellings and number the labels of each from 0."""
    true, pred = _as_labels("y_true", y_true), _as_labels("y_pred", y_pred)
    if len(true) != len(pred):
        raise ValueError(
            f"y_true has {len(true)} labels, y_pred has {len(pred)}: both label the same samples"
        )
    return _numbered("y_true", true), _numbered("y_pred", pred)


def _as_labels(name: str, labels: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        array = np.asarray(labels)
        # NumPy writes [1, "1"] and [nan, "a"] as strings, which would merge or hide labels
        if array.dtype.kind in "US" and isinstance(labels, list | tuple):
            array = np.asarray(labels, dtype=object)
    except ValueError as error:
        raise ValueError(f"{name} is ragged; expected one label a sample") from error
    if array.ndim != 1:
        raise ValueError(
            f"{name} has {array.ndim} dimension(s), shape {array.shape}; "
            "expected 1: one label a sample"
        )
    if not len(array):
        raise ValueError(f"{name} is empty; expected at least one label")
    absent = _missing(array)
    if isinstance(labels, np.ma.MaskedArray):
        absent |= np.ma.getmaskarray(labels)
    missing = np.flatnonzero(absent)
    if missing.size:
        raise ValueError(
            f"{name} has no label for {missing.size} sample(s), first at position {missing[0]} "
            f"({array[missing[0]]!r}); leave out samples without a label"
        )
    return array


def _missing(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    absent: npt.NDArray[np.bool_] = np.zeros(array.shape, dtype=bool)
    if array.dtype.kind in "fc":
        absent = np.isnan(array)
    elif array.dtype.kind in "mM":
        absent = np.isnat(array)
    elif array.dtype.kind == "O":
        absent[:] = [_is_missing(label) for label in array]
    return absent


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        # pandas.NA refuses to be compared; so do arrays, which are refused as labels later
        return type(label).__name__ == "NAType"


def _numbered(name: str, array: npt.NDArray[Any]) -> Codes:
    if array.dtype.kind != "O":
        return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)
    # objects of mixed types have no order, but they can be told apart
    seen: dict[Any, int] = {}
    try:
        return np.asarray([seen.setdefault(label, len(seen)) for label in array], dtype=np.int64)
    except TypeError as error:
        raise TypeError(f"{name} holds labels that cannot be told apart: {error}") from error


def _matched(true: Codes, pred: Codes) -> int:
    """Count the samples on the best matching of the contingency table."""
    table = np.zeros((true.max() + 1, pred.max() + 1), dtype=np.int64)
    np.add.at(table, (true, pred), 1)
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def _matched_sparsely(true: Codes, pred: Codes) -> int:
    """Count the same from the cells that are not empty: ids as labels make a table of n² cells."""
    if true.max() > pred.max():
        true, pred = pred, true
    rows, columns, counts = _cells(true, pred)
    # a row none of whose columns is in another row is matched to the largest of them
    contested = np.bincount(columns)[columns] > 1
    open_ = np.bincount(rows, weights=contested)[rows] > 0
    largest = np.zeros(true.max() + 1, dtype=np.int64)
    np.maximum.at(largest, rows[~open_], counts[~open_])
    settled = int(largest.sum())
    if not open_.any():
        return settled
    rows, columns = (np.unique(of[open_], return_inverse=True)[1] for of in (rows, columns))
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    # each row may also have a column of its own, in place of none; a weight of 0 would be no edge
    own = np.arange(n_rows)
    weights = np.concatenate([counts[open_] + 1, np.ones(n_rows, dtype=np.int64)])
    ends = np.concatenate([rows, own]), np.concatenate([columns, n_columns + own])
    # of longer indices SciPy 1.12 makes an error
    short = tuple(end.astype(np.int32) for end in ends)
    graph = csr_array((weights, short), shape=(n_rows, n_columns + n_rows))
    chosen = min_weight_full_bipartite_matching(graph, maximize=True)
    return settled + int(graph[chosen].sum()) - n_rows


def _cells(rows: Codes, columns: Codes) -> tuple[Codes, Codes, Codes]:
    """Row, column and count of each cell of the contingency table that is not empty."""
    width = int(columns.max()) + 1
    cells, counts = np.unique(rows * width + columns, return_counts=True)
    return cells // width, cells % width, counts.astype(np.int64, copy=False)


def _pairs(sizes: npt.NDArray[np.integer[Any]]) -> int:
    return int((sizes * (sizes - 1) // 2).sum())
