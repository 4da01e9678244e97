import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from manyview.mmc.objective import Frobenius, RowSparse, objective
from manyview.mmc.updates import updated_cluster_factor, updated_view_factor

PENALTIES = [RowSparse(), Frobenius()]


def view_factor(c, v, penalty, gamma, steps, value=-np.inf):
    return updated_view_factor(
        c.engine,
        c.factors,
        v,
        penalty=penalty,
        gamma=gamma,
        value=value,
        steps=steps,
    )


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("widths", [(4,), (4, 3), (2, 3, 2)])
def test_view_factor_agrees_with_a_dense_solver(case, widths, sparse, penalty):
    c = case(7, widths=widths, sparse=sparse)
    gamma = 0.2
    for v, Z in enumerate(c.Z):
        B = c.others(v)
        # row (i, r) of the design: what a unit of W[i, r] adds to the prediction
        design = np.einsum("ni,nr,kr->nkir", Z, B, c.factors.clusters).reshape(24 * 3, -1)
        p = np.repeat(penalty.weights(c.factors.views[v]), 5)
        expected = scipy.linalg.solve(
            design.T @ design + gamma * np.diag(p), design.T @ c.F.ravel(), assume_a="pos"
        ).reshape(-1, 5)
        found = view_factor(c, v, penalty, gamma, steps=400)
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@settings(max_examples=8)
@given(seed=st.integers(0, 10**4), steps=st.integers(1, 6), sparse=st.booleans())
@pytest.mark.parametrize("penalty", PENALTIES)
def test_any_number_of_steps_lowers_the_objective(case, penalty, seed, steps, sparse):
    c = case(seed, sparse=sparse)
    for v in range(2):
        before = objective(c.factors, c.moments, penalty, 0.05)
        c.factors = c.factors.with_view(v, view_factor(c, v, penalty, 0.05, steps))
        c.set_projections()
        assert objective(c.factors, c.moments, penalty, 0.05) <= before * (1 + 1e-9)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_rows_at_zero_stay_there(case, penalty):
    c = case(1, widths=(6, 5))
    W = c.factors.views[0].copy()
    W[[1, 4]] = 0.0
    c.factors = c.factors.with_view(0, W)
    c.set_projections()
    found = view_factor(c, 0, penalty, 0.1, steps=20)
    np.testing.assert_array_equal(
        ~found.any(axis=1), [False, True, False, False, True, False, False]
    )


def test_no_penalty_at_all_is_least_squares(case):
    c = case(2, widths=(3, 2), k=2, rank=2)
    found = view_factor(c, 0, Frobenius(), 0.0, steps=400)
    design = np.einsum("ni,nr,kr->nkir", c.Z[0], c.others(0), c.factors.clusters).reshape(48, -1)
    expected = np.linalg.lstsq(design, c.F.ravel(), rcond=None)[0].reshape(-1, 2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_cluster_factor_agrees_with_scipy(case, penalty):
    c = case(4)
    p = penalty.weights(c.factors.clusters)
    expected = scipy.linalg.solve_sylvester(0.2 * np.diag(p), c.P.T @ c.P, c.F.T @ c.P)
    found = updated_cluster_factor(c.factors, c.moments, penalty=penalty, gamma=0.2)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**4))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_cluster_factor_lowers_the_objective(case, penalty, seed):
    c = case(seed)
    before = objective(c.factors, c.moments, penalty, 0.05)
    new = updated_cluster_factor(c.factors, c.moments, penalty=penalty, gamma=0.05)
    assert objective(c.factors.with_clusters(new), c.moments, penalty, 0.05) <= before + 1e-9
