"""Rows of Dask arrays: blocks, sources and samples fetched ahead.

How tasks come by their rows: read anew at each pass, unless the data are in memory anyway.

A chunk that is loaded, or computed from what is loaded, is a recipe: a small graph that a task runs
itself before its kernel. So a pass holds a chunk a thread, however large the views are, and
chunks do not travel. What the caller has persisted is used where it is; what the caller's process
holds is handed over to the cluster once.

Two samples that go ahead: what a kernel reads and writes is found by running it on them here.

So a task is given the views and the state that its kernels look at and no others, a block's state
is kept array by array, and what a kernel leaves as it is does not become a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

import dask
import numpy as np
import numpy.typing as npt
from dask.core import get_dependencies
from dask.sizeof import sizeof

from manyview.engine.block import Block, RowView, Sums
from manyview.engine.dask_tasks import GraphOfCall, Part, Ref, Runner, Step, Written
from manyview.exceptions import warn_user
from manyview.views import Views
from manyview.views.container import listed

__all__ = [
    "N_AHEAD",
    "Ahead",
    "Origin",
    "Source",
    "aligned",
    "arrays_of",
    "by_block",
    "parts_of",
    "sources_of",
]


def aligned(views: Views) -> list[Any]:
    """Return the arrays of views with the chunks of rows of the first."""
    first, *others = views.arrays
    differing = [
        name
        for name, array in zip(views.names[1:], others, strict=True)
        if array.chunks[0] != first.chunks[0]
    ]
    if differing:
        warn_user(
            f"view(s) {listed(differing)} have other chunks of rows than view "
            f"{views.names[0]!r} and are rechunked to its; rechunk them before, or load them so, "
            "to save that work in every pass"
        )
    return [first, *(array.rechunk({0: first.chunks[0]}) for array in others)]


def parts_of(chunks: tuple[int, ...], dtype: np.dtype[Any]) -> list[Part]:
    """Return the blocks of chunks of rows; those without rows are none."""
    stops = np.cumsum(chunks).tolist()
    return [Part(n - rows, n, dtype) for n, rows in zip(stops, chunks, strict=True) if rows]


def by_block(
    parts: list[Part], samples: npt.NDArray[np.intp]
) -> tuple[list[tuple[int, npt.NDArray[np.intp]]], npt.NDArray[np.intp]]:
    """Return which rows of which blocks samples are, and how to bring them back in order."""
    order = np.argsort(samples, kind="stable")
    starts = [part.start for part in parts]
    bounds = np.searchsorted(samples[order], [*starts, parts[-1].stop])
    chosen = [
        (b, samples[order[bounds[b] : bounds[b + 1]]] - start)
        for b, start in enumerate(starts)
        if bounds[b] < bounds[b + 1]
    ]
    return chosen, np.argsort(order)


Source = list[Any]
"""Of each chunk of columns, an array or recipe, and what the recipe is made from."""

_MOST_SHARED = 4  # blocks that each make what they share; what more of them share is kept
_SMALL = 1 << 20  # bytes that a recipe may carry


@dataclass(frozen=True)
class Recipe:
    """A graph that makes a chunk, and the keys of what it is given."""

    graph: dict[Any, Any]
    key: Any
    given: tuple[Any, ...]

    def __dask_tokenize__(self) -> object:
        return str(self.key), [str(key) for key in self.graph]

    def __call__(self, values: list[Any]) -> Any:
        """Return the chunk."""
        return dask.get({**self.graph, **dict(zip(self.given, values, strict=True))}, self.key)


def sources_of(array: Any, runner: Runner) -> list[Source]:
    """Return where each chunk of rows of a Dask array comes from."""
    futures = [node for node in dict(array.__dask_graph__()).values() if _is_future(node)]
    (array,) = dask.optimize(array)
    # optimising leaves out what is known to the cluster
    graph = {**dict(array.__dask_graph__()), **{future.key: future for future in futures}}
    keys: list[list[Any]] = array.__dask_keys__()
    needs = {
        key: set() if _is_future(node) else set(get_dependencies(graph, key))
        for key, node in graph.items()
    }
    kept = {key for key in graph if _is_future(graph[key])} | _shared(needs, keys)
    recipes: dict[Any, Recipe] = {}
    for key in (key for row in keys for key in row):
        if key in kept:
            continue
        made_from = _ancestors(needs, [key], stop=kept)
        inner = {name: graph[name] for name in made_from if name not in kept}
        if _held(graph[key]) or (runner.remote and _literal_bytes(inner, needs) > _SMALL):
            kept.add(key)
        else:
            recipes[key] = Recipe(inner, key, tuple(name for name in made_from if name in kept))
    refs = _kept(graph, needs, kept, runner)
    makers = _handed_over(recipes, runner)

    def source(key: Any) -> list[Any]:
        if key in refs:
            return [refs[key], []]
        return [makers[key], [refs[name] for name in recipes[key].given]]

    return [[source(key) for key in row] for row in keys]


def _shared(needs: dict[Any, set[Any]], keys: list[list[Any]]) -> set[Any]:
    """Return what too many blocks need to make it themselves, such as a mean over all of them.

    What only leads to that is not counted among the needs of a block.
    """
    rows: dict[Any, set[int]] = {key: {n} for n, row in enumerate(keys) for key in row}
    shared = set()
    for key in reversed(list(TopologicalSorter(needs).static_order())):
        of_key = rows.get(key, set())
        if len(of_key) > _MOST_SHARED and needs[key]:
            shared.add(key)
            continue
        for name in needs[key]:
            rows.setdefault(name, set()).update(of_key)
    return shared


def _ancestors(needs: dict[Any, set[Any]], keys: Iterable[Any], stop: set[Any]) -> list[Any]:
    found: dict[Any, None] = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found[key] = None
        if key not in stop:
            waiting.extend(needs[key])
    return list(found)


def _kept(
    graph: dict[Any, Any], needs: dict[Any, set[Any]], kept: set[Any], runner: Runner
) -> dict[Any, Ref]:
    """Return references to the results of some keys, made now if they are not there."""
    refs = {key: graph[key] for key in kept if _is_future(graph[key])}
    missing = [key for key in kept if key not in refs]
    if missing:
        made_from = {key: graph[key] for key in _ancestors(needs, missing, stop=set())}
        made_from.update((key, _handed(graph[key])) for key in missing if _held(graph[key]))
        _, made = runner.run(made_from, [], missing)
        refs.update(zip(missing, made, strict=True))
    return refs


def _handed_over(recipes: dict[Any, Recipe], runner: Runner) -> dict[Any, Ref]:
    """Return references to recipes: they travel once, and not with every task."""
    if not runner.remote or not recipes:
        return dict(recipes)
    graph = GraphOfCall()
    _, refs = runner.run(graph, [], graph.add("recipe", list(recipes.values())))
    return dict(zip(recipes, refs, strict=True))


def _is_future(node: Any) -> bool:
    return hasattr(node, "client") and hasattr(node, "key")


def _held(node: Any) -> bool:
    """Whether a node of a graph is data, not a task."""
    value = getattr(node, "value", node)
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _handed(node: Any) -> Any:
    """Return a task that lets the one who receives an array have it aligned in memory."""
    value = getattr(node, "value", node)
    return (np.require, value, None, "A") if isinstance(value, np.ndarray) else node


def _literal_bytes(graph: dict[Any, Any], needs: dict[Any, set[Any]]) -> int:
    total = 0
    for key, node in graph.items():
        if _held(node):
            total += sizeof(getattr(node, "value", node))
        elif not needs[key]:
            total += sum(sizeof(value) for value in getattr(node, "args", node))
    return total


N_AHEAD = 2


class _Looked(list[RowView]):
    """Views that remember which of them were looked at."""

    def __init__(self, views: list[RowView]) -> None:
        super().__init__(views)
        self.seen: set[int] = set()

    def __getitem__(self, v: Any) -> Any:
        self.seen.update(range(len(self))[v] if isinstance(v, slice) else [range(len(self))[v]])
        return super().__getitem__(v)

    def __iter__(self) -> Iterator[RowView]:
        self.seen.update(range(len(self)))
        return super().__iter__()


class _Read(dict[str, Any]):
    """State that remembers which of it was read."""

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
    """An array that steps have made, or one from before them that they hand on as it is."""

    array: Written
    new: bool


@dataclass(frozen=True)
class Ahead:
    """Steps that wait to be taken by all blocks, and where they bring the samples that go ahead.

    Attributes
    ----------
    rows : slice
        The samples that go ahead, of the first block.
    views : list of RowView
        Their rows.
    before, state : dict
        Their state before and after the steps.
    steps : tuple of Step
        What waits.
    views_read : frozenset of int
        Views that the steps look at.
    names_read : frozenset of str
        States from before the steps that they read.
    written : frozenset of str
        States that they renew.
    sums : tuple
        What the last step returned to be added.
    """

    rows: slice
    views: list[RowView]
    before: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    views_read: frozenset[int] = frozenset()
    names_read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    sums: Sums = ()

    def take(self, kernel: Callable[..., Any], args: tuple[Any, ...], *, updates: bool) -> Ahead:
        """Return where one more step brings them."""
        views, state = _Looked(self.views), _Read(self.state)
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

    def arrived(self) -> Ahead:
        """Return them with nothing that waits: all blocks have taken the steps."""
        return Ahead(self.rows, self.views, self.state, self.state)

    def with_state(self, **renewed: Any) -> Ahead:
        """Return them, with nothing that waits, in another state."""
        state = {**self.state, **renewed}
        return Ahead(self.rows, self.views, state, state)

    def renewed(self) -> dict[Written, Origin]:
        """Return where each array of the states that the steps renew comes from."""
        origins = {id(x): Origin(which, new=False) for which, x in _arrays(self.before)}
        renewed = {}
        for which, x in _arrays({name: self.state[name] for name in sorted(self.written)}):
            renewed[which] = origins.setdefault(id(x), Origin(which, new=True))
        return renewed


def _arrays(state: dict[str, Any]) -> Iterator[tuple[Written, Any]]:
    for name, value in state.items():
        for n, array in enumerate(arrays_of(value)):
            yield Written(name, n), array


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays of a state: one, those of a list, or none."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
