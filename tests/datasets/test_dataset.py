import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from manyview.datasets.dataset import Table, assemble, encode_labels, join

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
        ({"view_names": ["a", "a"]}, r"\['a', 'a'\]"),
        (
            {"feature_names": [None, np.array(["p"])]},
            r"view 'view1' has 2 features and feature names of shape \(1,\)",
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


LABELS = st.one_of(
    st.lists(st.integers(-5, 5), min_size=1, max_size=20),
    st.lists(st.text("abc", max_size=2), min_size=1, max_size=20),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.lists(st.booleans(), min_size=1, max_size=20),
)


@given(LABELS)
def test_codes_are_numbered_from_0_and_names_tell_the_labels(labels):
    codes, names = encode_labels(labels, len(labels))
    assert codes.dtype == np.int64
    assert sorted(set(codes)) == list(range(len(names)))
    assert len(set(names)) == len(names)
    for label, code in zip(labels, codes, strict=True):
        name = names[code]
        assert (name == str(label)) if isinstance(label, str | bool) else (float(name) == label)


@given(LABELS)
def test_encoding_twice_changes_nothing(labels):
    codes, names = encode_labels(labels, len(labels))
    again, same = encode_labels(codes, len(labels), names)
    np.testing.assert_array_equal(again, codes)
    np.testing.assert_array_equal(same, names)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["b", "a", "b"], index=[5, 5, 5]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series(["b", "a", "b"], dtype="string"),
        np.array(["b", "a", "b"], dtype=object),
        np.array([b"b", b"a", b"b"]),
        ("b", "a", "b"),
    ],
)
def test_strings_of_any_kind(labels):
    codes, names = encode_labels(labels, 3)
    assert codes.tolist() == [1, 0, 1]
    assert names.tolist() == ["a", "b"]


def test_whole_floats_are_named_as_integers():
    assert encode_labels([1.0, 10.0, 2.0], 3)[1].tolist() == ["1", "2", "10"]
    assert encode_labels([1.0, 2.5], 2)[1].tolist() == ["1.0", "2.5"]


def test_a_named_class_may_have_no_sample():
    codes, names = encode_labels(np.array([0, 2], dtype=np.uint8), 2, ["a", "b", "c"])
    assert codes.tolist() == [0, 2]
    assert names.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("labels", "class_names", "message"),
    [
        ([0, 1], None, r"labels have shape \(2,\); expected one for each of 3 samples"),
        ([[0], [1], [0]], None, r"labels have shape \(3, 1\)"),
        ([0, np.nan, 1], None, "the label of sample 1 is nan"),
        ([0, "a", 1], None, "labels mix strings with 0"),
        (["a", None, "b"], None, "labels mix strings with None"),
        ([0, None, 1], None, "labels hold object; expected numbers or strings"),
        ([1j, 2, 3], None, "labels hold complex128"),
        ([0, 1, 2], ["a", "b"], "labels range from 0 to 2"),
        ([-1, 0, 1], ["a", "b"], "labels range from -1 to 1"),
        (["a", "b", "a"], ["a", "b"], "with class_names, expected whole numbers"),
        ([0, 0, 0], [["a"]], r"class_names have shape \(1, 1\)"),
    ],
)
def test_errors(labels, class_names, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(labels, 3, class_names)


IDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


def table(name, ids, kind=np.asarray):
    rows = np.array([[ord(i), ord(name)] for i in ids], dtype=float)
    return Table(name, f"{name}.csv", np.array(ids), kind(rows), np.array(["p", "q"]))


@given(ids=st.lists(IDS, min_size=2, max_size=3), kind=st.sampled_from([np.asarray, sp.csc_array]))
def test_every_sample_keeps_its_rows(ids, kind):
    together = [i for some in ids for i in some]
    if len(together) == len(set(together)):
        return
    tables = [table("xyz"[v], some, kind) for v, some in enumerate(ids)]
    ids_joined, parts = join(tables)
    assert ids_joined.tolist() == list(dict.fromkeys(together))
    for v, array in enumerate(parts["arrays"]):
        dense = array.toarray() if sp.issparse(array) else array
        for n, i in enumerate(ids_joined):
            here = i in ids[v]
            assert dense[n].tolist() == ([ord(i), ord("xyz"[v])] if here else [0, 0])
            assert ("present" not in parts and here) or parts["present"][n, v] == here


@given(ids=st.lists(IDS, min_size=2, max_size=3))
def test_common_samples(ids):
    tables = [table("xyz"[v], some) for v, some in enumerate(ids)]
    common = [i for i in ids[0] if all(i in some for some in ids)]
    if not common:
        with pytest.raises(ValueError, match=r"no id occurs in all of x\.csv"):
            join(tables, samples="common")
        return
    ids_joined, parts = join(tables, samples="common")
    assert ids_joined.tolist() == common
    assert "present" not in parts
    assert all(array[:, 0].tolist() == [ord(i) for i in common] for array in parts["arrays"])


def test_a_given_order():
    ids_joined, parts = join([table("x", "ab"), table("y", "ba")], order=np.array(["b", "a"]))
    assert ids_joined.tolist() == ["b", "a"]
    assert parts["arrays"][0][:, 0].tolist() == [ord("b"), ord("a")]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], r"x\.csv: id 'a' is in row 1 and in row 3"),
        (["a", ""], r"x\.csv: row 2 has no id"),
    ],
)
def test_ids_tell_samples_apart(ids, message):
    with pytest.raises(ValueError, match=message):
        join([Table("x", "x.csv", np.array(ids), np.eye(len(ids)), np.array(ids))])


class TestContainer:
    """A data set is the tuple of its views and classes, with further attributes."""

    data = assemble(
        ARRAYS, labels=["b", "a", "b"], name="set", sample_ids=np.array(["s", "t", "u"])
    )

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))]
    )
    def test_copies_hold_the_same(self, copied):
        other = copied(self.data)
        views, y = other
        assert views is other.views
        assert y is other.y
        assert y.tolist() == [1, 0, 1]
        assert other.name == "set"
        assert other.class_names.tolist() == ["a", "b"]
        assert other.sample_ids.tolist() == ["s", "t", "u"]

    def test_a_replaced_part_is_unpacked(self):
        part = replace(self.data, views=self.data.views[:2], y=self.data.y[:2])
        views, y = part
        assert len(views) == len(y) == 2
        assert part.name == "set"

    def test_comparison_is_by_identity(self):
        assert self.data == self.data
        assert self.data != replace(self.data)
        assert len({self.data, self.data}) == 1

    def test_views_keep_the_ids_of_their_samples(self):
        assert self.data.views[[2, 0]].sample_ids.tolist() == ["u", "s"]
