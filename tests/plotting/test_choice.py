import numpy as np
from matplotlib import pyplot as plt

from manyview.choice import Stability, StableClusters
from manyview.plotting import plot_n_clusters

TABLE = tuple(
    Stability(K, agreement, 0.05, 0.1 * K, 0.2, agreement)
    for K, agreement in zip(range(2, 6), (0.9, 0.4, 0.95, 0.7), strict=True)
)


def drawn(n_clusters, runner_up):
    return plot_n_clusters(StableClusters(n_clusters, runner_up, TABLE, 100, 5))


def test_the_line_is_the_agreement_and_bars_are_eigengaps():
    ax = drawn(4, 2)
    line = next(line for line in ax.lines if line.get_label() == "agreement of halves")
    assert line.get_xydata().tolist() == [[row.n_clusters, row.agreement] for row in TABLE]
    assert np.allclose([bar.get_height() for bar in ax.patches], [row.eigengap for row in TABLE])


def test_the_recommended_number_and_the_runner_up_are_marked():
    marked = {line.get_label(): line.get_xydata().tolist() for line in drawn(4, 2).lines}
    assert marked["recommended"] == [[4, 0.95]]
    assert marked["runner-up"] == [[2, 0.9]]


def test_without_clusters_nothing_is_marked():
    ax = drawn(None, None)
    assert ax.get_title() == "no clusters found"
    assert not {"recommended", "runner-up"} & {line.get_label() for line in ax.lines}


def test_given_axes_are_used():
    _, ax = plt.subplots()
    assert plot_n_clusters(StableClusters(4, None, TABLE, 100, 5), ax=ax) is ax
