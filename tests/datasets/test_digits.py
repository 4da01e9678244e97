import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from manyview.datasets import load_digits_views
from manyview.datasets.digits import _fourier, _gradients
from manyview.metrics import normalized_mutual_info


@pytest.fixture(scope="module")
def digits():
    return load_digits_views()


def test_shape_names_and_classes(digits):
    views, y = digits
    assert views.names == ("pixels", "fourier", "projections", "gradients")
    assert views.n_samples == len(y) == 1797
    assert views.n_features == [64, 34, 46, 72]
    assert all(array.dtype == np.float64 for array in views)
    for names, width in zip(views.feature_names, views.n_features, strict=True):
        assert names.shape == (width,)
        assert len(set(names)) == width
    assert digits.class_names.tolist() == [str(digit) for digit in range(10)]
    assert digits.name == "digits"
    np.testing.assert_array_equal(y, load_digits().target)


def test_pixels_are_the_images(digits):
    np.testing.assert_array_equal(digits.views["pixels"], load_digits().data)


def test_fourier_magnitudes_are_those_of_the_full_spectrum_and_do_not_repeat(digits):
    image = load_digits().images[7]
    full = np.log1p(np.abs(np.fft.fft2(image)))
    fourier = digits.views["fourier"]
    for feature, value in zip(digits.views.feature_names[1], fourier[7], strict=True):
        u, v = map(int, feature.removeprefix("frequency").split("_"))
        assert value == pytest.approx(full[u, v])
    # two magnitudes equal in every image would be one feature given twice
    assert np.unique(fourier.round(6), axis=1).shape == fourier.shape


def test_fourier_magnitudes_ignore_where_a_cyclic_shift_puts_the_digit(digits):
    images = load_digits().images
    shifted, _ = _fourier(np.roll(images, (2, 3), axis=(1, 2)))
    np.testing.assert_allclose(shifted, digits.views["fourier"], atol=1e-8)


def test_each_family_of_projections_holds_all_the_ink(digits):
    ink = digits.views["pixels"].sum(axis=1)
    names = np.char.rstrip(digits.views.feature_names[2], "0123456789")
    for family in ("row", "column", "diagonal", "antidiagonal"):
        total = digits.views["projections"][:, names == family].sum(axis=1)
        np.testing.assert_allclose(total, ink)


def test_gradients_follow_the_edges():
    ramp = np.broadcast_to(np.arange(8.0), (1, 8, 8))
    for turns, angle in enumerate([0, 270, 180, 90]):
        histogram, names = _gradients(np.rot90(ramp, turns, axes=(1, 2)))
        for value, name in zip(histogram[0], names, strict=True):
            assert value == (16.0 if name.endswith(f"_angle{angle}") else 0.0)


def test_gradients_vanish_without_edges():
    assert (_gradients(np.full((1, 8, 8), 5.0))[0] == 0).all()


def test_every_view_tells_digits_apart(digits):
    views, y = digits
    for name in views.names:
        labels = KMeans(10, n_init=1, random_state=0).fit_predict(views[name])
        assert normalized_mutual_info(y, labels) > 0.4, name


def test_the_same_each_time(digits):
    for first, second in zip(digits.views, load_digits_views().views, strict=True):
        np.testing.assert_array_equal(first, second)


def test_first_samples_only(digits):
    views, y = load_digits_views(n_samples=100)
    assert views.n_samples == 100
    assert np.bincount(y).min() >= 8
    for some, every in zip(views, digits.views, strict=True):
        np.testing.assert_allclose(some, every[:100], atol=1e-12)


@pytest.mark.parametrize("n_samples", [0, -1, 1798, 1.5, "all"])
def test_rejects_numbers_of_samples_that_it_has_not(n_samples):
    with pytest.raises(ValueError, match="expected an integer from 1 to 1797"):
        load_digits_views(n_samples=n_samples)
