import numpy as np
import pytest

from manyview.plotting import plot_time_against_size

SIZES = [1000, 2000, 4000, 8000]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_legend_has_the_exponents_slowest_first():
    seconds = {
        "line": [n / 1000 for n in SIZES],
        "square": [(n / 1000) ** 2 for n in SIZES],
        "cube": [(n / 1000) ** 3 if n < 3000 else None for n in SIZES],
    }
    ax = plot_time_against_size(SIZES, seconds)
    assert legend(ax) == ["cube, exponent 3.0", "square, exponent 2.0", "line, exponent 1.0"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("samples", "seconds")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1000, 2000])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), seconds["square"])


@pytest.mark.parametrize("guides", [(1,), (1, 2), (0, 1.5, 3)])
def test_guides_have_their_slope_and_stay_in_sight(guides):
    ax = plot_time_against_size(SIZES, {"MMC": [1.0, 2.0, 4.0, 8.0]}, guides=guides)
    drawn = ax.lines[1:]
    assert len(drawn) == len(ax.texts) == len(guides)
    for guide, exponent in zip(drawn, guides, strict=True):
        x, y = np.log(guide.get_xdata()), np.log(guide.get_ydata())
        assert np.isclose((y[1] - y[0]) / (x[1] - x[0]), exponent)
        low, high = ax.get_ylim()
        assert low <= guide.get_ydata()[0] <= guide.get_ydata()[1] <= high * (1 + 1e-9)


def test_a_method_at_one_size_has_no_exponent():
    ax = plot_time_against_size(SIZES, {"KCTD": [3.0, None, float("nan"), None]})
    assert legend(ax) == ["KCTD"]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="seconds is empty"):
        plot_time_against_size(SIZES, {})
    with pytest.raises(ValueError, match="seconds of 'MMC' has 2 values, sizes has 4"):
        plot_time_against_size(SIZES, {"MMC": [1.0, 2.0]})
    with pytest.raises(ValueError, match="'MMC' has no value at any size"):
        plot_time_against_size(SIZES, {"MMC": [None] * 4})
    with pytest.raises(ValueError, match=r"'MMC' has -1.0; expected positive times"):
        plot_time_against_size(SIZES, {"MMC": [1.0, None, -1.0, 2.0]})
    with pytest.raises(ValueError, match="expected positive numbers"):
        plot_time_against_size([0, 1], {"MMC": [1.0, 2.0]})
