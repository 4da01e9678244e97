import numpy as np
import pytest
import scipy.linalg

from manyview import MMC
from manyview.datasets import make_views
from manyview.mmc import estimator
from manyview.mmc.given import Given

from .indicators import indicator_of


def test_labels_of_any_type():
    given = Given.of(["b", "a", "b", "c"], 4, 3)
    np.testing.assert_array_equal(given.labels, [1, 0, 1, 2])
    assert given.indicator is None


def test_a_mask_that_hides_nothing_does_not_matter():
    given = Given.of(np.ma.masked_equal([0, 1, 2, 1], 9), 4, 3)
    np.testing.assert_array_equal(given.labels, [0, 1, 2, 1])


def test_an_indicator_is_made_orthonormal():
    G = np.random.default_rng(0).standard_normal((6, 2))
    expected, _ = scipy.linalg.polar(G)
    np.testing.assert_allclose(Given.of(G, 6, 2).indicator, expected, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e300, 1e-300])
def test_an_indicator_as_labels(scale):
    F = scale * indicator_of(np.array([1, 0, 1, 2]), 3)
    np.testing.assert_array_equal(Given.of(F, 4, 3).labels, [1, 0, 1, 2])


def test_memberships_keep_their_largest_where_clusters_are_of_very_unequal_size():
    rng = np.random.default_rng(0)
    labels = (rng.random(400) < 0.05).astype(int)
    own = rng.uniform(0.55, 0.95, 400)
    memberships = np.where(np.arange(2) == labels[:, None], own[:, None], 1.0 - own[:, None])
    np.testing.assert_array_equal(Given.of(memberships, 400, 2).labels, labels)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([0, 0, 1, 1], "init holds 2 different labels; expected n_clusters=3"),
        ([0, 1, 2], r"init has shape \(3,\); expected labels of shape \(4,\)"),
        (np.ones((4, 3)), "init has 3 columns but rank 1"),
        (np.full((4, 3), np.nan), "init holds nan at row 0, column 0; expected finite numbers"),
        (np.full((4, 3), 1j), "init is of type complex128; expected real numbers"),
        (np.ones((4, 2)), r"init has shape \(4, 2\)"),
        (np.ma.masked_equal([0, 1, 2, 9], 9), "init is a masked array with masked entries"),
        (np.ma.masked_less(np.eye(4, 3), 0.5), "init is a masked array with masked entries"),
    ],
)
def test_refused(array, message):
    with pytest.raises(ValueError, match=message):
        Given.of(array, 4, 3)


def test_refused_before_any_pass_over_the_views(monkeypatch):
    monkeypatch.setattr(estimator, "engine_for", None)  # which makes the first pass
    views, _ = make_views(60, 3, random_state=0)
    with pytest.raises(ValueError, match=r"init has shape \(3,\)"):
        MMC(3, init=[0, 1, 2]).fit(views)
