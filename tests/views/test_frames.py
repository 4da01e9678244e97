"""Frames of polars, by what they have; it is no dependency of the tests."""

import numpy as np
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
