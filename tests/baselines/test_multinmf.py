import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import multinmf as module
from manyview.baselines.multinmf import MultiNMF, share_of
from manyview.exceptions import ViewWarning

from .helpers import mean_scores_on_3sources


def topics(n=60, widths=(12, 9), k=3, seed=0, noise=0.3):
    """Nonnegative views, each cluster with features of its own."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    views = []
    for d in widths:
        profiles = np.zeros((k, d))
        profiles[np.arange(d) % k, np.arange(d)] = 1.0
        views.append(rng.random((n, 1)) * 0.5 * profiles[truth] + profiles[truth])
        views[-1] += noise * rng.random((n, d))
    return views, truth


def quick(k=3, **options):
    return MultiNMF(k, random_state=0, **({"n_rounds": 4, "n_inner": 8} | options))


def residual(view, coefficients, basis):
    return np.sum((view / view.sum() - coefficients @ basis.T) ** 2)


def objective(model, views, strengths):
    parts = zip(views, model.view_coefficients_, model.view_bases_, strengths, strict=True)
    return sum(
        residual(X, V, U) + strength * np.sum((V * U.sum(axis=0) - model.consensus_) ** 2)
        for X, V, U, strength in parts
    )


class TestResult:
    @pytest.mark.parametrize("labels", ["kmeans", "unit", "argmax"])
    def test_clear_clusters_are_found(self, labels):
        views, truth = topics()
        model = MultiNMF(3, labels=labels, n_init=5, random_state=0).fit(views)
        assert adjusted_rand_score(truth, model.labels_) == 1.0

    def test_attributes(self):
        views, _ = topics()
        model = quick()
        assert model.fit({"a": views[0], "b": views[1]}) is model
        assert set(model.labels_) == {0, 1, 2}
        assert model.consensus_.shape == (60, 3)
        assert [V.shape for V in model.view_coefficients_] == [(60, 3), (60, 3)]
        assert [U.shape for U in model.view_bases_] == [(12, 3), (9, 3)]
        assert model.objective_.shape == (model.n_iter_,) == (4,)
        assert model.n_features_in_ == [12, 9]
        assert model.view_names_ == ["a", "b"]
        assert not hasattr(model, "predict")

    def test_factors_are_nonnegative_and_bases_sum_to_1(self):
        model = quick(5).fit(topics()[0])
        for factor in (model.consensus_, *model.view_coefficients_, *model.view_bases_):
            assert (factor >= 0).all()
        for basis in model.view_bases_:
            np.testing.assert_allclose(basis.sum(axis=0), 1.0)

    @pytest.mark.parametrize("strengths", [0.01, [0.0, 0.3]])
    def test_objective_is_that_of_the_attributes(self, strengths):
        views, _ = topics()
        model = quick(regularization=strengths).fit(views)
        expected = objective(model, views, np.broadcast_to(strengths, 2))
        assert model.objective_[-1] == pytest.approx(expected, rel=1e-9)

    def test_consensus_is_the_weighted_mean(self):
        model = quick(regularization=[0.1, 0.3]).fit(topics()[0])
        first, second = model.view_coefficients_
        np.testing.assert_allclose(model.consensus_, 0.25 * first + 0.75 * second)

    def test_strong_regularization_makes_the_views_agree(self):
        views, _ = topics()

        def gap(model):
            first, second = model.fit(views).view_coefficients_
            return np.linalg.norm(first - second) / np.linalg.norm(first)

        assert gap(quick(regularization=100.0, n_rounds=40)) < 0.05 * gap(quick(regularization=0.0))

    def test_more_initialisations_are_no_worse(self):
        views, _ = topics(noise=1.0)
        rng = np.random.default_rng
        shares = [share_of("a", X, "raise") for X in views]
        strengths = np.full(2, 0.01)
        values = []
        for n_restarts in (1, 4):
            fits = quick(n_restarts=n_restarts)._initialize(shares, strengths, rng(0))
            values.append(module._objective(shares, fits, strengths))
        assert values[1] <= values[0]

    def test_same_seed_same_result(self):
        views, _ = topics()
        model = quick(n_passes=2).fit(views)
        again = clone(model).fit(views)
        np.testing.assert_array_equal(model.labels_, again.labels_)
        np.testing.assert_array_equal(model.consensus_, again.consensus_)

    def test_verbose_shows_progress(self, capsys):
        quick(verbose=1).fit(topics()[0])
        assert "MultiNMF" in capsys.readouterr().err


class TestObjective:
    @pytest.mark.parametrize("strength", [0.0, 1e-3, 0.1, 10.0])
    def test_never_rises_from_round_to_round(self, strength):
        for seed in range(5):
            views, _ = topics(seed=seed, noise=2.0)
            model = MultiNMF(4, regularization=strength, n_inner=5, random_state=seed).fit(views)
            assert (np.diff(model.objective_) <= 1e-12).all()

    @pytest.mark.parametrize("strength", [0.0, 0.01, 1.0])
    def test_of_a_view_never_rises_from_update_to_update(self, strength):
        rng = np.random.default_rng(0)
        share = share_of("a", topics(noise=2.0)[0][0], "raise")
        consensus = rng.random((60, 4)) / 240
        fit = module._balanced(rng.random((60, 4)), rng.random((12, 4)))
        values = [module._view_objective(share, fit, strength, consensus)]
        for _ in range(50):
            fit = module._update(share, fit, strength, consensus, 1)
            values.append(module._view_objective(share, fit, strength, consensus))
        assert (np.diff(values) <= 1e-12 * values[0]).all()
        assert values[-1] < values[0]

    def test_without_regularization_views_are_factorised_independently(self):
        views, _ = topics(noise=1.0)
        shares = [share_of("a", X, "raise") for X in views]
        model = quick(regularization=0.0, n_restarts=1)
        fits = model._initialize(shares, np.zeros(2), self.generator(model))
        model.fit(views)
        for X, (V, U), coefficients, basis in zip(
            views, fits, model.view_coefficients_, model.view_bases_, strict=True
        ):
            X = X / X.sum()
            for _ in range(model.n_rounds * model.n_inner):
                V = V * (X @ U) / (V @ U.T @ U)
                U = U * (X.T @ V) / (U @ V.T @ V)
            np.testing.assert_allclose(coefficients, V * U.sum(axis=0), rtol=1e-8, atol=1e-14)
            np.testing.assert_allclose(basis, U / U.sum(axis=0), rtol=1e-8, atol=1e-14)

    @staticmethod
    def generator(model):
        seed = np.random.RandomState(model.random_state).randint(2**31 - 1)
        return np.random.default_rng(seed)


class TestInvariance:
    @pytest.mark.parametrize("factor", [1e-6, 1e6])
    def test_the_scale_of_a_view_changes_nothing(self, factor):
        views, _ = topics(noise=1.0)
        plain = quick().fit(views)
        scaled = quick().fit([views[0], factor * views[1]])
        np.testing.assert_array_equal(plain.labels_, scaled.labels_)
        np.testing.assert_allclose(plain.consensus_, scaled.consensus_, rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(plain.objective_, scaled.objective_, rtol=1e-8)

    @pytest.mark.parametrize("negative", ["raise", "shift", "clip"])
    def test_sparse_views_give_what_dense_ones_do(self, negative, monkeypatch):
        views, _ = topics()
        views = [np.where(X > 0.2, X, 0.0) for X in views]
        if negative != "raise":
            views = [np.where(X > 1.2, -X, X) for X in views]
        dense = quick(negative=negative).fit(views)

        def refuse(self, *args, **options):
            raise AssertionError("a sparse view was made dense")

        monkeypatch.setattr(sp.csr_array, "toarray", refuse)
        monkeypatch.setattr(sp.csr_array, "todense", refuse)
        sparse = quick(negative=negative).fit([sp.csr_array(X) for X in views])
        np.testing.assert_array_equal(dense.labels_, sparse.labels_)
        np.testing.assert_allclose(dense.consensus_, sparse.consensus_, rtol=1e-8, atol=1e-14)

    def test_the_views_stay_as_they_are(self):
        views = [topics()[0][0] - 0.5, sp.csr_array(topics()[0][1] - 0.5)]
        before = [X.copy() for X in views]
        for negative in ("shift", "clip"):
            quick(negative=negative).fit(views)
        np.testing.assert_array_equal(views[0], before[0])
        assert (views[1] != before[1]).nnz == 0

    def test_normalized_rows(self):
        views, _ = topics()
        units = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in views]
        model = quick(normalize="rows").fit(views)
        np.testing.assert_allclose(model.consensus_, quick().fit(units).consensus_, rtol=1e-8)


class TestNegative:
    def test_is_rejected(self):
        views, _ = topics()
        views[1][4, 2] = -0.25
        with pytest.raises(ValueError, match=r"view1.*-0\.25"):
            quick().fit(views)

    @pytest.mark.parametrize(
        ("negative", "corrected"),
        [("shift", lambda X: X - X.min()), ("clip", lambda X: np.maximum(X, 0.0))],
    )
    def test_is_shifted_or_clipped(self, negative, corrected):
        views = [X - 0.4 for X in topics(noise=1.0)[0]]
        model = quick(negative=negative).fit(views)
        by_hand = quick().fit([corrected(X) for X in views])
        np.testing.assert_allclose(model.consensus_, by_hand.consensus_, rtol=1e-7, atol=1e-13)
        np.testing.assert_allclose(model.objective_, by_hand.objective_, rtol=1e-7)

    def test_nonnegative_views_are_not_shifted(self):
        views = [X + 1.0 for X in topics()[0]]
        shifted, plain = quick(negative="shift").fit(views), quick().fit(views)
        np.testing.assert_array_equal(shifted.consensus_, plain.consensus_)


class TestDegenerate:
    def test_a_view_of_zeros_is_rejected(self):
        views, _ = topics()
        with (
            pytest.warns(ViewWarning),
            pytest.raises(ValueError, match="view1"),
        ):
            quick().fit([views[0], np.zeros((60, 4))])

    def test_a_constant_view(self):
        views, truth = topics()
        with pytest.warns(ViewWarning):
            model = quick(n_init=5, labels="unit", n_inner=50).fit([*views, np.ones((60, 4))])
        assert np.isfinite(model.consensus_).all()
        assert adjusted_rand_score(truth, model.labels_) > 0.9

    @pytest.mark.parametrize("labels", ["kmeans", "unit", "argmax"])
    def test_rows_and_columns_of_zeros(self, labels):
        views, _ = topics()
        for X in views:
            X[:5] = 0.0
            X[:, 2] = 0.0
        model = quick(labels=labels, n_inner=40).fit(views)
        np.testing.assert_allclose(model.consensus_[:5], 0.0, atol=1e-4 * model.consensus_.max())
        for basis in model.view_bases_:
            assert basis[2].max() < 0.05 * basis.max()
        assert set(model.labels_) == {0, 1, 2}

    @pytest.mark.parametrize("labels", ["kmeans", "unit", "argmax"])
    def test_duplicates_leave_no_cluster_empty(self, labels):
        views = [np.repeat(X, 5, axis=0) for X in topics(n=4)[0]]
        with pytest.warns(ConvergenceWarning):
            model = quick(6, labels=labels).fit(views)
        assert set(model.labels_) == set(range(6))
        assert (np.diff(model.objective_) <= 1e-12).all()

    def test_few_samples(self):
        model = quick(5).fit(topics(n=6, noise=1.0)[0])
        assert set(model.labels_) == set(range(5))

    def test_one_cluster_and_one_view(self):
        model = quick(1).fit(topics()[0][:1])
        assert set(model.labels_) == {0}
        np.testing.assert_allclose(model.consensus_, model.view_coefficients_[0])

    def test_a_zero_component_stays_zero(self):
        before = np.ones((4, 2)), np.array([[1.0, 0.0], [3.0, 0.0]])
        V, U = module._balanced(*before)
        np.testing.assert_allclose(U, [[0.25, 0.5], [0.75, 0.5]])
        np.testing.assert_allclose(V @ U.T, before[0] @ before[1].T)

    @pytest.mark.parametrize("value", [[0.1], [0.1, -1.0]])
    def test_bad_regularization(self, value):
        with pytest.raises(ValueError, match="regularization"):
            quick(regularization=value).fit(topics()[0])

    @pytest.mark.parametrize("options", [{"n_rounds": 0}, {"negative": "abs"}, {"labels": "rows"}])
    def test_parameters_out_of_range(self, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            quick(**options).fit(topics()[0])


def score(data_dir, **options):
    return mean_scores_on_3sources(
        data_dir, lambda views, seed: MultiNMF(6, random_state=seed, **options).fit_predict(views)
    )


@pytest.mark.data
@pytest.mark.slow
def test_scores_on_3sources(data_dir):
    assert score(data_dir) == (pytest.approx(0.47, abs=0.04), pytest.approx(0.42, abs=0.04))


@pytest.mark.data
def test_scores_on_3sources_with_fewer_updates(data_dir):
    scores = score(data_dir, n_rounds=2, n_inner=10, n_restarts=1)
    assert scores[0] > 0.35
    assert scores[1] > 0.25
