import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_info, threadpool_limits

from manyview import MMC, SEC, as_views
from manyview.datasets import make_views
from manyview.engine import LocalEngine, arrays
from manyview.graph.settings import GraphSettings
from manyview.linalg.solvers import conjugate_gradients
from manyview.linalg.threads import blas_threads

from .places import PLACES, fetched

torch = pytest.importorskip("torch")
engine_torch = pytest.importorskip("manyview.engine.torch")
TorchEngine, SparseRows = engine_torch.TorchEngine, engine_torch.SparseRows

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


def made(n=150, **options):
    dataset = make_views(n, 3, (8, 6), separation=6.0, random_state=0, **options)
    return [np.asarray(X) for X in dataset.views], dataset.y


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(3, **({"random_state": 0} | options)).fit(views)


def tensors(views, dtype=torch.float64):
    return [torch.from_numpy(X).to(dtype) for X in views]


def thin(seed=0, shape=(60, 9)):
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.standard_normal(shape) * (rng.random(shape) < 0.4))


def both(views, *, present=None, normalize="rows", **options):
    """The same views in an engine of NumPy and in one of torch."""
    there = [PLACES["torch"](X) for X in views]
    return (
        LocalEngine(as_views(views, present=present), normalize=normalize, **options),
        TorchEngine(as_views(there, present=present), normalize=normalize, **options),
    )


def operator(engine, v, W, M):
    """Both products with view `v`, as NumPy arrays."""
    scaling = engine.scalings[v]
    folded = scaling.fold(engine.asarray(W))
    engine.update(lambda block, folded: ({"s": block.views[v].project(folded)}, ()), folded)
    engine.scatter("m", M)
    (pulled,) = engine.sum(lambda block: (block.views[v].pull(block.state["m"]),))
    return fetched(engine.gather("s")), fetched(scaling.unfold(pulled))


@pytest.fixture
def _short_blocks(monkeypatch):
    monkeypatch.setattr(TorchEngine, "block_rows", (7, 7))


@pytest.mark.usefixtures("_short_blocks")
class TestProducts:
    @given(
        seed=st.integers(0, 10**6),
        n=st.integers(3, 40),
        sparse=st.booleans(),
        normalize=st.sampled_from(["rows", "columns", None]),
        missing=st.booleans(),
        left=st.booleans(),
    )
    def test_those_of_numpy(self, seed, n, sparse, normalize, missing, left):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 5))
        X[0] = 0
        Y = thin(seed, (n, 7))
        present = None
        if missing:
            present = rng.random((n, 2)) < 0.7
            present[~present.any(axis=1)] = True
        views = [X, Y if sparse else Y.toarray()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            engines = both(views, present=present, normalize=normalize)
        active = np.array([0, 2, 5])
        W, M = rng.standard_normal((8, 3)), rng.standard_normal((n, 3))
        if left:
            W[[1, 3, 4, 6]] = 0.0
        for here, there in zip(*(engine.moments[1] for engine in engines), strict=True):
            np.testing.assert_allclose(here, there, atol=1e-10)
        results = []
        for engine in engines:
            if left:
                engine.restrict(1, active)
            results.append(operator(engine, 1, W, M))
        for here, there in zip(*results, strict=True):
            np.testing.assert_allclose(here, there, atol=1e-9)

    @pytest.mark.parametrize("sparse", [False, True])
    def test_features_that_left_are_not_held(self, sparse):
        X = thin() if sparse else thin().toarray()
        _, engine = both([X])
        active = np.array([1, 4, 8])
        engine.restrict(0, active)
        blocks = [block.views[0].x for block in engine.blocks]
        assert {x.shape[1] for x in blocks} == {3}
        if sparse:
            assert sum(x.data.numel() for x in blocks) == thin()[:, active].nnz
        engine.restrict(0, None)
        assert {block.views[0].x.shape[1] for block in engine.blocks} == {9}

    def test_restricted_size(self):
        _, engine = both([thin(), thin(1).toarray()])
        mask = np.arange(9) < 3
        assert engine.restricted_size(0, mask) == 4 * thin()[:, :3].nnz
        assert engine.restricted_size(1, mask) == 60 * 3

    def test_samples_in_any_order_come_to_this_process(self):
        views = [thin(), thin(1).toarray()]
        here, there = both(views)
        samples = np.array([40, 3, 59, 3, 17])
        for ours, theirs in zip(here.take(samples), there.take(samples), strict=True):
            x, y = ours.x, theirs.x
            assert sp.issparse(x) == sp.issparse(y)
            np.testing.assert_array_equal(*(z.toarray() if sp.issparse(z) else z for z in (x, y)))
            np.testing.assert_allclose(ours.scale, theirs.scale, rtol=1e-14)
        for engine in (here, there):
            engine.scatter("s", np.arange(120.0).reshape(60, 2))
        np.testing.assert_array_equal(here.take_state("s", samples), there.take_state("s", samples))

    @pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_unit_rows_at_any_scale(self, scale, sparse):
        X = thin().toarray() + 0.1
        X[::2] *= scale
        here, there = both([sp.csr_array(X) if sparse else X])
        W, M = np.ones((10, 2)), np.ones((60, 2))
        for ours, theirs in zip(operator(here, 0, W, M), operator(there, 0, W, M), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_a_product_cut_into_parts_is_the_product(monkeypatch):
    monkeypatch.setattr(arrays, "in_memory", lambda array: False)  # as if on a device
    x, rows = torch.randn(30, 5, dtype=torch.float64), torch.randn(30, 3, dtype=torch.float64)
    for n in (30, 24, 15):
        found = arrays.product_over_rows(x[:n], rows[:n], 8)
        torch.testing.assert_close(found, x[:n].T @ rows[:n])
    wide = torch.randn(30, 9, dtype=torch.float64)[:, 2:7]
    torch.testing.assert_close(arrays.product_over_rows(wide, rows, 8), wide.T @ rows)


def test_dense_tensors_are_not_copied():
    X = torch.randn(30, 4)
    engine = TorchEngine(as_views([X]), normalize="rows")
    (block,) = engine.blocks
    assert block.views[0].x.data_ptr() == X.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16])
def test_norms_of_narrow_rows_are_found_some_at_a_time(dtype):
    X = (100 * torch.randn(5000, 100)).to(dtype)
    with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
        norms = engine_torch.row_norms(X, 80_000)
    torch.testing.assert_close(norms, X.double().norm(dim=1))
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert largest <= 2 * 80_000


class TestTypes:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_narrow_types_are_worked_on_in_single_precision(self, dtype):
        views, truth = made()
        found = fitted(tensors(views, dtype))
        assert found.cluster_factors_.dtype == np.float32
        assert found.view_factors_[0].dtype == np.float32
        assert found.indicator_.dtype == torch.float32
        assert adjusted_rand_score(truth, found.labels_) == 1.0

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
    def test_integers(self, dtype):
        rng = np.random.default_rng(0)
        centres = rng.integers(0, 200, (3, 12))
        truth = np.arange(120) % 3
        views = [centres[truth] + rng.integers(0, 20, (120, 12)) for _ in range(2)]
        found = fitted([torch.from_numpy(X).to(dtype) for X in views])
        wide = np.float32 if dtype in (torch.uint8, torch.int16) else np.float64
        assert found.cluster_factors_.dtype == wide
        assert adjusted_rand_score(truth, found.labels_) == 1.0

    @pytest.mark.parametrize("start", ["graph", "kmeans"])
    def test_narrow_types_by_landmarks_and_by_kmeans(self, start, monkeypatch):
        settings = GraphSettings(n_compared=40, compared_per_cluster=0)
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, truth = made()
        found = fitted(tensors(views, torch.bfloat16), init=start)
        assert adjusted_rand_score(truth, found.labels_) == 1.0

    @pytest.mark.usefixtures("_short_blocks")
    def test_narrow_types_are_widened_block_by_block(self):
        X = torch.randn(30, 4).to(torch.bfloat16)
        engine = TorchEngine(as_views([X]), normalize="rows")
        assert engine.dtype == np.float32
        for block in engine.blocks:
            assert block.views[0].x.dtype == torch.bfloat16
            assert block.views[0].x.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()

    def test_views_of_different_precision(self):
        views, _ = made()
        single, double = views[0].astype(np.float32), views[1]
        found = fitted(tensors([single], torch.float32) + tensors([double]))
        expected = fitted([single, double])
        assert found.cluster_factors_.dtype == np.float64
        np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)

    def test_a_double_precision_model_predicts_single_precision_samples(self):
        views, _ = made()
        for normalize in ("rows", "columns"):
            found = fitted(tensors(views), normalize=normalize)
            single = tensors(views, torch.float32)
            assert found.transform(single).dtype == torch.float64
            assert adjusted_rand_score(found.predict(single), found.labels_) > 0.95

    @pytest.mark.parametrize("dtype", [torch.complex64, torch.uint16, torch.float8_e4m3fn])
    def test_types_that_are_not_computed_with(self, dtype):
        views, _ = made()
        with pytest.raises(ValueError, match=f"view 'view1' holds {dtype}; expected real"):
            MMC(3).fit([torch.from_numpy(views[0]), torch.ones(150, 3).to(dtype)])


class TestTensors:
    def test_of_a_graph(self):
        views, _ = made()
        leaves = [tensor.requires_grad_() for tensor in tensors(views)]
        found = fitted([2.0 * leaf for leaf in leaves])
        results = [found.labels_, found.indicator_, found.transform(leaves)]
        assert not any(result.requires_grad for result in results)
        assert all(leaf.grad is None for leaf in leaves)
        np.testing.assert_array_equal(found.labels_, fitted(views).labels_)

    def test_of_inference_mode(self):
        views, _ = made()
        with torch.inference_mode():
            inside = tensors([X.copy() for X in views])
            found = fitted(inside)
        np.testing.assert_array_equal(found.labels_, fitted(views).labels_)
        np.testing.assert_array_equal(fitted(inside).labels_, found.labels_)

    def test_of_the_meta_device(self):
        with pytest.raises(ValueError, match="view 'view0' is a tensor on the meta device"):
            MMC(3).fit([torch.empty(10, 3, device="meta")])

    def test_on_different_devices(self):
        class Elsewhere(torch.Tensor):
            device = torch.device("cuda:1")

        views, _ = made()
        there = torch.from_numpy(views[1]).as_subclass(Elsewhere)
        with pytest.raises(TypeError, match=r"'view0'.*'view1'.*cuda:1"):
            MMC(3).fit([torch.from_numpy(views[0]), there])

    def test_without_rows_or_features(self):
        with pytest.raises(ValueError, match="view 'view0' has no rows"):
            MMC(3).fit([torch.empty(0, 3)])
        with pytest.raises(ValueError, match="view 'view0' has no features"):
            MMC(3).fit([torch.empty(3, 0)])
        with pytest.raises(ValueError, match="view 'view0' has 1 dimension"):
            MMC(3).fit([torch.ones(3)])

    def test_not_contiguous(self):
        views, _ = made()
        across = [torch.from_numpy(np.ascontiguousarray(X.T)).T for X in views]
        stepped = [torch.from_numpy(np.repeat(X, 2, axis=1))[:, ::2] for X in views]
        expected = fitted(views)
        for given_views in (across, stepped):
            assert not any(tensor.is_contiguous() for tensor in given_views)
            found = fitted(given_views)
            np.testing.assert_array_equal(found.labels_, expected.labels_)
            np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-8)

    def test_parameters_and_subclasses(self):
        class Mine(torch.Tensor):
            pass

        views, _ = made()
        mine = [
            torch.nn.Parameter(torch.from_numpy(views[0])),
            torch.from_numpy(views[1]).as_subclass(Mine),
        ]
        np.testing.assert_array_equal(fitted(mine).labels_, fitted(views).labels_)

    def test_results_are_tensors_and_factors_are_not(self):
        views, _ = made()
        there = dict(zip(("text", "image"), tensors(views), strict=True))
        found = fitted(there)
        for result in (found.labels_, found.indicator_, found.predict(there)):
            assert isinstance(result, torch.Tensor)
            assert result.device == there["text"].device
        assert found.labels_.dtype == torch.int64
        assert isinstance(found.transform(there), torch.Tensor)
        assert all(isinstance(factor, np.ndarray) for factor in found.view_factors_)
        assert isinstance(found.cluster_factors_, np.ndarray)

    def test_an_initialisation_may_be_a_tensor(self):
        views, truth = made()
        found = fitted(tensors(views), init=torch.from_numpy(truth))
        np.testing.assert_array_equal(found.labels_, fitted(views, init=truth).labels_)

    @pytest.mark.parametrize("held", [np.nan, 1e300])
    def test_samples_that_miss_a_view_may_hold_anything(self, held):
        views, _ = made()
        present = np.ones((150, 2), dtype=bool)
        present[:20, 0] = False
        blank = views[0].copy()
        blank[:20] = held
        there = as_views(tensors([blank, views[1]]), present=present)
        expected = fitted(as_views(views, present=present))
        np.testing.assert_array_equal(fitted(there).labels_, expected.labels_)

    def test_other_methods_say_that_they_take_none(self):
        views, _ = made()
        with pytest.raises(TypeError, match="SEC supports NumPy and SciPy arrays"):
            SEC(3).fit(tensors(views))
        with pytest.raises(TypeError, match="SEC supports NumPy and SciPy arrays"):
            SEC(3).fit(views).predict(tensors(views))


class TestSparseTensors:
    def views(self):
        dense, truth = made()
        mask = np.random.default_rng(0)
        return [X * (mask.random(X.shape) < 0.7) for X in dense], truth

    @pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_layouts(self, layout, dtype):
        views, _ = self.views()
        there = [getattr(tensor, f"to_sparse_{layout}")() for tensor in tensors(views, dtype)]
        found = fitted(there)
        expected = fitted([sp.csr_array(X) for X in views])
        assert found.labels_.layout == torch.strided
        assert adjusted_rand_score(found.labels_, expected.labels_) == 1.0
        np.testing.assert_array_equal(found.predict(there), found.predict(tensors(views, dtype)))

    def test_coo_that_is_not_coalesced(self):
        views, _ = self.views()
        places = np.argwhere(views[0]).T
        twice = torch.sparse_coo_tensor(
            torch.from_numpy(np.hstack([places, places])),
            torch.from_numpy(np.tile(0.5 * views[0][tuple(places)], 2)),
            size=views[0].shape,
            check_invariants=True,
        )
        found = fitted([twice, torch.from_numpy(views[1]).to_sparse_csr()])
        np.testing.assert_array_equal(found.labels_, fitted([*map(sp.csr_array, views)]).labels_)

    @pytest.mark.parametrize("layout", ["bsr", "bsc"])
    def test_layouts_by_blocks_are_rejected(self, layout):
        blocks = getattr(torch.ones(10, 4), f"to_sparse_{layout}")((2, 2))
        with pytest.raises(TypeError, match=f"view 'text' is a tensor of layout sparse_{layout}"):
            MMC(3).fit({"text": blocks})

    def test_a_broken_one(self):
        indptr, indices = torch.tensor([0, 1, 2]), torch.tensor([0, 7])
        broken = torch.sparse_csr_tensor(
            indptr, indices, torch.ones(2), size=(2, 3), check_invariants=False
        )
        with pytest.raises(ValueError, match="view 'view0' is a broken sparse tensor"):
            MMC(2).fit([broken])

    def test_what_is_not_finite(self):
        views, _ = self.views()
        views[0][3, 2] = np.nan
        with pytest.raises(ValueError, match="view 'view0' holds NaN"):
            MMC(3).fit([torch.from_numpy(X).to_sparse_csr() for X in views])

    @pytest.mark.parametrize("start", ["graph", "kmeans", "random"])
    def test_initialisations(self, start, monkeypatch):
        settings = GraphSettings(n_compared=50, compared_per_cluster=0)
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        views, _ = self.views()
        found = fitted([torch.from_numpy(X).to_sparse_csr() for X in views], init=start)
        expected = fitted([sp.csr_array(X) for X in views], init=start)
        np.testing.assert_array_equal(found.labels_, expected.labels_)


class TestWhatTravels:
    def count(self, monkeypatch, views, **options):
        """A fit, and how many numbers each transfer to this process had."""
        moved = []
        for name in ("cpu", "__float__", "__int__", "__bool__"):
            method = getattr(torch.Tensor, name)

            def counted(x, method=method):
                moved.append(x.numel())
                return method(x)

            monkeypatch.setattr(torch.Tensor, name, counted)
        found = fitted(views, **options)
        monkeypatch.undo()
        return found, moved

    @pytest.mark.parametrize("indicator", ["leave-one-out", "discrete"])
    def test_of_all_samples_only_the_labels(self, indicator, monkeypatch):
        n = 40_000
        settings = GraphSettings(
            n_compared=500, n_landmarks=100, scaling_samples=300, kmeans_rows=1000
        )
        monkeypatch.setattr(MMC, "_graph_settings", settings)
        truth, rng = torch.arange(n) % 3, torch.Generator().manual_seed(0)
        centres = [5 * torch.randn(3, 4, generator=rng) for _ in range(2)]
        views = [centre[truth] + torch.randn(n, 4, generator=rng) for centre in centres]
        found, moved = self.count(monkeypatch, views, rank=6, max_iter=4, indicator=indicator)
        assert adjusted_rand_score(truth, found.labels_) > 0.95
        assert max(moved) <= n
        assert sorted(moved)[-2] < n / 4

    def test_as_often_for_few_blocks_as_for_many(self, monkeypatch):
        views, _ = made()
        options = {"max_iter": 4, "tol": 0.0, "patience": None, "init": "random"}
        _, once = self.count(monkeypatch, tensors(views, torch.float32), **options)
        monkeypatch.setattr(TorchEngine, "block_rows", (7, 7))
        _, often = self.count(monkeypatch, tensors(views, torch.float32), **options)
        assert len(once) == len(often)

    def test_once_for_each_step_of_conjugate_gradients(self, monkeypatch):
        H = torch.diag(torch.arange(1.0, 21.0, dtype=torch.float64))
        ones = torch.ones(20, 1, dtype=torch.float64)
        steps, asked_at = [], []
        number = torch.Tensor.__float__

        def asked(x):
            asked_at.append(len(steps))
            return number(x)

        monkeypatch.setattr(torch.Tensor, "__float__", asked)
        conjugate_gradients(lambda X: (steps.append(1), H @ X)[1], ones, lambda X: X, steps=5)
        # before the first product, and after each, when nothing else waits
        assert asked_at == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize(("device", "threads"), [("cpu", 8), ("cuda", 1)])
def test_beside_a_device_the_host_has_one_blas_thread(device, threads):
    engine = TorchEngine(as_views([torch.rand(9, 2)]), normalize="rows")
    engine.device = torch.device(device)
    with threadpool_limits(8):
        with engine.running():
            found = {pool["user_api"]: pool["num_threads"] for pool in threadpool_info()}
            assert (found["blas"], found["openmp"]) == (threads, threads)
        assert blas_threads() == 8


@pytest.mark.slow
def test_importing_manyview_imports_no_torch():
    code = "import sys, manyview; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def rows():
    return SparseRows.from_scipy(thin(), torch.device("cpu"))


def test_there_and_back():
    assert (rows().to_scipy() != thin()).nnz == 0
    np.testing.assert_array_equal(rows().toarray().numpy(), thin().toarray())


def test_products():
    X, other = thin().toarray(), thin(1, (20, 9))
    right = np.random.default_rng(0).standard_normal((60, 3))
    np.testing.assert_allclose((rows().T @ torch.from_numpy(right)).numpy(), X.T @ right)
    there = SparseRows.from_scipy(other, torch.device("cpu"))
    np.testing.assert_allclose((rows() @ there.T).numpy(), X @ other.toarray().T)


def test_products_of_two_are_made_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(SparseRows, "dense_entries", 30)
    X = thin().toarray()
    np.testing.assert_allclose((rows() @ rows().T).numpy(), X @ X.T)


def test_parts():
    X, places = thin().toarray(), np.array([5, 0, 5])
    taken = rows().take(torch.from_numpy(places))
    np.testing.assert_array_equal(taken.toarray().numpy(), X[places])
    np.testing.assert_array_equal(rows()[slice(4, 9)].toarray().numpy(), X[4:9])


def test_an_empty_row_and_no_entries():
    empty = SparseRows.from_scipy(sp.csr_array((3, 4)), torch.device("cpu"))
    assert not (empty @ torch.ones(4, 2, dtype=torch.float64)).any()
    assert not (empty.T @ torch.ones(3, 2, dtype=torch.float64)).any()
