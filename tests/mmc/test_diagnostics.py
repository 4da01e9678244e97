import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine

from manyview import MMC, as_views
from manyview.exceptions import ViewWarning
from manyview.mmc.diagnostics import dominance_warning


def measured():
    X = load_wine().data
    return [X[:, :6], X[:, 6:]]


def fit(views, normalize="rows"):
    return MMC(3, max_iter=2, tol=1.0, random_state=0, normalize=normalize).fit(views)


class TestFeaturesOfDifferentUnits:
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_raise_a_warning(self, convert):
        views = [convert(X) for X in measured()]
        with pytest.warns(ViewWarning, match="one feature .* normalize='columns'"):
            fit(views)

    def test_raise_a_warning_with_missing_views(self):
        rng = np.random.default_rng(0)
        only = rng.integers(0, 5, 178)  # two fifths have one view, two fifths the other
        present = np.stack([only > 1, (only < 2) | (only > 3)], axis=1)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fit(as_views(measured(), present=present))
        assert any("one feature" in str(warning.message) for warning in told)

    def test_rows_of_zeros_do_not_count(self):
        squares = [np.array([0.5, 0.1, 1.0]), np.array([0.9, 0.1, 1.0])]
        assert "83 %" in str(dominance_warning(squares))
        assert dominance_warning([np.array([0.0, 0.0, 1.0]), squares[1]]) is None

    @pytest.mark.parametrize(
        ("views", "options"),
        [
            (measured(), {"normalize": "columns"}),
            (measured(), {"normalize": "auto"}),
            ([*measured(), np.random.default_rng(0).random((178, 26))], {}),
            ([X / X.std(axis=0) for X in measured()], {}),
        ],
        ids=["standardised", "standardised by default", "beside many features", "of one size"],
    )
    def test_other_views_raise_none(self, views, options):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ViewWarning)
            fit(views, **options)
