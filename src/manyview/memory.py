"""Rejection of work that does not fit into memory, before it begins."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from manyview.exceptions import NotEnoughMemoryError

__all__ = ["check_memory"]


def check_memory(
    bytes_needed: float, *, work: str, matrices: str, way_out: str, limit: float | None = None
) -> None:
    """Raise if work needs more bytes than `limit`, by default half of the machine's memory.

    `work` names what needs the memory, `matrices` the shape of its matrices, and `way_out` is the
    advice at the end of the error.

    Examples
    --------
    >>> parts = {"work": "rank=100000", "matrices": "rank by rank", "way_out": "Lower it"}
    >>> check_memory(8e10, **parts, limit=1e9)
    Traceback (most recent call last):
    ...
    manyview.exceptions.NotEnoughMemoryError: rank=100000 needs 74.5 GiB of memory, for
    matrices of rank by rank, and 0.931 GiB may be used. Lower it
    """
    if limit is None:
        limit = _half_of_memory()
    if bytes_needed > limit:
        raise NotEnoughMemoryError(
            f"{work} needs {bytes_needed / 2**30:.3g} GiB of memory, for matrices of {matrices}, "
            f"and {limit / 2**30:.3g} GiB may be used. {way_out}"
        )


def _half_of_memory() -> float:
    """Return half of the memory of the machine or container; infinity where it is unknown."""
    most = float("inf")
    with suppress(AttributeError, OSError, ValueError):
        most = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        most = min(most, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    return 0.5 * most
