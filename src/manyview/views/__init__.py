"""What a set of views is, and how a list, a dict or DataFrames become one.

Every view that a user hands over passes :func:`as_views`; nothing behind it checks data again.
"""

from manyview.views.checks import (
    check_n_clusters,
    check_same_views,
    check_scale,
    has_equal_rows,
    warn_of_few_distinct,
    warn_of_single_features,
)
from manyview.views.container import Array, Views
from manyview.views.convert import as_views, first_index, unchecked_views
from manyview.views.missing import check_shared_samples

__all__ = [
    "Array",
    "Views",
    "as_views",
    "check_n_clusters",
    "check_same_views",
    "check_scale",
    "check_shared_samples",
    "first_index",
    "has_equal_rows",
    "unchecked_views",
    "warn_of_few_distinct",
    "warn_of_single_features",
]
