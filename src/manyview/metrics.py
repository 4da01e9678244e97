"""Scores of a clustering against known classes.

Every score is at most 1 and does not depend on the names of clusters, nor need their number be
that of the classes. Labels may have any type whose values can be compared for equality.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

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
_DENSE = 250_000  # cells; larger contingency tables are mostly empty and stored as sparse


def clustering_accuracy(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> float:
    """Share of samples whose cluster is matched to their class, under the best matching.

    The matching is one to one, found by the Hungarian method on the contingency table. If there
    are more clusters than classes, the samples of unmatched clusters count as errors.

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
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    average: Literal["geometric", "arithmetic", "max", "min"] = "geometric",
) -> float:
    """Mutual information of classes and clusters over an average of their entropies.

    The score depends on the normaliser, which papers rarely name; that of the MMC paper is not
    known. The default is the geometric mean of Strehl and Ghosh (2002), which lies between the
    other choices. Report a score with the name of its normaliser.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.
    average : {"geometric", "arithmetic", "max", "min"}, default="geometric"
        Average of the two entropies that the mutual information is divided by.

    Returns
    -------
    float
        Between 0 and 1; 1 if both consist of a single group, 0 if only one of them does.

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
    # rounding can raise a perfect agreement above 1
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
    """Share of samples that belong to the most frequent class of their cluster.

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
    table = contingency_matrix(*_codes(y_true, y_pred), sparse=True)
    return float(table.max(axis=0).sum() / table.sum())


def pairwise_f(y_true: npt.ArrayLike, y_pred: npt.ArrayLike) -> float:
    """F1 score of pairs of samples in one cluster against pairs in one class.

    Precision is the share of pairs in one cluster that are in one class, recall the share of pairs
    in one class that are in one cluster. Both are computed from the contingency table.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Classes and clusters.

    Returns
    -------
    float
        Between 0 and 1; 1 if neither has a group of two samples.

    Examples
    --------
    >>> pairwise_f([0, 0, 1, 1], [0, 0, 0, 0])
    0.5
    """
    true, pred = _codes(y_true, y_pred)
    in_both = _pairs(contingency_matrix(true, pred, sparse=True).data)
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
    """Validate both labellings and number the labels of each from 0."""
    true, pred = _as_labels("y_true", y_true), _as_labels("y_pred", y_pred)
    if len(true) != len(pred):
        raise ValueError(
            f"y_true has {len(true)} labels, y_pred has {len(pred)}; expected the same samples"
        )
    return _numbered("y_true", true), _numbered("y_pred", pred)


def _as_labels(name: str, labels: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        array = np.asarray(labels)
        # NumPy turns [1, "1"] and [nan, "a"] into strings, which merges or hides labels
        if array.dtype.kind in "US" and isinstance(labels, list | tuple):
            array = np.asarray(labels, dtype=object)
    except ValueError as error:
        raise ValueError(f"{name} is ragged; expected one label per sample") from error
    if array.ndim != 1:
        raise ValueError(
            f"{name} has {array.ndim} dimension(s), shape {array.shape}; "
            "expected 1: one label per sample"
        )
    if not len(array):
        raise ValueError(f"{name} is empty; expected at least one label")
    missing = _is_missing(array)
    if isinstance(labels, np.ma.MaskedArray):
        missing |= np.ma.getmaskarray(labels)
    if missing.any():
        first = int(missing.argmax())
        raise ValueError(
            f"{name} has no label for {missing.sum()} sample(s), first at position {first} "
            f"({array[first]!r}); drop samples without a label"
        )
    return array


def _is_missing(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which labels are NaN, NaT, None or pandas.NA."""
    missing: npt.NDArray[np.bool_] = np.zeros(array.shape, dtype=np.bool_)
    if array.dtype.kind in "fc":
        missing = np.isnan(array)
    elif array.dtype.kind in "mM":
        missing = np.isnat(array)
    elif array.dtype.kind == "O":
        for n, label in enumerate(array):
            try:
                missing[n] = label is None or bool(label != label)
            except (TypeError, ValueError):
                # pandas.NA cannot be compared; nor can arrays, which _numbered rejects
                missing[n] = type(label).__name__ == "NAType"
    return missing


def _numbered(name: str, array: npt.NDArray[Any]) -> Codes:
    if array.dtype.kind != "O":
        return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)
    # objects of mixed types cannot be sorted, but hashed
    seen: dict[Any, int] = {}
    try:
        return np.asarray([seen.setdefault(label, len(seen)) for label in array], dtype=np.int64)
    except TypeError as error:
        raise TypeError(f"{name} holds labels that cannot be compared: {error}") from error


def _matched(true: Codes, pred: Codes) -> int:
    """Return the number of samples on the best matching of the contingency table."""
    table = contingency_matrix(true, pred)
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def _matched_sparsely(true: Codes, pred: Codes) -> int:
    """Return the same from the non-empty cells, for labels with many values, such as ids."""
    if true.max() > pred.max():
        true, pred = pred, true
    table = contingency_matrix(true, pred, sparse=True).tocoo()
    rows, columns, counts = table.row, table.col, table.data
    # a row that shares no column with another row is matched to its largest column
    contested = np.bincount(columns)[columns] > 1
    open_ = np.bincount(rows, weights=contested)[rows] > 0
    largest = np.zeros(true.max() + 1, dtype=np.int64)
    np.maximum.at(largest, rows[~open_], counts[~open_])
    settled = int(largest.sum())
    if not open_.any():
        return settled
    rows, columns = (np.unique(of[open_], return_inverse=True)[1] for of in (rows, columns))
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    # an extra column per row stands for no match; all weights are raised by 1, as 0 is no edge
    own = np.arange(n_rows)
    weights = np.concatenate([counts[open_] + 1, np.ones(n_rows, dtype=np.int64)])
    ends = np.concatenate([rows, own]), np.concatenate([columns, n_columns + own])
    # SciPy 1.12 fails on longer indices
    short = tuple(end.astype(np.int32) for end in ends)
    graph = csr_array((weights, short), shape=(n_rows, n_columns + n_rows))
    chosen = min_weight_full_bipartite_matching(graph, maximize=True)
    return settled + int(graph[chosen].sum()) - n_rows


def _pairs(sizes: npt.NDArray[np.integer[Any]]) -> int:
    return int((sizes * (sizes - 1) // 2).sum())
