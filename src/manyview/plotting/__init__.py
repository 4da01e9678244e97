"""Figures of fits and comparisons, drawn on matplotlib Axes.

Needs the extra ``app``; matplotlib is imported when a figure is drawn.
"""

from manyview.plotting.choice import plot_n_clusters
from manyview.plotting.comparison import (
    plot_comparison,
    plot_critical_difference,
    plot_paired_differences,
    plot_time_against_quality,
    plot_time_against_size,
)
from manyview.plotting.fits import (
    plot_contingency,
    plot_embedding,
    plot_feature_weights,
    plot_objective,
    plot_view_weights,
)

__all__ = [
    "plot_comparison",
    "plot_contingency",
    "plot_critical_difference",
    "plot_embedding",
    "plot_feature_weights",
    "plot_n_clusters",
    "plot_objective",
    "plot_paired_differences",
    "plot_time_against_quality",
    "plot_time_against_size",
    "plot_view_weights",
]
