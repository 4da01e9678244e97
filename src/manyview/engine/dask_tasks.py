"""Tasks of the Dask engine, and where they run.

Tasks are pure functions of what they are given. A chunk of the caller is one block to Dask. A task
processes it a few megabytes at a time, so that large chunks stay in the cache and need no large
temporaries.
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
    "Cluster",
    "GraphOfCall",
    "Part",
    "Plan",
    "Ref",
    "Runner",
    "StateArray",
    "Step",
    "restricted",
    "row_scales",
    "run_plan",
    "runner_for",
    "stored",
    "taken",
    "taken_state",
]


# of glibc's mallopt
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

_LARGEST = 4 << 20  # bytes of an array whose memory is reused
_MOST_FREE = 8 << 20  # free bytes that the process keeps


@cache
def keep_freed_memory() -> None:
    """Let a Dask worker reuse the memory of temporaries, up to some megabytes.

    Dask configures its workers to return memory to the system once 64 KB are free. Every temporary
    of a kernel then costs page faults, and a fit up to 1.4 times the processor time. Processes
    without that setting, and systems without glibc, are not changed.
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
    """A kernel, its arguments after the block, and whether it updates the block's state."""

    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    updates: bool


@dataclass(frozen=True)
class StateArray:
    """The name of a state, and a position in it if the state is a list of arrays."""

    name: str
    index: int

    def of(self, state: dict[str, Any]) -> npt.NDArray[Any]:
        """Return the array."""
        value = state[self.name]
        return np.asarray(value[self.index] if isinstance(value, list | tuple) else value)


@dataclass(frozen=True)
class Plan:
    """What all tasks of a call share."""

    steps: tuple[Step, ...]  # kernels in their order; the sums are those of the last one
    n_views: int
    views: tuple[int, ...]  # views that the kernels read; others are not loaded
    # states that the kernels read: None for an array, the length of a list, -1 for no value
    names: tuple[tuple[str, int | None], ...]
    factors: tuple[float, ...]  # of the arrays of these states
    written: tuple[StateArray, ...]  # arrays of the new state
    row_bytes: float  # a row of the widest state; temporaries of the kernels are about as wide
    sums_bytes: float

    def __dask_tokenize__(self) -> object:
        # a plan belongs to one call; hashing its content would cost more than sending it
        return uuid4().hex

    @property
    def sums(self) -> bool:
        """Whether there are sums over blocks."""
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


def run_plan(
    plan: Plan, part: Part, sources: list[Any], scales: list[Any], arrays: list[Any]
) -> Any:
    """Run the kernels of a plan on a block, given the source and row scales of each view it reads.

    Return the sums and the arrays of the new state; without sums, a single array by itself.
    """
    keep_freed_memory()
    arrays_of_views = [load_rows(source, part.dtype) for source in sources]
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
    """Return how many rows are processed at a time."""
    narrowest = min(
        (_CACHE_BYTES / max(x[:1].nbytes, 1) for x in views if not sp.issparse(x)), default=np.inf
    )
    rows = min(_TEMPORARY_BYTES / row_bytes, narrowest)
    # sums are added once per piece and must not outweigh the work on its rows
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
    """Rows of a block, some at a time, multiplied by a number and aligned in memory.

    Arrays from the network may be misaligned, and NumPy would copy them as a whole, slowly, for
    every product. Such rows are copied a piece at a time into a buffer that stays in the cache.
    """

    def __init__(self, x: Any, most: int, times: float = 1.0) -> None:
        self._x, self._times = x, times
        self._place = None
        if not sp.issparse(x) and (times != 1.0 or not x.flags.aligned):
            self._place = np.empty((most, *x.shape[1:]), x.dtype)

    def of(self, piece: slice) -> Any:
        """Return the rows of a piece, read-only and valid until the next request."""
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


def load_rows(source: list[Any], dtype: np.dtype[Any]) -> Any:
    """Return the raw rows of a view, with its chunks of columns concatenated.

    Sparse rows become CSR arrays without duplicate entries.
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


def row_scales(
    part: Part, source: list[Any], normalize: str | None, here: npt.NDArray[np.bool_] | None
) -> Any:
    """Return the factors of the rows of a view."""
    x = load_rows(source, part.dtype)
    found = np.empty(x.shape[0], part.dtype)
    for piece in _pieces(x.shape[0], [x]):
        present = None if here is None else here[piece]
        found[piece] = row_scale(rows_of(x, piece), normalize, present, part.dtype)
    return found


def restricted(part: Part, source: list[Any], active: npt.NDArray[np.intp]) -> Any:
    """Return a copy of the rows of a view with the features `active` only."""
    return RowView(load_rows(source, part.dtype), None).restrict(active).x


def stored(part: Part, source: list[Any]) -> Sums:
    """Return the number of stored entries of each feature of a sparse view."""
    x = load_rows(source, part.dtype)
    return (np.bincount(x.indices, minlength=x.shape[1]),)


def taken(part: Part, sources: list[Any], scales: list[Any], rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of some views, and their factors."""
    views = [load_rows(source, part.dtype)[rows] for source in sources]
    return views, [None if scale is None else scale[rows] for scale in scales]


def taken_state(array: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Return some rows of a state."""
    return np.asarray(array[rows])


_AT_ONCE = 8  # results that are added together
_SMALL = 1 << 20  # bytes of results that the driver may add itself, which saves a task

_CALLS = itertools.count()  # safe with several threads


class GraphOfCall(dict[Any, Any]):
    """A task graph with keys that no other call uses."""

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
        """Return the keys of parts of results, so that each is released independently."""
        return [self.add("part", [(getitem, key, place) for key in results]) for place in places]

    def partial_sums(self, results: list[Any], size: float) -> list[Any]:
        """Return the keys of a few partial sums, in the order of the blocks.

        `size` is that of one result in bytes. Large results are added to a single sum.
        """
        few = _AT_ONCE if size * _AT_ONCE <= _SMALL else 1
        while len(results) > few:
            groups = [results[n : n + _AT_ONCE] for n in range(0, len(results), _AT_ONCE)]
            results = self.add("added", [(add_sums, group) for group in groups])
        return results


Graph: TypeAlias = Mapping[Any, Any]
"""Tasks by key, as Dask takes them."""
Ref: TypeAlias = Any
"""A result in later tasks: a future of the cluster, or the result itself."""

_LOST = (
    "the connection to the scheduler of the Dask cluster was lost ({why}), and with it the state "
    "of the fit; start a new cluster and fit again. With checkpoint=PATH a fit resumes where the "
    "last one stopped"
)


class Runner(Protocol):
    """Runs graphs, and keeps results for later tasks."""

    remote: bool

    def run(self, graph: Graph, fetched: list[Any], kept: list[Any]) -> tuple[list[Any], list[Ref]]:
        """Return the results of some keys, and references to those of others."""

    def working(self) -> Any:
        """Hold resources of a fit."""


def runner_for(arrays: Iterable[Any]) -> Runner:
    """Return a runner for the active client, or else for the scheduler that Dask is set to."""
    get = get_scheduler(collections=list(arrays))
    client = getattr(get, "__self__", None)
    if "distributed" in sys.modules and client is not None:
        from distributed import Client

        if isinstance(client, Client):
            return Cluster(client)
    return Here(get)


class Here:
    """Tasks in this process, run by the scheduler of Dask; a reference is the result."""

    remote = False

    def __init__(self, get: Any) -> None:
        self._get = get

    def run(self, graph: Graph, fetched: list[Any], kept: list[Any]) -> tuple[list[Any], list[Ref]]:
        """Return the results of some keys, and references to those of others."""
        results = self._get(dict(graph), [*fetched, *kept])
        return list(results[: len(fetched)]), list(results[len(fetched) :])

    def working(self) -> Any:
        """Limit BLAS to one thread in each thread of Dask."""
        return limited_threads(1)


class Cluster:
    """Tasks on the workers of a cluster; a reference is a future, whose data stay there.

    If a worker is lost, the scheduler recomputes its results, from the views if necessary.
    """

    remote = True

    def __init__(self, client: Any) -> None:
        self._client = client
        self._last: list[Any] = []

    def run(self, graph: Graph, fetched: list[Any], kept: list[Any]) -> tuple[list[Any], list[Ref]]:
        """Return the results of some keys, and references to those of others.

        It waits for the former only.
        """
        with self._watched():
            # arrays of the caller's process are large, and the caller knows it
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
                futures = self._client.get(dict(graph), [*fetched, *kept], sync=False)
            # results of the previous call are released only now: a client sends messages at least
            # ten milliseconds apart, and an earlier release would delay the graph
            self._last = futures[: len(fetched)]
            results = self._client.gather(futures[: len(fetched)]) if fetched else []
            return list(results), futures[len(fetched) :]

    def working(self) -> Any:
        """Hold nothing: workers have their own threads."""
        return nullcontext()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise a clear error if the connection to the scheduler breaks."""
        try:
            yield
        except Exception as error:
            # an exception of a task leaves the client running
            if self._client.status == "running" and not isinstance(error, CancelledError):
                raise
            raise RuntimeError(_LOST.format(why=str(error) or type(error).__name__)) from error
