from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from manyview.baselines import scmv3dt as module
from manyview.baselines.scmv3dt import (
    SCMV3DT,
    AdmmSettings,
    affinity_of,
    gram_tensor,
    largest_sparsity,
    leading_scores,
    self_expression,
    shrunk_tubes,
)
from manyview.datasets import make_views, read_views
from manyview.exceptions import NotEnoughMemoryError
from manyview.linalg.tproduct import t_product, threshold_singular_values, to_fourier

from .helpers import mean_scores_on_3sources, no_convergence_warning

constructions = pytest.mark.parametrize("construction", ["pca", "pad", "block"])


def fitted(views, k=3, **options):
    with no_convergence_warning():
        return SCMV3DT(k, **({"random_state": 0} | options)).fit(views)


class TestScores:
    @pytest.mark.parametrize("width", [4, 30])
    def test_inner_products_are_those_of_the_best_approximation(self, width):
        X = np.random.default_rng(0).standard_normal((12, width))
        scores = leading_scores(X, 3)
        left, values, _ = np.linalg.svd(X, full_matrices=False)
        expected = (left[:, :3] * values[:3] ** 2) @ left[:, :3].T
        np.testing.assert_allclose(scores @ scores.T, expected, atol=1e-10)
        np.testing.assert_allclose(leading_scores(sp.csr_array(X), 3), scores, atol=1e-10)

    def test_all_scores_keep_the_inner_products(self):
        X = np.random.default_rng(0).standard_normal((12, 2)) @ np.ones((2, 5))
        scores = leading_scores(X, 50)
        assert scores.shape == (12, 5)
        assert not scores[:, 1:].any()
        np.testing.assert_allclose(scores @ scores.T, X @ X.T, atol=1e-10)

    def test_sums_of_scores_are_positive(self):
        X = np.abs(np.random.default_rng(0).standard_normal((12, 4)))
        assert (leading_scores(X, 3).sum(axis=0) > 0).all()

    def test_signs_of_centred_views_are_those_of_the_largest_score(self):
        X = np.random.default_rng(0).standard_normal((12, 4))
        scores = leading_scores(X - X.mean(axis=0), 3)
        assert (scores.max(axis=0) == np.abs(scores).max(axis=0)).all()


class TestEstimator:
    @constructions
    def test_clear_clusters_are_found(self, construction):
        views, truth = make_views(60, 3, n_features=(20, 15), separation=12.0, random_state=0)
        model = fitted(views, construction=construction, n_init=10)
        assert adjusted_rand_score(truth, model.labels_) > 0.9

    @constructions
    def test_attributes(self, construction):
        views, _ = make_views(30, 3, n_features=(5, 7), random_state=0)
        model = fitted(views, construction=construction)
        assert set(model.labels_) == {0, 1, 2}
        assert model.embedding_.shape == (30, 3)
        np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1.0)
        np.testing.assert_array_equal(model.affinity_, model.affinity_.T)
        assert (model.affinity_ >= 0).all()
        assert not np.diag(model.affinity_).any()
        assert model.objective_.shape == (model.n_iter_,)
        assert model.n_features_in_ == [5, 7]
        assert not hasattr(model, "predict")

    def test_same_seed_same_result(self):
        views, _ = make_views(30, 3, random_state=0)
        model = SCMV3DT(3, random_state=0)
        np.testing.assert_array_equal(model.fit_predict(views), clone(model).fit(views).labels_)

    @constructions
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_sparse_or_dense(self, construction, normalize):
        views, _ = make_views(30, 3, density=0.5, random_state=0)
        options = {"construction": construction, "normalize": normalize, "max_iter": 20}
        dense = fitted([X.toarray() for X in views], **options)
        np.testing.assert_allclose(dense.affinity_, fitted(views, **options).affinity_, atol=1e-8)

    def test_warns_when_stopped_early(self):
        views, _ = make_views(30, 3, random_state=0)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            SCMV3DT(3, max_iter=2, random_state=0).fit(views)

    def test_verbose_shows_progress(self, capsys):
        views, _ = make_views(30, 3, random_state=0)
        fitted(views, verbose=1)
        assert "SCMV3DT" in capsys.readouterr().err


class TestDegenerate:
    @constructions
    @pytest.mark.parametrize("low_rank", [0.1, 100.0])
    def test_zero_coefficients_are_an_error_that_names_the_largest_sparsity(
        self, construction, low_rank
    ):
        views, _ = make_views(20, 2, random_state=0)
        sparsity = 100.0 if low_rank < 1 else 0.1
        with pytest.raises(ValueError, match=r"sparsity must be below \d"):
            fitted(views, 2, construction=construction, sparsity=sparsity, low_rank=low_rank)

    @pytest.mark.parametrize(
        ("options", "remedy"),
        [({"max_iter": 1}, "max_iter=1$"), ({"tol": 1.0}, "tol=1$")],
    )
    def test_coefficients_that_are_still_zero(self, options, remedy):
        rng = np.random.default_rng(0)
        views = [np.abs(rng.standard_normal((200, width))) for width in (8, 6)]
        with pytest.raises(ValueError, match=remedy):
            fitted(views, **options)
        assert fitted(views, max_iter=2).affinity_.any()

    def test_orthogonal_samples_are_rejected(self):
        with pytest.raises(ValueError, match="sparsity"):
            fitted([np.eye(6)], 2, sparsity=0.0, construction="pad")

    @constructions
    def test_duplicates(self, construction):
        views, _ = make_views(10, 3, random_state=0)
        model = fitted([np.repeat(X, 3, axis=0) for X in views], construction=construction)
        assert np.isfinite(model.embedding_).all()
        assert set(model.labels_) == {0, 1, 2}

    @constructions
    def test_zero_rows_have_no_affinity(self, construction):
        views, _ = make_views(30, 3, random_state=0)
        arrays = [np.array(X) for X in views]
        for X in arrays:
            X[:2] = 0.0
        model = fitted(arrays, construction=construction)
        assert not model.affinity_[:2].any()
        assert np.isfinite(model.embedding_).all()
        assert set(model.labels_) == {0, 1, 2}

    @pytest.mark.parametrize("construction", ["pad", "block"])
    def test_disconnected_clusters(self, construction):
        # two groups of samples with disjoint features, which the scores of "pca" need not keep
        rng = np.random.default_rng(0)
        blocks = [[rng.uniform(0.5, 1.0, (8, 4)) for _ in range(2)] for _ in range(2)]
        views = [np.block([[a, np.zeros((8, 4))], [np.zeros((8, 4)), b]]) for a, b in blocks]
        model = fitted(views, 2, construction=construction)
        assert not model.affinity_[:8, 8:].any()
        assert adjusted_rand_score(np.repeat([0, 1], 8), model.labels_) == 1.0

    @pytest.mark.parametrize("n", [3, 4])
    def test_few_samples(self, n):
        views = [np.random.default_rng(v).standard_normal((n, 4)) for v in range(2)]
        assert set(fitted(views).labels_) == {0, 1, 2}

    @pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
    @constructions
    @pytest.mark.parametrize("normalize", [None, "rows", "columns"])
    def test_a_constant_view_takes_no_part(self, construction, normalize):
        (first, last), _ = make_views(30, 3, n_features=(6, 4), random_state=0)
        options = {"construction": construction, "normalize": normalize, "max_iter": 20}
        model = fitted([first, np.full((30, 2), 3.0), last], **options)
        np.testing.assert_array_equal(model.affinity_, fitted([first, last], **options).affinity_)
        assert model.n_views_ == 3

    @pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
    def test_a_view_with_equal_rows_after_scaling_takes_no_part(self):
        views, _ = make_views(30, 3, n_features=(6,), random_state=0)
        lengths = np.linspace(1.0, 2.0, 30)[:, None]
        model = fitted([*views, lengths], normalize="rows")
        np.testing.assert_array_equal(model.affinity_, fitted(views).affinity_)

    @pytest.mark.filterwarnings("ignore::manyview.exceptions.ViewWarning")
    @constructions
    def test_constant_views_only(self, construction):
        model = fitted([np.ones((30, 2)), np.ones((30, 3))], construction=construction)
        assert np.isfinite(model.embedding_).all()

    @pytest.mark.parametrize(
        "options",
        [{"sparsity": -1.0}, {"low_rank": -1.0}, {"construction": "fold"}, {"n_components": 0}],
    )
    def test_bad_parameters_are_named(self, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            SCMV3DT(2, **options).fit([np.eye(5)])

    def test_too_many_samples_for_the_memory(self):
        with pytest.raises(NotEnoughMemoryError, match="SCMV3DT"):
            SCMV3DT(2).fit([sp.eye_array(10**7, 2, format="csr")])


@pytest.mark.data
@pytest.mark.parametrize(
    ("construction", "expected"),
    [("pca", (0.55, 0.51)), ("pad", (0.725, 0.653)), ("block", (0.651, 0.642))],
)
def test_scores_on_3sources(data_dir, construction, expected):
    # measured with an independent implementation of the same specification; with "pca" the accuracy
    # varies between 0.49 and 0.55 with the rule for the signs of the scores
    views = read_views(data_dir / "3sources.npz").views
    model = SCMV3DT(6, construction=construction, random_state=0).fit(views)
    scores = mean_scores_on_3sources(data_dir, lambda views, seed: model.relabelled(seed))
    assert scores == pytest.approx(expected, abs=0.04)


PRECISE = {"max_iter": 3000, "tol": 1e-9}
EXACT, FAST = AdmmSettings(), AdmmSettings(fast_from=0)
ROWS = (slice(0, 2), slice(2, 4), slice(4, 5))


def unit_views(n=14, n_views=3, width=6, seed=0):
    views = np.random.default_rng(seed).standard_normal((n_views, n, width))
    return list(views / np.linalg.norm(views, axis=2, keepdims=True))


def coefficients(views, sparsity=0.1, low_rank=0.1, separate=False, **options):
    gram = gram_tensor(views, separate=separate)
    found = self_expression(gram, sparsity=sparsity, low_rank=low_rank, **(PRECISE | options))
    assert found.converged
    return found.state


def objective(views, Z, sparsity, low_rank):
    X = np.stack([view.T for view in views])
    slices = np.fft.fft(Z, axis=0)
    nuclear = np.mean([np.linalg.norm(part, "nuc") for part in slices])
    tubes = np.sqrt(np.sum(Z**2, axis=0)).sum()
    return 0.5 * np.sum((X - t_product(X, Z)) ** 2) + sparsity * tubes + low_rank * nuclear


def three_operator_splitting(X, sparsity, low_rank, iterations=5000):
    """Sparse and low-rank representation of one matrix, samples as rows, by Davis and Yin."""
    gram = X @ X.T
    step = 1.0 / np.linalg.norm(gram, 2)
    state = np.zeros_like(gram)
    for _ in range(iterations):
        sparse = np.sign(state) * np.maximum(np.abs(state) - step * sparsity, 0.0)
        np.fill_diagonal(sparse, 0.0)
        slope = gram @ sparse - gram
        low, _ = threshold_singular_values(2 * sparse - state - step * slope, step * low_rank)
        state = state + low - sparse
    return sparse


class TestGram:
    @pytest.mark.parametrize("n_views", [1, 2, 3, 4, 5])
    def test_slices_are_those_of_the_tensor(self, n_views):
        views = unit_views(n_views=n_views)
        slices = to_fourier(np.stack([view.T for view in views]))
        for part, square in zip(
            slices, to_fourier(gram_tensor(views, separate=False)), strict=True
        ):
            np.testing.assert_allclose(part.conj().T @ part, square, atol=1e-12)

    @pytest.mark.parametrize("separate", [False, True])
    def test_narrower_views_count_as_padded(self, separate):
        rng = np.random.default_rng(0)
        narrow, wide = rng.standard_normal((8, 3)), rng.standard_normal((8, 5))
        filled = np.hstack([narrow, np.zeros((8, 2))])
        np.testing.assert_allclose(
            gram_tensor([narrow, wide], separate=separate),
            gram_tensor([filled, wide], separate=separate),
        )

    def test_sparse_views(self):
        views = [np.where(np.abs(X) > 0.3, X, 0.0) for X in unit_views()]
        mixed = [sp.csr_array(views[0]), views[1], sp.csr_array(views[2])]
        np.testing.assert_allclose(
            gram_tensor(mixed, separate=False), gram_tensor(views, separate=False)
        )


class TestSelfExpression:
    @pytest.mark.parametrize("n_views", [1, 2, 3, 4])
    @pytest.mark.parametrize("low_rank", [0.0, 0.1])
    def test_no_coefficients_nearby_are_better(self, n_views, low_rank):
        views = unit_views(n_views=n_views)
        Z = coefficients(views, 0.1, low_rank)
        assert not np.diagonal(Z, axis1=1, axis2=2).any()
        best = objective(views, Z, 0.1, low_rank)
        rng = np.random.default_rng(1)
        for size in (1e-3, 1e-2, 1e-1):
            for _ in range(10):
                moved = Z + size * rng.standard_normal(Z.shape)
                moved[:, np.arange(14), np.arange(14)] = 0.0
                assert objective(views, moved, 0.1, low_rank) >= best - 1e-9
            assert objective(views, (1 - size) * Z, 0.1, low_rank) >= best - 1e-9
            assert objective(views, (1 + size) * Z, 0.1, low_rank) >= best - 1e-9

    def test_the_objective_recorded_ends_at_that_of_the_coefficients(self):
        views = unit_views()
        gram = gram_tensor(views, separate=False)
        found = self_expression(gram, sparsity=0.1, low_rank=0.2, **PRECISE)
        assert found.objective[-1] == pytest.approx(
            objective(views, found.state, 0.1, 0.2), rel=1e-6
        )

    @pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
    def test_the_penalty_does_not_change_the_result(self, penalty):
        views = unit_views()
        fixed = coefficients(views, settings=AdmmSettings(balance_until=0))
        found = coefficients(views, settings=AdmmSettings(penalty=penalty))
        np.testing.assert_allclose(found, fixed, atol=1e-6)

    def test_one_view_is_the_matrix_method(self):
        (X,) = unit_views(n_views=1)
        expected = three_operator_splitting(X, 0.1, 0.2)
        np.testing.assert_allclose(coefficients([X], 0.1, 0.2)[0], expected, atol=1e-6)

    @pytest.mark.parametrize("n_views", [2, 3, 4])
    def test_identical_views_have_equal_slices(self, n_views):
        Z = coefficients(unit_views(n_views=1) * n_views)
        assert Z.any()
        np.testing.assert_allclose(Z, np.broadcast_to(Z[0], Z.shape), atol=1e-10)

    @pytest.mark.parametrize("n_views", [3, 4])
    def test_a_circular_shift_of_the_views_changes_nothing(self, n_views):
        views = unit_views(n_views=n_views)
        shifted = coefficients(views[1:] + views[:1])
        np.testing.assert_allclose(coefficients(views), shifted, atol=1e-10)

    @pytest.mark.parametrize("n_views", [3, 4])
    def test_reversed_views_reverse_the_slices(self, n_views):
        views = unit_views(n_views=n_views)
        Z, reverse = coefficients(views), coefficients(views[::-1])
        np.testing.assert_allclose(reverse[0], Z[0], atol=1e-10)
        np.testing.assert_allclose(reverse[1:], Z[:0:-1], atol=1e-10)

    def test_the_order_of_three_views_does_not_change_the_affinity(self):
        first, second, third = unit_views()
        np.testing.assert_allclose(
            affinity_of(coefficients([first, second, third])),
            affinity_of(coefficients([second, first, third])),
            atol=1e-10,
        )

    def test_the_order_of_four_views_does(self):
        a, b, c, d = unit_views(n_views=4)
        one, other = (affinity_of(coefficients(views)) for views in ([a, b, c, d], [b, a, c, d]))
        assert np.linalg.norm(one - other) > 0.05 * np.linalg.norm(one)

    def test_separate_views_decouple(self):
        views = unit_views()
        Z = coefficients(views, separate=True)
        assert np.abs(Z[1:]).max() < 1e-12
        np.testing.assert_allclose(Z[:1], coefficients([np.hstack(views)]), atol=1e-6)

    def test_all_is_zero_exactly_from_the_largest_sparsity_on(self):
        views = unit_views()
        gram = gram_tensor(views, separate=False)
        largest = largest_sparsity(gram)
        weights = {"low_rank": 0.0, "max_iter": 500, "tol": 0.0}
        assert not self_expression(gram, sparsity=1.001 * largest, **weights).state.any()
        assert self_expression(gram, sparsity=0.999 * largest, **weights).state.any()

    def test_shrinking_lowers_the_length_of_tubes(self):
        tensor = np.random.default_rng(0).standard_normal((3, 5, 5))
        shrunk, total = shrunk_tubes(tensor, 0.7)
        before, after = (np.sqrt(np.sum(T**2, axis=0)) for T in (tensor, shrunk))
        expected = np.maximum(before - 0.7, 0.0) * (1 - np.eye(5))
        np.testing.assert_allclose(after, expected, atol=1e-14)
        assert total == pytest.approx(expected.sum())

    def test_shrinking_some_rows_is_shrinking_all(self):
        tensor = np.random.default_rng(0).standard_normal((3, 5, 5))
        whole, total = shrunk_tubes(tensor, 0.7)
        parts = [shrunk_tubes(tensor[:, rows], 0.7, rows.start) for rows in ROWS]
        np.testing.assert_array_equal(np.concatenate([part for part, _ in parts], axis=1), whole)
        assert sum(lengths for _, lengths in parts) == pytest.approx(total)

    @pytest.mark.parametrize("n_views", [1, 2, 3])
    def test_entrywise_work_is_the_same_in_blocks(self, n_views):
        views = unit_views(n_views=n_views)
        expected = coefficients(views, tol=1e-4)
        found = coefficients(views, tol=1e-4, settings=AdmmSettings(entries_at_once=100))
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.fixture
def precisions(monkeypatch):
    """Return the dtypes of the matrices whose singular values are thresholded, in order."""
    seen = []

    def recorded(matrix, by):
        seen.append(matrix.dtype)
        return threshold_singular_values(matrix, by)

    monkeypatch.setattr(module, "threshold_singular_values", recorded)
    return seen


class TestFast:
    @pytest.mark.parametrize("n_views", [1, 2, 3, 4])
    @pytest.mark.parametrize("low_rank", [0.0, 0.01, 0.1])
    def test_ends_at_the_same_coefficients(self, n_views, low_rank):
        views = unit_views(n=20, n_views=n_views)
        exact, fast = (coefficients(views, 0.1, low_rank, settings=s) for s in (EXACT, FAST))
        np.testing.assert_allclose(fast, exact, atol=1e-6)

    def test_separate_views(self):
        views = unit_views(n=30)
        exact, fast = (coefficients(views, separate=True, settings=s) for s in (EXACT, FAST))
        np.testing.assert_allclose(fast, exact, atol=1e-6)

    def test_needs_fewer_iterations(self):
        gram = gram_tensor(unit_views(n=40, n_views=2), separate=False)
        weights = {"sparsity": 0.1, "low_rank": 0.1, "max_iter": 500, "tol": 1e-3}
        exact, fast = (self_expression(gram, **weights, settings=s) for s in (EXACT, FAST))
        assert len(fast.objective) < len(exact.objective)
        assert fast.objective[-1] == pytest.approx(exact.objective[-1], rel=1e-3)

    @pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
    def test_the_last_iteration_is_in_double_precision(self, tol, precisions):
        found = coefficients(unit_views(n_views=1), tol=tol, settings=FAST)
        assert found.dtype == np.float64
        assert precisions[0] == np.float32
        assert precisions[-1] == np.float64

    def test_a_small_threshold_needs_double_precision(self, precisions):
        coefficients(unit_views(n_views=1), low_rank=0.001, tol=1e-3, settings=FAST)
        assert set(precisions) == {np.dtype(np.float64)}

    def test_many_iterations_end_in_double_precision(self, precisions):
        settings = replace(FAST, single_until=3)
        coefficients(unit_views(n_views=1), tol=1e-4, settings=settings)
        assert precisions[2:4] == [np.float32, np.float64]

    def test_stopped_early(self):
        gram = gram_tensor(unit_views(), separate=False)
        weights = {"sparsity": 0.1, "low_rank": 0.1, "max_iter": 2, "tol": 1e-3}
        found = self_expression(gram, **weights, settings=FAST)
        assert not found.converged
        assert found.state.dtype == np.float64

    @pytest.mark.parametrize(("least", "kind"), [(13, np.float32), (14, np.float64)])
    def test_is_for_many_samples(self, least, kind, precisions):
        coefficients(unit_views(n_views=1), tol=1e-3, settings=AdmmSettings(fast_from=least))
        assert precisions[0] == kind
