import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview.linalg.partition import (
    cluster_rows,
    effective_clusters,
    has_collapsed,
    without_empty,
)


@given(labels=st.lists(st.integers(0, 4), min_size=5, max_size=30))
def test_no_cluster_stays_empty_and_few_samples_move(labels):
    labels = np.array(labels)
    mended = without_empty(labels, 5)
    missing = 5 - np.unique(labels).size
    assert np.unique(mended).size == 5
    assert np.count_nonzero(mended != labels) == missing


@pytest.mark.parametrize(
    ("sizes", "before", "lost"),
    [
        ((299, 1), (150, 150), True),
        ((200, 100), (150, 150), False),
        ((98, 1, 1), (30, 30, 40), True),
        ((50, 48, 1, 1), (25, 25, 25, 25), True),
        ((33, 33, 32, 1, 1), (20,) * 5, False),
        ((10,), (10,), False),
    ],
)
def test_clusters_that_were_lost(sizes, before, lost):
    assert has_collapsed(np.array(sizes), np.array(before)) == lost


def test_effective_clusters():
    assert np.isclose(effective_clusters(np.array([2.0, 2.0, 2.0])), 3.0)
    assert np.isclose(effective_clusters(np.array([5.0, 0.0])), 1.0)
    assert 1.0 < effective_clusters(np.array([98.0, 1.0, 1.0])) < 1.2


def test_fewer_distinct_rows_than_clusters():
    labels, _ = cluster_rows(np.zeros((6, 2)), 3, np.random.default_rng(0))
    assert np.unique(labels).size == 3
