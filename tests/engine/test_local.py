import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from manyview.engine import LocalEngine, base
from manyview.views import as_views


def explicit(views, normalize):
    """The scaled views with their bias, formed as the engine never does."""
    scaled = []
    for v, array in enumerate(views):
        X = array.toarray() if sp.issparse(array) else np.asarray(array)
        X = X.astype(np.float64)
        here = np.ones(len(X), bool) if views.present is None else views.present[:, v]
        if normalize == "rows":
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            X = X / np.where(norms > 0, norms, 1)
        elif normalize == "columns":
            deviation = X[here].std(axis=0)
            X = (X - X[here].mean(axis=0)) / np.where(deviation > 1e-12, deviation, np.inf)
        scaled.append(np.hstack([X * here[:, None], np.ones((len(X), 1))]))
    return scaled


def make(seed, n, sparse, dtype, missing):
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((n, 5)).astype(dtype)
    dense[0] = 0
    thin = (rng.standard_normal((n, 7)) * (rng.random((n, 7)) < 0.4) + 0.0).astype(dtype)
    thin[:, 3] = 2.0
    present = None
    if missing:
        present = rng.random((n, 2)) < 0.7
        present[~present.any(axis=1)] = True
        present[:2] = True
    return as_views([dense, sp.csr_array(thin) if sparse else thin], present=present), rng


cases = given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 40),
    sparse=st.booleans(),
    normalize=st.sampled_from(["rows", "columns", None]),
    missing=st.booleans(),
    threads=st.sampled_from([1, 2]),
)


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    monkeypatch.setattr(LocalEngine, "block_rows", (7, 7))


def project(engine, v, W):
    engine.update(lambda block: ({"s": block.views[v].project(engine.scalings[v].fold(W))}, ()))
    return engine.gather("s")


def pull(engine, v, M):
    engine.scatter("m", M)
    (pulled,) = engine.sum(lambda block: (block.views[v].pull(block.state["m"]),))
    return engine.scalings[v].unfold(pulled)


def test_columns_too_small_to_square_count_as_constant():
    X = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    X[:, 1] *= np.float32(1e-25)
    engine = LocalEngine(as_views([X]), normalize="columns")
    (_, squares), *_ = engine.moments
    np.testing.assert_allclose(squares, [1.0, 0.0, 1.0, 1.0], rtol=1e-3)


@cases
def test_products_are_those_of_the_scaled_views(seed, n, sparse, normalize, missing, threads):
    views, rng = make(seed, n, sparse, np.float64, missing)
    engine = LocalEngine(views, normalize=normalize, n_threads=threads)
    with engine.running():
        for v, Z in enumerate(explicit(views, normalize)):
            W, M = rng.standard_normal((Z.shape[1], 3)), rng.standard_normal((n, 3))
            np.testing.assert_allclose(project(engine, v, W), Z @ W, atol=1e-8)
            np.testing.assert_allclose(pull(engine, v, M), Z.T @ M, atol=1e-8)
            mean, squares = engine.moments[v]
            np.testing.assert_allclose(mean, Z.mean(axis=0), atol=1e-8)
            np.testing.assert_allclose(squares, (Z**2).mean(axis=0), atol=1e-8)


@cases
def test_inactive_features_act_as_rows_of_zeros(seed, n, sparse, normalize, missing, threads):
    views, rng = make(seed, n, sparse, np.float64, missing)
    engine = LocalEngine(views, normalize=normalize, n_threads=threads)
    v, active = 1, np.array([0, 2, 5])
    Z = explicit(views, normalize)[v]
    W = np.zeros((8, 3))
    W[[0, 2, 5, 7]] = rng.standard_normal((4, 3))
    M = rng.standard_normal((n, 3))
    expected = Z.T @ M
    expected[[1, 3, 4, 6]] = 0.0
    engine.restrict(v, active)
    assert engine.blocks[0].views[v].x.shape[1] == 3
    np.testing.assert_allclose(project(engine, v, W), Z @ W, atol=1e-8)
    np.testing.assert_allclose(pull(engine, v, M), expected, atol=1e-8)
    engine.restrict(v, None)
    np.testing.assert_allclose(pull(engine, v, M), Z.T @ M, atol=1e-8)


@pytest.mark.parametrize("normalize", ["rows", "columns", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept(normalize, dtype):
    views, rng = make(0, 30, True, dtype, False)
    engine = LocalEngine(views, normalize=normalize)
    assert engine.dtype == dtype
    for v in range(2):
        W = rng.standard_normal((views.n_features[v] + 1, 2)).astype(dtype)
        assert project(engine, v, W).dtype == dtype
        assert pull(engine, v, np.ones((30, 2), dtype=dtype)).dtype == dtype


def test_raw_data_are_not_copied():
    X = np.random.default_rng(0).standard_normal((30, 4))
    Y = sp.csr_array(X)
    engine = LocalEngine(as_views([X, Y]), normalize="rows")
    for block in engine.blocks:
        assert np.shares_memory(block.views[0].x, X)
        assert np.shares_memory(block.views[1].x.data, Y.data)


def test_taking_all_samples_copies_nothing():
    X = np.random.default_rng(0).standard_normal((30, 4))
    engine = LocalEngine(as_views([X]), normalize="rows")
    assert engine.take(np.arange(30))[0].x is X
    np.testing.assert_array_equal(engine.take(np.arange(30)[::-1])[0].x, X[::-1])


def test_rows_of_a_narrow_view_are_scaled_in_the_precision_of_the_wide_one():
    rng = np.random.default_rng(0)
    narrow = rng.standard_normal((30, 4)).astype(np.float32)
    engine = LocalEngine(as_views([narrow, rng.standard_normal((30, 4))]), normalize="rows")
    (view, _) = engine.take(np.arange(30))
    lengths = np.linalg.norm(narrow * view.scale[:, None], axis=1)
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-14)


def test_columns_are_standardised_by_the_threads(monkeypatch):
    seen, real = set(), base._column_deviations

    def watched(*args):
        seen.add(threading.current_thread())
        return real(*args)

    monkeypatch.setattr(base, "_column_deviations", watched)
    views, _ = make(0, 30, False, np.float64, False)
    LocalEngine(views, normalize="columns", n_threads=2)
    assert threading.main_thread() not in seen


def test_narrow_types_are_widened_block_by_block():
    pixels = np.random.default_rng(0).integers(0, 255, (30, 4), dtype=np.uint8)
    engine = LocalEngine(as_views([pixels]), normalize="rows")
    assert engine.blocks[0].views[0].x.dtype == np.uint8
    Z = explicit(as_views([pixels]), "rows")[0]
    W = np.ones((5, 2), dtype=np.float32)
    found = project(engine, 0, W)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, Z @ W, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
@pytest.mark.parametrize("sparse", [False, True])
def test_unit_rows_at_any_scale(scale, sparse):
    X = np.random.default_rng(0).standard_normal((12, 5))
    Z = explicit(as_views([X]), "rows")[0]
    scaled = sp.csr_array(X * scale) if sparse else X * scale
    engine = LocalEngine(as_views([scaled]), normalize="rows")
    W = np.ones((6, 2))
    np.testing.assert_allclose(project(engine, 0, W), Z @ W, rtol=1e-8)
    np.testing.assert_allclose(pull(engine, 0, np.ones((12, 2))), Z.T @ np.ones((12, 2)), atol=1e-8)
    np.testing.assert_allclose(engine.moments[0][1], (Z**2).mean(axis=0), rtol=1e-8)


def test_columns_with_a_large_mean_are_standardised():
    X = 1e6 + np.random.default_rng(0).standard_normal((50, 3))
    engine = LocalEngine(as_views([X]), normalize="columns")
    np.testing.assert_allclose(engine.moments[0][1][:-1], 1.0, rtol=1e-4)


def test_threads_do_not_change_the_sum():
    views, rng = make(3, 200, True, np.float64, False)
    M = rng.standard_normal((200, 4))
    results = []
    for threads in (1, 2):
        engine = LocalEngine(views, normalize="rows", n_threads=threads)
        with engine.running():
            results.append([pull(engine, v, M) for v in range(2)])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-14)


@pytest.mark.parametrize("threads", [1, 2])
def test_work_in_parallel_comes_back_in_order(threads):
    views = as_views([np.random.default_rng(0).standard_normal((50, 3))])
    engine = LocalEngine(views, normalize=None, n_threads=threads)
    items = list(range(9))
    with engine.running():
        assert engine.side_by_side(lambda item: item**2, items) == [n**2 for n in items]
    assert engine.side_by_side(str, items) == list(map(str, items))


def test_interrupted_update_leaves_the_state():
    views, _ = make(0, 30, False, np.float64, False)
    engine = LocalEngine(views, normalize="rows")
    engine.scatter("f", np.zeros(30))

    def kernel(block):
        if block.rows.start > 10:
            raise KeyboardInterrupt
        return {"f": block.state["f"] + 1}, ()

    with pytest.raises(KeyboardInterrupt):
        engine.update(kernel)
    assert not engine.gather("f").any()


def test_take_returns_rows_with_their_scale():
    views, _ = make(0, 30, True, np.float64, False)
    engine = LocalEngine(views, normalize="rows")
    chosen = np.array([3, 20, 29])
    for v, view in enumerate(engine.take(chosen)):
        raw = view.x.toarray() if sp.issparse(view.x) else view.x
        np.testing.assert_allclose(
            raw * view.scale[:, None], explicit(views, "rows")[v][chosen, :-1], atol=1e-12
        )


@pytest.mark.filterwarnings("ignore:view .* is constant")
def test_restricted_size():
    dense = np.ones((10, 4))
    sparse = sp.csr_array(np.eye(10)[:, :4])
    engine = LocalEngine(as_views([dense * [1, 2, 3, 4], sparse]), normalize=None)
    mask = np.array([True, False, True, False])
    assert engine.restricted_size(0, mask) == 20
    assert engine.restricted_size(1, mask) == 4


def test_moments_are_of_all_features():
    engine = LocalEngine(as_views([np.eye(6)]), normalize=None)
    engine.restrict(0, np.array([1, 3]))
    with pytest.raises(RuntimeError, match="restricted"):
        _ = engine.moments


@pytest.mark.parametrize("n", [1, 2, 7, 8, 14, 15, 27, 28, 29, 70, 1001])
def test_blocks_are_of_nearly_equal_size_and_can_be_shared(n):
    views = as_views([np.zeros((n, 3))], warn=False)
    blocks = [block.rows for block in LocalEngine(views, normalize=None).blocks]
    sizes = [block.stop - block.start for block in blocks]
    assert [block.start for block in blocks] == [0, *np.cumsum(sizes)[:-1]]
    assert sum(sizes) == n
    assert 1 <= min(sizes) <= max(sizes) <= min(min(sizes) + 1, 7)
    assert len(blocks) == 1 + (n > 7) if n <= 14 else len(blocks) % 4 == 0


def test_there_are_no_more_blocks_than_samples(monkeypatch):
    monkeypatch.setattr(LocalEngine, "most_bytes", 1)
    engine = LocalEngine(as_views([np.zeros((3, 2))], warn=False), normalize=None)
    assert [block.rows for block in engine.blocks] == [slice(0, 1), slice(1, 2), slice(2, 3)]
