"""Where the tasks of Dask run: on the workers of a cluster, or on threads of this process."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, TypeAlias

import dask
from dask.base import get_scheduler

from manyview.linalg.threads import limited_threads

__all__ = ["Graph", "Ref", "Runner", "runner_for"]

Graph: TypeAlias = Mapping[Any, Any]
"""Tasks by key, as Dask takes them."""
Ref: TypeAlias = Any
"""What stands for a result in later tasks: a future of the cluster, or the result itself."""

_LOST = (
    "the scheduler of the Dask cluster was lost in the middle of the work ({why}). What its "
    "workers held is gone with it: start a cluster and fit again. With checkpoint=PATH a fit goes "
    "on where the last one stopped"
)


class Runner(Protocol):
    """Runs graphs, and keeps results where they are needed next."""

    remote: bool

    def run(self, graph: Graph, fetched: list[Any], kept: list[Any]) -> tuple[list[Any], list[Ref]]:
        """Return the results of some keys, and references to those of others."""

    def working(self) -> Any:
        """Hold what the work needs while it runs."""


def runner_for(arrays: Iterable[Any]) -> Runner:
    """Return the active client's cluster, else the scheduler that Dask is set to, or threads."""
    get = get_scheduler(collections=list(arrays))
    client = getattr(get, "__self__", None)
    if "distributed" in sys.modules and client is not None:
        from distributed import Client

        if isinstance(client, Client):
            return Cluster(client)
    return Here(get)


class Here:
    """Tasks in this process, by the scheduler that Dask is set to; a reference is the result."""

    remote = False

    def __init__(self, get: Any) -> None:
        self._get = get

    def run(self, graph: Graph, fetched: list[Any], kept: list[Any]) -> tuple[list[Any], list[Ref]]:
        """Return the results of some keys, and references to those of others."""
        results = self._get(dict(graph), [*fetched, *kept])
        return list(results[: len(fetched)]), list(results[len(fetched) :])

    def working(self) -> Any:
        """Hold BLAS to one thread in each of those of Dask."""
        return limited_threads(1)


class Cluster:
    """Tasks on the workers of a cluster; a reference is a future, whose data stay there.

    Results that are lost with a worker are made again by the scheduler, which knows the tasks
    that lead to them from the views on.
    """

    remote = True

    def __init__(self, client: Any) -> None:
        self._client = client
        self._last: list[Any] = []

    def run(self, graph: Graph, fetched: list[Any], kept: list[Any]) -> tuple[list[Any], list[Ref]]:
        """Return the results of some keys, and references to those of others.

        It waits for the former only: what is kept may still be in the making.
        """
        with self._watched():
            # what the samples' owner hands over in this process is large, and knows it
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
                futures = self._client.get(dict(graph), [*fetched, *kept], sync=False)
            # results of the call before are let go only now: messages of a client are at least
            # ten milliseconds apart, and the graph would have waited behind that one
            self._last = futures[: len(fetched)]
            results = self._client.gather(futures[: len(fetched)]) if fetched else []
            return list(results), futures[len(fetched) :]

    def working(self) -> Any:
        """Hold nothing: the workers have their threads."""
        return nullcontext()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Say what happened where the connection to the scheduler breaks."""
        try:
            yield
        except Exception as error:
            # what a task raised comes here too, with the client in good order
            if self._client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise RuntimeError(_LOST.format(why=str(error) or type(error).__name__)) from error
