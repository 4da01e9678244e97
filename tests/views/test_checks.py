import re

import numpy as np
import pandas as pd
import pytest

from manyview.views import Views, as_views, check_n_clusters, check_same_views

X = np.arange(12.0).reshape(4, 3)
Y = np.arange(8.0).reshape(4, 2)


class TestSameViews:
    seen = as_views({"a": pd.DataFrame(X, columns=list("pqr")), "b": Y})

    def check(self, views) -> Views:
        return check_same_views(
            as_views(views),
            names=self.seen.names,
            n_features=self.seen.n_features,
            feature_names=self.seen.feature_names,
        )

    def test_by_name_in_any_order(self):
        views = self.check({"b": Y, "a": X})
        assert views.names == ("a", "b")
        assert views[0] is X

    def test_by_position(self):
        assert self.check([X, Y]).n_features == [3, 2]

    @pytest.mark.parametrize(
        ("views", "message"),
        [
            ([X], r"received 1 view(s) ('view0'); fit saw 2 ('a', 'b')"),
            ({"a": X, "c": Y}, "received views named 'a', 'c'; fit saw 'a', 'b'"),
            ([Y, X], "view 'a' has 2 features; fit saw 3"),
            ([pd.DataFrame(X, columns=list("prq")), Y], "feature 1 is named 'r', fit saw 'q'"),
        ],
    )
    def test_differences(self, views, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            self.check(views)


def test_n_clusters_more_than_samples():
    with pytest.raises(ValueError, match="n_clusters=5 is more than the 4 samples"):
        check_n_clusters(5, as_views([X]))
