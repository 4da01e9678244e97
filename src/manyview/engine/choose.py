"""Which engine works on which views: the input decides."""

from __future__ import annotations

from typing import Any

from manyview.engine.base import Engine
from manyview.engine.local import LocalEngine
from manyview.engine.scaling import Scaling
from manyview.views import Views

__all__ = ["engine_for"]


def engine_for(
    views: Views,
    *,
    normalize: str | None,
    n_threads: int = 1,
    scalings: list[Scaling] | None = None,
) -> Engine:
    """Return the engine that works on views where they are.

    Parameters
    ----------
    views : Views
        Checked views: NumPy and SciPy arrays, torch tensors, or Dask arrays.
    normalize : {"rows", "columns"} or None
        Unit rows, standardised columns, or neither.
    n_threads : int
        Threads over blocks in this process.
    scalings : list of Scaling, optional
        Column scalings found by an earlier fit, for samples that it did not see.

    Returns
    -------
    Engine
    """
    options: dict[str, Any] = {"normalize": normalize, "scalings": scalings}
    if views.place == "torch":
        from manyview.engine.torch import TorchEngine

        return TorchEngine(views, **options)
    if views.place == "dask":
        from manyview.engine.dask import DaskEngine

        return DaskEngine(views, **options)
    return LocalEngine(views, n_threads=n_threads, **options)
