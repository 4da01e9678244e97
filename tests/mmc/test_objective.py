from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.exceptions import NotEnoughMemoryError
from manyview.mmc.indicator import DiscreteIndicator
from manyview.mmc.initial import initial_factors
from manyview.mmc.objective import (
    Factors,
    Frobenius,
    Moments,
    RowSparse,
    balancing_scales,
    default_gamma,
    default_rank,
    normal_kernel,
    objective,
    penalty_named,
    project_kernel,
    residual_kernel,
)
from manyview.mmc.prediction import CosineReadout, Predictor
from manyview.mmc.solver import Problem, begin, carry_on
from manyview.views import as_views

from .conftest import raw_views

PENALTIES = [RowSparse(), Frobenius()]


def objective_after(views, labels, penalty):
    """The objective per unit of the indicator, whose bound does not depend on the samples."""
    engine = LocalEngine(as_views(views), normalize=None)
    indicator = DiscreteIndicator()
    engine.scatter("labels", labels)
    indicator.start(engine, 3)
    factors, moments = initial_factors(engine, 3, 3, seed=0)
    gamma = default_gamma(engine, penalty, 3)
    problem = Problem(penalty, gamma, indicator, max_iter=100, tol=0.0, cg_steps=100)
    first = begin(engine, problem, factors, moments)
    return gamma, carry_on(engine, problem, first).objective[-1]


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_default_gamma_makes_up_for_samples_given_twice(penalty):
    made, labels = make_views(24, 3, (4, 3), separation=8.0, random_state=0)
    views = [np.asarray(X) for X in made]
    once_gamma, once = objective_after(views, labels, penalty)
    twice_gamma, twice = objective_after(
        [np.vstack([X, X]) for X in views], np.tile(labels, 2), penalty
    )
    assert twice_gamma > once_gamma
    assert twice == pytest.approx(once, rel=1e-3)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_gamma_follows_the_scale_of_a_view(penalty, scale):
    views = raw_views(0)
    plain, scaled = (
        default_gamma(LocalEngine(as_views(list(given)), normalize=None), penalty, 3)
        for given in (views, (scale * views[0], views[1]))
    )
    assert scaled / plain == pytest.approx(scale ** (penalty.degree / 3))


def test_the_default_gamma_ignores_views_of_zeros():
    with pytest.warns(UserWarning, match="view0"):
        views = as_views([np.zeros((9, 2)), raw_views(0, 9, (3,))[0]])
    engine = LocalEngine(views, normalize=None)
    assert np.isfinite(default_gamma(engine, RowSparse(), 3))


def test_the_default_gamma_of_unit_rows_does_not_depend_on_their_scale():
    views = raw_views(0)
    first, second = (
        default_gamma(LocalEngine(as_views(list(given)), normalize="rows"), RowSparse(), 3)
        for given in (views, [100.0 * X for X in views])
    )
    assert first == pytest.approx(second)


@pytest.mark.parametrize(
    ("n_clusters", "n_views", "order", "rank"),
    [(3, 2, None, 20), (40, 2, None, 80), (3, 4, 1, 80), (3, 4, 2, 120), (3, 2, 9, 20)],
)
def test_the_default_rank_counts_the_choices_of_views(n_clusters, n_views, order, rank):
    assert default_rank(n_clusters, n_views, order) == rank


def test_a_rank_beyond_memory_is_rejected():
    with pytest.raises(NotEnoughMemoryError, match=r"MMC with rank=100000000 needs .* GiB"):
        MMC(3, rank=10**8).fit(make_views(60, 3, random_state=0).views)


def predicted_indicator(engine, factors):
    predictor = Predictor(factors, CosineReadout(np.eye(3)), [], None, [], is_zero=False)
    predictor.predict(engine, incomplete=False)
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


@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_quadratic_touches_the_penalty_and_lies_above(penalty, seed):
    rng = np.random.default_rng(seed)
    here, there = rng.standard_normal((2, 6, 3))
    p = penalty.weights(here)

    def quadratic(W):
        return np.sum(p * np.sum(W**2, axis=1))

    constant = penalty.value(here) - quadratic(here)
    assert quadratic(there) + constant >= penalty.value(there) - 1e-9


@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_degree_of_a_penalty(penalty, seed, scale):
    W = np.random.default_rng(seed).standard_normal((4, 2))
    assert penalty.value(scale * W) == pytest.approx(scale**penalty.degree * penalty.value(W))


def test_values_of_the_penalties():
    W = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    assert RowSparse().value(W) == 7.0
    assert Frobenius().value(W) == 29.0


def test_weights_are_finite_at_zero():
    weights = RowSparse().weights(np.zeros((2, 3), dtype=np.float32))
    assert np.isfinite(weights).all()


def test_rows_vanish_only_when_tiny_and_shrinking():
    previous = np.array([[1.0], [1e-6], [1e-6], [0.5]])
    current = np.array([[1.0], [1e-7], [1e-5], [0.4]])
    vanished = RowSparse().vanished(current, previous)
    np.testing.assert_array_equal(vanished, [False, True, False, False])
    assert not Frobenius().vanished(current, previous).any()


def test_penalties_by_name():
    assert isinstance(penalty_named("l21"), RowSparse)
    assert isinstance(penalty_named("frobenius"), Frobenius)
