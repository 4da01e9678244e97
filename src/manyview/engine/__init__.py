"""Where the rows live. Two verbs: sum a kernel over row blocks, update their state with one."""

from manyview.engine.block import Block, RowView, Sums, Update
from manyview.engine.local import LocalEngine
from manyview.engine.scaling import Scaling

__all__ = ["Block", "LocalEngine", "RowView", "Scaling", "Sums", "Update"]
