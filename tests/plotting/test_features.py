from copy import copy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from manyview import MMC
from manyview.plotting import plot_feature_weights


@pytest.fixture
def model(fitted):
    """A fit with known factors: features 1 and 4 of the first view dropped, all of the second."""
    mmc = copy(fitted[1])
    weights = np.array([1.0, 0.0, 3.0, 2.0, 0.0, 0.5, 9.0])  # the last is the bias
    mmc.view_factors_ = [np.outer(weights, [0.6, 0.8]), np.zeros((6, 2))]
    mmc.view_names_ = ["text", "image"]
    mmc.feature_names_in_ = [np.array(list("abcdef")), None]
    return mmc


def texts(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def test_bars_are_the_norms_of_rows_largest_first_without_the_bias(model):
    ax = plot_feature_weights(model, "text")
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [3.0, 2.0, 1.0, 0.5])
    assert texts(ax) == ["c", "d", "a", "f"]
    assert ax.get_title() == "view 'text': 4 features kept, 2 dropped"
    assert ax.yaxis_inverted()


def test_only_the_largest_are_shown_and_the_title_says_so(model):
    ax = plot_feature_weights(model, 0, top=2)
    assert texts(ax) == ["c", "d"]
    assert ax.get_title() == "view 'text': largest 2 of 4 features kept, 2 dropped"


def test_a_view_of_which_nothing_is_left_says_so(model):
    ax = plot_feature_weights(model, "image")
    assert not ax.patches
    assert ax.get_title() == "view 'image': 0 features kept, 5 dropped"
    assert [text.get_text() for text in ax.texts] == ["no feature takes part"]


def test_features_without_names_are_numbered(model):
    model.feature_names_in_ = [None, None]
    assert texts(plot_feature_weights(model)) == [f"feature {at}" for at in (2, 3, 0, 5)]


def test_what_has_no_weights_is_refused(model, fitted):
    with pytest.raises(NotFittedError, match="MMC"):
        plot_feature_weights(MMC(3))
    with pytest.raises(TypeError, match=r"AMGL has no view factors.*expected a fitted MMC"):
        plot_feature_weights(fitted[2])
    with pytest.raises(ValueError, match="no view 'sound'; the views are text, image"):
        plot_feature_weights(model, "sound")
    with pytest.raises(ValueError, match="view=2; expected 0 to 1 or a name: text, image"):
        plot_feature_weights(model, 2)
    with pytest.raises(ValueError, match="top=0"):
        plot_feature_weights(model, top=0)
