from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview.mmc.model import (
    Factors,
    Moments,
    balancing_scales,
    normal_kernel,
    objective,
    project_kernel,
    residual_kernel,
)
from manyview.mmc.penalty import Frobenius, RowSparse
from manyview.mmc.readout import LargestReadout, predict_samples

PENALTIES = [RowSparse(), Frobenius()]


def predicted_indicator(engine, factors):
    predict_samples(engine, factors, LargestReadout())
    return engine.gather("prediction")


@pytest.mark.parametrize("widths", [(4,), (3, 2), (2, 3, 2), (2, 2, 1, 2)])
def test_prediction_is_the_inner_product_with_the_explicit_tensor(case, widths):
    c = case(3, widths=widths)
    weights = reduce(  # W[d_1, ..., d_V, k], built rank by rank
        np.add,
        (
            reduce(np.multiply.outer, [W[:, r] for W in (*c.factors.views, c.factors.clusters)])
            for r in range(5)
        ),
    )
    expected = np.empty((24, 3))
    for n in range(24):
        sample = reduce(np.multiply.outer, [Z[n] for Z in c.Z])
        expected[n] = np.tensordot(sample, weights, axes=sample.ndim)
    np.testing.assert_allclose(predicted_indicator(c.engine, c.factors), expected, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("widths", [(4,), (4, 3), (2, 3, 2)])
def test_normal_operator_is_the_corrected_matrix_of_theorem_1(case, widths, sparse):
    c = case(5, widths=widths, sparse=sparse)
    C = c.factors.clusters.T @ c.factors.clusters
    for v, Z in enumerate(c.Z):
        c.engine.update(residual_kernel, v, c.factors.clusters)
        W = c.rng.standard_normal(c.factors.views[v].shape)
        (pulled,) = c.engine.sum(normal_kernel, v, c.engine.scalings[v].fold(W), C)
        found = c.engine.scalings[v].unfold(pulled)
        B, eye = np.diag(c.others(v).ravel(order="F")), np.eye(5)
        # the theorem's A is Z', and its last factor is I (x) A'
        H = np.kron(eye, Z.T) @ B @ np.kron(C.T, np.eye(24)) @ B @ np.kron(eye, Z)
        np.testing.assert_allclose(
            found.ravel(order="F"), H @ W.ravel(order="F"), atol=1e-8 * np.abs(H).max()
        )


@given(seed=st.integers(0, 10**4), views=st.integers(1, 4))
def test_residual_is_half_the_negative_gradient_of_the_misfit(case, seed, views):
    c = case(seed, n=11, widths=(3,) * views)
    v = seed % views
    pulled, _ = c.engine.update(residual_kernel, v, c.factors.clusters)
    found = c.engine.scalings[v].unfold(pulled)
    direction = c.rng.standard_normal(found.shape)

    def misfit(step):
        P = c.others(v) * (c.Z[v] @ (c.factors.views[v] + step * direction))
        return np.sum((P @ c.factors.clusters.T - c.F) ** 2)

    # quadratic in the step, so that central differences are exact
    slope = (misfit(0.5) - misfit(-0.5)) / 1.0
    np.testing.assert_allclose(-2 * np.sum(found * direction), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_objective_from_moments_is_the_objective(case, penalty):
    c = case(1)
    everything = (*c.factors.views, c.factors.clusters)
    misfit = np.sum((c.P @ c.factors.clusters.T - c.F) ** 2)
    expected = misfit + 0.3 * sum(penalty.value(W) for W in everything)
    assert objective(c.factors, c.moments, penalty, 0.3) == pytest.approx(expected)


def test_projecting_renews_the_moments(case):
    c = case(2)
    new = c.rng.standard_normal(c.factors.views[1].shape)
    gram, cross = c.engine.update(project_kernel, 1, c.engine.scalings[1].fold(new))
    c.factors = c.factors.with_view(1, new)
    c.set_projections()
    np.testing.assert_allclose(gram, c.moments.gram)
    np.testing.assert_allclose(cross, c.moments.cross, atol=1e-12)


@given(seed=st.integers(0, 10**4), views=st.integers(1, 4))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_balancing_keeps_the_prediction_and_never_raises_the_objective(case, penalty, seed, views):
    c = case(seed, widths=(3,) * views)
    unbalanced = c.factors.scaled(list(np.exp(c.rng.uniform(-4, 4, views + 1))))
    scales = balancing_scales(unbalanced, penalty)
    balanced = unbalanced.scaled(scales)
    np.testing.assert_allclose(np.prod(scales), 1.0)
    everything = (*balanced.views, balanced.clusters)
    values = [penalty.value(factor) for factor in everything]
    np.testing.assert_allclose(values, values[0])
    assert sum(values) <= (1 + 1e-12) * sum(
        penalty.value(factor) for factor in (*unbalanced.views, unbalanced.clusters)
    )
    np.testing.assert_allclose(
        predicted_indicator(c.engine, balanced), predicted_indicator(c.engine, unbalanced)
    )


@given(seed=st.integers(0, 10**4))
def test_columns_can_be_rescaled_against_each_other(case, seed):
    c = case(seed, widths=(3, 2))
    scale = np.exp(c.rng.uniform(-2, 2, 5)) * c.rng.choice([-1, 1], 5)
    W1, W2 = c.factors.views
    moved = Factors((W1 * scale, W2), c.factors.clusters / scale)
    np.testing.assert_allclose(
        predicted_indicator(c.engine, moved), predicted_indicator(c.engine, c.factors), atol=1e-9
    )


def test_a_zero_factor_is_not_balanced(case):
    c = case(0)
    dead = c.factors.with_view(0, 0 * c.factors.views[0])
    assert balancing_scales(dead, RowSparse()) == [1.0, 1.0, 1.0]


def test_rescaling_blocks_scales_the_moments(case):
    c = case(0)
    c.engine.rescale("projections", [2.0, 3.0])
    new = Moments(
        *c.engine.update(project_kernel, 0, c.engine.scalings[0].fold(2.0 * c.factors.views[0]))
    )
    np.testing.assert_allclose(new.gram, c.moments.scaled(6.0).gram)
    np.testing.assert_allclose(new.cross, c.moments.scaled(6.0).cross)
