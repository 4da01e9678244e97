"""The Dask engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from manyview.engine.block import RowView, Sums, Update, add_sums
from manyview.engine.dask_rows import (
    N_AHEAD,
    Ahead,
    Origin,
    Source,
    aligned,
    arrays_of,
    by_block,
    parts_of,
    sources_of,
)
from manyview.engine.dask_tasks import (
    GraphOfCall,
    Part,
    Plan,
    Ref,
    Written,
    restricted,
    runner_for,
    scaled,
    stored,
    taken,
    taken_state,
    worked,
)
from manyview.engine.scaling import Scaling
from manyview.views import Views

__all__ = ["DaskEngine"]

_SMALL = 1 << 16  # bytes of arguments that each task carries; larger ones travel once a worker


@dataclass(frozen=True)
class _Array:
    """An array of a state: a reference for each block, and what readers multiply it by."""

    refs: list[Ref]
    factor: float = 1.0


@dataclass(frozen=True)
class _Held:
    """A state of all blocks: its array, or those of a list."""

    arrays: tuple[_Array, ...]
    listed: bool


class DaskEngine(Engine):
    """Row blocks that are chunks of Dask arrays.

    With an active ``distributed.Client`` the work is done by its workers, else by the scheduler
    that Dask is set to, threads by default. Only what is as small as a factor passes through this
    process; sums are added where the blocks are.

    Parameters
    ----------
    views : Views
        Checked views: Dask arrays with known chunks, of NumPy or SciPy CSR arrays.
    normalize : {"rows", "columns"} or None
        Unit rows, standardised columns, or neither.
    scalings : list of Scaling, optional
        Column scalings found by an earlier fit, for samples that it did not see.

    Notes
    -----
    Chunks that are loaded lazily are read again at each pass; what is kept is the state of the
    blocks, a few numbers a sample and column of the factors, which workers may spill to disk.

    A kernel that has nothing to add waits for the next one that has, and both are one task a block.
    """

    def __init__(
        self,
        views: Views,
        *,
        normalize: str | None,
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
        self._scales = [self._row_scales(v, normalize, views.present) for v in range(len(views))]
        first = np.arange(min(N_AHEAD, self._parts[0].stop))
        self._ahead = Ahead(slice(0, first.size), self.take(first))
        self.scalings = scalings or self._found_scalings(views.n_features, normalize)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold BLAS to one thread in each of Dask's, where they are in this process."""
        with self._runner.working():
            yield

    def sum(self, kernel: Callable[..., Sums], *args: Any) -> Sums:
        """Return the sums over blocks of what ``kernel(block, *args)`` returns."""
        return self._run(self._ahead.take(kernel, args, updates=False))

    def update(self, kernel: Callable[..., Update], *args: Any) -> Sums:
        """Put the state that ``kernel(block, *args)`` returns into each block; sum the rest.

        Nothing changes before all blocks are done, so that an interrupt leaves them as they were.
        """
        ahead = self._ahead.take(kernel, args, updates=True)
        if ahead.sums:
            return self._run(ahead)
        self._ahead = ahead
        return ()

    def restrict(self, v: int, active: npt.NDArray[np.intp] | None) -> None:
        """Let the blocks hold only some features of view `v`; None brings all of them back.

        The copies are kept, so that a view on disk is not read while they are in use.
        """
        if active is None and self.scalings[v].active is None:
            return
        self._settle()
        (view,) = self._taken(np.arange(self._ahead.rows.stop), [v])
        if active is None:
            self._sources_now[v] = self._raw[v]
        else:
            view = view.restrict(active)
            tasks = [(restricted, *pair, active) for pair in self._with_parts(v)]
            self._sources_now[v] = [[[ref, []]] for ref in self._kept("restricted", tasks)]
        views = [*self._ahead.views[:v], view, *self._ahead.views[v + 1 :]]
        self._ahead = replace(self._ahead, views=views)
        self.scalings[v] = self.scalings[v].restrict(active)

    def restricted_size(self, v: int, features: npt.NDArray[np.bool_]) -> int:
        """Return how many numbers a copy of view `v` with these features only would hold."""
        if not sp.issparse(self._ahead.views[v].x):
            return self.n_samples * int(np.count_nonzero(features))
        if v not in self._stored:
            graph = GraphOfCall()
            counts = graph.add("stored", [(stored, *p) for p in self._with_parts(v)])
            sums = graph.partial_sums(counts, 8.0 * features.size)
            (self._stored[v],) = add_sums(self._runner.run(graph, sums, [])[0])
        return 2 * int(self._stored[v][features].sum())

    def rescale(self, name: str, factors: Sequence[float]) -> None:
        """Multiply each array of a state that is a list by a number.

        Only the numbers are kept: to write the arrays anew would cost more than to multiply what
        is read of them.
        """
        if self._ahead.steps:
            super().rescale(name, factors)
            return
        held = _held(self._state, name)
        pairs = zip(held.arrays, factors, strict=True)
        arrays = tuple(replace(array, factor=array.factor * times) for array, times in pairs)
        self._state[name] = replace(held, arrays=arrays)
        few = [x * times for x, times in zip(self._ahead.state[name], factors, strict=True)]
        self._ahead = self._ahead.with_state(**{name: few})

    def scatter(self, name: str, values: npt.NDArray[Any]) -> None:
        """Give each block its rows of an array, as state."""
        self._settle()
        values = np.asarray(values)
        refs = self._kept("scatter", [values[part.rows] for part in self._parts])
        self._state[name] = _Held((_Array(refs),), listed=False)
        self._ahead = self._ahead.with_state(**{name: values[self._ahead.rows].copy()})

    def gather(self, name: str) -> Array:
        """Return a state of all blocks as a Dask array with the caller's chunks of rows."""
        self._settle()
        (held,) = _held(self._state, name).arrays
        few = self._ahead.state[name]
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
        """Return some samples' rows of every view, in this process."""
        return self._taken(samples, range(len(self._raw)))

    def take_state(self, name: str, samples: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return some samples' rows of a state, in this process."""
        self._settle()
        (held,) = _held(self._state, name).arrays
        chosen, back = by_block(self._parts, samples)
        tasks = [(taken_state, held.refs[b], rows) for b, rows in chosen]
        found = np.concatenate(self._fetched("take", tasks))[back]
        return found if held.factor == 1.0 else found * held.factor

    def snapshot(self, *names: str) -> list[dict[str, Any]]:
        """Return some of the blocks' state, to be put back by :meth:`restore`.

        Kernels replace arrays and do not write into them, so that nothing is copied.
        """
        self._settle()
        return [{name: (self._state.get(name), self._ahead.state.get(name)) for name in names}]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Put back the state of a snapshot."""
        self._settle()
        for name, (held, few) in snapshot[0].items():
            self._state[name] = held
            self._ahead = self._ahead.with_state(**{name: few})

    def _sources(self, array: Any) -> list[Source]:
        """Return where the rows of each block come from; chunks without rows are no block."""
        pairs = zip(self._chunks, sources_of(array, self._runner), strict=True)
        return [source for rows, source in pairs if rows]

    def _settle(self) -> None:
        """Let all blocks take the steps that wait."""
        if self._ahead.steps:
            self._run(self._ahead)

    def _run(self, ahead: Ahead) -> Sums:
        """Let all blocks take steps: a task a block, and a tree of tasks that add."""
        origins = ahead.renewed()
        read = [(name, self._state[name]) for name in sorted(ahead.names_read)]
        arrays = [array for _, held in read if held is not None for array in held.arrays]
        made = [which for which, origin in origins.items() if origin == Origin(which, new=True)]
        plan = Plan(
            steps=ahead.steps,
            n_views=len(self._raw),
            views=tuple(sorted(ahead.views_read)),
            names=tuple((name, _count(held)) for name, held in read),
            factors=tuple(array.factor for array in arrays),
            written=tuple(made),
            row_bytes=ahead.row_bytes,
            sums_bytes=float(sizeof(list(ahead.sums))) if ahead.sums else 0.0,
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
        self._renew(ahead, origins, found)
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
            tasks.append((worked, shown, part, sources, scales, [refs[b] for refs in arrays]))
        # words between hyphens: by these Dask tells kinds of tasks apart, and what they cost
        kernel = getattr(plan.steps[-1].kernel, "__name__", "kernel")
        return graph.add(kernel.strip("_<>").replace("_", "-"), tasks)

    def _renew(
        self, ahead: Ahead, origins: dict[Written, Origin], found: dict[Written, list[Ref]]
    ) -> None:
        """Hold what the steps have made, by the names that they gave it."""
        before = dict(self._state)

        def array_of(which: Written) -> _Array:
            array, new = origins[which].array, origins[which].new
            return _Array(found[array]) if new else _held(before, array.name).arrays[array.index]

        for name in ahead.written:
            value = ahead.state[name]
            arrays = tuple(array_of(Written(name, n)) for n in range(len(arrays_of(value))))
            listed = isinstance(value, list | tuple)
            self._state[name] = None if value is None else _Held(arrays, listed)
        self._ahead = ahead.arrived()

    def _row_scales(
        self, v: int, normalize: str | None, present: npt.NDArray[np.bool_] | None
    ) -> list[Ref] | None:
        """Return the factors of the rows of a view, kept with the blocks."""
        if normalize != "rows" and present is None:
            return None
        here = [None if present is None else present[part.rows, v] for part in self._parts]
        pairs = zip(self._with_parts(v), here, strict=True)
        return self._kept("scale", [(scaled, *pair, normalize, h) for pair, h in pairs])

    def _taken(self, samples: npt.NDArray[np.intp], which: Sequence[int]) -> list[RowView]:
        chosen, back = by_block(self._parts, samples)
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
        """Return references to what tasks make, which may still be in the making."""
        graph = GraphOfCall()
        return self._runner.run(graph, [], graph.add(label, tasks))[1]

    def _fetched(self, label: str, tasks: list[Any]) -> list[Any]:
        """Return what tasks make, in this process."""
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
