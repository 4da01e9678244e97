import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.exceptions import ViewWarning
from manyview.views import Views, check_shared_samples, fill_unknown

NAMES = ("a", "b", "c", "d")
X = np.random.default_rng(0).random((12, 3))


def named(held, warn=True):
    """Return views of 12 samples; sample n has the views named in ``held[n % len(held)]``."""
    present = [[name in held[n % len(held)] for name in NAMES] for n in range(12)]
    return as_views(dict.fromkeys(NAMES, X), present=present, warn=warn)


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (sp.csr_array(np.ones((12, 2))), "present is a sparse csr_array"),
        ([[1, 0]] * 11 + [[1]], "present cannot be read as an array"),
        ({"a": [1] * 12}, r"present has keys 'a'.* \(12, 2\)"),
        ([[10**400, 1]] * 12, "present holds .* at row 0, column 0"),
        (np.zeros((12, 2), dtype=[("a", int)]), "present holds .* at row 0, column 0"),
        (np.ma.masked_equal(np.eye(12, 2), 1), "present has masked entries"),
        (np.full((12, 2), "True"), "present holds 'True' at row 0, column 0"),
    ],
)
def test_masks_of_other_kinds_are_rejected(present, message):
    with pytest.raises(ValueError, match=message):
        as_views([X, X], present=present)


def test_missing_views_stay_missing():
    first, later = np.ones((12, 2), dtype=bool), np.ones((12, 2), dtype=bool)
    first[:4, 1] = False
    later[8:, 0] = False
    views = as_views([X, np.where(first[:, [1]], X, np.nan)], present=first)
    np.testing.assert_array_equal(as_views(views, present=later).present, first & later)
    np.testing.assert_array_equal(as_views(views, present=np.ones((12, 2))).present, first)


def test_the_mask_of_unchecked_views_may_be_of_numbers():
    first = np.ones((12, 2))
    first[:4, 1] = 0.0
    views = Views((X, X), ("a", "b"), (None, None), present=first)
    later = np.ones((12, 2), dtype=bool)
    later[8:, 0] = False
    np.testing.assert_array_equal(as_views(views, present=later).present, (first == 1) & later)


class TestByName:
    """A dict of one mask per view."""

    first = np.arange(12) < 8

    def with_present(self, present, views=None):
        return as_views({"a": X, "b": X[:, :2]} if views is None else views, present=present)

    @pytest.mark.parametrize("made", [np.asarray, list, pd.Series, np.float64, np.object_])
    def test_keys_name_the_views_in_any_order(self, made):
        views = self.with_present({"b": made(self.first), "a": made(np.ones(12, dtype=bool))})
        np.testing.assert_array_equal(views.present, np.stack([np.ones(12), self.first], axis=1))

    def test_vectors_may_be_of_different_kinds(self):
        some = pd.Series(self.first, dtype="boolean")
        views = self.with_present({"a": [1] * 12, "b": some})
        assert views.present[:, 1].tolist() == self.first.tolist()

    def test_keys_may_be_integers(self):
        views = self.with_present({2: self.first, 1: [True] * 12}, {1: X, 2: X[:, :2]})
        assert views.present[:, 1].tolist() == self.first.tolist()

    @pytest.mark.parametrize(
        ("present", "message"),
        [
            ({"a": first}, "present has keys 'a'"),
            ({"a": first, "b": first, "c": first}, "present has keys 'a', 'b', 'c'"),
            ({}, "'a', 'b'"),
            ({"a": first, "b": first[:5]}, r"present\['b'\] has shape \(5,\)"),
            ({"a": True, "b": first}, r"present\['a'\] has shape \(\)"),
            ({"a": first, "b": sp.csr_array(first[:, None])}, r"present\['b'\] is a sparse csr_"),
            ({"a": first, "b": [[1], [1, 2]] * 6}, r"present\['b'\] cannot be read as an array"),
            ({"a": first, "b": ["yes"] * 12}, "present holds 'yes' at row 0, column 'b'"),
            ({"b": [1] * 11 + [2], "a": first}, "present holds 2 at row 11, column 'b'"),
            ({"a": first, "b": first}, "sample 8 is present in no view"),
        ],
    )
    def test_errors_name_the_view(self, present, message):
        with pytest.raises(ValueError, match=message):
            self.with_present(present)

    def test_differing_rows_are_reported_first(self):
        with pytest.raises(ValueError, match="view 'b' has 11 rows, view 'a' has 12"):
            self.with_present({"a": [1] * 11, "b": [1] * 11}, {"a": X, "b": X[:11]})

    def test_series_in_another_order_are_rejected(self):
        letters = list("abcdefghijkl")
        series = pd.Series(self.first, index=letters)
        frames = {"a": pd.DataFrame(X, index=letters), "b": X[:, :2]}
        assert self.with_present({"a": [1] * 12, "b": series}, frames).present is not None
        message = r"""have different indexes: row 0 is 'a' in .* and 'l' in "present\['b'\]\""""
        with pytest.raises(ValueError, match=message):
            self.with_present({"a": [1] * 12, "b": series[::-1]}, frames)
        with pytest.raises(ValueError, match=message):
            self.with_present({"a": series, "b": series[::-1]})


class TestSharedSamples:
    """Clusters of views without a common sample cannot be matched."""

    @pytest.mark.parametrize(
        ("held", "groups"),
        [
            (["a", "b", "c", "d"], r"\('a'\), \('b'\), \('c'\), \('d'\)"),
            (["ab", "cd"], r"\('a', 'b'\), \('c', 'd'\)"),
            (["ad", "dc", "b"], r"\('a', 'c', 'd'\), \('b'\)"),
        ],
    )
    def test_separate_groups_are_rejected(self, held, groups):
        with pytest.raises(ValueError, match=groups):
            check_shared_samples(named(held))

    @pytest.mark.parametrize("held", [["ab", "bc", "cd"], ["a", "b", "c", "d", "abcd"], ["abcd"]])
    def test_chains_of_samples_connect_views(self, held):
        check_shared_samples(named(held))

    def test_a_view_that_no_sample_has_is_in_no_group(self):
        check_shared_samples(named(["ab", "bc"], warn=False))


def apart(place):
    """Return views without a common sample, and the same arrays complete."""
    views, _ = make_views(60, 3, random_state=0)
    arrays = [np.asarray(view) for view in views]
    if place == "torch":
        arrays = list(map(pytest.importorskip("torch").from_numpy, arrays))
    if place == "dask":
        array = pytest.importorskip("dask.array")
        arrays = [array.from_array(view, chunks=(20, -1)) for view in arrays]
    first = np.arange(60) < 30
    return as_views(arrays, present=np.stack([first, ~first], axis=1)), arrays


@pytest.mark.parametrize("place", ["numpy", "torch", "dask"])
def test_a_fit_needs_samples_in_common_and_predict_does_not(place):
    views, whole = apart(place)
    model = MMC(3, max_iter=2, tol=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"\('view0'\), \('view1'\)"):
        model.fit(views)
    assert model.fit(whole).predict(views).shape == (60,)


def holed(*cells, rows=()):
    """Return `X` without some cells and rows."""
    array = X.copy()
    for cell in cells:
        array[cell] = np.nan
    array[list(rows)] = np.nan
    return array


def torch_or_numpy(place, arrays):
    if place == "numpy":
        return arrays
    return list(map(pytest.importorskip("torch").from_numpy, arrays))


@pytest.mark.parametrize("place", ["numpy", "torch"])
class TestUnknownCells:
    def test_the_share_is_that_of_samples_that_have_the_view(self, place):
        arrays = torch_or_numpy(place, [holed((0, 1), (1, 1), (2, 0), rows=[3]), X])
        views = as_views(arrays, present=[[n != 2, True] for n in range(12)])
        assert views.unknown == (2 / 30, 0.0)
        assert "(7% unknown), view1: 3 x" in repr(views)
        assert np.flatnonzero(~views.present[:, 0]).tolist() == [2, 3]
        again = as_views(views)
        assert again.unknown == views.unknown
        np.testing.assert_array_equal(again.present, views.present)

    def test_means_of_known_cells_stand_for_the_others_in_a_fit(self, place):
        array = holed((0, 1), (1, 1), (4, 0), rows=[3])
        array[:, 2] = np.nan
        present = np.arange(12) != 5
        views = as_views(torch_or_numpy(place, [array, X]), present=np.c_[present, np.ones(12)])
        filled = fill_unknown(views)
        there = np.where(present[:, None], array, np.nan)
        means = [np.nanmean(there[:, 0]), np.nanmean(there[:, 1]), 0.0]
        expected = np.where(np.isnan(array), means, array)
        rows = filled.present[:, 0]
        np.testing.assert_allclose(np.asarray(filled.arrays[0])[rows], expected[rows])
        np.testing.assert_array_equal(np.asarray(filled.known[0])[rows], ~np.isnan(array[rows]))
        assert filled.known[1] is None
        assert np.isnan(np.asarray(views.arrays[0])[0, 1])
        some = filled.take([0, 4])
        np.testing.assert_array_equal(np.asarray(some.known[0]), ~np.isnan(array[[0, 4]]))
        assert fill_unknown(some) is some

    def test_samples_are_taken_with_their_unknown_cells(self, place):
        views = as_views(torch_or_numpy(place, [holed((0, 1), (7, 2)), X]))
        assert as_views(views[:3]).unknown == (1 / 9, 0.0)
        assert views[1:4].unknown is None
        absent = as_views(views, present=[[n != 0, True] for n in range(12)])
        assert absent[:8].unknown == (1 / 21, 0.0)

    def test_views_with_few_known_cells_raise_a_warning(self, place):
        array = X.copy()
        array[:, :2] = np.nan
        arrays = torch_or_numpy(place, [X, array])
        with pytest.warns(ViewWarning, match="67% of the cells of view 'view1' are unknown"):
            as_views(arrays)

    def test_infinity_is_located_beside_unknown_cells(self, place):
        array = holed((0, 1), (1, 1))
        array[4, 2] = -np.inf
        with pytest.raises(ValueError, match="view 'view0' holds -infinity at row 4, column 2"):
            as_views(torch_or_numpy(place, [array]))


@pytest.mark.parametrize(
    ("entries", "dtype"),
    [
        (X.astype(np.float32), np.float32),
        ((10 * X).astype(np.uint8), np.float16),
        ((1e6 * X).astype(int), np.float64),
        (X > 0.5, np.float16),
        (X.astype(object), np.float64),
    ],
)
def test_masked_entries_are_unknown(entries, dtype):
    mask = np.zeros((12, 3), dtype=bool)
    mask[2, 1] = mask[5] = True
    views = as_views([np.ma.masked_array(entries, mask), X])
    array = views.arrays[0]
    assert array.dtype == dtype
    assert np.isnan(array[2, 1])
    assert np.count_nonzero(np.isnan(array)) == 1
    assert np.flatnonzero(~views.present[:, 0]).tolist() == [5]


@pytest.mark.parametrize("entries", [1j * X, X.astype(str)])
def test_masked_entries_that_are_no_numbers_are_rejected(entries):
    masked = np.ma.masked_array(entries, mask=X > 0.5)
    with pytest.raises(ValueError, match=r"view 'view0' holds .*expected real numbers"):
        as_views([masked])
