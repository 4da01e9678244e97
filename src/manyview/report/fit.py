"""The report page of one fit: its clusters, a map of the samples, and what was done to the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from manyview import __version__
from manyview._typing import Floats
from manyview.datasets import Dataset
from manyview.datasets.dataset import encode_labels
from manyview.engine.arrays import to_numpy
from manyview.metrics import score_all
from manyview.mmc import MMC
from manyview.report.comparison import SCORES, Chart
from manyview.report.reading import (
    COLOURS,
    MOST_CLASSES,
    MOST_POINTS,
    SYMBOLS,
    Contingency,
    Mark,
    check_model,
    class_name,
    contingency,
    drawn_samples,
    matched_marks,
    other_params,
    places,
)
from manyview.report.rendering import rendered
from manyview.report.text import short
from manyview.storage import whole_file
from manyview.views import as_views

_UNSURE = 0.5  # confidence below which a sample is counted as uncertain
_OUTLYING = 3.5  # as in MMC.labels_without_outliers
_LISTED = 20  # samples that are listed because they are uncertain or outlying
_SCALED = {"rows": "unit rows", "columns": "standardised", None: "none"}


def write_fit_report(
    path: str | os.PathLike[str],
    model: MMC,
    views: Any,
    y: npt.ArrayLike | None = None,
    *,
    title: str | None = None,
    remarks: Sequence[str] = (),
) -> Path:
    """Write a fit as one self-contained HTML page.

    The page has the sizes and the confidence of the clusters, a map of the samples, the features
    that characterise each cluster, alone and across views, the weights of the views and what was
    done to the data; if the number of clusters was chosen also the table of the choice, and if
    there are classes also these against the clusters. It loads nothing.

    Parameters
    ----------
    path : path-like
        The file. It is replaced once the page is complete.
    model : MMC
        The fitted model. Memberships and view weights are computed unless they were asked for
        before.
    views : Dataset, or list, tuple or dict of array-likes, or Views
        The data of the fit. A Dataset brings its classes and the names of its samples.
    y : array-like of shape (n_samples,), optional
        Classes, for scoring only.
    title : str, optional
        Title of the page.
    remarks : sequence of str
        Warnings of the fit, for the part on the data.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If the model has other samples, or comes from a file of an earlier version.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from manyview import MMC
    >>> from manyview.datasets import make_views
    >>> from manyview.report import write_fit_report
    >>> views, _ = make_views(60, 3, (6, 5), random_state=0)
    >>> model = MMC(3, random_state=0).fit(views)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_fit_report(f"{folder}/report.html", model, views)
    ...     page.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    target = Path(path)
    data = views if isinstance(views, Dataset) else Dataset(as_views(views, warn=False))
    if y is not None:
        codes, names = encode_labels(y, data.views.n_samples)
        data = Dataset(data.views, codes, names, data.name, data.sample_ids, data.notes)
    check_model(model, data)
    with whole_file(target) as file:
        file.write(_page(model, data, title, remarks))
    return target


@dataclass(frozen=True)
class ClusterSummary:
    """A cluster in numbers, and the features that characterise it.

    Numbers that need memberships are None if the model was kept without them. `runner_up` is the
    other cluster that most of its samples come second in.
    """

    cluster: int
    size: int
    share: float
    mark: Mark
    confidence: float | None
    n_unsure: int | None
    n_outlying: int | None
    runner_up: int | None
    classes: str
    features: list[tuple[str, str, str, float]]  # view, text, direction, explained part
    products: list[tuple[str, str]]  # text, what it adds

    @property
    def title(self) -> str:
        """The number of the cluster, and its matched class if there is one."""
        matched = self.mark.class_name
        return f"Cluster {self.cluster}" + (
            f" (class {short(matched, 30)})" if matched is not None else ""
        )


@dataclass(frozen=True)
class ViewSummary:
    """A view in numbers; `added` and `alone` are None without view weights."""

    name: str
    n_features: int
    n_kept: int
    scaling: str
    n_missing: int
    unknown: float
    added: float | None
    alone: float | None


@dataclass(frozen=True)
class _Samples:
    """What is known about each sample: arrays over all samples, None if not known."""

    labels: npt.NDArray[np.intp]
    membership: Floats | None
    outlier_score: Floats | None
    runner_up: npt.NDArray[np.intp] | None

    @classmethod
    def of(cls, model: MMC) -> _Samples:
        labels = to_numpy(model.labels_).astype(np.intp)
        membership = getattr(model, "membership_", None)
        runner_up = None
        if membership is not None and membership.shape[1] > 1:
            others = membership.copy()
            others[np.arange(labels.size), labels] = -1.0
            runner_up = others.argmax(axis=1)
        return cls(labels, membership, getattr(model, "outlier_score_", None), runner_up)

    @property
    def confidence(self) -> Floats | None:
        """Membership of each sample in its own cluster."""
        if self.membership is None:
            return None
        return np.asarray(self.membership[np.arange(self.labels.size), self.labels])


def _page(model: MMC, data: Dataset, title: str | None, remarks: Sequence[str]) -> bytes:
    samples = _Samples.of(model)
    table, names, scores = None, list[str](), dict[str, float]()
    if data.y is not None:
        y = np.asarray(data.y)
        table = contingency(y, samples.labels)
        names = [class_name(data, label) for label in table.classes]
        scores = score_all(y, samples.labels)
    marks = _marks_of_clusters(model.n_clusters_, table, names)
    clusters = _clusters(model, samples, marks, data, table, names)
    rows = drawn_samples(samples.labels.size, MOST_POINTS)
    chart, drawn = _map(samples, rows, data, marks, table, names)
    weights = getattr(model, "view_weights_", None)
    sections = {
        "clusters": "Clusters",
        "map": "Map of the samples",
        "listed": "Samples to look at",
        "profile": "Profile of each cluster",
        "views": "Views",
        "choice": "Number of clusters",
        "classes": "Classes",
        "preparation": "What was done to the data",
    }
    absent = {
        "listed": samples.membership is None,
        "choice": model.choice_ is None,
        "classes": table is None,
    }
    return rendered(
        "fit.html.j2",
        scripts=("map.js",),
        contents=[(key, shown) for key, shown in sections.items() if not absent.get(key)],
        data=chart,
        title=title or f"Clusters of {data.name or 'the samples'}",
        name=data.name or "the samples",
        n_samples=samples.labels.size,
        mean_confidence=None if samples.confidence is None else float(samples.confidence.mean()),
        unsure=_UNSURE,
        clusters=clusters,
        views=_views(model, data, weights),
        weights=weights,
        drawn=drawn,
        n_drawn=rows.size,
        listed=_listed(samples, data),
        choice=None if model.choice_ is None else _choice(model.choice_),
        table=table,
        class_names=names,
        class_marks=[] if table is None else matched_marks(table, names),
        most=MOST_CLASSES,
        scores={shown: scores[key] for key, shown in SCORES.items() if key in scores},
        notes=data.notes,
        remarks=remarks,
        params=other_params(model),
        n_iter=int(model.n_iter_),
        version=__version__,
    )


def _marks_of_clusters(n_clusters: int, table: Contingency | None, names: list[str]) -> list[Mark]:
    """Return the mark of each cluster: that of its matched class, if there are classes."""
    if table is None:
        return [Mark(k % COLOURS, k % SYMBOLS, None, k) for k in range(n_clusters)]
    found = {mark.cluster: mark for mark in matched_marks(table, names)}
    return [found.get(k, Mark(k % COLOURS, k % SYMBOLS, None, k)) for k in range(n_clusters)]


def _clusters(
    model: MMC,
    samples: _Samples,
    marks: list[Mark],
    data: Dataset,
    table: Contingency | None,
    names: list[str],
) -> list[ClusterSummary]:
    profile = model.profile(top=5)
    found = []
    for k, mark in enumerate(marks):
        members = samples.labels == k
        size = int(members.sum())
        own = [entry for entry in profile if entry.cluster == k]
        features = [
            (view, entry.short_text, entry.directions[0], entry.explains or 0.0)
            for entry in own
            for view, _ in entry.features[:1]
            if len(entry.features) == 1
        ]
        products = [
            (entry.text, profile.value_text(entry)) for entry in own if len(entry.features) > 1
        ][:3]
        confidence, outlying = samples.confidence, samples.outlier_score
        runner_up = None
        if samples.runner_up is not None and size:
            runner_up = int(np.bincount(samples.runner_up[members]).argmax())
        classes = ""
        if table is not None and k in table.clusters:
            counts = table.counts[:, table.clusters.index(k)]
            largest = [at for at in np.argsort(-counts, kind="stable")[:3] if counts[at]]
            classes = ", ".join(f"{short(names[at], 30)} ({counts[at]})" for at in largest)
        found.append(
            ClusterSummary(
                cluster=k,
                size=size,
                share=size / samples.labels.size,
                mark=mark,
                confidence=None if confidence is None or not size else confidence[members].mean(),
                n_unsure=None if confidence is None else int((confidence[members] < _UNSURE).sum()),
                n_outlying=None if outlying is None else int((outlying[members] > _OUTLYING).sum()),
                runner_up=runner_up,
                classes=classes,
                features=features,
                products=products,
            )
        )
    return found


def _views(model: MMC, data: Dataset, weights: Any) -> list[ViewSummary]:
    views = data.views
    return [
        ViewSummary(
            name=str(name),
            n_features=int(model.n_features_in_[v]),
            n_kept=int(np.any(model.view_factors_[v][:-1], axis=1).sum()),
            scaling=_SCALED[model.normalize_[name]],
            n_missing=0 if views.present is None else int((~views.present[:, v]).sum()),
            unknown=0.0 if views.unknown is None else views.unknown[v],
            added=None if weights is None else float(weights.added[-1, v]),
            alone=None if weights is None else float(weights.alone[-1, v]),
        )
        for v, name in enumerate(model.view_names_)
    ]


def _name_of(data: Dataset, row: int) -> str:
    return str(row) if data.sample_ids is None else short(data.sample_ids[row])


def _listed(samples: _Samples, data: Dataset) -> list[tuple[str, int, float, Any, float | None]]:
    """Return the least certain samples: name, cluster, confidence, runner-up, outlier score."""
    if samples.confidence is None:
        return []
    least = np.argsort(samples.confidence, kind="stable")[:_LISTED].tolist()
    return [
        (
            _name_of(data, row),
            int(samples.labels[row]),
            float(samples.confidence[row]),
            None if samples.runner_up is None else int(samples.runner_up[row]),
            None if samples.outlier_score is None else float(samples.outlier_score[row]),
        )
        for row in least
    ]


# The map


@dataclass(frozen=True)
class Drawing:
    """The map as parts of an SVG element: points by cluster and by class, and numbers of clusters.

    The circle of the clusters has the radius 100.
    """

    extent: float
    size: float
    points: Markup
    by_class: Markup | None
    labels: list[tuple[int, float, float]]


def _map(
    samples: _Samples,
    rows: npt.NDArray[np.int64],
    data: Dataset,
    marks: list[Mark],
    table: Contingency | None,
    names: list[str],
) -> tuple[Chart, Drawing]:
    """Return what the script of the map tells about each point, and the map itself.

    Points are in the order of their clusters, the most certain ones first.
    """
    labels, confidence = samples.labels[rows], samples.confidence
    sure = np.ones(rows.size) if confidence is None else confidence[rows]
    order = np.lexsort((-sure, labels))
    rows, labels = rows[order], labels[order]
    present = np.unique(labels)
    part = (labels[:, None] == present).astype(np.float64)
    if samples.membership is not None:
        # squared, so that the small memberships of all samples in all clusters hardly count
        part = samples.membership[np.ix_(rows, present)] ** 2
        part = part / part.sum(axis=1, keepdims=True)
    points, anchors, room = places(part, labels)
    reach = 1.12 + room
    largest = int(np.bincount(labels).max())
    # slightly less than the distance between two samples of a cluster
    size = float(np.clip(40 * room * np.sqrt(np.pi / largest), 1.0, 3.0))
    xy = np.round(100 * points, 1) + 0.0
    class_marks, positions = [], np.zeros(0, dtype=int)
    if table is not None:
        class_marks = matched_marks(table, names)
        place = {label: at for at, label in enumerate(table.classes)}
        positions = np.array([place[int(label)] for label in np.asarray(data.y)[rows]])
    chart: Chart = {
        "sample": [_name_of(data, row) for row in rows],
        "cluster": labels.tolist(),
        "confidence": None if confidence is None else np.round(confidence[rows], 2).tolist(),
        "runner": None if samples.runner_up is None else samples.runner_up[rows].tolist(),
        "class": None if table is None else [short(names[at], 40) for at in positions],
    }
    extent = 100 * reach + 12
    if present.size == 1:
        anchors = np.array([[0.0, 1.0]])
    drawing = Drawing(
        extent=extent,
        size=size,
        points=_points(xy, [marks[k] for k in labels]),
        by_class=None if table is None else _points(xy, [class_marks[at] for at in positions]),
        labels=[
            (int(k), round(100 * reach * x, 1), round(-100 * reach * y, 1))
            for k, (x, y) in zip(present, anchors.tolist(), strict=True)
        ],
    )
    return chart, drawing


def _points(xy: Floats, marks: list[Mark]) -> Markup:
    # numbers only, so nothing is escaped
    return Markup(
        "".join(
            f'<use href="#s{mark.symbol}" class="c{mark.colour}" x="{x:g}" y="{-y:g}"/>'
            for (x, y), mark in zip(xy.tolist(), marks, strict=True)
        )
    )


# The choice of the number of clusters


def _choice(choice: Any) -> dict[str, Any]:
    """Return the table of the choice, and its agreement as a curve in a box of 340 by 160."""
    rows = choice.table
    first, last = rows[0].n_clusters, rows[-1].n_clusters
    width = max(last - first, 1)
    low = min(0.0, *(row.agreement - row.spread for row in rows))

    def y(value: float) -> float:
        return round(float(160 * (1 - (min(value, 1.0) - low) / (1 - low))), 1)

    points = [
        {
            "k": row.n_clusters,
            "x": round(340 * (row.n_clusters - first) / width, 1),
            "y": y(row.agreement),
            "top": y(row.agreement + row.spread),
            "bottom": y(row.agreement - row.spread),
            "text": f"{row.n_clusters} clusters: agreement {row.agreement:.2f}",
            "role": {choice.n_clusters: "recommended", choice.runner_up: "runner-up"}.get(
                row.n_clusters, ""
            ),
        }
        for row in rows
    ]
    return {
        "summary": choice.summary,
        "points": points,
        "ticks": [(value, y(value)) for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
        "table": choice.as_text(),
        "n_splits": choice.n_splits,
        "n_samples": choice.n_samples,
    }
