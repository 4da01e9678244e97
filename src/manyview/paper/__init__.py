"""The paper's table and figures, made anew: what ``manyview paper`` does."""

from manyview.paper.figures import Growth, converge, subsets, time_growth
from manyview.paper.write import reproduce

__all__ = ["Growth", "converge", "reproduce", "subsets", "time_growth"]
