"""The part of the report that describes the clusters found by MMC."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Floats
from manyview.base import feature_name
from manyview.datasets import Dataset
from manyview.exceptions import InterruptWarning
from manyview.linalg.partition import matched_order
from manyview.metrics import score_all
from manyview.mmc import MMC
from manyview.report.comparison import Chart
from manyview.report.text import plotly_text


@dataclass(frozen=True)
class Contingency:
    """Samples of each class in each cluster; the first `n_matched` of both belong together."""

    classes: list[int]
    clusters: list[int]
    counts: npt.NDArray[np.int64]
    n_matched: int


def contingency(y: npt.ArrayLike, labels: npt.ArrayLike) -> Contingency:
    """Return the contingency table, ordered by the matching that defines accuracy.

    Unmatched classes and clusters come last.

    >>> table = contingency([0, 0, 1, 1], [5, 5, 2, 5])
    >>> table.classes, table.clusters, table.counts.tolist()
    ([0, 1], [5, 2], [[2, 0], [1, 1]])
    """
    counts = contingency_matrix(y, labels)
    rows, columns, n_matched = matched_order(counts)
    return Contingency(
        np.unique(y)[rows].tolist(),
        np.unique(labels)[columns].tolist(),
        counts[np.ix_(rows, columns)],
        n_matched,
    )


@dataclass(frozen=True)
class ViewFeatures:
    """The features of one view with nonzero rows in its view factor.

    `top` holds the features with the largest row norms, relative to the largest of all.
    """

    view: str
    n_features: int
    n_kept: int
    top: list[tuple[str, float]]


@dataclass(frozen=True)
class ClusterFeatures:
    """The features that characterise one cluster.

    `single` lists features by view, `products` pairs of features of two views, both with their
    directions and means.
    """

    single: list[list[str]]
    products: list[str]


def view_features(model: MMC, view: int, *, most: int = 12) -> ViewFeatures:
    """Return the kept features of a view, the `most` important of them by name."""
    norms = np.linalg.norm(model.view_factors_[view][:-1], axis=1)
    largest = [int(at) for at in np.argsort(-norms, kind="stable")[:most] if norms[at] > 0]
    return ViewFeatures(
        str(model.view_names_[view]),
        len(norms),
        int(np.count_nonzero(norms)),
        [(feature_name(model, view, at), float(norms[at] / norms[largest[0]])) for at in largest],
    )


def cluster_features(model: MMC, *, each: int = 5, pairs: int = 3) -> list[ClusterFeatures]:
    """Return the features of each cluster: `each` per view, and `pairs` products of two."""
    found = [
        ClusterFeatures([[] for _ in range(model.n_views_)], []) for _ in model.cluster_factors_
    ]
    for view in range(model.n_views_):
        for entry in model.explain(1, top=each, views=view):
            found[entry.cluster].single[view].append(entry.short_text)
    if model.n_views_ > 1:
        for entry in model.explain(2, top=pairs):
            found[entry.cluster].products.append(entry.text)
    return found


_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


def shares(prediction: npt.ArrayLike, labels: npt.ArrayLike) -> Floats:
    """Return the share of each cluster in each sample; the shares of a sample sum to 1.

    The prediction (`transform`) is expressed in coordinates whose unit vectors are the cluster
    centres, so that any orthonormal indicator works. Shares are squares of the positive
    coordinates: small predictions hardly count.

    >>> shares([[1.0, 0.0], [0.0, 2.0], [0.5, 1.0]], [0, 1, 1]).round(1)
    array([[1. , 0. ],
           [0. , 1. ],
           [0.2, 0.8]])
    """
    values = np.asarray(prediction, dtype=np.float64)
    _, at = np.unique(labels, return_inverse=True)
    members = np.eye(at.max() + 1)[at]
    centres = (members.T @ values) / members.sum(axis=0)[:, None]
    weights = np.maximum(values @ np.linalg.pinv(centres), 0) ** 2
    total = weights.sum(axis=1, keepdims=True)
    # a sample without a positive coordinate belongs to its own cluster
    found: Floats = np.where(total > 1e-12, weights / np.maximum(total, 1e-12), members)
    return found


def places(part: Floats, labels: npt.ArrayLike) -> tuple[Floats, Floats, float]:
    """Return coordinates of samples and clusters on a map, and the radius of the largest cluster.

    `part` has the shares of the clusters that occur in `labels`, in ascending order. Clusters lie
    on a circle, neighbours being those that share samples. A sample lies at the mean of the
    clusters weighted by its shares. The samples of a cluster are then spread out in a spiral, the
    most certain in the middle, so that none hides another.
    """
    _, at, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    count = len(sizes)
    angle = np.empty(count)
    angle[_round(part, at)] = 2 * np.pi * np.arange(count) / count
    anchors = np.column_stack([np.sin(angle), np.cos(angle)])
    if count == 1:
        anchors[:] = 0
    room = 0.8 * float(np.sin(np.pi / max(count, 3)))  # part of the distance between clusters
    samples = part @ anchors
    for cluster in range(count):
        members = np.flatnonzero(at == cluster)
        members = members[np.argsort(-part[members, cluster], kind="stable")]
        rank = np.arange(len(members))
        radius = room * np.sqrt(sizes[cluster] / sizes.max()) * np.sqrt(rank / len(members))
        turn = rank * _GOLDEN_ANGLE
        samples[members] += radius[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    return samples, anchors, room


def _round(part: Floats, at: npt.NDArray[np.intp]) -> list[int]:
    """Return the clusters in an order in which each follows the one it overlaps most."""
    count = part.shape[1]
    common = np.zeros((count, count))
    np.add.at(common, at, part)
    common += common.T
    order, left = [0], set(range(1, count))
    while left:
        nearest = max(sorted(left), key=lambda cluster: common[order[-1], cluster])
        order.append(nearest)
        left.remove(nearest)
    return order


MOST_POINTS = 5000
MOST_CLASSES = 40
SYMBOLS = 8
COLOURS = 10


@dataclass(frozen=True)
class Mark:
    """Colour and symbol of a class and its matched cluster on the map."""

    colour: int
    symbol: int
    class_name: str | None
    cluster: int | None


@dataclass(frozen=True)
class Reading:
    """Everything the page shows about one fitted model.

    `params` are the parameters that differ from the defaults, `remarks` the warnings of the fit,
    `most_classes` the rows and columns of the contingency table that are shown at most.
    """

    params: str
    n_iter: int
    scores: dict[str, float]
    remarks: list[str]
    table: Contingency
    class_names: list[str]
    most_classes: int
    marks: list[Mark]
    map: Chart
    n_drawn: int
    n_samples: int
    views: list[ViewFeatures]
    clusters: list[ClusterFeatures]

    @property
    def cluster_lines(self) -> list[tuple[str, ClusterFeatures]]:
        """The number of each cluster with its matched class, and its features."""
        return [
            (
                f"{cluster} ({self.class_names[at]})"
                if at < self.table.n_matched
                else str(cluster),
                self.clusters[cluster],
            )
            for at, cluster in enumerate(self.table.clusters[: self.most_classes])
        ]

    @property
    def has_products(self) -> bool:
        """True if any cluster is characterised by products of features."""
        return any(cluster.products for cluster in self.clusters)


def class_name(dataset: Dataset, label: int) -> str:
    """Return the name of a class, or its number if it has none."""
    names = dataset.class_names
    return str(names[label]) if names is not None and 0 <= label < len(names) else str(label)


def check_model(model: Any, dataset: Dataset) -> None:
    """Raise unless a model is a fitted MMC with the samples of a data set."""
    if not isinstance(model, MMC):
        raise TypeError(f"the model of {dataset.name!r} is {model!r}; expected a fitted MMC")
    check_is_fitted(model, "labels_")
    if len(model.labels_) != dataset.views.n_samples:
        raise ValueError(
            f"the model of {dataset.name!r} has {len(model.labels_)} samples, the data set has "
            f"{dataset.views.n_samples}"
        )


def fitted(dataset: Dataset, seed: int = 0) -> tuple[MMC, list[str]]:
    """Fit MMC with its defaults, one cluster per class; return it and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("error", InterruptWarning)
        try:
            model = MMC(np.unique(np.asarray(dataset.y)).size, random_state=seed).fit(dataset.views)
        except InterruptWarning:  # the page shows complete fits only
            raise KeyboardInterrupt from None
    return model, [
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, ConvergenceWarning)
    ]


_OF_THE_RUN = {"checkpoint", "checkpoint_every", "n_jobs", "verbose"}


def other_params(model: MMC) -> str:
    """Return the parameters that affect the result and differ from their defaults."""
    defaults = MMC(model.n_clusters).get_params()
    return ", ".join(
        f"{name}={value if np.ndim(value) == 0 else 'given'}"
        for name, value in model.get_params().items()
        if name not in _OF_THE_RUN and (np.ndim(value) or value != defaults[name])
    )


def drawn_samples(n_samples: int, most: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the samples on a map: all, or `most` random ones."""
    if n_samples <= most:
        return np.arange(n_samples)
    return np.sort(np.random.default_rng(0).choice(n_samples, most, replace=False))


def read(
    dataset: Dataset, model: MMC, remarks: list[str], *, most_points: int = MOST_POINTS
) -> Reading:
    """Describe a model fitted to a data set with classes.

    The map shows at most `most_points` samples, drawn at random if there are more.
    """
    y, labels = np.asarray(dataset.y), np.asarray(model.labels_)
    table = contingency(y, labels)
    names = [class_name(dataset, label) for label in table.classes]
    rows = drawn_samples(len(labels), most_points)
    return Reading(
        params=other_params(model),
        n_iter=int(model.n_iter_),
        scores=score_all(y, labels),
        remarks=remarks,
        table=table,
        class_names=names,
        most_classes=MOST_CLASSES,
        marks=matched_marks(table, names),
        map=_map(dataset, model, table, names, rows),
        n_drawn=len(rows),
        n_samples=len(labels),
        views=[view_features(model, view) for view in range(model.n_views_)],
        clusters=cluster_features(model),
    )


def matched_marks(table: Contingency, names: list[str]) -> list[Mark]:
    """Return the marks of classes and clusters; a class and its matched cluster share one."""
    n = table.n_matched
    pairs: list[tuple[str | None, int | None]] = [*zip(names[:n], table.clusters[:n], strict=True)]
    pairs += [(name, None) for name in names[n:]]
    pairs += [(None, cluster) for cluster in table.clusters[n:]]
    return [Mark(at % COLOURS, at % SYMBOLS, *pair) for at, pair in enumerate(pairs)]


def _map(
    dataset: Dataset,
    model: MMC,
    table: Contingency,
    names: list[str],
    rows: npt.NDArray[np.int64],
) -> Chart:
    """Return the map: coordinates, and the table positions of each sample's class and cluster."""
    labels = np.asarray(model.labels_)[rows]
    y = np.asarray(dataset.y)[rows]
    ids = dataset.sample_ids
    samples, anchors, room = places(
        shares(model.transform(dataset.views.take(rows)), labels), labels
    )
    return {
        "x": np.round(samples[:, 0], 3).tolist(),
        "y": np.round(samples[:, 1], 3).tolist(),
        "sample": rows.tolist(),
        "ids": None if ids is None else [plotly_text(ids[row], 20) for row in rows],
        "class": _positions(y, table.classes),
        "cluster": _positions(labels, table.clusters),
        "classes": [plotly_text(name, 40) for name in names],
        "clusters": table.clusters,
        "matched": table.n_matched,
        "anchors": {
            "cluster": _positions(np.unique(labels), table.clusters),
            "room": round(room, 3),
            "x": np.round(anchors[:, 0], 3).tolist(),
            "y": np.round(anchors[:, 1], 3).tolist(),
        },
    }


def _positions(values: npt.NDArray[np.int64], order: list[int]) -> list[int]:
    position = {value: at for at, value in enumerate(order)}
    return [position[int(value)] for value in values]
