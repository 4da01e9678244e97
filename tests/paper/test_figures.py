import numpy as np
import pytest
from matplotlib import pyplot as plt

from manyview import AMGL, RMKMC
from manyview.datasets import Dataset, make_views
from manyview.experiment import Limits, Method
from manyview.paper.figures import (
    Growth,
    converge,
    plot_convergence,
    plot_growth,
    subsets,
    time_growth,
)

MADE = make_views(60, 3, (6, 5), random_state=0)


def test_both_indicators_on_every_set():
    data = Dataset(MADE.views, MADE.y, name="made")
    curves = converge([data], n_iter=6)
    assert set(curves) == {("made", "orthogonal"), ("made", "discrete")}
    for values in curves.values():
        assert len(values) == 6
        assert (np.diff(values) <= 1e-12).all()


def test_a_title_takes_any_name():
    odd = r"a$\frac$"
    axes = plot_convergence(odd, {(odd, "discrete"): [2.0, 1.0]})
    axes.figure.canvas.draw()
    plt.close(axes.figure)


MADE_TEST_GROWTH = make_views(300, 3, (6, 5), random_state=0)
DATA = Dataset(MADE_TEST_GROWTH.views, MADE_TEST_GROWTH.y, name="made")


def test_parts_grow_one_within_the_next():
    parts = subsets(DATA, [50, 100, 1000])
    assert [part.views.n_samples for part in parts] == [50, 100, 300]
    rows = [{tuple(row) for row in part.views.arrays[0]} for part in parts]
    assert rows[0] < rows[1] < rows[2]
    np.testing.assert_array_equal(parts[2].y, DATA.y)


@pytest.mark.slow
def test_times_of_every_method_and_size():
    growth = time_growth(
        DATA, [Method("RMKMC", RMKMC), Method("AMGL", AMGL)], [50, 300], limits=Limits()
    )
    assert growth.sizes == (50, 300)
    assert all(value > 0 for values in growth.seconds.values() for value in values)
    assert growth.reasons == {}


@pytest.mark.slow
def test_what_was_stopped_is_not_tried_on_more():
    methods = [Method("AMGL", AMGL, {"n_neighbors": 60}), Method("RMKMC", RMKMC)]
    growth = time_growth(DATA, methods, [50, 300], limits=Limits())
    assert np.isnan(growth.seconds["AMGL"]).all()
    assert "made, 50 samples: n_neighbors=60" in growth.reasons["AMGL"]
    assert np.isfinite(growth.seconds["RMKMC"]).all()


def test_a_title_takes_any_name_growth():
    axes = plot_growth(Growth(r"a$\frac$", (10, 20), {"MMC": [1.0, 2.0]}, {}))
    axes.figure.canvas.draw()
    plt.close(axes.figure)
