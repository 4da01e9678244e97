"""Tasks of the Dask engine, and the memory of its workers.

Memory of large arrays that serves again once they are dropped.

A process asks the system for the memory of each large array, and gives it back with the array. The
system hands it over page by page, in zeros: for an array that is written once and read a few times
that can take as long as the work on it. See benchmarks/cluster.py.

What a task does with a block of rows, wherever it runs: pure functions of what it is given.

A chunk of the caller's is one block to Dask and is worked on a few megabytes at a time, as rows in
this process are, so that large chunks neither leave the cache nor need room for large temporaries.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from operator import getitem
from typing import Any, Protocol, TypeAlias
from uuid import uuid4

import dask
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from dask.base import get_scheduler

from manyview.engine.block import Block, RowView, Sums, add_sums, row_scale, rows_of
from manyview.linalg.threads import limited_threads

__all__ = [
    "Graph",
    "GraphOfCall",
    "Part",
    "Plan",
    "Ref",
    "Runner",
    "Step",
    "Written",
    "keep_freed_memory",
    "restricted",
    "runner_for",
    "scaled",
    "stored",
    "taken",
    "taken_state",
    "worked",
]


# of glibc's mallopt
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

_LARGEST = 4 << 20  # bytes of an array whose memory serves again
_MOST_FREE = 8 << 20  # bytes that a thread keeps


@cache
def keep_freed_memory() -> None:
    """Let a worker of Dask use the memory of temporaries again, some megabytes of it.

    Dask sets its workers up to give memory back to the system as soon as 64 KB of it are free. Each
    temporary of a kernel is then paid for page by page: measured, twice the time of a fit. Other
    processes, and other systems than glibc's, find by themselves what to keep and are left alone.
    """
    if not sys.platform.startswith("linux") or "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _MOST_FREE)


NO_VIEW: Any = None

_TEMPORARY_BYTES = 1 << 20
_CACHE_BYTES = 4 << 20
_PIECE_ROWS = (512, 8192)


@dataclass(frozen=True)
class Step:
    """A kernel, what it is given beside the block, and whether it renews the block's state."""

    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    updates: bool


@dataclass(frozen=True)
class Written:
    """An array of a state: its name, and its place where the state is a list of arrays."""

    name: str
    index: int

    def of(self, state: dict[str, Any]) -> npt.NDArray[Any]:
        """Return that array."""
        value = state[self.name]
        return np.asarray(value[self.index] if isinstance(value, list | tuple) else value)


@dataclass(frozen=True)
class Plan:
    """What all tasks of a call have in common.

    Attributes
    ----------
    steps : tuple of Step
        Kernels, one after another on the same rows. The sums are those of the last.
    n_views : int
        Number of views of a block.
    views : tuple of int
        Views that the kernels look at; others are not read.
    names : tuple of (str, int or None)
        States that the kernels read: an array, a list of some arrays, or with -1 None.
    factors : tuple of float
        What the arrays of these states are multiplied by, one after another.
    written : tuple of Written
        Arrays that the block's state is renewed with.
    row_bytes : float
        Size of a row of the widest state: temporaries of the kernels are about as wide.
    sums_bytes : float
        Size of what is added over blocks.
    """

    steps: tuple[Step, ...]
    n_views: int
    views: tuple[int, ...]
    names: tuple[tuple[str, int | None], ...]
    factors: tuple[float, ...]
    written: tuple[Written, ...]
    row_bytes: float
    sums_bytes: float

    def __dask_tokenize__(self) -> object:
        # each plan is of one call: to look at its content would cost more than to send it
        return uuid4().hex

    @property
    def sums(self) -> bool:
        """Whether there is something to add over blocks."""
        return self.sums_bytes > 0

    def state_of(self, arrays: Iterable[npt.NDArray[Any]]) -> dict[str, Any]:
        """Return arrays by the names of their states."""
        rest = iter(arrays)
        state: dict[str, Any] = {}
        for name, count in self.names:
            if count is None:
                state[name] = next(rest)
            else:
                state[name] = None if count < 0 else [next(rest) for _ in range(count)]
        return state


@dataclass(frozen=True)
class Part:
    """Which samples a block holds, and the precision of the work."""

    start: int
    stop: int
    dtype: np.dtype[Any]

    def __dask_tokenize__(self) -> object:
        return self.start, self.stop, self.dtype.str

    @property
    def rows(self) -> slice:
        """The samples."""
        return slice(self.start, self.stop)


def worked(plan: Plan, part: Part, sources: list[Any], scales: list[Any], arrays: list[Any]) -> Any:
    """Return the sums of a block and the arrays of its renewed state, or the only one of these.

    Parameters
    ----------
    plan : Plan
    part : Part
    sources : list
        Of each view that is looked at, what :func:`opened` takes.
    scales : list of ndarray or None
        Of each of these views, the factors of its rows.
    arrays : list of ndarray
        Of each state that is read, its arrays.
    """
    keep_freed_memory()
    arrays_of_views = [opened(source, part.dtype) for source in sources]
    size = part.stop - part.start
    pieces = list(_pieces(size, arrays_of_views, plan.row_bytes, plan.sums_bytes))
    most = pieces[0].stop
    views = [_Pieces(x, most) for x in arrays_of_views]
    factors = [None if scale is None else _Pieces(scale, most) for scale in scales]
    states = [_Pieces(x, most, times) for x, times in zip(arrays, plan.factors, strict=True)]
    written: list[npt.NDArray[Any]] = []

    def sums_of_pieces() -> Iterator[Sums]:
        for piece in pieces:
            block = _block(plan, part, piece, views, factors, states)
            sums: Sums = ()
            for step in plan.steps:
                result = step.kernel(block, *step.args)
                if step.updates:
                    state, sums = result
                    block.state.update(state)
                else:
                    sums = result
            results = [which.of(block.state) for which in plan.written]
            if not written:
                written.extend(np.empty((size, *x.shape[1:]), x.dtype) for x in results)
            for whole, result in zip(written, results, strict=True):
                whole[piece] = result
            yield sums

    total = add_sums(sums_of_pieces())
    if not plan.sums and len(written) == 1:
        return written[0]
    return (total, *written) if written else total


def _pieces(
    size: int, views: list[Any], row_bytes: float = 1.0, sums_bytes: float = 0.0
) -> Iterator[slice]:
    rows = _piece_rows(views, row_bytes, sums_bytes)
    for begin in range(0, size, rows):
        yield slice(begin, min(begin + rows, size))


def _piece_rows(views: list[Any], row_bytes: float, sums_bytes: float) -> int:
    """Return how many rows are worked on at a time."""
    narrowest = min(
        (_CACHE_BYTES / max(x[:1].nbytes, 1) for x in views if not sp.issparse(x)), default=np.inf
    )
    rows = min(_TEMPORARY_BYTES / row_bytes, narrowest)
    # sums are added once a piece: they must not outweigh the work on its rows
    return int(np.clip(max(rows, sums_bytes / 1024), *_PIECE_ROWS))


def _block(
    plan: Plan,
    part: Part,
    piece: slice,
    rows_of_views: list[_Pieces],
    scales: list[_Pieces | None],
    states: list[_Pieces],
) -> Block:
    views = [NO_VIEW] * plan.n_views
    for v, rows, scale in zip(plan.views, rows_of_views, scales, strict=True):
        views[v] = RowView(rows.of(piece), None if scale is None else scale.of(piece))
    state = plan.state_of(rows.of(piece) for rows in states)
    return Block(slice(part.start + piece.start, part.start + piece.stop), views, state)


class _Pieces:
    """Rows of a block, some at a time: times a number, and where products are fast.

    Arrays that came over the network begin anywhere in memory, and NumPy would copy them whole, and
    slowly, at each product. Their rows are copied into one place instead, which stays in the cache,
    and so are rows that are multiplied.
    """

    def __init__(self, x: Any, most: int, times: float = 1.0) -> None:
        self._x, self._times = x, times
        self._place = None
        if not sp.issparse(x) and (times != 1.0 or not x.flags.aligned):
            self._place = np.empty((most, *x.shape[1:]), x.dtype)

    def of(self, piece: slice) -> Any:
        """Return the rows of a piece, good until the next one is asked for.

        They cannot be written into: other tasks may share them.
        """
        if sp.issparse(self._x):
            return rows_of(self._x, piece)
        rows = self._x[piece]
        if self._place is not None:
            place = self._place[: piece.stop - piece.start]
            if self._times == 1.0:
                np.copyto(place, rows)
            else:
                np.multiply(rows, self._times, out=place, casting="same_kind")
            rows = place[:]
        rows.flags.writeable = False
        return rows


def opened(source: list[Any], dtype: np.dtype[Any]) -> Any:
    """Return the raw rows of a view: columns side by side, sparse ones as clean CSR.

    A source is a list of columns, each an array or a recipe with what it is made from.
    """
    columns = [maker(given) if callable(maker) else maker for maker, given in source]
    if not any(sp.issparse(x) for x in columns):
        arrays = [np.asarray(x) for x in columns]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)
    x = sp.csr_array(columns[0] if len(columns) == 1 else sp.hstack(columns, format="csr"))
    if x.dtype != dtype:
        x = x.astype(dtype)
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    return x


def scaled(
    part: Part, source: list[Any], normalize: str | None, here: npt.NDArray[np.bool_] | None
) -> Any:
    """Return the factors of the rows of a view."""
    x = opened(source, part.dtype)
    found = np.empty(x.shape[0], part.dtype)
    for piece in _pieces(x.shape[0], [x]):
        present = None if here is None else here[piece]
        found[piece] = row_scale(rows_of(x, piece), normalize, present, part.dtype)
    return found


def restricted(part: Part, source: list[Any], active: npt.NDArray[np.intp]) -> Any:
    """Return a copy of the rows of a view that holds the features `active` only."""
    return RowView(opened(source, part.dtype), None).restrict(active).x


def stored(part: Part, source: list[Any]) -> Sums:
    """Return how many entries each feature of a sparse view stores."""
    x = opened(source, part.dtype)
    return (np.bincount(x.indices, minlength=x.shape[1]),)


def taken(part: Part, sources: list[Any], scales: list[Any], rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of some views, and their factors."""
    views = [opened(source, part.dtype)[rows] for source in sources]
    return views, [None if scale is None else scale[rows] for scale in scales]


def taken_state(array: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Return some rows of a state."""
    return np.asarray(array[rows])


_AT_ONCE = 8  # results that are added together
_SMALL = 1 << 20  # bytes of results that the driver may add itself, which saves a task

_CALLS = itertools.count()  # whose next is safe where threads ask at once


class GraphOfCall(dict[Any, Any]):
    """Tasks by keys that no other call has."""

    def __init__(self) -> None:
        super().__init__()
        self._call = f"{uuid4().hex}-{next(_CALLS)}"

    def add(self, label: str, tasks: list[Any]) -> list[Any]:
        """Add tasks, and return their keys."""
        name = f"manyview-{label}-{self._call}-{len(self)}"
        keys = [(name, n) for n in range(len(tasks))]
        self.update(zip(keys, tasks, strict=True))
        return keys

    def take_apart(self, results: list[Any], places: range) -> list[list[Any]]:
        """Return the keys of parts of results, so that each is kept and dropped by itself."""
        return [self.add("part", [(getitem, key, place) for key in results]) for place in places]

    def partial_sums(self, results: list[Any], size: float) -> list[Any]:
        """Return the keys of the sums of some results each, in the order of the blocks.

        Parameters
        ----------
        results : list
            Keys of what is added.
        size : float
            Bytes of one of them. If they are large, one sum is left.
        """
        few = _AT_ONCE if size * _AT_ONCE <= _SMALL else 1
        while len(results) > few:
            groups = [results[n : n + _AT_ONCE] for n in range(0, len(results), _AT_ONCE)]
            results = self.add("added", [(add_sums, group) for group in groups])
        return results


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
