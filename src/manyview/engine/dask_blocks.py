"""Which samples are in which block: chunks of rows that all views share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.engine.dask_tasks import Part
from manyview.views import Views
from manyview.views.container import listed
from manyview.warn import warn_user

__all__ = ["aligned", "by_block", "parts_of"]


def aligned(views: Views) -> list[Any]:
    """Return the arrays of views with the chunks of rows of the first."""
    first, *others = views.arrays
    differing = [
        name
        for name, array in zip(views.names[1:], others, strict=True)
        if array.chunks[0] != first.chunks[0]
    ]
    if differing:
        warn_user(
            f"view(s) {listed(differing)} have other chunks of rows than view "
            f"{views.names[0]!r} and are rechunked to its; rechunk them before, or load them so, "
            "to save that work in every pass"
        )
    return [first, *(array.rechunk({0: first.chunks[0]}) for array in others)]


def parts_of(chunks: tuple[int, ...], dtype: np.dtype[Any]) -> list[Part]:
    """Return the blocks of chunks of rows; those without rows are none."""
    stops = np.cumsum(chunks).tolist()
    return [Part(n - rows, n, dtype) for n, rows in zip(stops, chunks, strict=True) if rows]


def by_block(
    parts: list[Part], samples: npt.NDArray[np.intp]
) -> tuple[list[tuple[int, npt.NDArray[np.intp]]], npt.NDArray[np.intp]]:
    """Return which rows of which blocks samples are, and how to bring them back in order."""
    order = np.argsort(samples, kind="stable")
    starts = [part.start for part in parts]
    bounds = np.searchsorted(samples[order], [*starts, parts[-1].stop])
    chosen = [
        (b, samples[order[bounds[b] : bounds[b + 1]]] - start)
        for b, start in enumerate(starts)
        if bounds[b] < bounds[b + 1]
    ]
    return chosen, np.argsort(order)
