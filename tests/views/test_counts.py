import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views
from manyview.views import are_counts, with_logs


def made(n=200, width=40, seed=0):
    """Counts of cells whose library sizes vary."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.3, 5.0, (n, width)) * rng.lognormal(0, 0.5, (n, 1)))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_counts_of_any_type_are_recognised(dtype, form):
    assert are_counts(form(made().astype(dtype)))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x + 0.5,
        lambda x: -x,
        lambda x: np.minimum(x, 1),
        lambda x: np.where(x > 2, np.inf, x).astype(float),
        lambda x: x[:, :5],
        lambda x: np.sort(np.random.default_rng(0).permutation(400).reshape(10, 40)),
        np.zeros_like,
    ],
)
def test_what_is_no_count(change):
    assert not are_counts(change(made()))


def test_pixels_and_histograms_are_no_counts():
    rng = np.random.default_rng(0)
    pixels = rng.integers(20, 256, (200, 64)) * (rng.random((200, 64)) < 0.3)
    assert not are_counts(pixels)
    assert not are_counts(rng.multinomial(500, rng.dirichlet(np.ones(30)), 200))


def test_logarithms_do_not_depend_on_library_sizes():
    x = made().astype(float)
    views = as_views([x, 7.0 * x])
    found, left = with_logs(views, ["log", "log"])
    assert left == ["rows", "rows"]
    np.testing.assert_allclose(found.arrays[0], found.arrays[1])
    kept = x.sum(axis=1) > 0
    np.testing.assert_allclose(np.expm1(found.arrays[0]).mean(axis=1)[kept], 1.0)


def test_other_views_are_not_copied():
    views = as_views([made().astype(float), np.eye(200)])
    found, left = with_logs(views, ["log", "columns"])
    assert found.arrays[1] is views.arrays[1]
    assert left == ["rows", "columns"]


def test_negative_entries_are_rejected_in_fit_and_in_predict():
    x, y = made().astype(float), made(seed=1).astype(float)
    bad = x.copy()
    bad[3, 2] = -1.0
    with pytest.raises(ValueError, match=r"view1.*negative"):
        MMC(3, normalize="log", random_state=0).fit([x, bad])
    model = MMC(3, normalize="log", random_state=0).fit([x, y])
    with pytest.raises(ValueError, match=r"view1.*negative"):
        model.predict([x, bad])


def test_rows_that_lack_the_view_may_hold_negative_numbers():
    x, y = made().astype(float), made(seed=1).astype(float)
    present = np.ones((200, 2), dtype=bool)
    present[:5, 1] = False
    other = y.copy()
    other[:5] = -1.0
    fits = [
        MMC(3, normalize="log", random_state=0).fit(as_views([x, z], present=present))
        for z in (y, other)
    ]
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)
