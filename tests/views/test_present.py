import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.views import check_shared_samples

NAMES = ("a", "b", "c", "d")
X = np.random.default_rng(0).random((12, 3))


def named(held, warn=True):
    """Views of 12 samples, of which sample n has those that ``held[n % len(held)]`` names."""
    present = [[name in held[n % len(held)] for name in NAMES] for n in range(12)]
    return as_views(dict.fromkeys(NAMES, X), present=present, warn=warn)


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (sp.csr_array(np.ones((12, 2))), r"present is a sparse csr_array; .* toarray\(\)"),
        ([[1, 0]] * 11 + [[1]], r"present cannot be read as an array of shape \(samples, views\)"),
        ({"a": [1] * 12}, r"present has shape \(\); expected \(samples, views\) = \(12, 2\)"),
        ([[10**400, 1]] * 12, "at row 0, column 0; expected True and False"),
    ],
)
def test_what_is_no_array_of_true_and_false_is_refused(present, message):
    with pytest.raises(ValueError, match=message):
        as_views([X, X], present=present)


class TestSharedSamples:
    """Nothing says which clusters of views are the same where no sample has both."""

    @pytest.mark.parametrize(
        ("held", "groups"),
        [
            (["a", "b", "c", "d"], r"\('a'\), \('b'\), \('c'\), \('d'\)"),
            (["ab", "cd"], r"\('a', 'b'\), \('c', 'd'\)"),
            (["ad", "dc", "b"], r"\('a', 'c', 'd'\), \('b'\)"),
        ],
    )
    def test_groups_that_none_joins_are_refused(self, held, groups):
        with pytest.raises(ValueError, match=f"views of more than one of {groups}: .* expected"):
            check_shared_samples(named(held))

    @pytest.mark.parametrize("held", [["ab", "bc", "cd"], ["a", "b", "c", "d", "abcd"], ["abcd"]])
    def test_chains_of_samples_will_do(self, held):
        check_shared_samples(named(held))

    def test_a_view_that_no_sample_has_is_in_no_group(self):
        check_shared_samples(named(["ab", "bc"], warn=False))


def apart(place):
    """Views of which every sample has one, and the same with all samples in both."""
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
    with pytest.raises(ValueError, match="no sample has views of more than one of"):
        model.fit(views)
    assert model.fit(whole).predict(views).shape == (60,)
