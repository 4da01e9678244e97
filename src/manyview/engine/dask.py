"""The engine for Dask arrays, on a cluster or on threads of this process.

State stays where the blocks are. Kernels without sums wait for the next kernel that has some, and
run in the same task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import mul
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from dask.highlevelgraph import HighLevelGraph
from dask.sizeof import sizeof

from manyview.engine.arrays import Array
from manyview.engine.base import Engine
from manyview.engine.block import Block, RowView, Sums, Update, add_sums, split_by_block
from manyview.engine.dask_rows import Source, aligned, parts_of, sources_of
from manyview.engine.dask_tasks import (
    GraphOfCall,
    Part,
    Plan,
    Ref,
    StateArray,
    Step,
    restricted,
    row_scales,
    run_plan,
    runner_for,
    stored,
    taken,
    taken_state,
)
from manyview.engine.scaling import Scaling
from manyview.views import Normalize, Views, normalize_by_view

__all__ = ["DaskEngine"]

_SMALL = 1 << 16  # bytes of arguments that each task carries; larger ones are sent once


@dataclass(frozen=True)
class _Array:
    """An array of a state: a reference for each block, and a factor that readers apply."""

    refs: list[Ref]
    factor: float = 1.0


@dataclass(frozen=True)
class _Held:
    """A state of all blocks: its array, or those of a list."""

    arrays: tuple[_Array, ...]
    listed: bool


class DaskEngine(Engine):
    """Row blocks that are chunks of Dask arrays.

    With an active ``distributed.Client`` its workers run the tasks, otherwise the scheduler that
    Dask is set to (threads by default). Only arrays as small as a factor pass through this process.

    Parameters
    ----------
    views : Views
        Checked views: Dask arrays with known chunks, of NumPy or SciPy CSR arrays.
    normalize : {"rows", "columns"} or None, or one of them for each view
        Unit rows, standardised columns, or neither.
    scalings : list of Scaling, optional
        Column scalings of an earlier fit, for out-of-sample prediction.

    Notes
    -----
    Chunks that are loaded lazily are read again in each pass. Workers keep the state of the blocks
    and may spill it to disk.
    """

    def __init__(
        self,
        views: Views,
        *,
        normalize: Normalize,
        scalings: list[Scaling] | None = None,
    ) -> None:
        self.dtype = views.dtype
        self.n_samples = views.n_samples
        arrays = aligned(views)
        self._chunks: tuple[int, ...] = arrays[0].chunks[0]
        self._parts = parts_of(self._chunks, self.dtype)
        self._runner = runner_for(arrays)
        self._raw = [self._sources(array) for array in arrays]
        self._sources_now = list(self._raw)
        self._stored: dict[int, npt.NDArray[np.int64]] = {}
        self._state: dict[str, _Held | None] = {}
        by_view = normalize_by_view(normalize, views)
        self._scales = [self._row_scales(v, n, views.present) for v, n in enumerate(by_view)]
        first = np.arange(min(N_TRIAL, self._parts[0].stop))
        self._pending = Pending(slice(0, first.size), self.take(first))
        self.scalings = scalings or self._found_scalings(views.n_features, by_view)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Limit BLAS to one thread in each thread of Dask in this process."""
        with self._runner.working():
            yield

    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""
        return self._run(self._pending.take(kernel, args, updates=False))

    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Store the state that ``kernel(block, *args)`` returns in each block; sum the rest.

        Nothing changes before all blocks are done, so an interrupt leaves the old state.
        """
        pending = self._pending.take(kernel, args, updates=True)
        if pending.sums:
            return self._run(pending)
        self._pending = pending
        return ()

    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None restores all of them.

        The copies stay on the workers, so a view on disk is not read while they are in use.
        """
        if active is None and self.scalings[v].active is None:
            return
        self._run_pending()
        (view,) = self._taken(np.arange(self._pending.rows.stop), [v])
        if active is None:
            self._sources_now[v] = self._raw[v]
        else:
            view = view.restrict(active)
            tasks = [(restricted, *pair, active) for pair in self._with_parts(v)]
            self._sources_now[v] = [[[ref, []]] for ref in self._kept("restricted", tasks)]
        views = [*self._pending.views[:v], view, *self._pending.views[v + 1 :]]
        self._pending = replace(self._pending, views=views)
        self.scalings[v] = self.scalings[v].restrict(active)

    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""
        if not sp.issparse(self._pending.views[v].x):
            return self.n_samples * int(np.count_nonzero(features))
        if v not in self._stored:
            graph = GraphOfCall()
            counts = graph.add("stored", [(stored, *p) for p in self._with_parts(v)])
            sums = graph.partial_sums(counts, 8.0 * features.size)
            (self._stored[v],) = add_sums(self._runner.run(graph, sums, [])[0])
        return 2 * int(self._stored[v][features].sum())

    def rescale(self, name: str, factors: Sequence[float]) -> None:
        """Multiply each array of a state that is a list by a number.

        Only the numbers are stored, and readers apply them: cheaper than new arrays.
        """
        if self._pending.steps:
            super().rescale(name, factors)
            return
        held = _held(self._state, name)
        pairs = zip(held.arrays, factors, strict=True)
        arrays = tuple(replace(array, factor=array.factor * times) for array, times in pairs)
        self._state[name] = replace(held, arrays=arrays)
        few = [x * times for x, times in zip(self._pending.state[name], factors, strict=True)]
        self._pending = self._pending.with_state(**{name: few})

    def scatter(self, name: str, values: npt.NDArray[Any]) -> None:
        """Give each block its rows of an array, as state."""
        self._run_pending()
        values = np.asarray(values)
        refs = self._kept("scatter", [values[part.rows] for part in self._parts])
        self._state[name] = _Held((_Array(refs),), listed=False)
        self._pending = self._pending.with_state(**{name: values[self._pending.rows].copy()})

    def gather(self, name: str) -> Array:
        """Return a state of all blocks as a Dask array with the caller's chunks of rows."""
        self._run_pending()
        (held,) = _held(self._state, name).arrays
        few = self._pending.state[name]
        label = f"manyview-{name}-{uuid4().hex}"
        beside = (0,) * (few.ndim - 1)
        rest = iter(held.refs)
        if held.factor != 1.0:
            rest = ((mul, ref, held.factor) for ref in held.refs)
        graph = {
            (label, n, *beside): next(rest) if rows else np.empty((0, *few.shape[1:]), few.dtype)
            for n, rows in enumerate(self._chunks)
        }
        chunks = (self._chunks, *((width,) for width in few.shape[1:]))
        layers = HighLevelGraph.from_collections(label, graph, dependencies=[])
        return da.Array(layers, label, chunks, meta=np.empty((0,) * few.ndim, few.dtype))

    def take(self, samples: npt.NDArray[np.intp]) -> list[RowView]:
        """Return the rows of some samples in every view, in this process."""
        return self._taken(samples, range(len(self._raw)))

    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return a state of some samples, in this process."""
        self._run_pending()
        (held,) = _held(self._state, name).arrays
        chosen, back = split_by_block([part.start for part in self._parts], samples)
        tasks = [(taken_state, held.refs[b], rows) for b, rows in chosen]
        found = np.concatenate(self._fetched("take", tasks))[back]
        return found if held.factor == 1.0 else found * held.factor

    def snapshot(self, *names: str) -> list[dict[str, Any]]:
        """Return some of the blocks' state, for :meth:`restore`.

        Nothing is copied, because kernels replace arrays and do not write into them.
        """
        self._run_pending()
        return [{name: (self._state.get(name), self._pending.state.get(name)) for name in names}]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Restore the state of a snapshot."""
        self._run_pending()
        for name, (held, few) in snapshot[0].items():
            self._state[name] = held
            self._pending = self._pending.with_state(**{name: few})

    def _sources(self, array: Any) -> list[Source]:
        """Return the source of the rows of each block; chunks without rows are skipped."""
        pairs = zip(self._chunks, sources_of(array, self._runner), strict=True)
        return [source for rows, source in pairs if rows]

    def _run_pending(self) -> None:
        """Run the waiting kernels on all blocks."""
        if self._pending.steps:
            self._run(self._pending)

    def _run(self, pending: Pending) -> Sums:
        """Run kernels on all blocks: one task for each block, and a tree of tasks that add."""
        origins = pending.renewed()
        read = [(name, self._state[name]) for name in sorted(pending.names_read)]
        arrays = [array for _, held in read if held is not None for array in held.arrays]
        made = [which for which, origin in origins.items() if origin == Origin(which, new=True)]
        plan = Plan(
            steps=pending.steps,
            n_views=len(self._raw),
            views=tuple(sorted(pending.views_read)),
            names=tuple((name, _count(held)) for name, held in read),
            factors=tuple(array.factor for array in arrays),
            written=tuple(made),
            row_bytes=pending.row_bytes,
            sums_bytes=float(sizeof(list(pending.sums))) if pending.sums else 0.0,
        )
        graph = GraphOfCall()
        results = self._tasks(plan, [array.refs for array in arrays], graph)
        columns = [results]
        if plan.sums + len(made) > 1:
            columns = graph.take_apart(results, range(0 if plan.sums else 1, len(made) + 1))
        sums = graph.partial_sums(columns.pop(0), plan.sums_bytes) if plan.sums else []
        fetched, refs = self._runner.run(graph, sums, [key for keys in columns for key in keys])
        size = len(self._parts)
        found = {which: refs[n * size : (n + 1) * size] for n, which in enumerate(made)}
        self._renew(pending, origins, found)
        return add_sums(fetched)

    def _tasks(self, plan: Plan, arrays: list[list[Ref]], graph: GraphOfCall) -> list[Any]:
        """Add the tasks of a plan, and return their keys in the order of the blocks."""
        shown: Any = plan
        if self._runner.remote and sizeof([list(step.args) for step in plan.steps]) > _SMALL:
            (shown,) = graph.add("plan", [plan])
        tasks = []
        for b, part in enumerate(self._parts):
            scales = [None if (s := self._scales[v]) is None else s[b] for v in plan.views]
            sources = [self._sources_now[v][b] for v in plan.views]
            tasks.append((run_plan, shown, part, sources, scales, [refs[b] for refs in arrays]))
        # Dask recognises the kind of a task, and its cost, by words between hyphens
        kernel = getattr(plan.steps[-1].kernel, "__name__", "kernel")
        return graph.add(kernel.strip("_<>").replace("_", "-"), tasks)

    def _renew(
        self,
        pending: Pending,
        origins: dict[StateArray, Origin],
        found: dict[StateArray, list[Ref]],
    ) -> None:
        """Store the new state under its names."""
        before = dict(self._state)

        def array_of(which: StateArray) -> _Array:
            array, new = origins[which].array, origins[which].new
            return _Array(found[array]) if new else _held(before, array.name).arrays[array.index]

        for name in pending.written:
            value = pending.state[name]
            arrays = tuple(array_of(StateArray(name, n)) for n in range(len(arrays_of(value))))
            listed = isinstance(value, list | tuple)
            self._state[name] = None if value is None else _Held(arrays, listed)
        self._pending = pending.arrived()

    def _row_scales(
        self, v: int, normalize: str | None, present: npt.NDArray[np.bool_] | None
    ) -> list[Ref] | None:
        """Return references to the row scales of a view."""
        if normalize != "rows" and present is None:
            return None
        here = [None if present is None else present[part.rows, v] for part in self._parts]
        pairs = zip(self._with_parts(v), here, strict=True)
        return self._kept("scale", [(row_scales, *pair, normalize, h) for pair, h in pairs])

    def _taken(self, samples: npt.NDArray[np.intp], which: Sequence[int]) -> list[RowView]:
        chosen, back = split_by_block([part.start for part in self._parts], samples)
        tasks = []
        for b, rows in chosen:
            scales = [None if (s := self._scales[v]) is None else s[b] for v in which]
            tasks.append((taken, self._parts[b], [self._raw[v][b] for v in which], scales, rows))
        found = self._fetched("taken", tasks)
        views = []
        for n in range(len(which)):
            parts, factors = zip(*((xs[n], scales[n]) for xs, scales in found), strict=True)
            x = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
            scale = None if factors[0] is None else np.concatenate(factors)[back]
            views.append(RowView(x[back], scale))
        return views

    def _with_parts(self, v: int) -> Iterator[tuple[Part, Source]]:
        return zip(self._parts, self._raw[v], strict=True)

    def _kept(self, label: str, tasks: list[Any]) -> list[Ref]:
        """Return references to the results of tasks, which may still be running."""
        graph = GraphOfCall()
        return self._runner.run(graph, [], graph.add(label, tasks))[1]

    def _fetched(self, label: str, tasks: list[Any]) -> list[Any]:
        """Return the results of tasks, in this process."""
        graph = GraphOfCall()
        return self._runner.run(graph, graph.add(label, tasks), [])[0]


def _count(held: _Held | None) -> int | None:
    """Return how many arrays a state has: None for one that is no list, -1 for none."""
    if held is None:
        return -1
    return len(held.arrays) if held.listed else None


def _held(state: dict[str, _Held | None], name: str) -> _Held:
    held = state[name]
    if held is None:
        raise KeyError(name)
    return held


N_TRIAL = 2  # samples on which kernels are tried in this process


class _RecordedViews(list[RowView]):
    """Views that record which of them were read."""

    def __init__(self, views: list[RowView]) -> None:
        super().__init__(views)
        self.seen: set[int] = set()

    def __getitem__(self, v: Any) -> Any:
        self.seen.update(range(len(self))[v] if isinstance(v, slice) else [range(len(self))[v]])
        return super().__getitem__(v)

    def __iter__(self) -> Iterator[RowView]:
        self.seen.update(range(len(self)))
        return super().__iter__()


class _RecordedState(dict[str, Any]):
    """State that records which names were read."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__(state)
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)


@dataclass(frozen=True)
class Origin:
    """Where an array of the new state comes from: made by the steps, or unchanged from before."""

    array: StateArray
    new: bool


@dataclass(frozen=True)
class Pending:
    """Kernels that wait to be run on all blocks, tried on two samples in this process.

    The trial shows which views and state the kernels read, and which arrays they leave unchanged.
    So a task gets only what it needs, and unchanged arrays are not copied.
    """

    rows: slice  # the samples of the trial, from the first block
    views: list[RowView]
    before: dict[str, Any] = field(default_factory=dict)  # their state before the steps
    state: dict[str, Any] = field(default_factory=dict)  # their state after the steps
    steps: tuple[Step, ...] = ()
    views_read: frozenset[int] = frozenset()
    names_read: frozenset[str] = frozenset()  # states that the steps read from before them
    written: frozenset[str] = frozenset()  # states that the steps replace
    sums: Sums = ()  # of the last step

    def take(self, kernel: Callable[..., Any], args: tuple[Any, ...], *, updates: bool) -> Pending:
        """Return the trial with one more step."""
        views, state = _RecordedViews(self.views), _RecordedState(self.state)
        result = kernel(Block(self.rows, views, state), *args)
        renewed, sums = result if updates else ({}, result)
        return replace(
            self,
            state={**self.state, **renewed},
            steps=(*self.steps, Step(kernel, args, updates)),
            views_read=self.views_read | views.seen,
            names_read=self.names_read | (state.seen - self.written),
            written=self.written | set(renewed),
            sums=sums,
        )

    @property
    def row_bytes(self) -> float:
        """Size of a row of the widest state."""
        arrays = [*_arrays(self.before), *_arrays(self.state)]
        return max((x.nbytes / max(len(x), 1) for _, x in arrays), default=1.0)

    def arrived(self) -> Pending:
        """Return the trial after all blocks have run the steps."""
        return Pending(self.rows, self.views, self.state, self.state)

    def with_state(self, **renewed: Any) -> Pending:
        """Return the trial in another state, with no steps waiting."""
        state = {**self.state, **renewed}
        return Pending(self.rows, self.views, state, state)

    def renewed(self) -> dict[StateArray, Origin]:
        """Return the origin of each array of the new state."""
        origins = {id(x): Origin(which, new=False) for which, x in _arrays(self.before)}
        renewed = {}
        for which, x in _arrays({name: self.state[name] for name in sorted(self.written)}):
            renewed[which] = origins.setdefault(id(x), Origin(which, new=True))
        return renewed


def _arrays(state: dict[str, Any]) -> Iterator[tuple[StateArray, Any]]:
    for name, value in state.items():
        for n, array in enumerate(arrays_of(value)):
            yield StateArray(name, n), array


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays of a state: one, those of a list, or none."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
