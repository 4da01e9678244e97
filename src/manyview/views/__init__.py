"""Validated views of the same samples.

All data that users pass go through :func:`as_views`, which reads every view once and rejects what
cannot be clustered. Code behind it relies on finite numbers, equal numbers of rows and valid
sparse arrays without checking again. One check is repeated: :func:`check_scale` reads the entries
of Views that were validated before a fit once more, since arrays may have changed in place.
"""

from manyview.views.align import align_to, with_absent
from manyview.views.checks import (
    Normalize,
    check_n_clusters,
    check_same_views,
    check_scale,
    has_equal_rows,
    normalize_by_view,
    warn_of_few_distinct,
    warn_of_single_features,
)
from manyview.views.container import Array, Views
from manyview.views.convert import as_views, first_index, unchecked_views
from manyview.views.counts import are_counts, with_logs
from manyview.views.frames import (
    MAX_CATEGORIES,
    Text,
    chosen_columns,
    column_matches,
    encoded_in,
    encoded_text,
    matching_columns,
)
from manyview.views.missing import check_shared_samples, fill_unknown

__all__ = [
    "MAX_CATEGORIES",
    "Array",
    "Normalize",
    "Text",
    "Views",
    "align_to",
    "are_counts",
    "as_views",
    "check_n_clusters",
    "check_same_views",
    "check_scale",
    "check_shared_samples",
    "chosen_columns",
    "column_matches",
    "encoded_in",
    "encoded_text",
    "fill_unknown",
    "first_index",
    "has_equal_rows",
    "matching_columns",
    "normalize_by_view",
    "unchecked_views",
    "warn_of_few_distinct",
    "warn_of_single_features",
    "with_absent",
    "with_logs",
]
