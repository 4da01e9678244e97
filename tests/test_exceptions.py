import linecache
import warnings

import numpy as np
import pytest

from manyview import MMC, SEC, as_views
from manyview.datasets import make_views
from manyview.exceptions import warn_user


def test_the_category_is_that_given():
    with pytest.warns(RuntimeWarning, match="^look out$"):
        warn_user("look out", RuntimeWarning)


@pytest.mark.parametrize(
    "act",
    [
        lambda views: as_views([views[0], np.ones((60, 2))]),
        lambda views: as_views(views, present=np.repeat([[True, False]], 60, axis=0)),
        lambda views: MMC(n_clusters=3, max_iter=1, random_state=0).fit(views),
        lambda views: MMC(n_clusters=3, max_iter=1, random_state=0).fit_predict(views),
        lambda views: MMC(n_clusters=3, max_iter=1, random_state=0).fit_transform(views),
        lambda views: SEC(n_clusters=3, random_state=0).fit_predict([np.ones((60, 2)), views[1]]),
    ],
)
def test_warnings_name_the_line_of_the_caller(act):
    views, _ = make_views(n_samples=60, n_clusters=3, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(list(views))
    assert caught
    for warning in caught:
        assert warning.filename == __file__
        assert "lambda views" in linecache.getline(warning.filename, warning.lineno)
