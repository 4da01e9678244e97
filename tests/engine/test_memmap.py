"""Views on disk: the same result, and no copy of them in memory."""

import json
import os
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.engine import LocalEngine
from manyview.engine.local import map_in_order
from manyview.graph.settings import GraphSettings
from manyview.views import has_equal_rows


def on_disk(folder, name, X, *, order="C"):
    np.save(folder / f"{name}.npy", np.asarray(X, order=order))
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def sparse_on_disk(folder, name, X):
    csr = sp.csr_array(X)
    parts = [
        on_disk(folder, f"{name}-{part}", getattr(csr, part))
        for part in ("data", "indices", "indptr")
    ]
    return sp.csr_array(tuple(parts), shape=csr.shape)


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(3, **({"random_state": 0, "max_iter": 4, "tol": 0.0} | options)).fit(views)


@pytest.mark.parametrize("kind", ["float64", "float32", "uint8", ">f4", "column-major", "columns"])
@pytest.mark.parametrize("normalize", ["rows", "columns"])
def test_views_on_disk_give_the_same_result(tmp_path, kind, normalize):
    views = [np.asarray(X) for X in make_views(300, 3, (8, 6), random_state=0).views]
    if kind == "uint8":
        views = [np.clip(20 * X + 128, 0, 255) for X in views]
    dtype = np.float64 if kind in ("column-major", "columns") else np.dtype(kind)
    order = "F" if kind == "column-major" else "C"
    views = [X.astype(dtype) for X in views]
    there = [on_disk(tmp_path, v, X, order=order) for v, X in enumerate(views)]
    if kind == "columns":
        views, there = ([X[:, 1:] for X in given] for given in (views, there))
    found = fitted(there, normalize=normalize, n_jobs=2)
    expected = fitted(views, normalize=normalize)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(found.predict(there), expected.predict(views))


def test_sparse_views_on_disk_give_the_same_result(tmp_path):
    views = [np.asarray(X) for X in make_views(300, 3, (8, 6), random_state=0).views]
    views = [sp.csr_array(np.where(X > 0, X, 0.0)) for X in views]
    there = [sparse_on_disk(tmp_path, v, X) for v, X in enumerate(views)]
    found, expected = fitted(there), fitted(views)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.objective_, expected.objective_)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32])
def test_values_of_sparse_views_stay_on_disk_whatever_their_type(tmp_path, dtype):
    counts = np.random.default_rng(0).poisson(0.3, (90, 40)).astype(dtype)
    view = sparse_on_disk(tmp_path, 0, counts)
    engine = LocalEngine(as_views([view, counts.astype(np.float32)]), normalize="rows")
    for block in engine.blocks:
        assert np.shares_memory(block.views[0].x.data, view.data)


FEW = GraphSettings(n_compared=200, n_landmarks=100, scaling_samples=200)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"indicator": "discrete", "normalize": "rows"}, {"init": "graph"}, {}],
    ids=["iterations", "graph", "given labels"],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_fit_refers_to_the_file_and_copies_no_part_of_it_for_long(
    tmp_path, sparse, options, monkeypatch
):
    monkeypatch.setattr(MMC, "_graph_settings", FEW)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 700), dtype=np.float32)
    X[X < 0.2] *= not sparse
    X[1] = X[0]  # so that a look at the first rows does not end the search for different ones
    view = sparse_on_disk(tmp_path, 0, X) if sparse else on_disk(tmp_path, 0, X)
    size = view.data.nbytes + view.indices.nbytes if sparse else view.nbytes
    options = {"init": np.arange(9000) % 3, "max_iter": 1, "rank": 4, "n_jobs": 1} | options
    del X
    tracemalloc.start()
    try:
        engine = LocalEngine(as_views([view]), normalize="rows")
        model = fitted([view], **options)
        model.predict([view])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for block in engine.blocks:
        x = block.views[0].x
        assert np.shares_memory(x.data, view.data) if sparse else np.shares_memory(x, view)
    # a block is of 4 MB, and its squares, for a moment, twice as large and there twice
    assert peak < 20e6 < size


LIMITED = """
    import json, resource, sys, warnings
    import numpy as np
    from manyview import MMC
    from manyview.datasets import make_views
    from manyview.engine import LocalEngine
    from manyview.graph.settings import GraphSettings

    folder, headroom = sys.argv[1], int(sys.argv[2])
    MMC._graph_settings = GraphSettings(n_compared=200, n_landmarks=100, scaling_samples=200)
    LocalEngine.block_bytes = 1 << 20
    warnings.simplefilter("ignore")
    options = {"n_jobs": 1, "random_state": 0, "max_iter": 2, "tol": 0.0}
    # what libraries load or reserve on first use does not count
    MMC(3, **options).fit(make_views(1100, 3, random_state=0).views)
    with open("/proc/self/status") as status:
        held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    limit = held + headroom
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    views = [np.load(f"{folder}/{v}.npy", mmap_mode="r") for v in range(2)]
    try:
        copies = [np.array(X) for X in views]
    except MemoryError:
        copies = None
    model = MMC(3, **options).fit(views)
    labels = model.predict(views)
    found = [copies is None, model.labels_.tolist(), model.objective_.tolist(), labels.tolist()]
    print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a limit on private memory is one of Linux")
def test_a_fit_of_four_times_the_memory_it_may_take(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 8000)
    views = []
    for v in range(2):
        centres = 0.3 * rng.standard_normal((3, 800), dtype=np.float32)
        X = centres[groups] + rng.standard_normal((8000, 800), dtype=np.float32)
        np.save(tmp_path / f"{v}.npy", X)
        views.append(X)
    size = sum(X.nbytes for X in views)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path), str(size // 4)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    limit_bites, labels, objective, predicted = json.loads(done.stdout)
    assert limit_bites
    monkeypatch.setattr(MMC, "_graph_settings", FEW)
    monkeypatch.setattr(LocalEngine, "block_bytes", 1 << 20)
    with threadpool_limits(1):  # as there: a product rounds by how many threads share it
        expected = fitted(views, max_iter=2, n_jobs=1)
    np.testing.assert_array_equal(labels, expected.labels_)
    np.testing.assert_allclose(objective, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(predicted, expected.predict(views))


class TestEqualRows:
    @pytest.mark.parametrize("row", [0, 1, 2, 20, 38, 39])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_a_row_that_differs_is_found_wherever_it_is(self, row, sparse):
        X = np.tile([0.0, 1.0, 2.0], (40, 1))
        # a few rows at a time
        assert has_equal_rows(sp.csr_array(X) if sparse else X, chunk_bytes=100)
        X[row, 1] = 0.0
        assert not has_equal_rows(sp.csr_array(X) if sparse else X, chunk_bytes=100)

    def test_of_nothing_stored(self):
        assert has_equal_rows(sp.csr_array((30, 4)), chunk_bytes=100)


class TestChunkedFiles:
    def test_an_hdf5_dataset_is_not_read_whole(self, tmp_path, monkeypatch):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "views.h5", "w") as file:
            dataset = file.create_dataset("text", data=np.eye(5))
            monkeypatch.delattr(h5py.Dataset, "__array__")
            monkeypatch.delattr(h5py.Dataset, "__getitem__")
            with pytest.raises(TypeError, match=r"'text' is .* h5py .*array\.from_array"):
                MMC(2).fit({"text": dataset})

    def test_a_zarr_array_is_not_read_whole(self, tmp_path):
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(tmp_path / "views.zarr", shape=(5, 5), dtype="f8")
        with pytest.raises(TypeError, match=r"'text' is .* zarr .*array\.from_zarr"):
            MMC(2).fit({"text": array})


class TestThreads:
    def test_are_few_blocks_ahead(self):
        started, taken, most = [], [], []
        lock = threading.Lock()

        def work(block):
            with lock:
                started.append(block)
            return block

        with ThreadPoolExecutor(2) as pool:
            for block in map_in_order(pool, work, list(range(50)), ahead=4):
                taken.append(block)
                most.append(len(started) - len(taken))
        assert taken == list(range(50))
        assert max(most) <= 4

    def test_do_not_begin_blocks_after_one_failed(self):
        done = []

        def work(block):
            if block == 3:
                raise ValueError("no more")
            done.append(block)

        with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="no more"):
            list(map_in_order(pool, work, list(range(50)), ahead=4))
        assert len(done) < 10
