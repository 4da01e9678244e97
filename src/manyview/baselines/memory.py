"""Refusing work that memory cannot hold, before it starts."""

from __future__ import annotations

import os

__all__ = ["refuse_beyond"]


def refuse_beyond(bytes_needed: float, limit: float | None = None) -> None:
    """Raise before memory runs out.

    Parameters
    ----------
    bytes_needed : float
        What the work ahead will hold at once.
    limit : float, optional
        Most that it may; by default half of the machine's memory.

    Examples
    --------
    >>> refuse_beyond(8 * 100**2)
    >>> refuse_beyond(8 * 100**2, limit=1000)
    Traceback (most recent call last):
    ...
    ValueError: 80000 bytes (7.45e-05 GiB) of memory would be needed and 1000 bytes may be used...
    """
    if limit is None:
        limit = _half_of_memory()
    if bytes_needed > limit:
        raise ValueError(
            f"{int(bytes_needed)} bytes ({bytes_needed / 2**30:.3g} GiB) of memory would be needed "
            f"and {int(limit)} bytes may be used: too many samples for a matrix of samples by "
            "samples"
        )


def _half_of_memory() -> float:
    try:
        return 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not tell
        return float("inf")
