import numpy as np
from matplotlib import pyplot as plt

from manyview.datasets import Dataset, make_views
from manyview.paper.convergence import converge, plot_convergence

MADE = make_views(60, 3, (6, 5), random_state=0)


def test_both_indicators_on_every_set():
    data = Dataset(MADE.views, MADE.y, name="made")
    curves = converge([data], n_sweeps=6)
    assert set(curves) == {("made", "orthogonal"), ("made", "discrete")}
    for values in curves.values():
        assert len(values) == 6
        assert (np.diff(values) <= 1e-12).all()


def test_a_title_takes_any_name():
    odd = r"a$\frac$"
    axes = plot_convergence(odd, {(odd, "discrete"): [2.0, 1.0]})
    axes.figure.canvas.draw()
    plt.close(axes.figure)
