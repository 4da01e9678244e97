"""How widely the cosines of each view are spread, and what becomes of a view of few features.

In few features any two samples are far from orthogonal, whatever they say: cosines of noise in d
of them have the standard deviation ``1 / sqrt(d)``. Those of four clinical values are spread more
than twice as widely as those of sixty genes, and would decide alone who is near whom in the product
of both. So a view that is spread as if it had few features is brought down to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyview.engine import RowView
from manyview.engine.arrays import Array, is_sparse, placed_like, to_numpy
from manyview.mmc.cosines import cosines_of, prepared

__all__ = ["evened", "spread_of"]

_MOST_ROWS = 1000  # among which the spread is measured
_FEW_FEATURES = 25
_NARROW_SPREAD = _FEW_FEATURES**-0.5  # of noise in as many; up to it, a view may be the widest


def spread_of(view: RowView, columns: tuple[Array, Array] | None, widths: Array) -> float:
    """Return the standard deviation of the cosines between different rows of a view.

    Of more than ``_MOST_ROWS``, as many at equal steps stand for all.

    Parameters
    ----------
    view : RowView
        Raw rows, with their factors; those that lack the view are left out.
    columns, widths
        How features are scaled; see :func:`manyview.mmc.cosines.prepared`.

    Returns
    -------
    float
        0 for fewer than two rows.
    """
    places = np.arange(view.x.shape[0])
    if view.lacking is not None:
        places = places[~to_numpy(view.lacking)]
    if places.size < 2:
        return 0.0
    places = places[np.linspace(0, places.size - 1, min(places.size, _MOST_ROWS)).astype(np.intp)]
    like = view.x.data if is_sparse(view.x) else view.x
    rows = prepared(view.take(placed_like(places, like)), columns, widths)
    cosines = to_numpy(cosines_of(rows, rows)).astype(np.float64)
    pairs = places.size * (places.size - 1)
    cosines -= (cosines.sum() - np.trace(cosines)) / pairs
    np.fill_diagonal(cosines, 0.0)
    return float(np.linalg.norm(cosines) / np.sqrt(pairs))


def evened(spreads: Sequence[float]) -> list[float]:
    """Return what the cosines of each view are multiplied by, so that none is the widest by far.

    Parameters
    ----------
    spreads : sequence of float
        Of each view.

    Returns
    -------
    list of float
        1 but for the widest view, which is brought down to the next one, or to 0.2, the spread of
        noise in 25 features, if that is more.

    Examples
    --------
    >>> evened([0.1, 0.5, 0.25])
    [1.0, 0.5, 1.0]
    """
    factors = [1.0] * len(spreads)
    if len(spreads) > 1:
        *_, second, first = np.argsort(spreads)
        widest, next_one = (max(spreads[v], _NARROW_SPREAD) for v in (first, second))
        factors[first] = min(1.0, next_one / widest)
    return factors
