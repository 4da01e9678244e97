import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from manyview import as_views
from manyview.engine import Block, LocalEngine, engine_for
from manyview.graph import neighbours
from manyview.graph.neighbours import (
    chunks_of,
    compare_sample,
    comparison_with,
    harmonic_weights,
    kernels_of,
    weighted_links,
)

NORMALIZE = ["rows", "columns", None]
FACTORS = [1.0, 0.25]


def made(n=90, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    views = [rng.standard_normal((n, d)) * rng.uniform(0.1, 5.0, d) + 0.3 for d in (6, 4)]
    if sparse:
        return [sp.csr_array(X * (rng.random(X.shape) < 0.6)) for X in views]
    return views


def engine_of(views, normalize="rows", present=None):
    return LocalEngine(as_views(views, present=present), normalize=normalize)


def compared(engine, n_nearest=5, n_fitted=20, *, order=None, seed=0):
    """Return the nearest samples by each affinity, the kernels, and the landmarks' numbers."""
    n = engine.n_samples
    rows, drawn = engine.take(np.arange(n)), np.random.default_rng(seed).permutation(n)
    comparison = comparison_with(engine, [view.take(drawn) for view in rows], order=order)
    near, kernels = compare_sample(engine, rows, comparison, drawn, n_nearest, n_fitted)
    return near, kernels, drawn[:n_fitted]


def nearest(engine, n_nearest=5, **options):
    return compared(engine, n_nearest, **options)[0]


def affinities_of(views, normalize):
    """The cosines by their definition; dense standardised views have ``1 - d^2 / 2``."""
    found = []
    for X in views:
        is_sparse = sp.issparse(X)
        X = X.toarray() if is_sparse else X
        if normalize == "columns":
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        if normalize == "columns" and not is_sparse:
            squares = np.mean((X[:, None] - X) ** 2, axis=2)
            found.append(np.maximum(1.0 - 0.5 * squares, -1.0))
        else:
            lengths = np.linalg.norm(X, axis=1, keepdims=True)
            X = X / np.where(lengths > 0, lengths, 1.0)
            found.append(X @ X.T)
    return found


def orders_of(affinities):
    """The affinities of the product and of the single views, with -inf on the diagonal."""
    weighted = [factor * c for factor, c in zip(FACTORS, affinities, strict=True)]
    found = [np.prod([1.0 + c for c in weighted], axis=0), *affinities]
    for affinity in found:
        np.fill_diagonal(affinity, -np.inf)
    return found


@pytest.fixture
def uneven(monkeypatch):
    """Known weights of the views; how they follow from the data is tested in test_affinity."""
    monkeypatch.setattr(neighbours, "view_weights", lambda spreads, settings: FACTORS)


@pytest.mark.usefixtures("uneven")
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
class TestNearestSamples:
    def test_have_the_largest_affinities(self, normalize, sparse):
        views = made(sparse=sparse)
        found = nearest(engine_of(views, normalize), 15)
        for near, affinity in zip(found, orders_of(affinities_of(views, normalize)), strict=True):
            expected = -np.sort(-affinity, axis=1)[:, :15]
            values = np.take_along_axis(affinity, near, axis=1)
            np.testing.assert_allclose(values, expected, atol=1e-12)  # nearest first
            assert all(np.unique(row).size == 15 for row in near)

    def test_do_not_depend_on_the_chunks(self, normalize, sparse, monkeypatch):
        views = made(sparse=sparse)
        whole = nearest(engine_of(views, normalize))
        monkeypatch.setattr(LocalEngine, "chunk", 7)
        parts = nearest(engine_of(views, normalize))
        assert all((few == all_).all() for few, all_ in zip(parts, whole, strict=True))


@pytest.mark.usefixtures("uneven")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_order_limits_the_products(order):
    views = made()
    found = nearest(engine_of(views), order=order)[0]
    first, second = (f * c for f, c in zip(FACTORS, affinities_of(views, "rows"), strict=True))
    affinity = 1.0 + first + second + (first * second if order > 1 else 0.0)
    np.fill_diagonal(affinity, -np.inf)
    values = np.take_along_axis(affinity, found, axis=1)
    np.testing.assert_allclose(values, -np.sort(-affinity, axis=1)[:, :5], atol=1e-12)


@pytest.mark.parametrize("count", [50, 150])
def test_ties_are_broken_at_random(count):
    (near, *_) = nearest(engine_of([np.eye(800)] * 2), count)  # all samples are equally far
    met = np.bincount(near.ravel() // 400, minlength=2)
    assert 0.35 < met[0] / met.sum() < 0.65  # not the first in the file


def test_single_precision_suffices_for_nearly_parallel_rows():
    X, y = load_digits(return_X_y=True)
    halves = [X[:800, part] / 4 + 1000 for part in (slice(32), slice(32, 64))]

    def within_classes(dtype):
        near = nearest(engine_of([half.astype(dtype) for half in halves]), 10)[0]
        return np.mean(y[near] == y[:800, None])

    assert within_classes(np.float32) > 0.97 * within_classes(np.float64)


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_the_scale_of_a_view_does_not_matter(normalize):
    views = made()
    first = nearest(engine_of(views, normalize))
    second = nearest(engine_of([1e6 * views[0], 1e-6 * views[1]], normalize))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_constant_zero_features_change_nothing(normalize):
    views = made()
    wider = [np.hstack([X, np.zeros((90, 2))]) for X in views]
    plain, padded = (nearest(engine_of(given, normalize)) for given in (views, wider))
    assert all((a == b).all() for a, b in zip(plain, padded, strict=True))


@pytest.mark.usefixtures("uneven")
def test_a_missing_view_has_no_influence():
    views = made()
    present = np.ones((90, 2), dtype=bool)
    present[:10, 1] = False
    found = nearest(engine_of(views, present=present))
    zeroed = [np.where(present[:, [v]], X, 0.0) for v, X in enumerate(views)]
    affinities = affinities_of(zeroed, "rows")
    for affinity, there in zip(affinities, present.T, strict=True):
        affinity[:, ~there] = affinity[:, there].mean(axis=1, keepdims=True)
    product, first, _ = orders_of(affinities)
    for near, affinity in zip(found[:2], (product, first), strict=True):
        expected = -np.sort(-affinity, axis=1)[:, :5]
        values = np.take_along_axis(affinity, near, axis=1)
        np.testing.assert_allclose(values, expected, atol=1e-12)
    assert (np.isin(found[2][10:], np.flatnonzero(present[:, 1]))).mean() > 0.9


def test_a_view_that_all_landmarks_have_needs_no_mean():
    engine = engine_of(made(), present=np.ones((90, 2), dtype=bool))
    comparison = comparison_with(engine, engine.take(np.arange(0, 90, 3)))
    assert [view.missing for view in comparison.views] == [None, None]


@pytest.mark.parametrize("order", [None, 1])
def test_no_sample_is_its_own_neighbour_even_among_opposites(order):
    rng = np.random.default_rng(0)
    side = np.repeat([1.0, -1.0], [2, 28])[:, None]  # the other of the two is nearer than all else
    views = [side + 1e-3 * rng.standard_normal((30, 2)) for _ in range(3)]
    for near in nearest(engine_of(views, None), order=order):
        assert not (near == np.arange(30)[:, None]).any()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_samples_with_missing_views_are_neighbours_of_others(kind):
    """Unit rows of positive features are near each other: zeros in their place would be far."""
    rng = np.random.default_rng(0)
    views = [kind(rng.poisson(5.0, (200, 30)).astype(float)) for _ in range(2)]
    present = np.ones((200, 2), dtype=bool)
    present[:50, 1] = False
    near = nearest(engine_of(views, present=present), 25)[0]
    met = np.bincount(near.ravel(), minlength=200)
    # what is near on average only is seldom among the nearest; zeros are a fifth
    assert met[:50].mean() > 0.35 * met[50:].mean()


def test_a_single_view_is_the_product():
    near, kernels, _ = compared(engine_of(made()[:1]))
    assert len(near) == len(kernels) == 1


class TestKernels:
    @pytest.mark.parametrize("normalize", ["rows", None])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_are_those_of_the_product_and_of_the_views(self, normalize, sparse):
        views = made(sparse=sparse)
        cosines = affinities_of(views, normalize)
        expected = [(1 + cosines[0]) * (1 + cosines[1]), 1 + cosines[0], 1 + cosines[1]]
        _, kernels, landmarks = compared(engine_of(views, normalize))
        for kernel, whole in zip(kernels, expected, strict=True):
            np.testing.assert_allclose(kernel, whole[:, landmarks], atol=1e-12)

    @pytest.mark.parametrize("normalize", NORMALIZE)
    @pytest.mark.parametrize("order", [None, 1, 2])
    def test_of_an_order_are_positive_semidefinite(self, normalize, order):
        engine = engine_of([*made(40), *made(40, seed=1)], normalize)
        rows, drawn = engine.take(np.arange(40)), np.arange(40)
        comparison = comparison_with(engine, rows, order=order)
        for kernel in compare_sample(engine, rows, comparison, drawn, 5, 40)[1]:
            np.testing.assert_allclose(kernel, kernel.T, atol=1e-12)
            assert np.linalg.eigvalsh(kernel)[0] > -1e-9 * np.trace(kernel)

    @pytest.mark.parametrize("normalize", NORMALIZE)
    @pytest.mark.parametrize("sparse", [False, True])
    def test_of_blocks_are_those_of_the_sample(self, normalize, sparse, monkeypatch):
        """A sample has the same kernel whether the regression was fitted to it or not."""
        monkeypatch.setattr(LocalEngine, "block_rows", (40, 40))
        monkeypatch.setattr(LocalEngine, "chunk", 7)
        present = np.random.default_rng(0).random((90, 2)) < 0.8
        present[~present.any(axis=1)] = True
        engine = engine_of(made(sparse=sparse), normalize, present)
        rows, drawn = engine.take(np.arange(90)), np.random.default_rng(0).permutation(90)
        comparison = comparison_with(engine, [view.take(drawn) for view in rows])
        _, expected = compare_sample(engine, rows, comparison, drawn, 5, 20)
        few = comparison.with_first(20)
        found = [
            kernels_of(block, chunk, few)
            for block in engine.blocks
            for chunk in chunks_of(block, few)
        ]
        assert max(len(kernels[0]) for kernels in found) == 7
        for parts, kernel in zip(zip(*found, strict=True), expected, strict=True):
            np.testing.assert_allclose(np.concatenate(parts), kernel, atol=1e-12)

    def test_to_a_power(self):
        engine = engine_of(made())
        landmarks = engine.take(np.arange(20))
        plain, squared = (comparison_with(engine, landmarks, power=p) for p in (1, 2))
        (block,) = engine.blocks
        for kernel, square in zip(
            kernels_of(block, slice(0, 9), plain),
            kernels_of(block, slice(0, 9), squared),
            strict=True,
        ):
            np.testing.assert_allclose(square, kernel**2)

    @pytest.mark.parametrize("sparse", [False, True])
    def test_a_missing_view_is_the_mean_of_the_others(self, sparse):
        views, without = made(sparse=sparse), np.arange(90) % 9 == 0
        present = np.c_[np.ones(90, dtype=bool), ~without]
        _, (product, first, second), drawn = compared(
            engine_of(views, present=present), n_fitted=90
        )
        unit = normalize(views[1].toarray() if sparse else views[1])
        unit[without] = unit[~without].mean(axis=0)
        np.testing.assert_allclose(second, 1.0 + unit @ unit[drawn].T, atol=1e-12)
        np.testing.assert_allclose(product, first * second, atol=1e-12)


class TestWeights:
    @pytest.mark.parametrize("count", [1, 2, 7])
    def test_are_the_mean_of_all_numbers_of_neighbours(self, count):
        graphs = [np.repeat([1.0 / k, 0.0], [k, count - k]) for k in range(1, count + 1)]
        np.testing.assert_allclose(harmonic_weights(count), np.mean(graphs, axis=0))

    def test_fall_and_sum_to_one(self):
        weights = harmonic_weights(50)
        assert (np.diff(weights) < 0).all()
        assert weights.sum() == pytest.approx(1.0)

    def test_are_put_in_the_columns_of_the_nearest(self):
        links = weighted_links(np.array([[2, 0], [1, 2]]), np.array([0.75, 0.25]), 4)
        expected = [[0.25, 0.0, 0.75, 0.0], [0.0, 0.75, 0.25, 0.0]]
        np.testing.assert_array_equal(links.toarray(), expected)


def test_a_view_that_all_landmarks_miss_is_left_out():
    views, present = made(20), np.ones((20, 2), dtype=bool)
    present[:10, 1] = False

    def product(views, present=None):
        engine = engine_for(as_views(views, present=present), normalize="rows")
        comparison = comparison_with(engine, engine.take(np.arange(10)))
        block = Block(slice(0, 20), engine.take(np.arange(20)))
        return kernels_of(block, slice(0, 20), comparison)[0]

    np.testing.assert_allclose(product(views, present), product(views[:1]))
