"""Choice of the scaling of each view.

Samples of a view are compared by angle, after scaling them to unit length, or by distance, after
standardising the features. Words, counts and pixels want the angle; measurements in different
units want the distance. Features are standardised where the view's own affinity graph then shows
clearer clusters: a smaller part of the embedding's variance lies within them.

Views that are mostly zeros are always compared by angle, since standardising makes their rarest
features the largest. Views in which one feature is nearly the whole row are always standardised,
since their features have different units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyview.engine import RowView, engine_for
from manyview.engine.arrays import is_sparse
from manyview.engine.block import row_norms
from manyview.graph.settings import DEFAULTS, GraphSettings
from manyview.graph.spectral import exact_clusters
from manyview.views import Normalize, Views, as_views, check_scale, normalize_by_view

__all__ = ["choose_normalization", "resolve_normalization"]


def resolve_normalization(
    normalize: Normalize,
    views: Views,
    n_clusters: int,
    rng: np.random.Generator,
    settings: GraphSettings = DEFAULTS,
) -> tuple[list[str | None], GraphSettings]:
    """Return the scaling of each view, with "auto" replaced by a choice, and the settings for it.

    Where a choice was made, standardised views are compared by distance.
    """
    wanted = normalize_by_view(normalize, views, ("auto", "rows", "columns", None))
    if "auto" not in wanted:
        check_scale(views, wanted)
        return wanted, settings
    check_scale(views, [None if entry is None else "rows" for entry in wanted])
    chosen = choose_normalization(views, n_clusters, rng, settings)
    pairs = zip(wanted, chosen, strict=True)
    found = [choice if entry == "auto" else entry for entry, choice in pairs]
    check_scale(views, found)
    return found, replace(settings, distance=True)


def choose_normalization(
    views: Views,
    n_clusters: int,
    rng: np.random.Generator,
    settings: GraphSettings = DEFAULTS,
) -> list[str | None]:
    """Return "rows" or "columns" for each view, from a random part of the samples."""
    engine = engine_for(views, normalize=None)
    n = engine.n_samples
    count = min(n, max(settings.scaling_samples, 10 * n_clusters))
    sample = np.arange(n) if count == n else np.sort(rng.choice(n, count, replace=False))
    seed = int(rng.integers(2**31 - 1))
    with engine.running():
        rows = engine.take(sample)
    return [_chosen(view, n_clusters, seed, settings) for view in rows]


def _chosen(view: RowView, n_clusters: int, seed: int, settings: GraphSettings) -> str:
    if is_sparse(view.x) or np.mean(view.x == 0) >= settings.mostly_zeros:
        return "rows"
    x = view.x if view.missing is None else view.x[~view.missing]
    x = x.astype(np.result_type(x, np.float32), copy=False)
    if x.shape[0] <= n_clusters or np.ptp(x, axis=0).max(initial=0.0) == 0.0:
        return "rows"
    alone_views = as_views([x], warn=False)
    try:
        check_scale(alone_views, "columns")
    except ValueError:  # its variances leave the range of the precision
        return "rows"
    unit = x / row_norms(x)[:, None].clip(np.finfo(np.float64).tiny)
    squares = np.sum(unit**2, axis=0)
    if squares.max() >= settings.dominant * squares.sum():
        return "columns"
    alone = replace(settings, distance=True, exact_limit=x.shape[0], exact_sizes=(1.0,))

    def unexplained(normalize: str) -> float:
        engine, rng = engine_for(alone_views, normalize=normalize), np.random.default_rng(seed)
        return exact_clusters(engine, n_clusters, rng, settings=alone)[0].unexplained

    clearer = unexplained("columns") < settings.columns_clearer * unexplained("rows")
    return "columns" if clearer else "rows"
