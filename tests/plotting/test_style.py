import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt

import manyview.plotting
from manyview import MMC
from manyview.datasets import make_views
from manyview.experiment import Run
from manyview.plotting import (
    plot_contingency,
    plot_critical_difference,
    plot_embedding,
    plot_feature_weights,
    plot_objective,
    plot_paired_differences,
    plot_time_against_size,
)
from manyview.plotting.style import PALETTE, shown, styles_of

PAGE = Path(__file__).parents[2] / "docs" / "plotting.md"


@pytest.mark.parametrize("module", ["manyview", "manyview.plotting"])
def test_importing_leaves_matplotlib_alone(module):
    code = f"import sys, {module}; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_matplotlib_is_named_with_what_installs_it(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'manyview\[app\]'"):
        plot_objective([3.0, 2.0, 1.0])


def test_another_missing_module_keeps_its_own_name(monkeypatch):
    import builtins

    real = builtins.__import__

    def broken(name, *rest):
        if name == "matplotlib" and rest[2] == ("pyplot",):
            raise ModuleNotFoundError("No module named 'pyparsing'", name="pyparsing")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(ModuleNotFoundError, match="pyparsing"):
        plot_objective([3.0, 2.0, 1.0])


def test_the_axes_given_are_drawn_on_and_returned():
    _, ax = plt.subplots()
    assert plot_objective([2.0, 1.0], ax=ax) is ax
    assert plot_critical_difference({"a": 1.0, "b": 2.0}, 0.5, ax=ax) is ax
    assert len(plt.get_fignums()) == 1


def test_a_method_has_one_colour_in_every_figure():
    alone, among = styles_of(["MMC"]), styles_of(["mine", "SEC", "MMC", "AMGL"])
    assert alone["MMC"] == among["MMC"]


@pytest.mark.parametrize("count", [9, 12, 40])
def test_no_two_names_look_alike(count):
    names = ["MMC", "SEC", *(f"method {at}" for at in range(count - 2))]
    styles = styles_of(names)
    assert list(styles) == names
    assert len(set(styles.values())) == count
    assert len({style.colour for style in styles.values()}) == count
    if count == len(PALETTE):
        assert {style.colour for style in styles.values()} == set(PALETTE)


@pytest.mark.parametrize("name", manyview.plotting.__all__)
def test_the_page_shows_every_figure(name):
    assert f"{name}(" in PAGE.read_text(encoding="utf-8")


def test_the_code_of_the_page_runs():
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile("\n".join(code), str(PAGE), "exec"), {})
    assert len(plt.get_fignums()) >= len(manyview.plotting.__all__)


def test_a_run_shows_its_objective():
    run = Run("MMC", "fox", 0, "default", {}, objective=(3.0, 2.0))
    ax = plot_objective(run)
    assert list(ax.lines[0].get_ydata()) == [3.0, 2.0]
    assert ax.get_title() == "MMC"


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
    # older releases of matplotlib call functions that its parser deprecates
    assert not [w for w in recwarn if not issubclass(w.category, DeprecationWarning)]


def test_what_is_short_stays():
    assert shown(np.int64(3)) == "3"
    assert shown("x" * 40) == "x" * 40
    assert shown("x" * 41) == "x" * 39 + "\N{HORIZONTAL ELLIPSIS}"


def test_a_name_that_begins_with_an_underscore_is_in_the_legend_on_one_line():
    ax = plot_objective({"_first\nrun": [2.0, 1.0], "second": [2.0, 1.5]})
    names = [text.get_text().lstrip("\u200b") for text in ax.get_legend().get_texts()]
    assert names == ["_first run", "second"]
    plt.close(ax.figure)
