import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview import (
    AMGL,
    GMC,
    KCTD,
    LMVSC,
    MMC,
    NEMO,
    OPMC,
    RMKMC,
    SCMV3DT,
    SEC,
    SNF,
    CoRegSC,
    MultiNMF,
)
from manyview.exceptions import ViewWarning
from manyview.views import (
    Views,
    as_views,
    check_n_clusters,
    check_same_views,
    has_equal_rows,
    warn_of_few_distinct,
)
from tests.engine.places import PLACES

X = np.arange(12.0).reshape(4, 3)
Y = np.arange(8.0).reshape(4, 2)


class TestSameViews:
    seen = as_views({"a": pd.DataFrame(X, columns=list("pqr")), "b": Y})

    def check(self, views) -> Views:
        return check_same_views(
            as_views(views),
            names=self.seen.names,
            n_features=self.seen.n_features,
            feature_names=self.seen.feature_names,
        )

    def test_by_name_in_any_order(self):
        views = self.check({"b": Y, "a": X})
        assert views.names == ("a", "b")
        assert views.arrays[0] is X

    def test_by_position(self):
        assert self.check([X, Y]).n_features == [3, 2]

    @pytest.mark.parametrize(
        ("views", "named"),
        [
            ([X], "'view0'.*'a', 'b'"),
            ({"a": X, "c": Y}, "'a', 'c'.*'a', 'b'"),
            ([Y, X], "view 'a' has 2 features"),
            ([pd.DataFrame(X, columns=list("prq")), Y], "view 'a': feature 1 .*'r'.*'q'"),
        ],
    )
    def test_differences_are_rejected(self, views, named):
        with pytest.raises(ValueError, match=named):
            self.check(views)


@pytest.mark.parametrize("n_clusters", [5, True])
def test_invalid_n_clusters_is_rejected(n_clusters):
    with pytest.raises(ValueError, match=f"n_clusters={n_clusters}"):
        check_n_clusters(n_clusters, as_views([X]))


class TestConstantViews:
    rows = np.tile(np.arange(1.0, 5.0), (20, 1))
    constant = "view 'b' is constant"

    def views(self, place, rows):
        other = np.random.default_rng(0).random((20, 3))
        return {"a": PLACES[place](other), "b": PLACES[place](rows)}

    @pytest.mark.parametrize("place", sorted(PLACES.keys() - {"dask"}))
    def test_are_warned_of(self, place):
        with pytest.warns(ViewWarning, match=self.constant):
            as_views(self.views(place, self.rows))

    @pytest.mark.parametrize("place", sorted(PLACES.keys() - {"dask"}))
    @pytest.mark.parametrize("held", [0.0, 7.0, np.nan])
    def test_are_warned_of_where_samples_miss_them(self, place, held):
        present = np.ones((20, 2), dtype=bool)
        present[5:9, 1] = False
        views = self.views(place, np.where(present[:, [1]], self.rows, held))
        with pytest.warns(ViewWarning, match=self.constant):
            as_views(views, present=present)

    @pytest.mark.parametrize("here", [None, np.arange(20) != 4])
    def test_are_read_in_chunks(self, here):
        taken = []

        class Watched(np.ndarray):
            def __getitem__(self, index):
                found = super().__getitem__(index)
                taken.append(np.size(found))
                return found

        assert has_equal_rows(self.rows.view(Watched), here, chunk_bytes=100)
        assert 0 < max(taken) <= 3 * self.rows.shape[1]

    @pytest.mark.parametrize("place", sorted(PLACES.keys() - {"dask"}))
    @pytest.mark.parametrize("here", [None, np.arange(20) != 4])
    def test_are_not_constant_if_the_last_row_differs(self, place, here):
        assert has_equal_rows(PLACES[place](self.rows), here, chunk_bytes=100)
        late = self.rows.copy()
        late[-1, -1] = 0.0
        assert not has_equal_rows(PLACES[place](late), here, chunk_bytes=100)

    @pytest.mark.parametrize("row", [0, 1, 7, 19])
    def test_sparse_rows_are_compared_by_value(self, row):
        rows = sp.csr_array(np.tile([0.0, 1.0, 2.0], (20, 1)))
        stored_zero = sp.csr_array(
            (np.tile([0.0, 1, 2], 20), np.tile([0, 1, 2], 20), rows.indptr * 3 // 2)
        )
        assert has_equal_rows(rows)
        assert has_equal_rows(stored_zero)
        other = rows.toarray()
        other[row, :2] = [1.0, 0.0]
        assert not has_equal_rows(sp.csr_array(other))

    @pytest.mark.parametrize("place", PLACES)
    def test_differing_rows_and_single_rows_are_not_constant(self, place):
        rows, present = self.rows.copy(), np.ones((20, 2), dtype=bool)
        rows[-1, 0] = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views(self.views(place, rows))
            present[1:, 1] = False
            as_views(self.views(place, self.rows), present=present)


class TestSingleFeatures:
    """A row of one positive number has unit length 1, whatever the number."""

    x = np.linspace(1, 9, 8)[:, None]

    @pytest.mark.parametrize("sign", [1, -1])
    def test_of_one_sign_are_warned_of(self, sign):
        with pytest.warns(UserWarning, match=r"'view1' .* normalize='columns'"):
            MMC(2, normalize="rows", random_state=0).fit([np.eye(8), sign * self.x])
        with pytest.warns(UserWarning, match="'view1' has a single feature"):
            SEC(2, n_neighbors=3, normalize="rows").fit([np.eye(8), sign * self.x])

    def test_are_warned_of_where_samples_miss_them(self):
        present = np.ones((8, 2), dtype=bool)
        present[3, 1] = False
        x = np.where(present[:, 1:], self.x, np.nan)
        model = MMC(2, normalize="rows", random_state=0)
        with pytest.warns(UserWarning, match="'view1' has a single feature"):
            model.fit(as_views([np.eye(8), x], present=present))

    @pytest.mark.parametrize("sign", [1, -1])
    def test_are_not_made_constant_by_default(self, sign):
        x = sign * (np.arange(60)[:, None] % 2 + np.linspace(1.0, 1.2, 60)[:, None])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert MMC(2, random_state=0).fit([x]).normalize_ == {"view0": "columns"}

    @pytest.mark.parametrize("normalize", ["rows", "columns"])
    def test_are_taken_where_something_is_left(self, normalize):
        x = self.x if normalize == "columns" else self.x - 5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MMC(2, normalize=normalize, random_state=0).fit([np.eye(8), x])


class TestNumberedSamples:
    """A feature that numbers the samples is probably the index of a table."""

    noise = np.random.default_rng(0).standard_normal((300, 4))

    @pytest.mark.parametrize("first", [1, -7])
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_are_warned_of_in_any_order(self, first, shuffled):
        numbers = np.arange(first, first + 300)
        if shuffled:
            numbers = np.random.default_rng(1).permutation(numbers)
        frame = pd.DataFrame(self.noise, columns=list("abcd")).assign(id=numbers)
        with pytest.warns(
            UserWarning,
            match=f"view 'x': feature 'id' numbers the samples from {first} to {first + 299},",
        ):
            as_views({"x": frame})

    @pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
    def test_are_named_by_position_in_arrays(self, dtype):
        array = np.stack([np.ones(20), np.arange(20)], axis=1).astype(dtype)
        with pytest.warns(UserWarning, match="feature 1 numbers the samples from 0 to 19,"):
            as_views([array])

    @pytest.mark.parametrize(
        "column",
        [
            np.arange(300) / 2,  # a scale
            np.repeat(np.arange(150), 2),
            np.append(np.arange(299), 0),
            np.append(np.arange(299), 300),
            np.arange(300) % 2 == 0,
            np.arange(300, dtype=np.uint8),  # wraps around after 255
        ],
    )
    def test_other_columns_pass(self, column):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views([np.stack([column, column[::-1]], axis=1)])

    @pytest.mark.parametrize("held", [0.0, 7.0, np.nan])
    def test_are_found_among_samples_that_have_the_view(self, held):
        present = np.ones((300, 2), dtype=bool)
        present[10:40, 1] = False
        numbered = np.column_stack([np.arange(300.0), self.noise])
        views = [self.noise, np.where(present[:, [1]], numbered, held)]
        with pytest.warns(
            UserWarning, match="'view1': feature 0 numbers the samples from 0 to 299,"
        ):
            as_views(views, present=present)

    def test_few_samples_pass(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views([np.arange(9)[:, None]])

    def test_predict_does_not_warn(self):
        frame = np.column_stack([self.noise, np.arange(300)])
        with pytest.warns(UserWarning, match="numbers the samples"):
            model = MMC(2, random_state=0, normalize="columns").fit([frame, self.noise])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict([frame, self.noise])

    def test_ranks_pass(self):
        ranks = np.argsort(np.random.default_rng(0).random((200, 4)), axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views([ranks])

    def test_are_found_in_the_last_rows(self):
        numbers = np.random.default_rng(0).permutation(20_000)
        with pytest.warns(UserWarning, match="feature 1 numbers the samples from 0 to 19999,"):
            as_views([np.column_stack([numbers % 15_000, numbers])])

    @pytest.mark.parametrize("n", [99, 101, 10_000])
    def test_are_found_among_similar_features(self, n):
        numbers = np.arange(n)
        again = numbers % (3 * n // 5)  # distinct in the first rows only
        with pytest.warns(UserWarning, match="feature 5 numbers the samples"):
            as_views([np.column_stack([*[again] * 5, numbers])])


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_decreasing_pointers_are_rejected(kind):
    """As in a memory map of a file that is still being written."""
    array = kind(np.eye(6))
    array.indptr[3:] = 0
    with pytest.raises(ValueError, match="view 'view0' is a broken sparse array"):
        as_views([array])


KINDS = {"dense": np.asarray, "sparse": sp.csr_array, "single": np.float32, "bits": np.uint8}
A, B = np.random.default_rng(0).integers(0, 9, (2, 5, 8))


def is_warned_of(n_clusters, views, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_few_distinct(n_clusters, views, **options)
    return bool(caught)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 24])
def test_samples_are_distinct_if_they_differ_in_some_view(kind, chunk_bytes):
    views = as_views([kind(np.tile(A, (12, 1))), kind(np.repeat(B[:3], 20, axis=0))])
    # 60 rows: each of 5 first halves with each of 3 second ones
    assert not is_warned_of(15, views, chunk_bytes=chunk_bytes)
    with pytest.warns(ConvergenceWarning, match="n_clusters=16 is more than the 15 distinct"):
        warn_of_few_distinct(16, views, chunk_bytes=chunk_bytes)


def test_signed_and_stored_zeros_are_equal():
    dense = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]])
    stored = sp.csr_array((np.array([0.0, 1.0, -0.0, 1.0, 1.0]), [0, 1, 0, 1, 1], [0, 2, 4, 5]))
    for array in (dense, stored):
        assert not is_warned_of(1, as_views([array], warn=False))
        assert is_warned_of(2, as_views([array], warn=False))


def test_rows_of_missing_views_are_equal():
    X = np.arange(12.0).reshape(6, 2)
    present = np.array([[1, 1], [1, 0], [1, 0], [1, 0], [1, 0], [1, 1]], dtype=bool)
    ones = np.ones_like(X)
    assert is_warned_of(3, as_views([ones, ones], present=present, warn=False))
    assert not is_warned_of(2, as_views([ones, ones], present=present, warn=False))
    assert is_warned_of(4, as_views([ones, X], present=present, warn=False))
    assert not is_warned_of(3, as_views([ones, X], present=present, warn=False))


def test_reading_stops_once_enough_samples_differ():
    class Rows(np.ndarray):
        def __getitem__(self, key):
            assert key.stop <= 5
            return super().__getitem__(key)

    views = as_views([np.arange(200.0).reshape(100, 2) / 7])
    read = replace(views, arrays=(views.arrays[0].view(Rows),))
    assert not is_warned_of(5, read)


METHODS = [MMC, SEC, CoRegSC, AMGL, RMKMC, MultiNMF, KCTD, SCMV3DT, GMC, SNF, NEMO, OPMC, LMVSC]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_warns_once_at_the_callers_line(method):
    views = [np.repeat(A, 12, axis=0), np.repeat(B, 12, axis=0)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        method(10, random_state=0).fit(views)
    found = [w for w in caught if "more than the 5 distinct" in str(w.message)]
    assert len(found) == 1
    assert found[0].filename == __file__
