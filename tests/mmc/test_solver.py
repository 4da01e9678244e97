from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyview.engine import LocalEngine
from manyview.iterate import ProgressBar
from manyview.mmc import solver
from manyview.mmc.indicator import DiscreteIndicator
from manyview.mmc.objective import Factors, RowSparse, default_gamma, objective, project_all
from manyview.mmc.solver import Candidate, Fitted, best_of, one_iteration, refit
from manyview.views import as_views

from .fits import INDICATORS, PENALTIES, begun, explicit_objective, problem_of, run


def assert_consistent(c, problem, fitted):
    """The state of the blocks, the factors and the recorded objective belong to one model."""
    F = c.engine.gather("indicator")
    np.testing.assert_allclose(F.T @ F, np.eye(3), atol=1e-9)
    for v, (Z, W) in enumerate(zip(c.Z, fitted.factors.views, strict=True)):
        held = np.vstack([block.state["projections"][v] for block in c.engine.blocks])
        np.testing.assert_allclose(held, Z @ W, atol=1e-8)
    value = explicit_objective(c, fitted.factors, problem.penalty, problem.gamma)
    # the misfit is a difference of numbers as large as K, made of larger ones if gamma is zero
    clusters, gram = fitted.factors.clusters, fitted.moments.gram
    rounding = np.finfo(float).eps * np.linalg.norm(clusters) ** 2 * np.linalg.norm(gram)
    assert fitted.objective[-1] == pytest.approx(value, rel=1e-8, abs=1e-10 + rounding)


class TestDescent:
    @settings(max_examples=8)
    @given(
        seed=st.integers(0, 10**4),
        cg_steps=st.integers(1, 6),
        sparse=st.booleans(),
        gamma=st.sampled_from([0.0, 1e-3, 0.01, 0.1, 1.0]),
        views=st.integers(1, 4),
    )
    @example(seed=1097, cg_steps=1, sparse=False, gamma=0.0, views=1)  # very unequal factors
    @pytest.mark.parametrize("indicator", INDICATORS)
    @pytest.mark.parametrize("penalty", PENALTIES)
    def test_the_objective_never_rises(
        self, case, penalty, indicator, seed, cg_steps, sparse, gamma, views
    ):
        c = case(seed, n=21, widths=(4, 3, 2, 3)[:views], sparse=sparse)
        options = {"gamma": gamma, "penalty": penalty, "indicator": indicator}
        problem, fitted = run(c, cg_steps=cg_steps, **options)
        assert_consistent(c, problem, fitted)
        assert (np.diff(fitted.objective) <= 0).all()

    @settings(max_examples=8)
    @given(seed=st.integers(0, 10**4), gamma=st.sampled_from([1e-3, 0.01, 0.1, 1.0]))
    @pytest.mark.parametrize("indicator", INDICATORS)
    @pytest.mark.parametrize("penalty", PENALTIES)
    def test_an_iteration_alone_does_not_raise_it(self, case, penalty, indicator, seed, gamma):
        """A fit takes back what raises J, so that its record falls whatever an iteration does."""
        c = case(seed, n=21, widths=(4, 3, 2))
        problem = problem_of(gamma=gamma, penalty=penalty, indicator=indicator)
        first = begun(c, problem)
        factors, moments = first.factors, first.moments
        for _ in range(5):
            before = explicit_objective(c, factors, problem.penalty, gamma)
            factors, moments, _ = one_iteration(c.engine, problem, factors, moments)
            after = explicit_objective(c, factors, problem.penalty, gamma)
            assert after <= before + 1e-9 * (1 + before)

    def test_the_initialisation_is_below_the_zero_model(self, case):
        """So descent cannot end in the zero model, whose objective is n_clusters."""
        c = case(2, n=60)
        problem = problem_of()
        first = begun(c, problem, labels=np.random.default_rng(2).integers(0, 3, 60))
        assert objective(first.factors, first.moments, problem.penalty, problem.gamma) < 3.0

    @pytest.mark.parametrize("penalty", PENALTIES)
    def test_an_iteration_ends_with_factors_of_equal_penalty(self, case, penalty):
        problem, fitted = run(case(3), penalty=penalty, max_iter=1)
        values = [problem.penalty.value(W) for W in fitted.factors.views]
        np.testing.assert_allclose(values, problem.penalty.value(fitted.factors.clusters))


class TestStopping:
    def test_when_the_objective_converges(self, case):
        c = case(1)
        _, fitted = run(c, tol=0.05, max_iter=100)
        assert fitted.converged
        assert len(fitted.objective) < 100
        _, short = run(c, tol=0.0, max_iter=2)
        assert not short.converged
        assert len(short.objective) == 2

    @pytest.mark.parametrize(("settled_change", "n_iter"), [(1.1, 3), (0.0, 8)])
    def test_early_when_the_indicator_does_not_change(self, case, settled_change, n_iter):
        _, fitted = run(case(1, n=60), patience=3, settled_change=settled_change)
        assert len(fitted.objective) == n_iter
        assert fitted.converged == (n_iter == 3)

    @pytest.mark.parametrize("movers", [0, 6, 15, 300])
    def test_an_iteration_returns_the_part_of_the_indicator_that_changed(self, case, movers):
        class Moving(DiscreteIndicator):
            def update(self, engine, factors, moments, **options):
                labels = np.arange(300) % 3
                labels[:movers] = (labels[:movers] + 1) % 3
                engine.scatter("labels", labels)
                self.start(engine, 3)
                return replace(moments)

        c = case(1, n=300)
        problem = problem_of(indicator=Moving())
        first = begun(c, problem)
        *_, change = one_iteration(c.engine, problem, first.factors, first.moments)
        assert change == pytest.approx(movers / 300)

    def test_a_model_of_the_cluster_sizes_only_is_constant(self, case):
        c = case(0)
        _, fitted = run(c, gamma=1e-4)
        assert not fitted.is_constant
        bias = tuple(
            np.vstack([np.zeros_like(W[:-1]), np.ones((1, 5))]) for W in fitted.factors.views
        )
        moments = project_all(c.engine, bias)
        clusters = np.linalg.lstsq(moments.gram, moments.cross, rcond=None)[0].T
        blind = Fitted(Factors(bias, clusters), moments)
        assert blind.explained == pytest.approx(1 / 3)
        assert blind.is_constant
        assert not blind.is_zero


class TestInterrupt:
    @pytest.mark.parametrize("indicator", INDICATORS)
    @pytest.mark.parametrize(
        ("owner", "step", "last"),  # the call that is in the third iteration
        [
            (solver, "updated_view_factor", 6),
            (solver, "updated_cluster_factor", 3),
            (LocalEngine, "snapshot", 4),
        ],
    )
    def test_goes_back_to_the_last_complete_iteration(
        self, case, monkeypatch, indicator, owner, step, last
    ):
        calls, real = [], getattr(owner, step)

        def interrupting(*args, **options):
            calls.append(1)
            if len(calls) == last:
                raise KeyboardInterrupt
            return real(*args, **options)

        monkeypatch.setattr(owner, step, interrupting)
        c = case(1, n=60, widths=(30, 20))
        problem, fitted = run(c, indicator=indicator, gamma=0.2)
        assert fitted.interrupted
        assert len(fitted.objective) == 2
        assert_consistent(c, problem, fitted)

    def test_before_the_first_iteration_is_raised(self, case):
        class Interrupting(DiscreteIndicator):
            def update(self, *args, **options):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(case(1), indicator=Interrupting())


class TestDroppedFeatures:
    def test_rows_are_set_to_zero_only_if_that_lowers_the_objective(self, case):
        class Eager(RowSparse):
            def vanished(self, factor, previous):
                return factor[:, 0] < np.inf

        c = case(3)
        problem, fitted = run(c, penalty=Eager(), max_iter=3)
        assert_consistent(c, problem, fitted)
        assert (np.diff(fitted.objective) <= 0).all()
        assert all(W.any() for W in fitted.factors.views)

    def test_leave_the_work_without_changing_the_result(self, case, monkeypatch):
        c = case(5, n=200, widths=(60, 40))
        _, dropped = run(c, gamma=0.2, max_iter=20)
        for v, W in enumerate(dropped.factors.views):
            features = np.flatnonzero(W[:-1].any(axis=1))
            assert features.size < W.shape[0] - 1
            active = c.engine.scalings[v].active
            if active is not None:
                assert c.engine.blocks[0].views[v].x.shape[1] == active.size < W.shape[0] - 1
                assert np.isin(features, active).all()
        assert any(scaling.active is not None for scaling in c.engine.scalings)
        monkeypatch.setattr(LocalEngine, "restricted_size", lambda *args: np.inf)
        c = case(5, n=200, widths=(60, 40))
        _, kept = run(c, gamma=0.2, max_iter=20)
        assert all(scaling.active is None for scaling in c.engine.scalings)
        np.testing.assert_allclose(dropped.objective, kept.objective, rtol=1e-6)


class Scripted:
    """An initialisation with given labels, one per restart; None interrupts."""

    def __init__(self, *labels, lower_by=0.0):
        self.labels, self.lower_by = labels, lower_by
        self.active = []

    def begin(self, engine, problem, rng, number):
        self.active.append([scaling.active for scaling in engine.scalings])
        if self.labels[number] is None:
            raise KeyboardInterrupt
        c = type("Case", (), {"engine": engine})
        return begun(c, problem, labels=self.labels[number])


class TestRestarts:
    good = np.repeat(np.arange(3), 20)
    poor = np.arange(60) % 3

    @pytest.fixture
    def best(self):
        """Run restarts from labels, on views whose clusters are `good`."""

        def best(*labels, lower_by=0.0, bar=None, **options):
            rng = np.random.default_rng(0)
            rows = np.eye(3)[self.good] + 0.1 * rng.standard_normal((60, 3))
            engine = LocalEngine(as_views([rows, rows @ rng.random((3, 20))]), normalize="rows")
            bar = bar or ProgressBar("MMC", total=1, shown=False)
            starts = Scripted(*labels, lower_by=lower_by)
            problem = problem_of(max_iter=1, **options)
            found = best_of(len(labels), engine, problem, starts, rng, bar)
            return *found, starts.active

        return best

    def test_the_lowest_objective_wins(self, best):
        values = [best(labels)[0].fitted.objective[-1] for labels in (self.poor, self.good)]
        assert values[1] < values[0]
        found, interrupted, begun_with = best(self.poor, self.good, self.poor)
        assert found.fitted.objective[-1] == values[1]
        assert not interrupted
        assert len(begun_with) == 3
        kept, *_ = best(self.poor, self.good, lower_by=0.999)
        assert kept.fitted.objective[-1] == values[0]

    def test_an_interrupt_in_a_later_initialisation_keeps_the_best(self, best):
        found, interrupted, begun_with = best(self.poor, self.good, None, self.poor)
        assert interrupted
        assert len(begun_with) == 3
        assert found.fitted.objective == best(self.good)[0].fitted.objective

    def test_an_interrupt_in_the_iterations_ends_the_restarts(self, best):
        class Bar(ProgressBar):
            def step(self, done, word):
                raise KeyboardInterrupt

        bar = Bar("MMC", total=1, shown=False)
        found, interrupted, begun_with = best(self.good, self.poor, bar=bar)
        assert interrupted
        assert len(begun_with) == 1
        assert found.fitted.interrupted

    def test_an_interrupt_in_the_first_initialisation_is_raised(self, best):
        with pytest.raises(KeyboardInterrupt):
            best(None, self.good)

    def test_every_restart_has_all_features(self, best):
        *_, begun_with = best(self.good, self.poor, gamma=0.3)
        assert begun_with == [[None, None]] * 2

    def test_a_collapsed_result_is_ranked_last(self):
        fine, collapsed = (
            Candidate(Fitted(None, None, [value]), *[None] * 4, collapsed=value < 1.0)
            for value in (2.0, 0.1)
        )
        assert fine.beats(collapsed, by=0.0)
        assert not collapsed.beats(fine, by=0.0)


class TestRefit:
    def expected(self, c, problem, fitted, gamma):
        """One refit with a given gamma: the cluster factor first, then all factors."""
        weaker = replace(problem, penalty=PENALTIES["frobenius"](), gamma=gamma)
        factors, moments = solver.balanced(c.engine, weaker, fitted.factors, fitted.moments)
        factors = solver._cluster_step(weaker, factors, moments)
        factors, moments = solver.balanced(c.engine, weaker, factors, moments)
        return solver.factor_steps(c.engine, weaker, factors, moments)[0]

    @pytest.mark.parametrize(
        ("few", "widths", "part"),
        [(500, (4,), 1.0), (500, (4, 3, 2), 1.0), (0, (4, 3), 7 / 24), (12, (4, 3), 12 / 24)],
    )
    def test_penalty_is_shared_and_weaker_with_more_samples(self, case, few, widths, part):
        problem, fitted = run(c := case(0, widths=widths), gamma=1e-6, refit_samples=few)
        factors, _ = refit(c.engine, problem, fitted)
        gamma = 30.0 * default_gamma(c.engine, PENALTIES["frobenius"](), 3) / (len(widths) + 1)
        problem, again = run(other := case(0, widths=widths), gamma=1e-6)
        expected = self.expected(other, problem, again, gamma * part)
        for ours, theirs in zip(factors.views, expected.views, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)

    def test_is_weaker_if_it_explains_too_little(self, case):
        c = case(0)
        problem, fitted = run(c, refit_strength=1e5)
        factors, moments = refit(c.engine, problem, fitted)
        assert moments.explained(factors.clusters) >= 0.5 * fitted.explained
        problem, fitted = run(c, refit_strength=1e5, refits=1)
        assert refit(c.engine, problem, fitted)[0] is fitted.factors

    def test_keeps_factors_and_blocks_if_no_penalty_is_weak_enough(self, case):
        c = case(0)
        problem, fitted = run(c, refit_strength=1e30)
        factors, _ = refit(c.engine, problem, fitted)
        assert factors is fitted.factors
        assert_consistent(c, problem, fitted)

    def test_is_not_needed_without_feature_selection(self, case):
        c = case(0)
        problem, fitted = run(c, penalty="frobenius")
        assert refit(c.engine, problem, fitted)[0] is fitted.factors
