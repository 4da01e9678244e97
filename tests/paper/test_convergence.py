import numpy as np

from manyview.datasets import Dataset, make_views
from manyview.paper import converge

MADE = make_views(60, 3, (6, 5), random_state=0)


def test_both_indicators_on_every_set():
    data = Dataset(MADE.views, MADE.y, name="made")
    curves = converge([data], n_sweeps=6)
    assert set(curves) == {("made", "orthogonal"), ("made", "discrete")}
    for values in curves.values():
        assert len(values) == 6
        assert (np.diff(values) <= 1e-12).all()
