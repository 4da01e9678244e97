import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from manyview import MMC
from manyview.datasets import make_views
from manyview.engine import blas_threads
from manyview.linalg.partition import cluster_rows
from manyview.linalg.threads import _release_openblas, limited_blas


@pytest.fixture(autouse=True)
def two_threads():
    """Run with two threads of BLAS."""
    with threadpool_limits(2, user_api="blas"):
        _release_openblas()
        yield
        _release_openblas()


def now():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_threads_by_default_are_those_of_blas():
    assert blas_threads() == 2
    with threadpool_limits(1, user_api="blas"):
        assert blas_threads() == 1


def test_a_limit_is_lifted_and_not_counted():
    with limited_blas(1):
        assert now() == {1}
        assert blas_threads() == 2
    assert now() == {2}


def test_a_limit_is_lifted_by_an_error():
    with pytest.raises(RuntimeError), limited_blas(1):
        raise RuntimeError
    assert now() == {2}


def test_the_last_of_overlapping_calls_lifts_the_limit():
    first, second = limited_blas(1), limited_blas(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert now() == {1}
    second.__exit__(None, None, None)
    assert now() == {2}


def test_the_last_thread_lifts_the_limit():
    inside, leave = Event(), Event()

    def first():
        with limited_blas(1):
            inside.set()
            leave.wait()

    def last():
        inside.wait()
        with limited_blas(1):
            leave.set()
            one.result()
            held.append(now())

    held = []
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        pool.submit(last).result()
    assert held == [{1}]
    assert now() == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_process_has_no_limit():
    # in a process of its own: after a fork OpenBLAS starts its threads anew, and releases before
    # 0.3.29 may crash if several threads ask for that at once
    script = """
import os
from threadpoolctl import threadpool_info
from manyview.linalg.threads import limited_blas
with limited_blas(1):
    child = os.fork()
    if child == 0:
        with limited_blas(2):
            blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            os._exit(any(pool["num_threads"] != 2 for pool in blas))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("indicator", "n"), [("leave-one-out", 600), ("discrete", 3000)])
def test_fits_in_several_threads_leave_blas_as_it_was(indicator, n):
    views, _ = make_views(n_samples=n, n_clusters=3, random_state=0)
    options = {"indicator": indicator, "init": np.arange(n) % 3, "normalize": "rows"}
    model = MMC(3, random_state=0, max_iter=2, n_jobs=2, **options)
    barrier = Barrier(3)

    def fit(_):
        barrier.wait()
        return MMC(**model.get_params()).fit(views).labels_

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(fit, range(3)))
    assert now() == {2}
    for labels in found[1:]:
        np.testing.assert_array_equal(labels, found[0])


def test_clusterings_in_several_threads_leave_blas_as_it_was():
    """scikit-learn's k-means sets a limit of its own."""
    rows = np.random.default_rng(0).random((2000, 5))
    barrier = Barrier(3)

    def cluster(seed):
        barrier.wait()
        for _ in range(3):
            cluster_rows(rows, 4, np.random.default_rng(seed))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(cluster, range(3)))
    assert now() == {2}
