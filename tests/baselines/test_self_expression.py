import numpy as np
import pytest
import scipy.sparse as sp

from manyview.baselines import self_expression as module
from manyview.baselines.scmv3dt import affinity_of
from manyview.baselines.self_expression import (
    gram_tensor,
    largest_sparsity,
    self_expression,
    shrunk_tubes,
)
from manyview.linalg.tproduct import t_product, threshold_singular_values, to_fourier

EXACT = {"max_iter": 3000, "tol": 1e-9}
ROWS = (slice(0, 2), slice(2, 4), slice(4, 5))


def unit_views(n=14, n_views=3, width=6, seed=0):
    views = np.random.default_rng(seed).standard_normal((n_views, n, width))
    return list(views / np.linalg.norm(views, axis=2, keepdims=True))


def coefficients(views, sparsity=0.1, low_rank=0.1, separate=False, **options):
    gram = gram_tensor(views, separate=separate)
    found = self_expression(gram, sparsity=sparsity, low_rank=low_rank, **(EXACT | options))
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
    def test_narrower_views_count_as_filled_up(self, separate):
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
        found = self_expression(gram, sparsity=0.1, low_rank=0.2, **EXACT)
        assert found.objective[-1] == pytest.approx(
            objective(views, found.state, 0.1, 0.2), rel=1e-6
        )

    @pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
    def test_the_penalty_does_not_show_in_the_result(self, penalty):
        views = unit_views()
        fixed = coefficients(views, penalty=1.0, balanced=False)
        np.testing.assert_allclose(coefficients(views, penalty=penalty), fixed, atol=1e-6)

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

    def test_the_order_of_three_views_does_not_show_in_the_affinity(self):
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
    def test_entrywise_work_is_the_same_in_blocks(self, n_views, monkeypatch):
        expected = coefficients(unit_views(n_views=n_views), tol=1e-4)
        monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", 100)
        found = coefficients(unit_views(n_views=n_views), tol=1e-4)
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.fixture
def precisions(monkeypatch):
    """Kinds of the matrices whose singular values were lowered, in order."""
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
        exact, fast = (coefficients(views, 0.1, low_rank, fast=fast) for fast in (False, True))
        np.testing.assert_allclose(fast, exact, atol=1e-6)

    def test_separate_views(self):
        views = unit_views(n=30)
        exact, fast = (coefficients(views, separate=True, fast=fast) for fast in (False, True))
        np.testing.assert_allclose(fast, exact, atol=1e-6)

    def test_needs_fewer_steps_of_low_rank(self):
        gram = gram_tensor(unit_views(n=40, n_views=2), separate=False)
        weights = {"sparsity": 0.1, "low_rank": 0.1, "max_iter": 500, "tol": 1e-3}
        exact, fast = (self_expression(gram, **weights, fast=fast) for fast in (False, True))
        assert len(fast.objective) < len(exact.objective)
        assert fast.objective[-1] == pytest.approx(exact.objective[-1], rel=1e-3)

    @pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6])
    def test_the_last_residual_is_one_of_double_precision(self, tol, precisions):
        found = coefficients(unit_views(n_views=1), tol=tol, fast=True)
        assert found.dtype == np.float64
        assert precisions[0] == np.float32
        assert precisions[-1] == np.float64

    def test_a_threshold_that_is_fine_is_one_of_double_precision(self, precisions):
        coefficients(unit_views(n_views=1), low_rank=0.001, tol=1e-3, fast=True)
        assert set(precisions) == {np.dtype(np.float64)}

    def test_a_way_that_is_long_ends_in_double_precision(self, precisions, monkeypatch):
        monkeypatch.setattr(module, "_SINGLE_UNTIL", 3)
        coefficients(unit_views(n_views=1), tol=1e-4, fast=True)
        assert precisions[2:4] == [np.float32, np.float64]

    def test_stopped_early(self):
        gram = gram_tensor(unit_views(), separate=False)
        weights = {"sparsity": 0.1, "low_rank": 0.1, "max_iter": 2, "tol": 1e-3}
        found = self_expression(gram, **weights, fast=True)
        assert not found.converged
        assert found.state.dtype == np.float64

    @pytest.mark.parametrize(("least", "kind"), [(13, np.float32), (14, np.float64)])
    def test_is_for_many_samples(self, least, kind, precisions, monkeypatch):
        monkeypatch.setattr(module, "_FAST_FROM", least)
        coefficients(unit_views(n_views=1), tol=1e-3)
        assert precisions[0] == kind
