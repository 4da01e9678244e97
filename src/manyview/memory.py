"""Refusing work that memory cannot hold, before it starts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from manyview.exceptions import NotEnoughMemoryError

__all__ = ["check_memory"]

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def check_memory(
    bytes_needed: float, *, work: str, matrices: str, way_out: str, limit: float | None = None
) -> None:
    """Raise before memory runs out.

    Parameters
    ----------
    bytes_needed : float
        What the work ahead will hold at once.
    work : str
        Who needs it, for the error.
    matrices : str
        The shape of what takes it, for the error.
    way_out : str
        What to do instead, for the error.
    limit : float, optional
        Most that it may; by default half of the memory of the machine, or of the container.

    Examples
    --------
    >>> told = {"work": "rank=100000", "matrices": "rank by rank", "way_out": "Lower it"}
    >>> check_memory(8e10, **told, limit=1e9)
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
    most = float("inf")
    # a system that does not tell sets no limit
    with suppress(AttributeError, OSError, ValueError):
        most = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        most = min(most, float(_CONTAINER.read_text()))
    return 0.5 * most
