import pytest

from manyview import MMC, RMKMC
from manyview.datasets import make_views
from manyview.experiment import METHODS, OTHER_METHODS, PUBLISHED, Method, method_named


def test_every_method_of_the_paper_has_its_published_figures():
    assert {method for method, _ in PUBLISHED} == set(METHODS)
    assert {data for _, data in PUBLISHED} == {"fox", "cnn", "3sources"}


def test_other_methods_are_separate_from_those_of_the_paper():
    assert not set(OTHER_METHODS) & set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_settings_of_the_grid_are_parameters(name):
    method = METHODS[name]
    known = method.make(n_clusters=2).get_params()
    for settings in (method.defaults, *method.grid):
        assert set(settings) <= set(known)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", METHODS | OTHER_METHODS)
def test_every_method_runs_with_its_defaults(name):
    method = method_named(name)
    views, _ = make_views(60, 3, (6, 5), random_state=0)
    labels = method.make(n_clusters=3, random_state=0, **method.defaults).fit(views).labels_
    assert labels.shape == (60,)


def test_methods_are_found_by_name_and_typos_get_a_hint():
    assert method_named("mmc-f").name == "MMC-F"
    with pytest.raises(ValueError, match=r"'MNC'.*did you mean MMC"):
        method_named("MNC")


def test_own_methods_are_imported():
    method = method_named("manyview.baselines.rmkmc:RMKMC")
    assert method.make is RMKMC
    assert method.name == "manyview.baselines.rmkmc:RMKMC"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_package.module:Own", "PYTHONPATH"),
        ("manyview.no_such_module:Own", "PYTHONPATH"),
        ("manyview.metrics:Own", "Own"),
        ("manyview.metrics:purity", "fit"),
        (":Own", "package.module:Class"),
        (".module:Own", "package.module:Class"),
    ],
)
def test_own_methods_that_are_not_there(name, reason):
    with pytest.raises(ValueError, match=reason):
        method_named(name)


@pytest.mark.parametrize("own", [None, "rows"])
def test_defaults_may_set_the_default_preprocessing(own):
    assert Method("own", MMC, {"normalize": own}).default_preprocessing == own
