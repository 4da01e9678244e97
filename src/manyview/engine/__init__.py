"""Engines: blocks of rows in memory, on a GPU or on a Dask cluster."""

from manyview.engine.base import Engine, engine_for, in_units
from manyview.engine.block import Block, RowView, State, Sums, Update
from manyview.engine.local import LocalEngine
from manyview.engine.scaling import Scaling
from manyview.linalg.threads import blas_threads

__all__ = [
    "Block",
    "Engine",
    "LocalEngine",
    "RowView",
    "Scaling",
    "State",
    "Sums",
    "Update",
    "blas_threads",
    "engine_for",
    "in_units",
]
