import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines.kctd import (
    KCTD,
    decompose_admm,
    decompose_lbfgs,
    misfit_and_gradients,
    with_unit_columns,
)
from manyview.datasets import make_views
from manyview.exceptions import NotEnoughMemoryError

from .helpers import mean_scores_on_3sources, no_convergence_warning

SOLVERS = {"admm": decompose_admm, "lbfgs": decompose_lbfgs}
both_solvers = pytest.mark.parametrize("solver", SOLVERS)


def exact_kernels(n=40, rank=3, n_views=3, seed=0):
    """Kernels that have a decomposition of this rank, and its factors."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, rank))
    weights = rng.uniform(0.5, 2.0, (n_views, rank))
    return [shared @ np.diag(row) @ shared.T for row in weights], shared, weights


def kernels_of_noise(n=30, n_views=3, seed=0):
    factors = np.random.default_rng(seed).standard_normal((n_views, n, n))
    return [factor @ factor.T for factor in factors]


def start(n, rank, seed=1):
    return 0.1 * np.random.default_rng(seed).standard_normal((n, rank))


def fitted(views, k=3, **options):
    with no_convergence_warning():
        return KCTD(k, random_state=0, **options).fit(views)


class TestDecomposition:
    @both_solvers
    def test_exact_factors_are_recovered(self, solver):
        kernels, shared, weights = exact_kernels()
        solved = SOLVERS[solver](kernels, start(40, 3), max_iter=3000, tol=1e-10)
        B, A = with_unit_columns(*solved.state)
        true = shared / np.linalg.norm(shared, axis=0)
        congruence = np.abs(true.T @ B)
        match = congruence.argmax(axis=1)
        assert sorted(match) == [0, 1, 2]
        np.testing.assert_allclose(congruence.max(axis=1), 1.0, atol=1e-6)
        scale = np.linalg.norm(shared, axis=0) ** 2
        np.testing.assert_allclose(A[:, match], weights * scale, rtol=1e-3)
        assert solved.objective[-1] < 1e-8
        assert solved.converged

    @both_solvers
    def test_the_misfit_recorded_is_that_of_the_factors(self, solver):
        kernels = kernels_of_noise()
        found = SOLVERS[solver](kernels, start(30, 4), max_iter=50, tol=1e-8)
        B, A = found.state
        models = [B @ np.diag(row) @ B.T for row in A]
        rest = sum(np.sum((K - M) ** 2) for K, M in zip(kernels, models, strict=True))
        whole = sum(np.sum(K**2) for K in kernels)
        assert found.objective[-1] == pytest.approx(rest / whole)
        assert 0.0 <= found.objective[-1] <= 1.0

    @both_solvers
    def test_one_view_reaches_the_eigenvalue_bound(self, solver):
        kernels = kernels_of_noise(n_views=1)
        found = SOLVERS[solver](kernels, start(30, 4), max_iter=5000, tol=1e-10)
        values = np.sort(np.linalg.eigvalsh(kernels[0]))
        bound = np.sum(values[:-4] ** 2) / np.sum(values**2)
        assert found.objective[-1] >= bound * (1 - 1e-12)
        assert found.objective[-1] == pytest.approx(bound, rel=1e-5)

    def test_lbfgs_only_descends(self):
        found = decompose_lbfgs(kernels_of_noise(), start(30, 4), max_iter=300, tol=1e-8)
        assert len(found.objective) > 10
        assert (np.diff(found.objective) <= 1e-14).all()

    def test_lbfgs_reaches_at_least_the_misfit_of_admm(self):
        kernels = kernels_of_noise(seed=3)
        budget = {"max_iter": 2000, "tol": 1e-9}
        low = min(
            decompose_lbfgs(kernels, start(30, 3, s), **budget).objective[-1] for s in range(3)
        )
        for seed in range(3):
            assert low <= decompose_admm(kernels, start(30, 3, seed), **budget).objective[-1] + 1e-6

    def test_gradients_are_those_of_the_misfit(self):
        kernels = kernels_of_noise(n=8)
        rng = np.random.default_rng(2)
        point = rng.standard_normal(8 * 3 + 3 * 3)

        def split(x):
            return misfit_and_gradients(kernels, 10.0, x[:24].reshape(8, 3), x[24:].reshape(3, 3))

        numeric = scipy.optimize.approx_fprime(point, lambda x: split(x)[0], 1e-6)
        _, shared, weights = split(point)
        exact = np.concatenate([shared.ravel(), weights.ravel()])
        np.testing.assert_allclose(exact, numeric, rtol=1e-3, atol=1e-3 * np.abs(exact).max())

    def test_unit_columns_keep_the_model(self):
        kernels = kernels_of_noise()
        found = decompose_admm(kernels, start(30, 4), max_iter=20, tol=0)
        (B, A), (unit_B, unit_A) = found.state, with_unit_columns(*found.state)
        np.testing.assert_allclose(np.linalg.norm(unit_B, axis=0), 1.0)
        for old, new in zip(A, unit_A, strict=True):
            np.testing.assert_allclose(
                B @ np.diag(old) @ B.T, unit_B @ np.diag(new) @ unit_B.T, atol=1e-12
            )

    @both_solvers
    def test_more_columns_than_the_kernels_have_rank(self, solver):
        found = SOLVERS[solver](exact_kernels(rank=2)[0], start(40, 5), max_iter=300, tol=1e-8)
        assert all(np.isfinite(factor).all() for factor in found.state)
        assert found.objective[-1] < 1e-3


class TestEstimator:
    @both_solvers
    @pytest.mark.parametrize("unit_columns", [False, True])
    def test_clear_clusters_are_found(self, solver, unit_columns):
        views, truth = make_views(90, 3, separation=12.0, random_state=0)
        model = fitted(views, solver=solver, unit_columns=unit_columns, n_init=10)
        assert adjusted_rand_score(truth, model.labels_) > 0.9

    @both_solvers
    def test_attributes(self, solver):
        views, _ = make_views(50, 3, n_features=(5, 7), random_state=0)
        model = fitted(views, rank=4, solver=solver)
        assert model.labels_.shape == (50,)
        assert set(model.labels_) == {0, 1, 2}
        assert model.embedding_.shape == (50, 4)
        assert model.view_weights_.shape == (2, 4)
        assert model.objective_.shape == (model.n_iter_,)
        assert 0.0 <= model.objective_[-1] <= 1.0
        assert model.n_features_in_ == [5, 7]
        assert not hasattr(model, "predict")

    def test_a_rank_beyond_memory_is_rejected_beforehand(self, monkeypatch):
        monkeypatch.setattr("manyview.baselines.kctd.rbf_kernel", None)
        with pytest.raises(NotEnoughMemoryError, match="rank=100000000"):
            KCTD(3, rank=10**8).fit(make_views(40, 3, random_state=0).views)

    def test_rank_is_by_default_n_clusters(self):
        views, _ = make_views(40, 5, random_state=0)
        assert fitted(views, k=5).embedding_.shape == (40, 5)

    def test_same_seed_same_result(self):
        views, _ = make_views(50, 3, random_state=0)
        model = fitted(views)
        again = fitted(views)
        np.testing.assert_array_equal(model.labels_, again.labels_)
        np.testing.assert_array_equal(model.embedding_, again.embedding_)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_fit_predict_is_fit_then_labels(self):
        views, _ = make_views(50, 3, random_state=0)
        model = KCTD(3, max_iter=20, random_state=0)
        np.testing.assert_array_equal(model.fit_predict(views), clone(model).fit(views).labels_)

    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_sparse_or_dense(self, normalize):
        views, _ = make_views(40, 3, density=0.3, random_state=0)
        dense = fitted([X.toarray() for X in views], normalize=normalize, max_iter=30)
        sparse = fitted(views, normalize=normalize, max_iter=30)
        np.testing.assert_allclose(dense.embedding_, sparse.embedding_, atol=1e-6)

    def test_a_view_moved_rotated_or_rescaled_is_the_same(self):
        (first, second), _ = make_views(40, 3, random_state=0)
        turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((20, 20)))
        plain = fitted([first, second], max_iter=30)
        moved = fitted([100.0 * first @ turn + 3.0, second], max_iter=30)
        np.testing.assert_allclose(plain.embedding_, moved.embedding_, atol=1e-6)

    def test_the_order_of_views_only_permutes_their_weights(self):
        (first, second), _ = make_views(40, 3, random_state=0)
        one, other = fitted([first, second], max_iter=30), fitted([second, first], max_iter=30)
        np.testing.assert_allclose(one.embedding_, other.embedding_, atol=1e-8)
        np.testing.assert_allclose(one.view_weights_, other.view_weights_[::-1], atol=1e-8)

    @both_solvers
    def test_warns_when_stopped_early(self, solver):
        views, _ = make_views(40, 3, random_state=0)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            KCTD(3, solver=solver, max_iter=2, random_state=0).fit(views)

    @both_solvers
    def test_converges_within_the_iterations_that_the_warning_names(self, solver):
        views, _ = make_views(150, 3, random_state=0)
        assert KCTD(3, solver=solver, max_iter=2000, random_state=0).fit(views).n_iter_ < 2000

    def test_verbose_shows_progress(self, capsys):
        views, _ = make_views(40, 3, random_state=0)
        fitted(views, max_iter=5, verbose=1)
        assert "KCTD" in capsys.readouterr().err


class TestDegenerate:
    @both_solvers
    def test_duplicates(self, solver):
        views, _ = make_views(12, 3, random_state=0)
        model = fitted([np.repeat(X, 4, axis=0) for X in views], solver=solver)
        assert np.isfinite(model.embedding_).all()
        assert set(model.labels_) == {0, 1, 2}

    @both_solvers
    @pytest.mark.parametrize("normalize", [None, "rows"])
    def test_rows_of_zeros(self, solver, normalize):
        views, _ = make_views(40, 3, random_state=0)
        arrays = [np.array(X) for X in views]
        for X in arrays:
            X[:3] = 0.0
        model = fitted(arrays, solver=solver, normalize=normalize)
        assert np.isfinite(model.embedding_).all()
        assert len(set(model.labels_[:3])) == 1

    @both_solvers
    @pytest.mark.parametrize("n", [3, 4])
    def test_few_samples(self, solver, n):
        views = [np.random.default_rng(v).standard_normal((n, 4)) for v in range(2)]
        model = fitted(views, solver=solver)
        assert set(model.labels_) == {0, 1, 2}

    def test_one_cluster(self):
        views, _ = make_views(20, 2, random_state=0)
        assert set(fitted(views, k=1).labels_) == {0}

    @pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
    def test_a_constant_view_is_rejected(self):
        with pytest.raises(ValueError, match="view1"):
            KCTD(2).fit([np.random.default_rng(0).standard_normal((9, 3)), np.ones((9, 2))])

    @pytest.mark.parametrize(
        "options", [{"rank": 0}, {"solver": "als"}, {"max_iter": 0}, {"tol": -1.0}, {"n_init": 0}]
    )
    def test_bad_parameters_are_named(self, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            KCTD(2, **options).fit([np.eye(5)])

    def test_too_many_samples_for_the_memory(self):
        n = 10**7
        with pytest.raises(NotEnoughMemoryError, match="KCTD"):
            KCTD(2).fit([sp.eye_array(n, 2, format="csr")])


@pytest.mark.data
def test_scores_on_3sources(data_dir):
    # measured with an independent implementation of the same specification
    scores = mean_scores_on_3sources(
        data_dir, lambda views, seed: KCTD(6, random_state=seed).fit_predict(views)
    )
    assert scores == (pytest.approx(0.41, abs=0.03), pytest.approx(0.30, abs=0.05))
