import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from manyview.engine import LocalEngine
from manyview.mmc import graph, init
from manyview.mmc.init import graph_start, kmeans_start, random_start
from manyview.views import as_views

NORMALIZE = ["rows", "columns", None]


def blobs(n=90, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    views = [4 * rng.standard_normal((3, d))[truth] + rng.standard_normal((n, d)) for d in (6, 4)]
    return [sp.csr_array(X) if sparse else X for X in views], truth


def scaled(views, normalize):
    out = []
    for X in views:
        X = X.toarray() if sp.issparse(X) else X
        if normalize == "rows":
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
        elif normalize == "columns":
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        out.append(X)
    return out


@pytest.mark.parametrize("limit", [4000, 10], ids=["exact", "landmarks"])
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
def test_graph_finds_clear_clusters(monkeypatch, limit, normalize, sparse):
    monkeypatch.setattr(init, "EXACT_LIMIT", limit)
    monkeypatch.setattr(init, "N_LANDMARKS", 40)
    views, truth = blobs(sparse=sparse)
    engine = LocalEngine(as_views(views), normalize=normalize)
    graph_start(engine, 3, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert adjusted_rand_score(truth, labels) > 0.95


@pytest.mark.parametrize("limit", [4000, 10], ids=["exact", "landmarks"])
@pytest.mark.parametrize("n_clusters", [2, 3, 10])
def test_graph_tells_clusters_from_noise(monkeypatch, limit, n_clusters):
    monkeypatch.setattr(init, "EXACT_LIMIT", limit)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 1000, 30))
    means = 3.0 * rng.standard_normal((2, n_clusters, 30))
    clear = noise + means[:, np.arange(1000) % n_clusters]
    within = [
        graph_start(LocalEngine(as_views(list(views)), normalize="rows"), n_clusters, rng)
        for views in (clear, noise)
    ]
    assert within[0] < 0.05
    assert within[1] > 0.3


@pytest.mark.parametrize("sizes", [(1500, 150, 20), (1950, 30)])
@pytest.mark.parametrize("limit", [4000, 10], ids=["exact", "landmarks"])
def test_graph_finds_clear_clusters_of_unequal_size(monkeypatch, limit, sizes):
    monkeypatch.setattr(init, "EXACT_LIMIT", limit)
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    means = 2.5 * rng.standard_normal((2, len(sizes), 10))
    views = [of_view[truth] + rng.standard_normal((truth.size, 10)) for of_view in means]
    engine = LocalEngine(as_views(views), normalize="rows")
    graph_start(engine, len(sizes), np.random.default_rng(0))
    assert adjusted_rand_score(truth, engine.gather("labels")) > 0.9


def test_more_clusters_than_samples_are_asked(monkeypatch):
    monkeypatch.setattr(init, "EXACT_LIMIT", 50)
    monkeypatch.setattr(init, "N_LANDMARKS", 30)
    monkeypatch.setattr("manyview.mmc.landmarks._ASKED_PER_LANDMARK", 0.1)
    monkeypatch.setattr("manyview.mmc.kmeans._MOST_ROWS_AT_ONCE", 40)
    views = np.random.default_rng(0).standard_normal((2, 1000, 5))
    engine = LocalEngine(as_views(list(views)), normalize="rows")
    graph_start(engine, 60, np.random.default_rng(0))
    assert np.unique(engine.gather("labels")).size == 60


@pytest.mark.parametrize("n_views", [2, 3, 4])
def test_two_opposites_do_not_make_neighbours(n_views):
    """Centred views have negative products, and an even number of them a positive one."""
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 2
    views = [
        1.5 * rng.standard_normal(8) * (2 * truth - 1)[:, None] + rng.standard_normal((90, 8))
        for _ in range(n_views)
    ]
    engine = LocalEngine(as_views(views), normalize="columns")
    graph_start(engine, 2, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert adjusted_rand_score(truth, labels) > 0.9


@pytest.mark.parametrize(
    ("n_clusters", "expected"), [(2, 30), (4, 40), (12, 60), (40, 80)], ids="K={}".format
)
def test_beyond_the_limit_all_are_compared_with_landmarks_only(monkeypatch, n_clusters, expected):
    """As many as there always are, ten per cluster, the limit, or two per cluster."""
    monkeypatch.setattr(init, "EXACT_LIMIT", 60)
    monkeypatch.setattr(init, "N_LANDMARKS", 30)
    monkeypatch.setattr(init, "_LANDMARKS_PER_CLUSTER", 10)
    widths = set()
    real = graph.cosines_of

    def watched(*args):
        products = real(*args)
        widths.add(products.shape[1])
        return products

    monkeypatch.setattr(graph, "cosines_of", watched)
    views, _ = blobs(300)
    engine = LocalEngine(as_views(views), normalize="rows")
    graph_start(engine, n_clusters, np.random.default_rng(0))
    assert widths == {expected}


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("sparse", [False, True])
def test_kmeans_is_a_fixed_point_of_lloyd_on_the_concatenation(normalize, sparse):
    views, _ = blobs(sparse=sparse)
    engine = LocalEngine(as_views(views), normalize=normalize)
    kmeans_start(engine, 3, np.random.default_rng(0))
    labels = engine.gather("labels")
    beside = np.hstack(scaled(views, normalize))
    centres = np.stack([beside[labels == k].mean(axis=0) for k in range(3)])
    distances = ((beside[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
    best = KMeans(3, n_init=10, random_state=0).fit(beside).inertia_
    assert distances.min(axis=1).sum() <= 1.001 * best


def test_kmeans_begun_with_a_sample_of_the_rows_goes_on_with_all():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((3000, d)) for d in (6, 4)]  # no clusters: centres go far
    engine = LocalEngine(as_views(views), normalize=None)
    kmeans_start(engine, 8, np.random.default_rng(0))
    labels = engine.gather("labels")
    beside = np.hstack(views)
    centres = np.stack([beside[labels == k].mean(axis=0) for k in range(8)])
    moved = ((beside[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1) != labels
    assert moved.mean() < 0.02


@pytest.mark.parametrize("width", [2, 60])
def test_views_side_by_side_are_sparse_where_most_is_zero(width):
    words = sp.random_array((50, 100), density=0.05, format="csr", rng=0)
    dense = np.ones((50, width))
    beside = init._beside([dense, words])
    assert sp.issparse(beside) == (width == 2)
    found = beside.toarray() if sp.issparse(beside) else beside
    np.testing.assert_array_equal(found, np.hstack([dense, words.toarray()]))


def test_random_start_is_balanced():
    views, _ = blobs(90)
    engine = LocalEngine(as_views(views), normalize="rows")
    random_start(engine, 4, np.random.default_rng(0))
    labels = engine.gather("labels")
    assert sorted(np.bincount(labels)) == [22, 22, 23, 23]
