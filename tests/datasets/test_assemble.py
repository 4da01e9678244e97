import numpy as np
import pytest

from manyview.datasets.assemble import assemble

ARRAYS = [np.eye(3), np.eye(3, 2)]


def test_puts_the_parts_together():
    names = np.array(["p", "q"])
    data = assemble(
        ARRAYS,
        view_names=["text", "image"],
        feature_names=[None, names],
        present=np.array([[1, 1], [1, 0], [0, 1]]),
        labels=["b", "a", "b"],
        name="set",
    )
    assert data.views.names == ("text", "image")
    assert data.views.named
    assert data.views.feature_names[0] is None
    assert data.views.feature_names[1].tolist() == ["p", "q"]
    assert data.views.present.tolist() == [[True, True], [True, False], [False, True]]
    assert data.y.tolist() == [1, 0, 1]
    assert data.class_names.tolist() == ["a", "b"]
    assert data.name == "set"


@pytest.mark.parametrize("view_names", [None, ["view0", "view1"]])
def test_names_that_are_positions_are_no_names(view_names):
    views = assemble(ARRAYS, view_names=view_names).views
    assert views.names == ("view0", "view1")
    assert not views.named


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"view_names": ["a"]}, "1 names for 2 views"),
        ({"view_names": ["a", "a"]}, "expected names that differ"),
        (
            {"feature_names": [None, np.array(["p"])]},
            r"view 'view1' has 2 features and names of shape \(1,\)",
        ),
        ({"present": np.ones((3, 3))}, r"present has shape \(3, 3\)"),
        ({"labels": [0, 1]}, "expected one for each of 3 samples"),
        ({"sample_ids": np.array(["a", "b"])}, "expected one for each of 3 samples"),
        ({"sample_ids": np.array(["a", "b", "a"])}, "id 'a' is in row 1 and in row 3"),
        ({"sample_ids": np.array(["a", "", "c"])}, "row 2 has no id"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    with pytest.raises(ValueError, match=message):
        assemble(ARRAYS, **parts)


def test_features_are_warned_of_by_their_names():
    numbered = np.column_stack([np.sin(np.arange(20)), np.arange(20)])
    with pytest.warns(UserWarning, match="view 'view0': feature 'row' numbers the samples"):
        assemble([numbered], feature_names=[np.array(["height", "row"])])
