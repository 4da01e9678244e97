"""What holds on a real cluster of processes: the same result, also where some of them die."""

import os
import signal
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from manyview import MMC
from manyview.engine.dask import DaskEngine

from .test_every_engine import assert_same, fitted, made

QUICK = {
    "distributed.comm.timeouts.connect": "3s",
    "distributed.comm.retry.count": 0,
    "distributed.admin.tick.limit": "60s",  # a slow machine is not a failed property
}


@pytest.fixture
def cluster():
    with dask.config.set(QUICK), _quiet():
        cluster = LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        )
        with cluster, Client(cluster):
            pids = [worker.pid for worker in cluster.workers.values()]
            yield cluster
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.fixture(scope="module")
def client():
    with dask.config.set(QUICK), _quiet():
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        )
        with cluster, Client(cluster) as client:
            yield client
