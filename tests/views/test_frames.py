from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from manyview.views import as_views

X = np.random.default_rng(0).random((4, 3))


def test_non_numeric_columns_are_named():
    frame = pd.DataFrame(
        {"a": [1.0, 2.0], "city": ["x", "y"], "when": pd.to_datetime(["2020"] * 2)}
    )
    with pytest.raises(ValueError, match=r"view 'f' .*'city'.*'when'"):
        as_views({"f": frame})


def test_missing_values_of_a_nullable_frame_are_found():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})
    assert as_views([frame.assign(b=[1, 2])]).unknown == (0.25,)


def test_columns_of_mixed_numbers():
    frame = pd.DataFrame(X).assign(flag=[True, False, True, True])
    (array,) = as_views([frame])
    np.testing.assert_array_equal(array, np.column_stack([X, [1, 0, 1, 1]]))
    (filled,) = as_views([pd.DataFrame(X).astype(pd.SparseDtype(np.float64, 1.0))])
    np.testing.assert_array_equal(filled, X)
    intervals = pd.DataFrame({"i": pd.interval_range(0, 4)})
    with pytest.raises(ValueError, match="'i'"):
        as_views([intervals])


class PolarsType:
    def __init__(self, name):
        self.name = name

    def is_float(self):
        return self.name.startswith("Float")

    def is_integer(self):
        return self.name.startswith("Int")

    def __str__(self):
        return self.name


class PolarsFrame:
    def __init__(self, columns):
        self.schema = {name: PolarsType(kind) for name, (kind, _) in columns.items()}
        self._values = [values for _, values in columns.values()]

    @property
    def columns(self):
        return list(self.schema)

    def to_numpy(self):
        return np.column_stack(self._values)


PolarsFrame.__module__, PolarsFrame.__name__ = "polars.dataframe.frame", "DataFrame"

NUMBERS = {"x": ("Float64", [1.0, 2.5]), "n": ("Int32", [3, 4]), "is": ("Boolean", [True, False])}


def test_polars_columns_name_the_features():
    views = as_views([PolarsFrame(NUMBERS)])
    np.testing.assert_array_equal(views.arrays[0], [[1.0, 3.0, 1.0], [2.5, 4.0, 0.0]])
    assert views.feature_names[0].tolist() == ["x", "n", "is"]


def test_other_polars_columns_are_rejected():
    frame = PolarsFrame(NUMBERS | {"when": ("Datetime", [0, 1])})
    with pytest.raises(ValueError, match=r"'when' \(Datetime\)"):
        as_views([frame])


class TestColumnsOfObjects:
    """Object columns are converted like object arrays."""

    def test_numbers_are_converted(self):
        objects = X.astype(object)
        objects[0] = [3, True, Decimal("0.5")]
        views = as_views([pd.DataFrame(objects, columns=list("abc")), objects])
        assert views.arrays[0].dtype == np.float64
        np.testing.assert_array_equal(views.arrays[0], views.arrays[1])
        assert views.feature_names[0].tolist() == ["a", "b", "c"]

    def test_columns_may_have_other_types_and_the_same_name(self):
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
        (array,) = as_views([frame])
        np.testing.assert_array_equal(array[3], [4, X[3, 0], np.nan, 9, 1])

    def test_the_frame_stays_as_it_is(self):
        frame = pd.DataFrame(X).astype(object)
        before = frame.copy()
        as_views([frame])
        pd.testing.assert_frame_equal(frame, before)

    @pytest.mark.parametrize("value", [None, np.nan])
    def test_missing_values_are_found(self, value):
        frame = pd.DataFrame(X, columns=list("abc")).astype(object)
        frame.iloc[2, 1] = value
        assert as_views([frame]).unknown == (1 / 12,)
        some = as_views([frame, X], present=[[True, True]] * 2 + [[False, True]] + [[True, True]])
        assert not some.arrays[0][2].any()

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
    def test_other_objects_are_rejected_with_the_column(self, value, shown):
        frame = pd.DataFrame(X, columns=list("abc")).astype(object)
        frame["b"] = pd.Series([0.5, 1, value, 2], dtype=object)
        with pytest.raises(ValueError, match=rf"'view0' .*'b' \(object: {shown} at row 2\)"):
            as_views([frame])

    def test_the_first_of_many_are_named(self):
        text = pd.DataFrame(np.full((4, 6), "text"), columns=list("abcdef"), dtype=object)
        frame = pd.concat([pd.DataFrame(X), text], axis=1)
        with pytest.raises(ValueError, match=r"6 non-numeric .*'a' .*'e' \(.*\), \.\.\."):
            as_views([frame])


def holding(value):
    array = np.zeros((3, 2), dtype=object)
    array[1, 0] = value
    return array


@pytest.mark.parametrize(
    "value", [3, 3.0, True, Fraction(3, 1), Decimal("3"), np.int8(3), np.float16(3), np.bool_(True)]
)
def test_objects_may_be_any_real_number(value):
    (array,) = as_views([holding(value)])
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, [[0, 0], [float(value), 0], [0, 0]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("3.5", "'3.5'"),
        (np.str_("3.5"), r".*'3.5'.*"),
        (b"3.5", "b'3.5'"),
        (bytearray(b"3.5"), r"bytearray\(b'3.5'\)"),
        (np.datetime64("2020-01-01"), r".*2020-01-01.*"),
        (np.timedelta64(3, "D"), r".*timedelta64\(3,'D'\)"),
        (date(2020, 1, 1), r"datetime.date\(2020, 1, 1\)"),
        (np.complex64(1j), "1j|.*complex64.*"),
        pytest.param(
            np.array([3.0]),
            r"array\(\[3.*\]\)",
            marks=pytest.mark.skipif(
                np.lib.NumpyVersion(np.__version__) < "2.4.0",
                reason="NumPy before 2.4 reads an array of one number as that number",
            ),
        ),
        ("long" * 99, "'longlonglong.*"),
    ],
)
def test_other_objects_are_rejected_with_their_position(value, shown):
    with pytest.raises(ValueError, match=f"view 'x' holds ({shown}) at row 1, column 0"):
        as_views({"x": holding(value)})


def test_none_is_nan():
    assert as_views({"x": holding(None)}, warn=False).unknown
    array = holding(None)
    array[2, 1] = "3.5"
    with pytest.raises(ValueError, match=r"view 'x' holds '3.5' at row 2, column 1"):
        as_views({"x": array})


@pytest.mark.parametrize(("power", "bits"), [(400, 1329), (5000, 16610)])
def test_integers_too_large_for_a_float_are_rejected(power, bits):
    with pytest.raises(ValueError, match=f"view 'view0' holds an integer of {bits} bits at row 0"):
        as_views([[[10**power, 1], [2, 3]]])


class TestCategories:
    clinic = pd.DataFrame(
        {
            "age": [31, 45, 62, 50],
            "sex": list("fmfm"),
            "stage": pd.Categorical(["I", "II", "I", None]),
        }
    )

    def test_names_and_values(self):
        views = as_views({"clinic": self.clinic[["age", "sex"]]})
        assert views.feature_names[0].tolist() == ["age", "sex=f", "sex=m"]
        assert views.arrays[0].tolist() == [[31, 1, 0], [45, 0, 1], [62, 1, 0], [50, 0, 1]]

    def test_missing_categories_are_nan(self):
        (array,) = views = as_views([self.clinic])
        stages = [name.startswith("stage") for name in views.feature_names[0]]
        assert np.isnan(array[3, stages]).all()
        assert views.unknown is not None

    def test_categories_of_the_dtype_stay_in_parts_of_a_table(self):
        frame = self.clinic[["stage"]].iloc[[0, 2]]
        views = as_views([frame], warn=False)
        assert views.feature_names[0].tolist() == ["stage=I", "stage=II"]

    def test_yes_and_no_share_a_feature(self):
        frame = pd.DataFrame({"smoker": ["yes", "No", "yes"], "ok": ["TRUE", "false", "TRUE"]})
        views = as_views([frame])
        assert views.feature_names[0].tolist() == ["smoker=yes", "ok"]
        assert views.arrays[0].tolist() == [[1, 1], [0, 0], [1, 1]]

    @pytest.mark.parametrize(
        "values",
        [
            [f"n{n}" for n in range(30)],
            [str(n % 4) for n in range(30)],
            ["2020-01-01", "2020-01-02"] * 15,
            ["same"] * 30,
        ],
    )
    def test_other_text_is_rejected(self, values):
        frame = pd.DataFrame({"x": np.arange(30.0), "text": values})
        with pytest.raises(ValueError, match="'text'"):
            as_views([frame])

    def test_options_change_what_is_a_category(self):
        frame = pd.DataFrame({"zip": [10, 20, 10], "name": list("abc")})
        views = as_views([frame], categories=["zip", "name"])
        assert views.feature_names[0].tolist() == ["zip=10", "zip=20", "name=a", "name=b", "name=c"]
        with pytest.raises(ValueError, match="'sex'"):
            as_views([self.clinic[["age", "sex"]]], max_categories=1)

    def test_a_frame_without_categories_is_not_copied(self):
        frame = pd.DataFrame(X)
        assert np.shares_memory(as_views([frame]).arrays[0], frame.to_numpy())


class TestColumnsOfOneFrame:
    frame = pd.DataFrame(
        {"age": [31.0, 45, 62], "g1": [1.0, 2, 4], "g2": [5.0, 3, 1], "note": list("abc")},
        index=["u", "v", "w"],
    )

    def test_names_and_patterns(self):
        views = as_views(self.frame, columns={"clinic": ["age"], "genes": "g*"})
        assert views.names == ("clinic", "genes")
        assert views["genes"].tolist() == [[1, 5], [2, 3], [4, 1]]
        assert list(views.sample_ids) == ["u", "v", "w"]

    def test_what_does_not_fit(self):
        with pytest.raises(ValueError, match="the DataFrame has no column 'agee'; did you mean"):
            as_views(self.frame, columns={"a": ["agee"]})
        with pytest.raises(TypeError, match="expected a single DataFrame"):
            as_views([self.frame], columns={"a": ["age"]})
        with pytest.raises(ValueError, match="several columns 'age'"):
            as_views(self.frame.rename(columns={"g1": "age"}), columns={"a": ["age"]})


class TestJoin:
    one = pd.DataFrame({"x": [1.0, 2, 3]}, index=["a", "b", "c"])
    two = pd.DataFrame({"y": [4.0, 5, 6], "z": [0.0, 1, 0]}, index=["c", "d", "a"])

    def test_outer(self):
        views = as_views({"one": self.one, "two": self.two}, join="outer")
        assert list(views.sample_ids) == ["a", "b", "c", "d"]
        assert views.present.tolist() == [[True, True], [True, False], [True, True], [False, True]]
        assert views["two"][[0, 2, 3]].tolist() == [[6, 0], [4, 0], [5, 1]]

    def test_inner(self):
        views = as_views([self.one, self.two], join="inner")
        assert list(views.sample_ids) == ["a", "c"]
        assert views.present is None
        assert [array.tolist() for array in views] == [[[1], [3]], [[6, 0], [4, 0]]]

    def test_equal_samples_in_another_order(self):
        views = as_views([self.one, self.two.set_axis(["c", "b", "a"])], join="outer")
        assert views.present is None
        assert views.arrays[1][:, 0].tolist() == [6, 5, 4]

    @pytest.mark.parametrize(
        ("views", "join", "message"),
        [
            ([one, two], "left", "join='left'; expected 'inner' or 'outer'"),
            ([one, two.set_axis(["a", "a", "b"])], "outer", "several samples are named 'a'"),
            ([one, two.set_axis(["x", "y", "z"])], "inner", "no sample is in all views"),
        ],
    )
    def test_what_cannot_be_joined(self, views, join, message):
        with pytest.raises(ValueError, match=message):
            as_views(views, join=join)

    def test_arrays_have_no_index(self):
        with pytest.raises(TypeError, match="view 'view1' is a ndarray without an index"):
            as_views([self.one, X], join="inner")
        with pytest.raises(TypeError, match="join with Views"):
            as_views(as_views([X]), join="inner")
