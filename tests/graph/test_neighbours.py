import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manyview import as_views
from manyview.engine import LocalEngine, engine_for
from manyview.graph import neighbours
from manyview.graph.neighbours import (
    find_nearest,
    harmonic_weights,
    landmark_search,
    neighbour_graphs,
)

NORMALIZE = ["rows", "columns", None]
FACTORS = [1.0, 0.25]


def made(n=90, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    views = [rng.standard_normal((n, d)) * rng.uniform(0.1, 5.0, d) + 0.3 for d in (6, 4)]
    if sparse:
        return [sp.csr_array(X * (rng.random(X.shape) < 0.6)) for X in views]
    return views


def engine_of(views, normalize="rows"):
    return LocalEngine(as_views(views), normalize=normalize)


def graph_of(engine):
    (graph,) = neighbour_graphs(engine, 3, [1.0])
    return graph


def cosines_in(X, normalize, half_way=True):
    """The cosines of a view by their definition."""
    X = X.toarray() if sp.issparse(X) else X
    if normalize == "rows":
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(lengths > 0, lengths, 1.0)
    elif normalize == "columns":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    if half_way:
        X = X / np.sqrt(np.sqrt(np.mean(X**2, axis=0)))
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    X = X / np.where(lengths > 0, lengths, 1.0)
    return X @ X.T


@pytest.fixture
def uneven(monkeypatch):
    """Known weights of the views; how they follow from the data is tested in test_affinity."""
    monkeypatch.setattr(neighbours, "view_weights", lambda spreads, settings: FACTORS)


def product_of(cosines):
    return np.prod([1.0 + f * c for f, c in zip(FACTORS, cosines, strict=True)], axis=0)


def kernel_of(views, normalize, half_way=True):
    """The product kernel by its definition."""
    return product_of([cosines_in(X, normalize, half_way) for X in views])


@pytest.mark.usefixtures("uneven")
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
class TestNeighbours:
    def test_have_the_largest_affinities(self, normalize, sparse):
        views = made(sparse=sparse)
        kernel = kernel_of(views, normalize)
        np.fill_diagonal(kernel, -1.0)
        order = np.argsort(-kernel, axis=1)[:, :15]  # half of 90 / 3
        expected = np.zeros((90, 90))
        np.put_along_axis(expected, order, np.tile(harmonic_weights(15), (90, 1)), axis=1)
        found = graph_of(engine_of(views, normalize))
        np.testing.assert_allclose(found.toarray(), expected + expected.T, atol=1e-12)

    def test_landmarks_have_too(self, normalize, sparse):
        views = made(sparse=sparse)
        landmarks = np.arange(0, 90, 3)
        kernel = kernel_of(views, normalize, half_way=False)[:, landmarks]
        engine = engine_of(views, normalize)
        search = landmark_search(engine, engine.take(landmarks), 5, halfway=False)
        find_nearest(engine, search)
        np.testing.assert_array_equal(engine.gather("near"), np.argsort(-kernel, axis=1)[:, :5])

    def test_do_not_depend_on_the_blocks(self, normalize, sparse, monkeypatch):
        views = made(sparse=sparse)
        whole = graph_of(engine_of(views, normalize))
        monkeypatch.setattr(LocalEngine, "chunk", 7)
        monkeypatch.setattr(LocalEngine, "block_rows", (11, 11))
        parts = graph_of(engine_of(views, normalize))
        assert abs(whole - parts).max() < 1e-12


@pytest.mark.usefixtures("uneven")
def test_a_smaller_neighbourhood_has_the_nearest_of_the_larger():
    kernel = kernel_of(made(), "rows")
    np.fill_diagonal(kernel, -1.0)
    expected = np.zeros((90, 90))
    near = np.argsort(-kernel, axis=1)[:, :8]
    np.put_along_axis(expected, near, np.tile(harmonic_weights(8), (90, 1)), axis=1)
    whole, half = neighbour_graphs(engine_of(made()), 3, (1.0, 0.5))
    assert abs(whole - graph_of(engine_of(made()))).max() < 1e-12
    np.testing.assert_allclose(half.toarray(), expected + expected.T, atol=1e-12)


def test_equal_numbers_of_neighbours_give_one_graph():
    assert len(neighbour_graphs(engine_of(made()), 9, (1.0, 0.5, 0.1))) == 1


@pytest.mark.parametrize("count", [50, 150])
def test_ties_are_broken_at_random(count, monkeypatch):
    monkeypatch.setattr(LocalEngine, "block_rows", (200, 200))
    engine = engine_of([np.eye(800)] * 2)  # all samples are equally far
    search = landmark_search(engine, engine.take(np.arange(800)), count, halfway=False)
    find_nearest(engine, search)
    near = engine.gather("near")
    np.testing.assert_array_equal(near[:, 0], np.arange(800))
    met = np.bincount(near[:, 1:].ravel() // 400, minlength=2)
    assert 0.35 < met[0] / met.sum() < 0.65  # not the first in the file


def test_single_precision_suffices_for_nearly_parallel_rows():
    X, y = load_digits(return_X_y=True)
    halves = [X[:800, part] / 4 + 1000 for part in (slice(32), slice(32, 64))]

    def within_classes(dtype):
        graph = graph_of(engine_of([half.astype(dtype) for half in halves])).tocoo()
        return graph.data[y[graph.row] == y[graph.col]].sum() / graph.data.sum()

    assert within_classes(np.float32) > 0.97 * within_classes(np.float64)


class TestWeights:
    @pytest.mark.parametrize("count", [1, 2, 7])
    def test_are_the_mean_of_all_numbers_of_neighbours(self, count):
        graphs = [np.repeat([1.0 / k, 0.0], [k, count - k]) for k in range(1, count + 1)]
        np.testing.assert_allclose(harmonic_weights(count), np.mean(graphs, axis=0))

    def test_fall_and_sum_to_one(self):
        weights = harmonic_weights(50)
        assert (np.diff(weights) < 0).all()
        assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("normalize", ["rows", None])
def test_the_scale_of_a_view_does_not_matter(normalize):
    views = made()
    first = graph_of(engine_of(views, normalize))
    second = graph_of(engine_of([1e6 * views[0], 1e-6 * views[1]], normalize))
    assert abs(first - second).max() < 1e-12


def test_a_constant_zero_feature_changes_nothing():
    views = made()
    wider = [np.hstack([X, np.zeros((90, 2))]) for X in views]
    plain, padded = (graph_of(engine_of(given)) for given in (views, wider))
    assert abs(plain - padded).max() == 0


@pytest.mark.usefixtures("uneven")
def test_a_missing_view_has_no_influence():
    views = made()
    present = np.ones((90, 2), dtype=bool)
    present[:10, 1] = False
    engine = LocalEngine(as_views(views, present=present), normalize="rows")
    search = landmark_search(engine, engine.take(np.arange(90)), 5)
    find_nearest(engine, search, itself=False)
    found = engine.gather("near")
    cosines = [cosines_in(np.where(present[:, [v]], X, 0.0), "rows") for v, X in enumerate(views)]
    for v, there in enumerate(present.T):  # missing landmarks have the mean cosine
        cosines[v][:, ~there] = cosines[v][:, there].mean(axis=1, keepdims=True)
    kernel = product_of(cosines)
    np.fill_diagonal(kernel, -1.0)
    for n in range(90):
        np.testing.assert_array_equal(np.sort(found[n]), np.sort(np.argsort(-kernel[n])[:5]))


def test_no_sample_is_its_own_neighbour_even_among_opposites():
    rng = np.random.default_rng(0)
    side = np.repeat([1.0, -1.0], [2, 28])[:, None]  # the other of the two is nearer than all else
    views = [side + 1e-3 * rng.standard_normal((30, 2)) for _ in range(3)]
    (graph,) = neighbour_graphs(engine_of(views, None), 3, [1.0], order=1)
    assert not graph.diagonal().any()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_samples_with_missing_views_are_neighbours_of_others(kind):
    """Unit rows of positive features are near each other: zeros in their place would be far."""
    rng = np.random.default_rng(0)
    views = [kind(rng.poisson(5.0, (200, 30)).astype(float)) for _ in range(2)]
    present = np.ones((200, 2), dtype=bool)
    present[:50, 1] = False
    engine = engine_for(as_views(views, present=present), normalize="rows")
    (graph,) = neighbour_graphs(engine, 4, [1.0])
    sources = np.asarray(graph.sum(axis=0)).ravel() - 1.0  # less what a sample gives itself
    # what is near on average only is seldom among the nearest; zeros are a fifth
    assert sources[:50].mean() > 0.35 * sources[50:].mean()
