"""Sources of the rows of Dask arrays.

A chunk that is loaded, or computed from what is loaded, is a recipe: a small graph that each task
runs before its kernel. A pass over the data then holds one chunk per thread, however large the
views are, and chunks do not travel. Persisted chunks are used where they are. Arrays of the
caller's process are sent to the cluster once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import dask
import numpy as np
from dask.core import get_dependencies
from dask.sizeof import sizeof

from manyview.engine.dask_tasks import GraphOfCall, Part, Ref, Runner
from manyview.exceptions import warn_user
from manyview.views import Views
from manyview.views.container import listed

__all__ = ["Recipe", "Source", "aligned", "parts_of", "sources_of"]


def aligned(views: Views) -> list[Any]:
    """Return the arrays of views, rechunked along the rows like the first one."""
    first, *others = views.arrays
    differing = [
        name
        for name, array in zip(views.names[1:], others, strict=True)
        if array.chunks[0] != first.chunks[0]
    ]
    if differing:
        warn_user(
            f"view(s) {listed(differing)} have other chunks of rows than view "
            f"{views.names[0]!r} and are rechunked in every pass; rechunk them before the fit"
        )
    return [first, *(array.rechunk({0: first.chunks[0]}) for array in others)]


def parts_of(chunks: tuple[int, ...], dtype: np.dtype[Any]) -> list[Part]:
    """Return the blocks, one for each chunk that has rows."""
    stops = np.cumsum(chunks).tolist()
    return [Part(n - rows, n, dtype) for n, rows in zip(stops, chunks, strict=True) if rows]


Source = list[Any]
"""For each chunk of columns: an array or recipe, and the inputs of the recipe."""

_MOST_SHARED = 4  # a result that more blocks need is computed once and kept
_SMALL = 1 << 20  # bytes of data that a recipe may contain


@dataclass(frozen=True)
class Recipe:
    """A graph that computes a chunk, and the keys of its inputs."""

    graph: dict[Any, Any]
    key: Any
    given: tuple[Any, ...]

    def __dask_tokenize__(self) -> object:
        return str(self.key), [str(key) for key in self.graph]

    def __call__(self, values: list[Any]) -> Any:
        """Return the chunk."""
        return dask.get({**self.graph, **dict(zip(self.given, values, strict=True))}, self.key)


def sources_of(array: Any, runner: Runner) -> list[Source]:
    """Return the source of each chunk of rows of a Dask array."""
    futures = [node for node in dict(array.__dask_graph__()).values() if _is_future(node)]
    (array,) = dask.optimize(array)
    # optimisation drops what the cluster holds
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
    """Return the keys that many blocks need, such as a mean over all of them.

    The inputs of such a key do not count as needs of a block.
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
    """Return references to the results of some keys, computed now if necessary."""
    refs = {key: graph[key] for key in kept if _is_future(graph[key])}
    missing = [key for key in kept if key not in refs]
    if missing:
        made_from = {key: graph[key] for key in _ancestors(needs, missing, stop=set())}
        made_from.update((key, _handed(graph[key])) for key in missing if _held(graph[key]))
        _, made = runner.run(made_from, [], missing)
        refs.update(zip(missing, made, strict=True))
    return refs


def _handed_over(recipes: dict[Any, Recipe], runner: Runner) -> dict[Any, Ref]:
    """Return references to recipes, which are sent once and not with every task."""
    if not runner.remote or not recipes:
        return dict(recipes)
    graph = GraphOfCall()
    _, refs = runner.run(graph, [], graph.add("recipe", list(recipes.values())))
    return dict(zip(recipes, refs, strict=True))


def _is_future(node: Any) -> bool:
    return hasattr(node, "client") and hasattr(node, "key")


def _held(node: Any) -> bool:
    """Return whether a node of a graph is data, not a task."""
    value = getattr(node, "value", node)
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _handed(node: Any) -> Any:
    """Return a task that aligns an array in the memory of its receiver."""
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
