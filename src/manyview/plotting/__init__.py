"""Figures of fits and of comparisons, each drawn on an Axes of matplotlib and returned with it.

Needs the extra ``app``; matplotlib is imported when a figure is drawn.
"""

from manyview.plotting.comparison import plot_comparison
from manyview.plotting.contingency import plot_contingency
from manyview.plotting.differences import plot_paired_differences
from manyview.plotting.embedding import plot_embedding
from manyview.plotting.features import plot_feature_weights
from manyview.plotting.growth import plot_time_against_size
from manyview.plotting.objective import plot_objective
from manyview.plotting.quality import plot_time_against_quality
from manyview.plotting.ranks import plot_critical_difference

__all__ = [
    "plot_comparison",
    "plot_contingency",
    "plot_critical_difference",
    "plot_embedding",
    "plot_feature_weights",
    "plot_objective",
    "plot_paired_differences",
    "plot_time_against_quality",
    "plot_time_against_size",
]
