import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview.datasets.labels import encode_labels

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
        ([0, 1, 2], ["a", "b"], "labels run from 0 to 2; with the names of 2 classes"),
        ([-1, 0, 1], ["a", "b"], "labels run from -1 to 1"),
        (["a", "b", "a"], ["a", "b"], "with class_names, expected whole numbers"),
        ([0, 0, 0], [["a"]], r"class_names have shape \(1, 1\)"),
    ],
)
def test_errors(labels, class_names, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(labels, 3, class_names)
