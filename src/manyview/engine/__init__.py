"""Where the rows live. Two verbs: sum a kernel over row blocks, update their state with one."""

from manyview.engine.base import Engine, engine_for
from manyview.engine.block import Block, RowView, Sums, Update
from manyview.engine.local import LocalEngine
from manyview.engine.scaling import Scaling
from manyview.linalg.threads import blas_threads

__all__ = [
    "Block",
    "Engine",
    "LocalEngine",
    "RowView",
    "Scaling",
    "Sums",
    "Update",
    "blas_threads",
    "engine_for",
]
