"""MMC on a Dask cluster of two processes: overhead, memory, data on disk, network traffic.

``python -m benchmarks.cluster [parts] [--scale 0.1]`` prints a table. A scale below 1 reduces
all data, for a trial; the bounds hold for 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import psutil
from dask.sizeof import sizeof
from distributed import Client, LocalCluster, wait
from sklearn.exceptions import ConvergenceWarning

from benchmarks.__main__ import _line
from benchmarks.measure import Measurement, add_parts
from manyview import MMC
from manyview.engine.dask_tasks import Cluster

N_CLUSTERS = 5
RANK = 20
ITERATIONS = 5
CHUNK_BYTES = 120_000_000  # of a chunk of the wider view, as the docs recommend
DRAWN = 50_000  # samples that are drawn together
ON_DISK_ROWS = 100_000  # of a chunk
CAP = "700MB"


def overhead(scale: float) -> Iterator[Measurement]:
    """Compare the time on the cluster with that of two threads, and measure the workers' memory.

    The shorter of two fits counts, because the first one in a process also allocates memory.
    """
    n = int(2_000_000 * scale)
    for dtype in (np.float32, np.float64):
        blocks = max(2, round(n * 60 * np.dtype(dtype).itemsize / CHUNK_BYTES))
        shown = f"{n:,} x (60 + 40) {np.dtype(dtype).name} in {blocks} chunks"
        views = [_rows(0, n, width, dtype) for width in (60, 40)]
        here, here_cpu = min(_timed(partial(_model(n, n_jobs=2).fit, views)) for _ in range(2))
        data = sum(X.nbytes for X in views)
        state = _state_bytes(n, np.dtype(dtype).itemsize)
        with _cluster() as client:
            idle = _resident(client)
            del views
            there = client.persist([_made_there(n, width, dtype, blocks) for width in (60, 40)])
            wait(there)
            with _peak_memory(client) as peak, _counted() as sizes:
                first = _timed(partial(_model(n).fit, there), client)
            second = _timed(partial(_model(n).fit, there), client)
            there_s, there_cpu = min(first, second)
        yield Measurement(
            f"time on two workers beside two threads, {shown}",
            there_s / here,
            1.3,
            detail=f"{there_s:.1f} s and {here:.1f} s; of processors {there_cpu:.1f} and "
            f"{here_cpu:.1f} s",
        )
        share = (data + state) / 2
        yield Measurement(
            f"peak memory of a worker beside its share of data and state, {shown}",
            (max(peak) - idle) / share,
            2.0,
            detail=f"{max(peak) / 1e6:.0f} MB with {idle / 1e6:.0f} before; share "
            f"{share / 1e6:.0f} MB",
        )
        yield Measurement(
            f"MB through the driver per iteration, {shown}",
            sum(sizes) / ITERATIONS / 1e6,
            None,
            detail=f"{len(sizes) / ITERATIONS:.0f} calls, the largest {max(sizes) / 1e3:.0f} kB; "
            "initialisation included",
        )


def latency(scale: float) -> Iterator[Measurement]:
    """Measure the time of a call on nearly empty blocks."""
    from manyview import as_views
    from manyview.engine.dask import DaskEngine

    for blocks in (16, 128):
        with _cluster():
            X = da.from_array(np.random.default_rng(0).random((4 * blocks, 2)), chunks=(4, -1))
            engine = DaskEngine(as_views([X]), normalize="rows")
            engine.sum(_nothing)
            seconds = []
            for _ in range(20):
                begin = time.perf_counter()
                engine.sum(_nothing)
                seconds.append(time.perf_counter() - begin)
        yield Measurement(
            f"ms of a call on {blocks} blocks without work", 1e3 * float(np.median(seconds)), None
        )


def on_disk(scale: float) -> Iterator[Measurement]:
    """Fit data on disk with workers that have less memory than the data and the state."""
    n, width = int(10_000_000 * scale), 20
    folder = Path(tempfile.mkdtemp(prefix="manyview-cluster-"))
    state = _state_bytes(n, 4)
    needed = 3 * (2 * n * width * 4 + state)
    try:
        if shutil.disk_usage(folder).free < needed:
            print(
                f"{folder} has less than {needed / 1e9:.1f} GB free; data on disk are not measured"
            )
            return
        stores = [_stored(folder / f"view{v}.zarr", n, width, seed=v) for v in range(2)]
        with _cluster(memory_limit=CAP, local_directory=str(folder)) as client:
            there = [da.from_zarr(str(store)) for store in stores]
            with _peak_memory(client) as peak, _counted() as sizes:
                seconds, cpu = _timed(lambda: _found(_model(n), there).persist(), client)
        data = 2 * n * width * 4
        yield Measurement(
            f"seconds of {ITERATIONS} iterations, {n:,} x (20 + 20) float32 on disk, "
            f"workers of {CAP}",
            seconds,
            None,
            detail=f"of processors {cpu:.0f} s; {data / 1e9:.2f} GB of data, "
            f"{state / 1e9:.2f} GB of state, {len(sizes)} calls",
        )
        yield Measurement(
            f"MB of the larger worker at its peak, {n:,} samples on disk",
            max(peak) / 1e6,
            700.0,
        )
    finally:
        shutil.rmtree(folder)


PARTS: dict[str, Callable[[float], Iterator[Measurement]]] = {
    "latency": latency,
    "overhead": overhead,
    "on_disk": on_disk,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    add_parts(parser, PARTS)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the numbers of samples")
    options = parser.parse_args()
    missed = 0
    for part in options.parts or PARTS:
        for measurement in PARTS[part](options.scale):
            print(_line(measurement), flush=True)
            missed += measurement.kept is False
    return 1 if missed else 0


def _nothing(block: Any) -> tuple[int]:
    return (block.rows.stop - block.rows.start,)


def _model(n: int, **options: Any) -> MMC:
    """Return MMC initialised with the true clusters, a tenth of them replaced at random."""
    rng = np.random.default_rng(0)
    start = np.where(rng.random(n) < 0.1, rng.integers(0, N_CLUSTERS, n), _labels(0, n))
    return MMC(
        N_CLUSTERS,
        rank=RANK,
        init=start,
        max_iter=ITERATIONS,
        tol=0.0,
        patience=None,
        random_state=0,
        **options,
    )


def _found(model: MMC, there: list[Any]) -> Any:
    return model.fit(there).labels_  # lazy, as the views are


def _state_bytes(n: int, itemsize: int) -> int:
    """Return the size of the state: projections, products of others, F twice, labels, scales."""
    return n * (itemsize * (3 * RANK + 2 * N_CLUSTERS + 2) + 8)


def _labels(begin: int, end: int) -> np.ndarray:
    starts = range(begin, end, DRAWN)
    return np.concatenate(
        [
            np.random.default_rng(start).integers(0, N_CLUSTERS, min(DRAWN, end - start))
            for start in starts
        ]
    )


def _rows(begin: int, end: int, width: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Return rows around cluster centres; `begin` is a multiple of `DRAWN`."""
    centres = np.random.default_rng(seed).standard_normal((N_CLUSTERS, width))
    rows = np.empty((end - begin, width), dtype)
    for start in range(begin, end, DRAWN):
        stop = min(start + DRAWN, end)
        drawn = np.random.default_rng([start, width, seed]).standard_normal((stop - start, width))
        rows[start - begin : stop - begin] = centres[_labels(start, stop)] + drawn
    return rows


def _made_there(n: int, width: int, dtype: Any, blocks: int) -> da.Array:
    """Return the same rows as a Dask array that the workers generate."""
    rows = DRAWN * -(-n // (DRAWN * blocks))
    chunks = (tuple(min(rows, n - begin) for begin in range(0, n, rows)), (width,))

    def made(block_info: Any) -> np.ndarray:
        (begin, end), _ = block_info[None]["array-location"]
        return _rows(begin, end, width, dtype)

    return da.map_blocks(made, chunks=chunks, dtype=dtype, meta=np.empty((0, 0), dtype))


def _stored(path: Path, n: int, width: int, seed: int) -> Path:
    """Write a view to disk, a block at a time."""
    import zarr

    rows = min(ON_DISK_ROWS, DRAWN * -(-n // (4 * DRAWN)))
    store = zarr.open_array(
        str(path), mode="w", shape=(n, width), chunks=(rows, width), dtype="float32"
    )
    for begin in range(0, n, rows):
        end = min(begin + rows, n)
        store[begin:end] = _rows(begin, end, width, np.float32, seed)
    return path


@contextmanager
def _cluster(**options: Any) -> Iterator[Client]:
    options = {"memory_limit": 0, **options}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", **options) as made,
        Client(made) as client,
    ):
        client.run(_warmed_up)
        yield client


def _warmed_up() -> None:
    """Import what a worker needs, so that it is not timed."""
    import sklearn.cluster  # noqa: F401

    import manyview.engine.dask  # noqa: F401


def _workers(client: Client) -> list[psutil.Process]:
    import os

    return [psutil.Process(pid) for pid in client.run(os.getpid).values()]


def _resident(client: Client) -> int:
    return max(int(worker.memory_info().rss) for worker in _workers(client))


@contextmanager
def _peak_memory(client: Client) -> Iterator[list[int]]:
    """Yield the largest resident size of each worker, sampled ten times a second."""
    workers = _workers(client)
    peak = [0] * len(workers)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            for n, worker in enumerate(workers):
                if worker.is_running():
                    peak[n] = max(peak[n], int(worker.memory_info().rss))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Yield the bytes that each call sends to the driver."""
    sizes: list[int] = []
    run = Cluster.run

    def counted(self: Cluster, graph: Any, fetched: Any, kept: Any) -> Any:
        results = run(self, graph, fetched, kept)
        sizes.append(sum(sizeof(_plain(result)) for result in results[0]))
        return results

    Cluster.run = counted  # type: ignore[method-assign]
    try:
        yield sizes
    finally:
        Cluster.run = run  # type: ignore[method-assign]


def _plain(result: Any) -> Any:
    """Return sums as lists of arrays, whose size is known."""
    if isinstance(result, list | tuple):
        return [_plain(part) for part in result]
    return list(vars(result).values()) if hasattr(result, "plain_sum") else result


def _timed(function: Callable[[], Any], client: Client | None = None) -> tuple[float, float]:
    """Return the wall time and the processor time of a call."""
    processes = [psutil.Process(), *(_workers(client) if client else [])]

    def worked() -> float:
        times = [process.cpu_times() for process in processes if process.is_running()]
        return sum(t.user + t.system for t in times)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before, begin = worked(), time.perf_counter()
        kept = function()  # results on the cluster live as long as their owner
        seconds, cpu = time.perf_counter() - begin, worked() - before
        del kept
    return seconds, cpu


if __name__ == "__main__":
    sys.exit(main())
