import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from manyview import AMGL, KCTD, MMC, RMKMC, SCMV3DT, SEC, CoRegSC, MultiNMF
from manyview.exceptions import ViewWarning
from manyview.views import (
    Views,
    as_views,
    check_n_clusters,
    check_same_views,
    has_equal_rows,
    warn_of_few_distinct,
)
from manyview.views import checks as distinct
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
        assert views[0] is X

    def test_by_position(self):
        assert self.check([X, Y]).n_features == [3, 2]

    @pytest.mark.parametrize(
        ("views", "message"),
        [
            ([X], r"received 1 view(s) ('view0'); fit saw 2 ('a', 'b')"),
            ({"a": X, "c": Y}, "received views named 'a', 'c'; fit saw 'a', 'b'"),
            ([Y, X], "view 'a' has 2 features; fit saw 3"),
            ([pd.DataFrame(X, columns=list("prq")), Y], "feature 1 is named 'r', fit saw 'q'"),
        ],
    )
    def test_differences(self, views, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            self.check(views)


def test_n_clusters_more_than_samples():
    with pytest.raises(ValueError, match="n_clusters=5 is more than the 4 samples"):
        check_n_clusters(5, as_views([X]))


def test_n_clusters_that_is_no_number():
    with pytest.raises(ValueError, match="n_clusters=True; expected a whole number"):
        check_n_clusters(True, as_views([X]))


class TestSamplesThatAreTheSame:
    rows = np.tile(np.arange(1.0, 5.0), (20, 1))
    told = "every sample of view 'b' is the same: it carries nothing"

    def views(self, place, rows):
        other = np.random.default_rng(0).random((20, 3))
        return {"a": PLACES[place](other), "b": PLACES[place](rows)}

    @pytest.mark.parametrize("place", sorted(PLACES.keys() - {"dask"}))
    def test_are_told(self, place):
        with pytest.warns(ViewWarning, match=self.told):
            as_views(self.views(place, self.rows))

    @pytest.mark.parametrize("place", sorted(PLACES.keys() - {"dask"}))
    @pytest.mark.parametrize("held", [0.0, 7.0, np.nan])
    def test_where_others_lack_the_view(self, place, held):
        present = np.ones((20, 2), dtype=bool)
        present[5:9, 1] = False
        views = self.views(place, np.where(present[:, [1]], self.rows, held))
        with pytest.warns(ViewWarning, match=self.told):
            as_views(views, present=present)

    @pytest.mark.parametrize("lacking", [False, True])
    def test_are_looked_at_some_at_a_time(self, lacking, monkeypatch):
        monkeypatch.setattr("manyview.views.checks._CHECK_BYTES", 100)
        taken = []

        class Watched(np.ndarray):
            def __getitem__(self, index):
                found = super().__getitem__(index)
                taken.append(np.size(found))
                return found

        here = np.arange(20) != 4 if lacking else None
        assert has_equal_rows(self.rows.view(Watched), here)
        assert 0 < max(taken) <= 3 * self.rows.shape[1]

    @pytest.mark.parametrize("place", sorted(PLACES.keys() - {"dask"}))
    @pytest.mark.parametrize("lacking", [False, True])
    def test_however_late_one_differs(self, place, lacking, monkeypatch):
        monkeypatch.setattr("manyview.views.checks._CHECK_BYTES", 100)
        here = np.arange(20) != 4 if lacking else None
        assert has_equal_rows(PLACES[place](self.rows), here)
        late = self.rows.copy()
        late[-1, -1] = 0.0
        assert not has_equal_rows(PLACES[place](late), here)

    @pytest.mark.parametrize("place", PLACES)
    def test_not_of_one_that_differs_nor_of_one_alone(self, place):
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
        with pytest.warns(UserWarning, match=r"'view1' is one feature .* normalize='columns'"):
            MMC(2, random_state=0).fit([np.eye(8), sign * self.x])
        with pytest.warns(UserWarning, match="'view1' is one feature"):
            SEC(2, n_neighbors=3, normalize="rows").fit([np.eye(8), sign * self.x])

    def test_are_warned_of_where_samples_lack_them(self):
        present = np.ones((8, 2), dtype=bool)
        present[3, 1] = False
        x = np.where(present[:, 1:], self.x, np.nan)
        with pytest.warns(UserWarning, match="'view1' is one feature"):
            MMC(2, random_state=0).fit(as_views([np.eye(8), x], present=present))

    @pytest.mark.parametrize("normalize", ["rows", "columns"])
    def test_are_taken_where_something_is_left(self, normalize):
        x = self.x if normalize == "columns" else self.x - 5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MMC(2, normalize=normalize, random_state=0).fit([np.eye(8), x])


class TestNumbersOfSamples:
    """An index that was left in a table is told of: clusters may follow it."""

    noise = np.random.default_rng(0).standard_normal((300, 4))

    @pytest.mark.parametrize("first", [0, 1, -7, 1000])
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_are_warned_of_in_whichever_order(self, first, shuffled):
        numbers = np.arange(first, first + 300)
        if shuffled:
            numbers = np.random.default_rng(1).permutation(numbers)
        frame = pd.DataFrame(self.noise, columns=list("abcd")).assign(id=numbers)
        with pytest.warns(
            UserWarning,
            match=f"view 'x': feature 'id' numbers the samples, {first} to {first + 299};",
        ):
            as_views({"x": frame})

    @pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
    def test_of_arrays_are_told_by_their_place(self, dtype):
        array = np.stack([np.ones(20), np.arange(20)], axis=1).astype(dtype)
        with pytest.warns(UserWarning, match="feature 1 numbers the samples, 0 to 19;"):
            as_views([array])

    @pytest.mark.parametrize(
        "column",
        [
            np.arange(300) / 2,  # a scale
            np.repeat(np.arange(150), 2),
            np.append(np.arange(299), 0),
            np.append(np.arange(299), 300),
            np.arange(300) % 2 == 0,
            np.arange(300, dtype=np.uint8),  # begins anew after 255
        ],
    )
    def test_are_not_seen_elsewhere(self, column):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views([np.stack([column, column[::-1]], axis=1)])

    @pytest.mark.parametrize("held", [0.0, 7.0, np.nan])
    def test_of_samples_that_have_the_view(self, held):
        present = np.ones((300, 2), dtype=bool)
        present[10:40, 1] = False
        numbered = np.column_stack([np.arange(300.0), self.noise])
        views = [self.noise, np.where(present[:, [1]], numbered, held)]
        with pytest.warns(UserWarning, match="'view1': feature 0 numbers the samples, 0 to 299;"):
            as_views(views, present=present)

    def test_of_few_samples_may_be_anything(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views([np.arange(9)[:, None]])

    def test_of_new_samples_are_not_warned_of(self):
        frame = np.column_stack([self.noise, np.arange(300)])
        with pytest.warns(UserWarning, match="numbers the samples"):
            model = MMC(2, random_state=0, normalize="columns").fit([frame, self.noise])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict([frame, self.noise])

    def test_ranks_are_not_taken_for_indexes(self):
        ranks = np.argsort(np.random.default_rng(0).random((200, 4)), axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            as_views([ranks])

    def test_are_seen_among_more_rows_than_are_looked_at_first(self):
        numbers = np.random.default_rng(0).permutation(20_000)
        with pytest.warns(UserWarning, match="feature 1 numbers the samples, 0 to 19999;"):
            as_views([np.column_stack([numbers % 15_000, numbers])])

    @pytest.mark.parametrize("n", [99, 100, 101, 1_000, 10_000])
    def test_are_seen_among_many_features_whatever_the_number_of_samples(self, n):
        numbers = np.arange(n)
        again = numbers % (3 * n // 5)  # which is an index only as far as it is looked at first
        with pytest.warns(UserWarning, match="feature 5 numbers the samples"):
            as_views([np.column_stack([*[again] * 5, numbers])])


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_pointers_that_were_written_in_part_are_refused(kind):
    """As of a map of a file that another process still writes."""
    array = kind(np.eye(6))
    array.indptr[3:] = 0
    with pytest.raises(ValueError, match=r"view 'view0' is a broken sparse array: .* decrease"):
        as_views([array])


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
