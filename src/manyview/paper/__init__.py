"""Reproduction of the paper's table and figures (``manyview paper``)."""

from manyview.paper.figures import Growth, converge, subsets, time_growth
from manyview.paper.write import reproduce

__all__ = ["Growth", "converge", "reproduce", "subsets", "time_growth"]
