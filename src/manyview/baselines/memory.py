"""Refusing work that memory cannot hold, before it starts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from manyview.exceptions import NotEnoughMemoryError

__all__ = ["refuse_beyond"]

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def refuse_beyond(
    bytes_needed: float, *, method: str, n_samples: int, limit: float | None = None
) -> None:
    """Raise before memory runs out.

    Parameters
    ----------
    bytes_needed : float
        What the work ahead will hold at once.
    method : str
        Who needs it, for the error.
    n_samples : int
        Number of samples, for the error.
    limit : float, optional
        Most that it may; by default half of the memory of the machine, or of the container.

    Examples
    --------
    >>> refuse_beyond(8e10, method="KCTD", n_samples=10**5, limit=1e9)
    Traceback (most recent call last):
    ...
    manyview.exceptions.NotEnoughMemoryError: KCTD on 100000 samples needs 74.5 GiB of memory, for
    matrices of samples by samples, and 0.931 GiB may be used. AMGL, RMKMC,
    MultiNMF and MMC need none
    """
    if limit is None:
        limit = _half_of_memory()
    if bytes_needed > limit:
        raise NotEnoughMemoryError(
            f"{method} on {n_samples} samples needs {bytes_needed / 2**30:.3g} GiB of memory, for "
            f"matrices of samples by samples, and {limit / 2**30:.3g} GiB may be used. "
            "AMGL, RMKMC, MultiNMF and MMC need none"
        )


def _half_of_memory() -> float:
    most = float("inf")
    # a system that does not tell sets no limit
    with suppress(AttributeError, OSError, ValueError):
        most = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        most = min(most, float(_CONTAINER.read_text()))
    return 0.5 * most
