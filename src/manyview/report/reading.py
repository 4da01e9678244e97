"""What MMC found in a data set: where samples stand, which classes it met, what it kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from manyview.datasets import Dataset
from manyview.exceptions import InterruptWarning
from manyview.metrics import score_all
from manyview.mmc import MMC
from manyview.report.charts import Chart
from manyview.report.contingency import Contingency, contingency
from manyview.report.features import (
    ClusterFeatures,
    ViewFeatures,
    cluster_features,
    view_features,
)
from manyview.report.placement import places
from manyview.report.text import plotly_text

__all__ = ["MOST_POINTS", "Mark", "Reading", "cluster_title", "fitted", "read"]

MOST_POINTS = 5000
MOST_CLASSES = 40
_SYMBOLS = 8
_COLOURS = 10


@dataclass(frozen=True)
class Mark:
    """A colour and a symbol of the map, shared by a class and the cluster matched to it."""

    colour: int
    symbol: int
    class_name: str | None
    cluster: int | None


@dataclass(frozen=True)
class Reading:
    """What the page tells of one fitted model.

    Attributes
    ----------
    params : str
        Parameters beside the estimator's own defaults.
    n_iter : int
    scores : dict of str to float
    remarks : list of str
        What fit warned of.
    table : Contingency
    class_names : list of str
        Of the rows of the table.
    n_rows, n_columns : int
        How much of the table is shown.
    marks : list of Mark
    map : Chart
        Places of samples.
    n_drawn, n_samples : int
    views : list of ViewFeatures
    clusters : list of ClusterFeatures
    """

    params: str
    n_iter: int
    scores: dict[str, float]
    remarks: list[str]
    table: Contingency
    class_names: list[str]
    n_rows: int
    n_columns: int
    marks: list[Mark]
    map: Chart
    n_drawn: int
    n_samples: int
    views: list[ViewFeatures]
    clusters: list[ClusterFeatures]

    @property
    def cluster_lines(self) -> list[tuple[str, ClusterFeatures]]:
        """For each cluster, its title and the features that speak for it."""
        return [
            (cluster_title(self, at), self.clusters[cluster])
            for at, cluster in enumerate(self.table.clusters[: self.n_columns])
        ]

    @property
    def has_products(self) -> bool:
        """Whether products of features speak for any cluster."""
        return any(told.together for told in self.clusters)


def cluster_title(reading: Reading, at: int) -> str:
    """Return the number of the cluster in a column, and the class that it is matched to."""
    cluster = reading.table.clusters[at]
    if at < reading.table.n_matched:
        return f"{cluster} ({reading.class_names[at]})"
    return str(cluster)


def class_name(dataset: Dataset, label: int) -> str:
    """Return what a class is called; its number where it has no name."""
    names = dataset.class_names
    return str(names[label]) if names is not None and 0 <= label < len(names) else str(label)


def fitted(dataset: Dataset, seed: int = 0) -> tuple[MMC, list[str]]:
    """Fit MMC with its default parameters; return it with what it warned of.

    Parameters
    ----------
    dataset : Dataset
        With classes, whose number is that of the clusters.
    seed : int
        Of the start.

    Returns
    -------
    model : MMC
    remarks : list of str
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("error", InterruptWarning)
        try:
            model = MMC(np.unique(np.asarray(dataset.y)).size, random_state=seed).fit(dataset.views)
        except InterruptWarning:  # a page shows whole fits only
            raise KeyboardInterrupt from None
    return model, [
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, ConvergenceWarning)
    ]


def read(
    dataset: Dataset, model: MMC, remarks: list[str], *, most_points: int = MOST_POINTS
) -> Reading:
    """Return what the page tells of a model fitted to a data set.

    Parameters
    ----------
    dataset : Dataset
        With classes.
    model : MMC
        Fitted to its views.
    remarks : list of str
        What fit warned of.
    most_points : int
        How many samples the map shows; beyond them, some drawn at random.

    Returns
    -------
    Reading
    """
    y, labels = np.asarray(dataset.y), np.asarray(model.labels_)
    table = contingency(y, labels)
    names = [class_name(dataset, label) for label in table.classes]
    rows = _drawn(len(labels), most_points)
    defaults = MMC(model.n_clusters).get_params()
    return Reading(
        params=", ".join(
            f"{name}={value if np.ndim(value) == 0 else 'given'}"
            for name, value in model.get_params().items()
            if np.ndim(value) or value != defaults[name]
        ),
        n_iter=int(model.n_iter_),
        scores=score_all(y, labels),
        remarks=remarks,
        table=table,
        class_names=names,
        n_rows=min(len(table.classes), MOST_CLASSES),
        n_columns=min(len(table.clusters), MOST_CLASSES),
        marks=_marks(table, names),
        map=_map(dataset, model, table, names, rows),
        n_drawn=len(rows),
        n_samples=len(labels),
        views=[view_features(model, view) for view in range(model.n_views_)],
        clusters=cluster_features(model),
    )


def _drawn(count: int, most: int) -> npt.NDArray[np.int64]:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _marks(table: Contingency, names: list[str]) -> list[Mark]:
    pairs: list[tuple[str | None, int | None]] = list(
        zip(names[: table.n_matched], table.clusters[: table.n_matched], strict=True)
    )
    pairs += [(name, None) for name in names[table.n_matched :]]
    pairs += [(None, cluster) for cluster in table.clusters[table.n_matched :]]
    return [Mark(at % _COLOURS, at % _SYMBOLS, *pair) for at, pair in enumerate(pairs)]


def _map(
    dataset: Dataset,
    model: MMC,
    table: Contingency,
    names: list[str],
    rows: npt.NDArray[np.int64],
) -> Chart:
    """Return places, and for each sample the positions of its class and cluster in the table."""
    labels = np.asarray(model.labels_)[rows]
    y = np.asarray(dataset.y)[rows]
    ids = dataset.sample_ids
    samples, anchors, room = places(model.transform(dataset.views.take(rows)), labels)
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
