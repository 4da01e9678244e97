from decimal import Decimal, localcontext
from functools import reduce
from itertools import product
from operator import add

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from manyview.mmc.indicator import (
    DiscreteIndicator,
    LargestGain,
    LeaveOneOutIndicator,
    OrthogonalIndicator,
    best_moves,
)

from .indicators import indicator_of

few = settings(max_examples=25)
seeds = given(seed=st.integers(0, 10**4))


def criterion(prediction, labels, k):
    sizes = np.bincount(labels, minlength=k)
    own = np.bincount(labels, weights=prediction[np.arange(len(labels)), labels], minlength=k)
    return np.sum(own / np.sqrt(sizes))


def start_discrete(c, labels, k=3):
    c.set_indicator(indicator_of(labels, k))
    c.engine.scatter("labels", labels)
    DiscreteIndicator().start(c.engine, k)


def update_to_the_end(c):
    DiscreteIndicator(max_rounds=200).update(c.engine, c.factors, c.moments)


@few
@seeds
def test_never_lowers_the_criterion_nor_empties_a_cluster(case, seed):
    c = case(seed)
    labels = c.rng.permutation(np.arange(24) % 3)
    start_discrete(c, labels)
    prediction = c.P @ c.factors.clusters.T
    moments = DiscreteIndicator().update(c.engine, c.factors, c.moments)
    new, F = c.engine.gather("labels"), c.engine.gather("indicator")
    assert np.bincount(new, minlength=3).min() > 0
    assert criterion(prediction, new, 3) >= criterion(prediction, labels, 3) - 1e-9
    np.testing.assert_allclose(F, indicator_of(new, 3))
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(moments.cross, c.P.T @ F, atol=1e-9)


@few
@seeds
def test_no_single_move_gains_at_the_end(case, seed):
    c = case(seed, n=12)
    start_discrete(c, np.arange(12) % 3)
    update_to_the_end(c)
    labels = c.engine.gather("labels")
    prediction = c.P @ c.factors.clusters.T
    best = criterion(prediction, labels, 3)
    for n, k in product(range(12), range(3)):
        moved = labels.copy()
        moved[n] = k
        if np.bincount(moved, minlength=3).min() > 0:
            assert criterion(prediction, moved, 3) <= best + 1e-6 * abs(best)


def test_a_few_movers_wait_for_the_next_iteration(case, monkeypatch):
    c = case(0, n=900)
    labels = c.rng.permutation(np.arange(900) % 3)
    prediction = c.P @ c.factors.clusters.T
    passes, gained = {}, {}
    real = type(c.engine).update

    for part in (0.0, 1 / 32):
        made = []

        def counted(engine, kernel, *args, made=made):
            made.append(kernel)
            return real(engine, kernel, *args)

        start_discrete(c, labels)
        with monkeypatch.context() as patch:
            patch.setattr(type(c.engine), "update", counted)
            indicator = DiscreteIndicator(few_movers=part)
            indicator.update(c.engine, c.factors, c.moments)
        passes[part] = len(made)
        reached = criterion(prediction, c.engine.gather("labels"), 3)
        gained[part] = reached - criterion(prediction, labels, 3)
    assert passes[1 / 32] < passes[0.0]
    assert gained[1 / 32] > 0.99 * gained[0.0] > 0.0


@few
@seeds
def test_moments_are_the_same_object_if_nobody_moves(case, seed):
    c = case(seed)
    start_discrete(c, np.arange(len(c.P)) % 3)
    moments = c.moments
    for _ in range(20):
        before = c.engine.gather("labels").copy()
        renewed = DiscreteIndicator().update(c.engine, c.factors, moments)
        stayed = (c.engine.gather("labels") == before).all()
        assert (renewed is moments) == stayed
        F = c.engine.gather("indicator")
        if stayed:
            break
        np.testing.assert_allclose(renewed.cross, c.P.T @ F, atol=1e-8)
        moments = renewed
    else:
        raise AssertionError("labels do not settle")


def test_perfect_prediction_is_recovered(case):
    c = case(0, rank=3, widths=(4, 3))
    truth = np.arange(24) % 3
    c.P = indicator_of(truth, 3)
    c.factors = c.factors.with_clusters(np.eye(3))
    wrong = truth.copy()
    wrong[:6] = (wrong[:6] + 1) % 3
    start_discrete(c, wrong)
    for block in c.engine.blocks:
        block.state["projections"] = [indicator_of(truth, 3)[block.rows], np.ones((1, 3))]
    DiscreteIndicator().update(c.engine, c.factors, c.moments)
    np.testing.assert_array_equal(c.engine.gather("labels"), truth)


def test_a_zero_prediction_moves_nobody(case):
    c = case(0)
    c.factors = c.factors.with_clusters(0 * c.factors.clusters)
    labels = np.arange(24) % 3
    start_discrete(c, labels)
    DiscreteIndicator().update(c.engine, c.factors, c.moments)
    np.testing.assert_array_equal(c.engine.gather("labels"), labels)


def test_a_nearly_zero_model_moves_nobody(case):
    c = case(3)
    labels = c.rng.permutation(np.arange(24) % 3)
    start_discrete(c, labels)
    scale = 1e-2 / np.linalg.norm(c.P @ c.factors.clusters.T)
    c.factors = c.factors.with_clusters(scale * c.factors.clusters)
    DiscreteIndicator().update(c.engine, c.factors, c.moments)
    np.testing.assert_array_equal(c.engine.gather("labels"), labels)


def test_singletons_stay(case):
    c = case(0, n=3, widths=(2, 2))
    start_discrete(c, np.arange(3))
    DiscreteIndicator().update(c.engine, c.factors, c.moments)
    np.testing.assert_array_equal(c.engine.gather("labels"), np.arange(3))


@pytest.mark.parametrize("size", [10**2, 10**6, 10**10])
def test_rounding_is_not_a_gain(size):
    """Moves between large clusters that gain exactly nothing, but for the last digit."""
    rng = np.random.default_rng(0)
    total = np.sqrt(size) * (1.0 + rng.random())
    own = rng.standard_normal(1000) / np.sqrt(size)
    with localcontext(prec=60):
        n, S = Decimal(size), Decimal(total)
        constant = S / (n - 1).sqrt() + S / (n + 1).sqrt() - 2 * S / n.sqrt()
        other = [
            float((Decimal(p) / (n - 1).sqrt() - constant) * (n + 1).sqrt()) for p in own.tolist()
        ]
    sizes, sums = np.full(2, float(size)), np.full(2, total)
    labels = np.zeros(1000, dtype=np.intp)
    _, gain = best_moves(np.column_stack([own, other]), labels, sizes, sums)
    assert not gain.any()


@few
@seeds
def test_a_gain_is_what_the_criterion_gains(seed):
    rng = np.random.default_rng(seed)
    labels, prediction = rng.permutation(np.arange(12) % 3), rng.standard_normal((12, 3))
    labels[labels == 2] = np.r_[2, 0, 0, 0]  # a cluster of one, which stays
    sizes = np.bincount(labels).astype(float)
    sums = np.bincount(labels, weights=prediction[np.arange(12), labels])
    proposal, gain = best_moves(prediction, labels, sizes, sums)
    before = criterion(prediction, labels, 3)
    for n in range(12):
        gains = [0.0]
        for k in range(3) if sizes[labels[n]] > 1 else ():
            moved = np.where(np.arange(12) == n, k, labels)
            gains.append(criterion(prediction, moved, 3) - before)
            if k == proposal[n] and gain[n] > 0.0:
                assert gain[n] == pytest.approx(gains[-1], abs=1e-9)
        assert gain[n] == pytest.approx(max(gains), abs=1e-9)


@pytest.mark.parametrize("rows", [1, 7, 24])
def test_of_equal_gains_the_first_sample_is_taken_for_any_blocks(rows):
    gains = np.zeros(24)
    gains[[5, 6, 13, 23]] = 1.0
    parts = [LargestGain.of(gains[at : at + rows], at) for at in range(0, 24, rows)]
    assert reduce(add, parts) == reduce(add, parts[::-1]) == LargestGain(1.0, 5)


def test_the_leave_one_out_indicator_keeps_its_labels_whatever_the_model_predicts(case):
    c = case(0)
    labels = c.rng.permutation(np.arange(24) % 3)
    start_discrete(c, labels)
    indicator = LeaveOneOutIndicator()
    assert indicator.update(c.engine, c.factors, c.moments) is c.moments
    indicator.read(c.engine, c.factors, c.moments, c.rng)
    np.testing.assert_array_equal(c.engine.gather("labels"), labels)
    np.testing.assert_allclose(c.engine.gather("indicator"), indicator_of(labels, 3))


@few
@seeds
def test_the_orthogonal_indicator_is_the_polar_factor(case, seed):
    c = case(seed)
    moments = OrthogonalIndicator().update(c.engine, c.factors, c.moments)
    F = c.engine.gather("indicator")
    expected, _ = scipy.linalg.polar(c.P @ c.factors.clusters.T)
    np.testing.assert_allclose(F, expected, atol=1e-6)
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(moments.cross, c.P.T @ F, atol=1e-8)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_stays_orthonormal_if_the_prediction_has_deficient_rank(case, missing):
    c = case(1)
    clusters = c.factors.clusters.copy()
    clusters[:missing] = 0.0
    c.factors = c.factors.with_clusters(clusters)
    before = c.F
    OrthogonalIndicator().update(c.engine, c.factors, c.moments)
    F = c.engine.gather("indicator")
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)
    prediction = c.P @ clusters.T
    assert np.sum(prediction * F) >= np.sum(prediction * before) - 1e-9
    np.testing.assert_allclose(
        np.sum(prediction * F), np.linalg.svd(prediction)[1].sum(), rtol=1e-8
    )


def test_ill_conditioned_prediction(case):
    c = case(2)
    clusters = c.factors.clusters.copy()
    clusters[1] = clusters[0] + 1e-6 * clusters[1]
    c.factors = c.factors.with_clusters(clusters)
    OrthogonalIndicator().update(c.engine, c.factors, c.moments)
    F = c.engine.gather("indicator")
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)


def test_float32(case):
    c = case(2, dtype=np.float32)
    OrthogonalIndicator().update(c.engine, c.factors, c.moments)
    F = c.engine.gather("indicator")
    assert F.dtype == np.float32
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-5)
