"""What type checkers know of the public names."""

import subprocess
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from sklearn.utils._param_validation import StrOptions

from manyview import baselines, graph, mmc

METHODS = {
    name: getattr(package, name)
    for package in (mmc, graph, baselines)
    for name in package.__all__
    if hasattr(getattr(package, name), "_parameter_constraints")
}


def literals(hint):
    """The strings of the Literal types in an annotation, not those inside a list or dict."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    if get_origin(hint) in (list, tuple, dict) or hint is None:
        return set()
    parts = get_args(hint) if "Union" in str(type(hint)) or "Union" in str(hint) else ()
    return {text for part in parts for text in literals(part)}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_choices_are_literal_types(method):
    hints = get_type_hints(method.__init__)
    for name, hint in hints.items():
        constraints = method._parameter_constraints.get(name, [])
        options = [each.options for each in constraints if isinstance(each, StrOptions)]
        assert literals(hint) == (set(options[0]) if options else set()), name


SNIPPET = """
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from manyview import MMC, MultiViewSpectral, Views, as_views
from manyview.datasets import load_digits_views, make_views, read_views
from manyview.experiment import compare

views, y = make_views(9, 3)
assert_type(views, Views)
assert_type(y, npt.NDArray[np.int64])
digits, classes = load_digits_views()
assert_type(classes, npt.NDArray[np.int64])
_, perhaps = read_views("file.npz")
assert_type(perhaps, npt.NDArray[np.int64] | None)
assert_type(views[2:4], Views)
assert_type(views[[2, 4]], Views)
MMC(3, init=[0, 1, 2], normalize={"text": "rows", "image": None})
MMC(3, init=y, normalize=["auto", "columns"])
"""
WRONG = {
    "MMC(3, init='grpah')": "init",
    "MMC(3, penalty='l1')": "penalty",
    "MMC(3, normalize='row')": "normalize",
    "MMC(3, normalize=['row'])": "list item",
    "MultiViewSpectral(3, graph='one')": "graph",
    "compare([], [], preprocessings=['cubes'])": "list item",
}


@pytest.mark.slow
def test_mypy_knows_what_data_sets_unpack_to_and_which_choices_there_are(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "use.py"
    file.write_text(SNIPPET + "\n".join(WRONG))
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    errors = [line for line in told if "error:" in line]
    assert len(errors) == len(WRONG), told
    for named, line in zip(WRONG.values(), errors, strict=True):
        assert named.lower() in line.lower()
