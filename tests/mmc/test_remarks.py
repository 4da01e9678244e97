import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine

from manyview import MMC
from manyview.exceptions import ViewWarning


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
