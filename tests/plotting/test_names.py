import numpy as np
import pytest
from matplotlib import pyplot as plt

from manyview import MMC
from manyview.datasets import make_views
from manyview.plotting import (
    plot_contingency,
    plot_critical_difference,
    plot_embedding,
    plot_feature_weights,
    plot_objective,
    plot_paired_differences,
    plot_time_against_size,
)
from manyview.plotting.names import shown

ODD = r"$\frac$ of a name that goes on and on, and then some"


@pytest.fixture(scope="module")
def model():
    views, _ = make_views(60, 3, (6, 5), random_state=0)
    named = {f"{ODD}{v}": X for v, X in enumerate(views)}
    return MMC(3, indicator="orthogonal", random_state=0).fit(named)


@pytest.mark.parametrize(
    "draw",
    [
        lambda model: plot_feature_weights(model, 0),
        lambda model: plot_embedding(model, model.labels_, class_names=[ODD] * 3),
        lambda model: plot_contingency(model.labels_, model.labels_, class_names=[ODD] * 3),
        lambda model: plot_objective({ODD: model, "b": model}),
        lambda model: plot_objective({ODD: model}),
        lambda model: plot_critical_difference({ODD: 1.2, "b": 1.8}, 0.5),
        lambda model: plot_paired_differences({ODD: (0.1, 0.0, 0.2)}),
        lambda model: plot_time_against_size([10, 20], {ODD: [1.0, 2.0]}),
    ],
)
def test_names_are_no_mathematics_and_leave_room(model, draw, recwarn):
    figure = draw(model).figure
    figure.canvas.draw()  # where mathematics are read, and room is made
    plt.close(figure)
    assert not recwarn.list


def test_what_is_short_stays():
    assert shown(np.int64(3)) == "3"
    assert shown("x" * 40) == "x" * 40
    assert shown("x" * 41) == "x" * 39 + "\N{HORIZONTAL ELLIPSIS}"


def test_a_name_that_begins_with_an_underscore_is_in_the_legend_on_one_line():
    ax = plot_objective({"_first\nrun": [2.0, 1.0], "second": [2.0, 1.5]})
    names = [text.get_text().lstrip("\u200b") for text in ax.get_legend().get_texts()]
    assert names == ["_first run", "second"]
    plt.close(ax.figure)
