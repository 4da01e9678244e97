import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine

from manyview import MMC, as_views
from manyview.exceptions import ViewWarning
from manyview.mmc.diagnostics import remark_on_rows


def measured():
    X = load_wine().data
    return [X[:, :6], X[:, 6:]]


def fit(views, **options):
    return MMC(3, max_iter=2, tol=1.0, random_state=0, **options).fit(views)


class TestTablesOfMeasurements:
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_are_warned_of(self, convert):
        views = [convert(X) for X in measured()]
        with pytest.warns(ViewWarning, match=r"in every view one feature .* normalize='columns'"):
            fit(views)

    def test_are_warned_of_where_samples_lack_views(self):
        rng = np.random.default_rng(0)
        only = rng.integers(0, 5, 178)  # two fifths have one view, two fifths the other
        present = np.stack([only > 1, (only < 2) | (only > 3)], axis=1)
        with pytest.warns(ViewWarning, match="in every view one feature makes up at least"):
            fit(as_views(measured(), present=present))

    def test_share_is_of_rows_that_have_a_length(self):
        squares = [np.array([0.5, 0.1, 1.0]), np.array([0.9, 0.1, 1.0])]
        assert "makes up at least 83 % of the squared length" in str(remark_on_rows(squares))
        assert remark_on_rows([np.array([0.0, 0.0, 1.0]), squares[1]]) is None

    @pytest.mark.parametrize(
        ("views", "options"),
        [
            (measured(), {"normalize": "columns"}),
            ([*measured(), np.random.default_rng(0).random((178, 26))], {}),  # which tell more
            ([X / X.std(axis=0) for X in measured()], {}),
        ],
        ids=["standardised", "beside many features", "of one size"],
    )
    def test_nothing_is_said_of_others(self, views, options):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ViewWarning)
            fit(views, **options)
