"""Frames of pandas; those of polars by what they have, as it is no dependency of the tests."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from manyview import as_views


class Kind:
    def __init__(self, name):
        self.name = name

    def is_float(self):
        return self.name.startswith("Float")

    def is_integer(self):
        return self.name.startswith("Int")

    def __str__(self):
        return self.name


class DataFrame:
    def __init__(self, columns):
        self.schema = {name: Kind(kind) for name, (kind, _) in columns.items()}
        self._values = [values for _, values in columns.values()]

    @property
    def columns(self):
        return list(self.schema)

    def to_numpy(self):
        return np.column_stack(self._values)


DataFrame.__module__ = "polars.dataframe.frame"

NUMBERS = {"x": ("Float64", [1.0, 2.5]), "n": ("Int32", [3, 4]), "is": ("Boolean", [True, False])}


def test_columns_name_the_features():
    views = as_views([DataFrame(NUMBERS)])
    np.testing.assert_array_equal(views[0], [[1.0, 3.0, 1.0], [2.5, 4.0, 0.0]])
    assert views.feature_names[0].tolist() == ["x", "n", "is"]


def test_columns_of_other_kinds_are_refused():
    frame = DataFrame(NUMBERS | {"when": ("Datetime", [0, 1])})
    with pytest.raises(ValueError, match=r"1 non-numeric column\(s\): 'when' \(Datetime\)"):
        as_views([frame])


X = np.random.default_rng(0).random((4, 3))


class TestColumnsOfObjects:
    """What is taken of an array of objects is taken of a frame's, and nothing else."""

    def test_numbers_are_taken_as_from_arrays(self):
        objects = X.astype(object)
        objects[0] = [3, True, Decimal("0.5")]
        views = as_views([pd.DataFrame(objects, columns=list("abc")), objects])
        assert views[0].dtype == np.float64
        np.testing.assert_array_equal(views[0], views[1])
        assert views.feature_names[0].tolist() == ["a", "b", "c"]

    def test_beside_columns_of_other_kinds_and_the_same_name(self):
        parts = [
            pd.Series([1, 2, 3, 4], name="x"),
            pd.Series(X[:, 0], dtype=object, name="x"),
            pd.array([5, 6, 7, None], dtype="Int64"),
            pd.Series([0, 0, 8, 9], dtype=pd.SparseDtype(np.int64, 0), name="x"),
            pd.Series([True, False, True, True], dtype=object),
        ]
        frame = pd.concat(map(pd.Series, parts), axis=1)
        expected = np.column_stack(
            [[1, 2, 3, 4], X[:, 0], [5, 6, 7, 0], [0, 0, 8, 9], [1, 0, 1, 1]]
        )
        (array,) = as_views([frame.iloc[:3]])
        np.testing.assert_array_equal(array, expected[:3])
        with pytest.raises(ValueError, match=r"view 'view0' holds NaN at row 3, column '.*'"):
            as_views([frame])

    def test_the_frame_stays_as_it_is(self):
        frame = pd.DataFrame(X).astype(object)
        before = frame.copy()
        as_views([frame])
        pd.testing.assert_frame_equal(frame, before)

    @pytest.mark.parametrize("value", [None, np.nan])
    def test_what_is_missing_is_found(self, value):
        frame = pd.DataFrame(X, columns=list("abc")).astype(object)
        frame.iloc[2, 1] = value
        with pytest.raises(ValueError, match="view 'view0' holds NaN at row 2, column 'b'"):
            as_views([frame])
        some = as_views([frame, X], present=[[True, True]] * 2 + [[False, True]] + [[True, True]])
        assert not some[0][2].any()

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("3", "'3'"),
            (b"3", "b'3'"),
            (np.datetime64("2020-01-01"), ".*2020.*"),
            (1j, "1j"),
            ([3], r"\[3\]"),
            (pd.NA, "<NA>"),
            (10**400, "an integer of 1329 bits"),
        ],
    )
    def test_others_are_refused_with_the_column(self, value, shown):
        frame = pd.DataFrame(X, columns=list("abc")).astype(object)
        frame["b"] = pd.Series([0.5, 1, value, 2], dtype=object)
        message = rf"1 non-numeric column\(s\): 'b' \(object: {shown} at row 2\); expected numbers"
        with pytest.raises(ValueError, match=message):
            as_views([frame])

    def test_many_are_counted_and_the_first_named(self):
        text = pd.DataFrame(np.full((4, 6), "text"), columns=list("abcdef"), dtype=object)
        frame = pd.concat([pd.DataFrame(X), text], axis=1)
        message = (
            r"6 non-numeric column\(s\): 'a' \(object: 'text' at row 0\), .*'e' \(.*\), \.\.\.;"
        )
        with pytest.raises(ValueError, match=message):
            as_views([frame])
