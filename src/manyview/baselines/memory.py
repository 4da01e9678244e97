"""Refusing matrices of samples by samples that memory cannot hold."""

from __future__ import annotations

from manyview.memory import check_memory

__all__ = ["refuse_beyond"]


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
        Most that it may; see :func:`manyview.memory.check_memory`.

    Examples
    --------
    >>> refuse_beyond(8e10, method="KCTD", n_samples=10**5, limit=1e9)
    Traceback (most recent call last):
    ...
    manyview.exceptions.NotEnoughMemoryError: KCTD on 100000 samples needs 74.5 GiB of memory, for
    matrices of samples by samples, and 0.931 GiB may be used. AMGL, RMKMC,
    MultiNMF and MMC need none
    """
    check_memory(
        bytes_needed,
        work=f"{method} on {n_samples} samples",
        matrices="samples by samples",
        way_out="AMGL, RMKMC, MultiNMF and MMC need none",
        limit=limit,
    )
