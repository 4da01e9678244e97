"""What holds for Dask arrays in this process; on a cluster, see test_cluster.py."""

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views
from manyview.engine.block import add_sums
from manyview.engine.dask import DaskEngine
from manyview.engine.dask_rows import Recipe
from manyview.engine.dask_tasks import GraphOfCall, Here, Part, Plan, Step, run_plan
from manyview.graph.settings import GraphSettings

from .test_every_engine import assert_same, fitted, made


def chunked(X, rows=37):
    return da.from_array(X, chunks=(rows, -1), asarray=not sp.issparse(X))


def engine_of(*arrays, normalize="rows", **options):
    return DaskEngine(as_views(list(arrays), **options), normalize=normalize)


@pytest.fixture
def noise():
    return np.random.default_rng(0).standard_normal((100, 5))


class TestResults:
    def test_have_the_caller_s_chunks_of_rows(self):
        views, _ = made()
        chunks = (50, 7, 0, 93)
        model = fitted([da.from_array(X, chunks=(chunks, -1)) for X in views])
        new = [da.from_array(X[:20], chunks=(11, -1)) for X in views]
        for found, rows, shape in (
            (model.labels_, chunks, (150,)),
            (model.indicator_, chunks, (150, 3)),
            (model.predict(new), (11, 9), (20,)),
            (model.transform(new), (11, 9), (20, 3)),
        ):
            assert found.chunks[0] == rows
            computed = found.compute()
            assert computed.shape == shape
            assert computed.dtype == found.dtype
        assert isinstance(model.cluster_factors_, np.ndarray)

    def test_can_be_worked_on(self):
        views, _ = made()
        model = fitted([chunked(X) for X in views])
        labels = model.labels_.compute()
        np.testing.assert_array_equal(model.labels_[40:90].compute(), labels[40:90])
        assert int((model.labels_ == 1).sum()) == int((labels == 1).sum())

    def test_to_local_predicts_without_dask(self):
        views, _ = made()
        model = fitted([chunked(X) for X in views])
        local = model.to_local()
        for found in (local.labels_, local.indicator_, local.predict(views)):
            assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(local.labels_, model.labels_.compute())
        assert local.get_params() == model.get_params()
        assert isinstance(model.labels_, da.Array)


class TestChunks:
    @pytest.mark.parametrize("sparse", [(False, False), (True, True)])
    def test_of_columns_are_put_together(self, sparse):
        views, _ = made(sparse=sparse)
        apart = [da.from_array(X, chunks=(37, 3), asarray=not sp.issparse(X)) for X in views]
        assert_same(fitted(apart), fitted(views))

    @pytest.mark.parametrize("sparse", [(False, False), (False, True)])
    def test_of_other_rows_are_brought_to_the_first_view_s(self, sparse):
        views, _ = made(sparse=sparse)
        named = {"text": chunked(views[0], 40), "image": chunked(views[1], 31)}
        with pytest.warns(
            UserWarning, match="view.* 'image' .* other chunks of rows than .*'text'"
        ):
            model = fitted(named)
        assert model.labels_.chunks[0] == (40, 40, 40, 30)
        assert_same(model, fitted(dict(zip(named, views, strict=True))))

    def test_of_tensors_are_rejected(self, noise):
        torch = pytest.importorskip("torch")
        held = chunked(noise).map_blocks(torch.from_numpy)
        with pytest.raises(TypeError, match="view 'view0' is a Dask array whose chunks hold torch"):
            as_views([held])

    def test_of_unknown_size_are_rejected(self, noise):
        unknown = chunked(noise)[chunked(noise)[:, 0] > 0]
        with pytest.raises(ValueError, match=r"view 'view1' .* compute_chunk_sizes\(\)"):
            MMC(3).fit([chunked(noise), unknown])

    @pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
    def test_may_be_sparse_of_any_format(self, kind):
        views, _ = made(sparse=(True, True))
        there = [chunked(X.toarray()).map_blocks(kind, dtype=X.dtype) for X in views]
        assert_same(fitted(there), fitted(views))

    def test_do_not_change_the_result(self):
        views, _ = made()
        one, many = (fitted([chunked(X, rows) for X in views]) for rows in (150, 11))
        np.testing.assert_array_equal(one.labels_.compute(), many.labels_.compute())

    @pytest.mark.parametrize("sparse", [False, True])
    def test_of_samples_that_miss_a_view_may_hold_anything(self, sparse):
        views, _ = made(sparse=(False, sparse))
        present = np.ones((150, 2), dtype=bool)
        present[[3, 40, 149], 1] = False
        holes = views[1].toarray() if sparse else views[1].copy()
        holes[~present[:, 1]] = np.nan
        holes = sp.csr_array(holes) if sparse else holes
        found = fitted(as_views([chunked(views[0]), chunked(holes)], present=present))
        assert_same(found, fitted(as_views([views[0], holes], present=present)))


class TestReading:
    def test_what_is_loaded_is_read_again_at_each_pass_and_not_kept(self, noise):
        reads = Counter()

        def load(block_info=None):
            (begin, end), _ = block_info[None]["array-location"]
            reads[begin] += 1
            return noise[begin:end]

        X = da.map_blocks(load, chunks=((40, 40, 20), (5,)), dtype=float, meta=np.empty((0, 0)))
        engine = engine_of(X, normalize=None)
        assert all(isinstance(maker, Recipe) for [[maker, _]] in engine._raw[0])
        reads.clear()
        for passes in (1, 2, 3):
            engine.sum(lambda block: (block.views[0].x.sum(axis=0),))
            assert reads == dict.fromkeys((0, 40, 80), passes)

    def test_views_that_a_kernel_does_not_look_at_are_not_read(self, noise):
        reads = Counter()

        def load(X, view):
            reads[view] += 1
            return X

        X, Y = (chunked(noise).map_blocks(load, view=n, dtype=float) for n in ("x", "y"))
        with dask.config.set(scheduler="synchronous"):
            engine = engine_of(X, Y)
            reads.clear()
            engine.sum(lambda block: (block.views[1].x.sum(),))
        assert reads.keys() == {"y"}

    def test_what_all_chunks_need_is_made_once(self, noise):
        reads = []

        def load(X):
            reads.append(1)
            return X

        X = chunked(noise, 10).map_blocks(load, dtype=float)
        engine = engine_of(X - X.mean(axis=0), normalize=None)
        reads.clear()
        (total,) = engine.sum(lambda block: (block.views[0].x.sum(axis=0),))
        np.testing.assert_allclose(total, 0.0, atol=1e-10)
        assert len(reads) == 10


class TestState:
    def test_kernels_without_sums_wait_and_are_taken_in_order(self, noise):
        engine = engine_of(chunked(noise))
        engine.scatter("f", np.arange(100.0))
        engine.update(lambda block: ({"old": block.state["f"]}, ()))
        engine.update(lambda block: ({"f": block.state["f"] + 1}, ()))
        engine.update(lambda block: ({"f": block.state["f"] * 2}, ()))
        np.testing.assert_array_equal(engine.gather("f").compute(), 2 * (np.arange(100.0) + 1))
        np.testing.assert_array_equal(engine.gather("old").compute(), np.arange(100.0))

    def test_arrays_that_stay_as_they_are_are_not_copied(self, noise):
        engine = engine_of(chunked(noise))
        engine.scatter("f", np.arange(100.0))
        engine.update(lambda block: ({"pair": [block.state["f"] + 1, block.views[0].x]}, (1,)))
        before = engine._state["pair"].arrays
        engine.update(
            lambda block: ({"pair": [block.state["pair"][0], block.state["f"] * 2]}, (1,))
        )
        after = engine._state["pair"].arrays
        assert after[0] is before[0]
        assert after[1] is not before[1]

    def test_a_kernel_cannot_write_into_it(self, noise):
        engine = engine_of(chunked(noise))
        engine.scatter("f", np.zeros(100))

        def kernel(block):
            f = block.state["f"]
            if block.rows.stop > 37:
                f[:] = 1.0
            return (1,)

        with pytest.raises(ValueError, match="read-only"):
            engine.sum(kernel)

    def test_an_interrupt_leaves_it(self, noise):
        with dask.config.set(scheduler="synchronous"):
            engine = engine_of(chunked(noise))
        engine.scatter("f", np.zeros(100))

        def kernel(block):
            if block.rows.start > 50:
                raise KeyboardInterrupt
            return {"f": block.state["f"] + 1}, (1,)

        with pytest.raises(KeyboardInterrupt):
            engine.update(kernel)
        assert not engine.gather("f").compute().any()

    def test_comes_back_from_a_snapshot(self, noise):
        engine = engine_of(chunked(noise))
        engine.scatter("f", np.arange(100))
        kept = engine.snapshot("f", "g")
        engine.update(lambda block: ({"f": -block.state["f"], "g": block.state["f"]}, ()))
        engine.restore(kept)
        np.testing.assert_array_equal(engine.gather("f").compute(), np.arange(100))
        np.testing.assert_array_equal(engine.take_state("f", np.array([70, 3, 99])), [70, 3, 99])

    def test_take_returns_rows_in_the_order_asked_for(self, noise):
        thin = sp.csr_array(noise * (noise > 0))
        engine = engine_of(chunked(noise), chunked(thin))
        samples = np.array([99, 0, 41, 40, 3])
        dense, sparse = engine.take(samples)
        np.testing.assert_array_equal(dense.x, noise[samples])
        np.testing.assert_array_equal(sparse.x.toarray(), thin.toarray()[samples])
        np.testing.assert_allclose(dense.scale, 1 / np.linalg.norm(noise[samples], axis=1))


def bytes_fetched(n, n_blocks, monkeypatch, **options):
    """Bytes of each sum that reaches the driver, by calls of a fit of n samples."""
    sizes = []
    run = Here.run

    def counted(self, graph, fetched, kept):
        results = run(self, graph, fetched, kept)
        sizes.append([_bytes(result) for result in results[0]])
        return results

    monkeypatch.setattr(Here, "run", counted)
    views, _ = made(n)
    options = {"max_iter": 3, "tol": 0.0} | options
    fitted([chunked(X, n // n_blocks) for X in views], **options)
    monkeypatch.undo()
    return sizes


def _bytes(results):
    if isinstance(results, list | tuple):
        return sum(map(_bytes, results))
    if hasattr(results, "features"):
        return _bytes([results.features, results.scaled_sum, results.plain_sum])
    return results.nbytes if isinstance(results, np.ndarray) else 64


ITERATIONS = {"init": "random", "indicator": "discrete", "normalize": "rows"}


def test_what_passes_through_the_driver_does_not_grow_with_the_samples(monkeypatch):
    with pytest.MonkeyPatch.context() as patch:
        # the number of pairs depends on the weights
        patch.setattr("manyview.mmc.estimator.likely_pairs", lambda _: [((0, 0), (1, 0))])
        few, many = (bytes_fetched(n, 4, monkeypatch, **ITERATIONS) for n in (400, 4000))
    assert max(map(max, filter(None, few))) == max(map(max, filter(None, many)))
    assert max(map(max, filter(None, many))) <= 8 * (20 * 20 + 20 * 3 + 9 * 20 + 200)


def test_at_most_eight_sums_reach_the_driver_however_many_blocks(monkeypatch):
    for n_blocks in (40, 80):
        assert max(map(len, bytes_fetched(10 * n_blocks, n_blocks, monkeypatch, **ITERATIONS))) <= 8


@pytest.mark.parametrize("normalize", ["rows", "auto"])
def test_of_the_views_only_compared_samples_reach_the_driver(monkeypatch, normalize):
    totals = []
    for n in (1000, 4000):
        settings = GraphSettings(n_compared=200, n_landmarks=50, scaling_samples=100)
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        calls = bytes_fetched(n, 4, monkeypatch, normalize=normalize)
        totals.append(sum(map(sum, calls)))
    labels = 8 * 3000  # of all samples, once
    assert totals[1] < totals[0] + 1.5 * labels < totals[0] + 8 * 3000 * (8 + 6)


class TestPartialSums:
    def test_order_of_blocks_is_kept(self):
        graph = GraphOfCall()
        blocks = graph.add("block", [(tuple, [f"{n} "]) for n in range(100)])
        few = graph.partial_sums(blocks, size=10.0)
        assert len(few) == 2
        assert add_sums(dask.get(dict(graph), few)) == ("".join(f"{n} " for n in range(100)),)

    def test_large_sums_are_added_where_the_blocks_are(self):
        graph = GraphOfCall()
        assert len(graph.partial_sums(graph.add("block", [(tuple, [1])] * 8), size=1e6)) == 1


class TestRowsThatBeginAnywhereInMemory:
    """As those that a worker has received."""

    @staticmethod
    def misaligned(x, order="C"):
        memory = np.zeros(x.nbytes + 8, np.uint8)
        moved = np.ndarray(x.shape, x.dtype, buffer=memory, offset=3, order=order)
        moved[...] = x
        assert not moved.flags.aligned
        return moved

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_kernels_are_given_them_aligned(self, order):
        rng = np.random.default_rng(0)
        x, scale, state = rng.random((2000, 3)), rng.random(2000), rng.random((2000, 2))
        seen = []

        def kernel(block):
            view = block.views[0]
            arrays = view.x, view.scale, block.state["s"]
            assert all(array.flags.aligned for array in arrays)
            seen.append(block.rows)
            return (view.x.T @ (view.scale[:, None] * block.state["s"]),)

        plan = Plan(
            (Step(kernel, (), updates=False),), 1, (0,), (("s", None),), (1.0,), (), 16.0, 48.0
        )
        part = Part(0, 2000, np.dtype(np.float64))
        given = [self.misaligned(a, order) for a in (x, scale, state)]
        (total,) = run_plan(plan, part, [[[given[0], []]]], [given[1]], [given[2]])
        np.testing.assert_allclose(total, x.T @ (scale[:, None] * state))
        assert seen[0].start == 0
        assert seen[-1].stop == 2000


class TestStores:
    def test_of_zarr(self, tmp_path):
        pytest.importorskip("zarr")
        views, _ = made()
        for n, X in enumerate(views):
            da.from_array(X, chunks=(40, -1)).to_zarr(str(tmp_path / f"{n}.zarr"))
        there = [da.from_zarr(str(tmp_path / f"{n}.zarr")) for n in range(2)]
        assert_same(fitted(there), fitted(views))

    def test_of_hdf5(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        views, _ = made()
        with h5py.File(tmp_path / "views.h5", "w") as file:
            for n, X in enumerate(views):
                file.create_dataset(f"view{n}", data=X, chunks=(40, X.shape[1]))
        with h5py.File(tmp_path / "views.h5") as file:
            there = [da.from_array(file[f"view{n}"], chunks=(40, -1)) for n in range(2)]
            found = fitted(there)
            assert_same(found, fitted(views))
            np.testing.assert_array_equal(found.predict(there).compute(), found.predict(views))
