"""Choice of the scaling of each view.

Samples of a view are compared by angle, after scaling them to unit length, or by distance, after
standardising the features. Words, counts and pixels want the angle; measurements in different
units want the distance. Views are standardised where clusters are then clearer
(:class:`manyview.graph.leave_one_out.Judged`). The leave-one-out error alone would prefer tables in
which one feature outweighs the others, as any groups along it are easy to predict.

Views that are mostly zeros are always compared by angle, since standardising makes their rarest
features the largest.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from manyview.engine import RowView, engine_for
from manyview.engine.arrays import is_sparse
from manyview.graph.leave_one_out import LabelJudge
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.linalg.threads import limited_threads
from manyview.views import Normalize, Views, as_views, check_scale, normalize_by_view

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
    wanted = normalize_by_view(normalize, views, ("auto", "rows", "columns", None))
    open_views = [v for v, entry in enumerate(wanted) if entry == "auto"]
    by_view = ["rows" if entry == "auto" else entry for entry in wanted]
    if not open_views:
        check_scale(views, by_view)
        return by_view
    sample = random_samples(views, settings.scaling_samples, rng)[1]
    n_clusters = min(n_clusters, settings.scaling_clusters)
    standardised = list(by_view)
    for v in open_views:
        if _may_be_standardised(sample, views, v, settings):
            standardised[v] = "columns"
            if sample.n_features[v] == 1:  # unit rows would be constant
                by_view[v] = "columns"
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
        by_angle, by_distance = pool.map(unclear, (by_view, standardised))
    return standardised if by_distance < settings.clearly * by_angle else by_view


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
        found, names=views.names, feature_names=views.feature_names, named=views.named
    )


def _present(view: RowView) -> npt.NDArray[np.bool_]:
    missing = view.missing
    return np.ones(view.x.shape[0], dtype=bool) if missing is None else ~missing


def _may_be_standardised(sample: Views, views: Views, v: int, settings: GraphSettings) -> bool:
    view = sample.arrays[v]
    if is_sparse(view):
        return False
    rows = view if sample.present is None else view[sample.present[:, v]]
    if not rows.size or np.mean(rows == 0) >= settings.mostly_zeros:
        return False
    try:
        check_scale(views, ["columns" if w == v else "rows" for w in range(views.n_views)])
    except ValueError:  # its variances leave the range of the precision
        return False
    return True
