"""Choice of the scaling of each view.

Samples of a view are compared by angle, after scaling them to unit length, or by distance, after
standardising the features. Counts are divided by the mean of their row, and the logarithms are
compared by angle. Pixels want the angle of what is given; measurements in different units want the
distance. Where a choice is left, all views are compared by angle first, then all by distance, then
each view in the other way than the rest; a change is kept if clusters are then clearly clearer
(:class:`manyview.graph.leave_one_out.Judged`). The leave-one-out error alone would prefer tables in
which one feature outweighs the others, as any groups along it are easy to predict.

Views that are mostly zeros are always compared by angle, since standardising makes their rarest
features the largest: by logarithms if they are counts (:mod:`manyview.views.counts`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.engine import RowView, engine_for
from manyview.engine.arrays import is_sparse, to_numpy
from manyview.graph.leave_one_out import LabelJudge
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.partition import unit_rows
from manyview.linalg.threads import limited_threads
from manyview.views import (
    Normalize,
    Views,
    are_counts,
    as_views,
    check_scale,
    normalize_by_view,
)
from manyview.views.checks import SCALINGS

__all__ = ["random_samples", "resolve_normalization"]


def resolve_normalization(
    normalize: Normalize,
    views: Views,
    n_clusters: int,
    rng: np.random.Generator,
    settings: GraphSettings = DEFAULTS,
    n_threads: int = 1,
) -> list[str | None]:
    """Return the scaling of each view, with "auto" replaced by a choice."""
    wanted = normalize_by_view(normalize, views, ("auto", *SCALINGS))
    open_views = [v for v, entry in enumerate(wanted) if entry == "auto"]
    by_view = ["rows" if entry == "auto" else entry for entry in wanted]
    if not open_views:
        check_scale(views, by_view)
        return by_view
    sample = random_samples(views, settings.scaling_samples, rng)[1]
    n_clusters = min(n_clusters, settings.scaling_clusters)
    for v in open_views:
        by_view[v] = _by_angle(sample, views, v, settings)
    standardised = list(by_view)
    for v in open_views:
        if _may_be_standardised(sample, views, v, settings):
            standardised[v] = "columns"
    check_scale(views, by_view)
    if standardised == by_view or sample.n_samples <= n_clusters:
        return by_view
    seed = int(rng.integers(2**31 - 1))
    fewer = replace(settings, n_landmarks=settings.scaling_landmarks)

    def unclear(found: list[str | None]) -> float:
        engine, own = engine_for(sample, normalize=found), np.random.default_rng(seed)
        with engine.running():
            judge = LabelJudge(engine, n_clusters, own, settings=fewer)
            return judge.best_candidate(own).unclear

    with limited_threads(1), ThreadPoolExecutor(min(n_threads, 2)) as pool:
        choices = [by_view, standardised]
        by_angle, by_distance = pool.map(unclear, choices)
        chosen, least = by_view, by_angle
        if by_distance < settings.clearly * by_angle:
            chosen, least = standardised, by_distance
        differ = [v for v in open_views if by_view[v] != standardised[v]]
        if len(differ) > 1:
            other = by_view if chosen is standardised else standardised
            flipped = [_with(chosen, v, other[v]) for v in differ]
            found = list(pool.map(unclear, flipped))
            best = int(np.argmin(found))
            if found[best] < settings.clearly * least:
                chosen = flipped[best]
    return chosen


def random_samples(
    views: Views, most: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], Views]:
    """Return the numbers of all samples, or of `most` random ones, and their rows in this process.

    Numbers are in ascending order.
    """
    engine, n = engine_for(views, normalize=None), views.n_samples
    count = min(n, most)
    sample = np.arange(n) if count == n else np.sort(rng.choice(n, count, replace=False))
    with engine.running():
        rows = engine.take(sample)
    present = None
    if views.present is not None:
        present = np.stack([_present(view) for view in rows], axis=1)
    found = as_views([view.x for view in rows], present=present, warn=False)
    return sample, replace(
        found,
        names=views.names,
        feature_names=views.feature_names,
        named=views.named,
        unknown=views.unknown,
        known=None if views.known is None else tuple(view.known for view in rows),
    )


def _present(view: RowView) -> npt.NDArray[np.bool_]:
    missing = view.missing
    return np.ones(view.x.shape[0], dtype=bool) if missing is None else ~missing


def _by_angle(sample: Views, views: Views, v: int, settings: GraphSettings) -> str:
    """Return how a view is scaled unless standardised views have clearer clusters."""
    if _may_be_standardised(sample, views, v, settings) and _one_feature_rules(sample, v, settings):
        return "columns"
    return "log" if are_counts(_known_rows(sample, v)) else "rows"


def _may_be_standardised(sample: Views, views: Views, v: int, settings: GraphSettings) -> bool:
    if is_sparse(sample.arrays[v]):
        return False
    rows = _rows_of(sample, v)
    if _mostly_zeros(rows, settings):
        return False
    try:
        check_scale(views, ["columns" if w == v else "rows" for w in range(views.n_views)])
    except ValueError:  # its variances leave the range of the precision
        return False
    return True


def _mostly_zeros(rows: Any, settings: GraphSettings) -> bool:
    filled = rows.count_nonzero() if is_sparse(rows) else np.count_nonzero(rows)
    return bool(filled <= (1.0 - settings.mostly_zeros) * np.prod(rows.shape))


def _rows_of(sample: Views, v: int) -> Any:
    view = sample.arrays[v]
    return view if sample.present is None else view[sample.present[:, v]]


def _known_rows(sample: Views, v: int) -> Any:
    """Return the rows of a view, with zeros in the place of unknown cells."""
    rows = _rows_of(sample, v)
    known = None if sample.known is None else sample.known[v]
    if known is None:
        return rows
    if sample.present is not None:
        known = known[sample.present[:, v]]
    return np.where(known, rows, 0)


def _one_feature_rules(sample: Views, v: int, settings: GraphSettings) -> bool:
    """Return whether angles of a view say little more than the sign of one feature."""
    variances = np.var(unit_rows(to_numpy(_rows_of(sample, v)).astype(np.float64)), axis=0)
    return bool(variances.max() >= settings.one_feature * variances.sum())


def _with(by_view: list[str | None], v: int, scaling: str | None) -> list[str | None]:
    return [scaling if w == v else entry for w, entry in enumerate(by_view)]
