import numpy as np
import pytest
import scipy.sparse as sp

from manyview.engine import RowView
from manyview.mmc.cosines import column_moments, cosines_of, prepared

RNG = np.random.default_rng(0)
X = RNG.poisson(0.8, (12, 7)).astype(float)
X[3] = 0.0
SCALE = np.where(np.arange(12) == 5, 0.0, RNG.random(12) + 0.5)  # the sixth lacks the view
COLUMNS = (X.mean(axis=0), RNG.random(7) + 0.5)
WIDTHS = RNG.random(7) + 0.5


def unit_rows(*, centred):
    centre, width = COLUMNS if centred else (np.zeros(7), np.ones(7))
    rows = (X - centre) * width * WIDTHS
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    rows[SCALE == 0] = 0.0
    return rows


def by_hand(*, centred):
    rows = unit_rows(centred=centred)
    return rows @ rows.T


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_those_of_rows_that_are_scaled(kind, centred):
    rows = prepared(RowView(kind(X), SCALE), COLUMNS if centred else None, WIDTHS)
    found = cosines_of(rows, rows)
    np.testing.assert_allclose(found, by_hand(centred=centred), atol=1e-12)
    assert not found[5].any()


def test_what_is_given_stays():
    before = X.copy()
    prepared(RowView(X, SCALE), COLUMNS, WIDTHS)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_landmark_that_lacks_the_view_is_as_near_as_others_are_on_average(kind):
    rows = prepared(RowView(kind(X), SCALE), None, WIDTHS)
    plain, found = cosines_of(rows, rows), cosines_of(rows, rows, SCALE == 0)
    here = SCALE > 0
    np.testing.assert_allclose(found[:, 5], plain[:, here].mean(axis=1))
    np.testing.assert_array_equal(found[:, here], plain[:, here])
    assert not found[5].any()  # a row that lacks it tells no landmark from another


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_moments_are_of_columns_of_unit_rows(kind, centred):
    means, squares = column_moments(
        prepared(RowView(kind(X), SCALE), COLUMNS if centred else None, WIDTHS)
    )
    rows = unit_rows(centred=centred)
    np.testing.assert_allclose(means, rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(squares, np.mean(rows**2, axis=0), atol=1e-12)
