"""What is public says what it takes, what it gives, and how it is called."""

import importlib
import inspect
import re

import pytest

from .test_public import CONTRACT

MODULES = list(CONTRACT)


def _public(wanted):
    loaded = {module: importlib.import_module(module) for module in MODULES}
    items = {f"{m}.{name}": getattr(loaded[m], name) for m in loaded for name in loaded[m].__all__}
    return [pytest.param(item, id=name) for name, item in items.items() if wanted(item)]


def _lacking(item):
    """Parameters that the docstring does not describe."""
    told = r"^([\w*]+(?:, [\w*]+)*)(?: : .+$|\n {4})"
    lines = re.findall(told, inspect.getdoc(item), flags=re.MULTILINE)
    names = {name.strip("*") for line in lines for name in line.split(", ")}
    taken = inspect.signature(item).parameters
    return [name for name in taken if name not in names]


@pytest.mark.parametrize("function", _public(inspect.isfunction))
def test_functions_describe_parameters_result_and_use(function):
    documented = inspect.getdoc(function)
    assert _lacking(function) == []
    if inspect.signature(function).return_annotation not in (None, "None"):
        assert "Returns\n---" in documented
    assert "Examples\n---" in documented
    assert ">>> " in documented


@pytest.mark.parametrize("kind", _public(inspect.isclass))
def test_classes_describe_parameters(kind):
    if not issubclass(kind, Exception):
        assert _lacking(kind) == []


def test_a_parameter_that_is_not_described_is_seen():
    def function(told, not_told):
        """Do it.

        Parameters
        ----------
        told : int
            As said.
        """

    assert _lacking(function) == ["not_told"]
