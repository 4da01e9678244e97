import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview import AMGL, KCTD, MMC, RMKMC, SCMV3DT, SEC, CoRegSC, MultiNMF, as_views
from manyview.views import distinct, warn_of_few_distinct

KINDS = {"dense": np.asarray, "sparse": sp.csr_array, "single": np.float32, "bits": np.uint8}
A, B = np.random.default_rng(0).integers(0, 9, (2, 5, 8))


def is_warned_of(n_clusters, views):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_few_distinct(n_clusters, views)
    return bool(caught)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("read_bytes", [1, 1 << 24])
def test_samples_are_distinct_that_differ_in_some_view(kind, read_bytes, monkeypatch):
    monkeypatch.setattr(distinct, "_READ_BYTES", read_bytes)
    views = as_views([kind(np.tile(A, (12, 1))), kind(np.repeat(B[:3], 20, axis=0))])
    # 60 rows: each of 5 first halves with each of 3 second ones
    assert not is_warned_of(15, views)
    with pytest.warns(ConvergenceWarning, match="n_clusters=16 is more than the 15 distinct"):
        warn_of_few_distinct(16, views)


def test_zeros_are_the_same_whatever_their_sign_and_whether_stored():
    dense = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]])
    stored = sp.csr_array((np.array([0.0, 1.0, -0.0, 1.0, 1.0]), [0, 1, 0, 1, 1], [0, 2, 4, 5]))
    for array in (dense, stored):
        assert not is_warned_of(1, as_views([array], warn=False))
        assert is_warned_of(2, as_views([array], warn=False))


def test_rows_that_lack_a_view_are_the_same_whatever_they_hold():
    X = np.arange(12.0).reshape(6, 2)
    present = np.array([[1, 1], [1, 0], [1, 0], [1, 0], [1, 0], [1, 1]], dtype=bool)
    ones = np.ones_like(X)
    assert is_warned_of(3, as_views([ones, ones], present=present, warn=False))
    assert not is_warned_of(2, as_views([ones, ones], present=present, warn=False))
    assert is_warned_of(4, as_views([ones, X], present=present, warn=False))
    assert not is_warned_of(3, as_views([ones, X], present=present, warn=False))


def test_no_more_rows_are_read_than_tell():
    class Rows(np.ndarray):
        def __getitem__(self, key):
            assert key.stop <= 5
            return super().__getitem__(key)

    views = as_views([np.arange(200.0).reshape(100, 2) / 7])
    read = replace(views, arrays=(views[0].view(Rows),))
    assert not is_warned_of(5, read)


METHODS = [MMC, SEC, CoRegSC, AMGL, RMKMC, MultiNMF, KCTD, SCMV3DT]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_so_once(method):
    views = [np.repeat(A, 12, axis=0), np.repeat(B, 12, axis=0)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        method(10, random_state=0).fit(views)
    told = [w for w in caught if "more than the 5 distinct" in str(w.message)]
    assert len(told) == 1
    assert told[0].filename == __file__
