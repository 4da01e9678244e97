import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview.baselines.copies import warn_of_copies
from manyview.baselines.distances import nearest_rows


def views(first=(20, 15, 10), seed=0):
    """Two views with so many copies of some samples, in no order, and ten samples of one each."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(np.arange(len(first) + 10), [*first, *[1] * 10]))
    return [rng.standard_normal((kind.max() + 1, width))[kind] for width in (4, 3)]


def warn(arrays, n_neighbors, n_clusters=3, beyond=0):
    nearest = [nearest_rows(array, n_neighbors + beyond) for array in arrays]
    warn_of_copies(nearest, n_neighbors, n_clusters)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn(*arguments, **options)


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_more_copies_than_neighbours_and_no_fewer(kind, beyond):
    arrays = [kind(view) for view in views()]
    match = "has 19 copies, more than n_neighbors=18: .* raise n_neighbors to 19, or"
    with pytest.warns(ConvergenceWarning, match=match):
        warn(arrays, 18, beyond=beyond)
    quietly(arrays, 19, beyond=beyond)


def test_what_differs_in_one_view_is_no_copy():
    quietly([*views(), np.random.default_rng(1).standard_normal((55, 2))], 5)


def test_small_heaps_where_larger_ones_of_two_views_cross_are_no_copies():
    first, second = np.divmod(np.arange(36), 6)
    quietly([np.eye(6)[first], np.eye(6)[second]], 3)


def test_within_a_view_there_are_more():
    first = np.repeat([0, 1], 20)
    with pytest.warns(ConvergenceWarning, match=r"has 19 copies.* to 39, its copies within a view"):
        warn([np.eye(2)[first], np.ones((40, 2))], 4, n_clusters=2)


def test_nothing_of_a_single_cluster_nor_of_more_clusters_than_distinct_samples():
    quietly(views(), 5, n_clusters=1)
    quietly([np.ones((20, 2))], 5, n_clusters=2)
