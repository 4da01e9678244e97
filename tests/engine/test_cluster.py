"""What holds on a real cluster of processes: the same result, also where some of them die."""

import gc
import os
import signal
import time
from contextlib import contextmanager
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait

from manyview import as_views
from manyview.engine.dask import DaskEngine

from .test_every_engine import assert_same, fitted, made

pytestmark = pytest.mark.slow  # processes

ROWS = 40
SHORT = {"max_iter": 4, "tol": 0.0, "patience": None}


@contextmanager
def processes():
    """A cluster of two worker processes, all of which are gone afterwards."""
    # a scheduler that is lost is given up soon
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}):
        cluster = LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=60,  # workers that are killed are spoken of at every level
        )
        with cluster, Client(cluster) as client:
            pids = client.run(os.getpid).values()
            yield client
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.fixture(scope="module")
def client():
    with processes() as client:
        yield client


def chunked(X):
    return da.from_array(X, chunks=(ROWS, -1), asarray=not sp.issparse(X))


def in_the_middle(monkeypatch, act, call):
    """Act once, at some call of a fit, and count the calls."""
    calls, acts = [], [act]
    run = DaskEngine._run

    def counted(self, pending):
        calls.append(pending)
        if len(calls) == call and acts:
            acts.pop()()
        return run(self, pending)

    monkeypatch.setattr(DaskEngine, "_run", counted)
    return calls


@pytest.mark.parametrize("sparse", [(False, False), (True, False)])
def test_the_result_is_that_of_one_process(client, sparse):
    views, _ = made(sparse=sparse)
    expected = fitted(views, **SHORT)
    found = fitted([chunked(X) for X in views], **SHORT)
    assert_same(found, expected)
    assert found.labels_.chunks == ((ROWS, ROWS, ROWS, 30),)
    new = [chunked(X[:50]) for X in views]
    np.testing.assert_array_equal(
        found.predict(new).compute(), expected.predict([X[:50] for X in views])
    )
    here = found.to_local()
    np.testing.assert_array_equal(here.predict(views), expected.predict(views))


def test_what_is_persisted_is_used_where_it_is(client):
    views, _ = made()
    there = client.persist([chunked(X) for X in views])
    wait(there)
    engine = DaskEngine(as_views(there), normalize="rows")
    for array, sources in zip(there, engine._raw, strict=True):
        assert [source[0][0].key for source in sources] == [key for (key,) in array.__dask_keys__()]
    assert_same(fitted(there, **SHORT), fitted(views, **SHORT))


def test_nothing_is_left_on_the_workers(client):
    views, _ = made()
    model = fitted([chunked(X) for X in views], **SHORT)
    assert any(_held(client))
    del model
    for _ in range(100):  # it is let go of in the background
        if not any(_held(client)):
            break
        time.sleep(0.1)
    assert not list(_held(client))


def _held(client):
    gc.collect()
    return (key for keys in client.has_what().values() for key in keys if "manyview" in str(key))


def test_a_lost_worker_does_not_change_the_result(client, monkeypatch):
    views, _ = made()
    first = next(iter(client.run(os.getpid).items()))
    calls = in_the_middle(monkeypatch, lambda: os.kill(first[1], signal.SIGKILL), 25)
    found = fitted([chunked(X) for X in views], **SHORT)
    assert len(calls) > 30
    assert first[0] not in client.scheduler_info()["workers"]
    assert_same(found, fitted(views, **SHORT))


def test_a_lost_scheduler_raises_and_the_checkpoint_resumes(client, monkeypatch, tmp_path):
    views, _ = made()
    options = SHORT | {"checkpoint": tmp_path / "fit.npz"}
    with processes() as other:
        cluster = other.cluster
        act = partial(cluster.sync, cluster.scheduler.close)
        calls = in_the_middle(monkeypatch, act, 40)
        with pytest.raises(RuntimeError, match="checkpoint="):
            fitted([chunked(X) for X in views], **options)
    # on the cluster that is left the fit goes on from its checkpoint
    calls.clear()
    assert_same(fitted([chunked(X) for X in views], **options), fitted(views, **SHORT))
    resumed = len(calls)
    calls.clear()
    fitted([chunked(X) for X in views], **SHORT)
    assert 0 < resumed < len(calls)
